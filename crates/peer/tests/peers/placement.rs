//! Several processes of the algorithm on one member.

use crate::{start, start_with, sum, within_a_minute};

const ENTRIES: u64 = 6;

#[tokio::test]
async fn messages_within_a_member_are_counted() {
    within_a_minute(async {
        // Member 0 carries the coordinator, so its messages never leave it.
        let members = start("central", 3).await;
        for _ in 0..ENTRIES {
            members[0].lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        assert_eq!(members[0].stats().messages, 3 * ENTRIES);
        assert_eq!(members[0].stats().messages_by_kind.values().sum::<u64>(), 3 * ENTRIES);
        for _ in 0..ENTRIES {
            members[2].lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        // GRANT is sent by the coordinator. The last RELEASE may still be on its way, but it was sent.
        assert_eq!((members[0].stats().messages, members[2].stats().messages), (4 * ENTRIES, 2 * ENTRIES));
        assert_eq!(members[1].stats().messages, 0);
    })
    .await;
}

#[tokio::test]
async fn five_coordinators_fit_on_two_members() {
    within_a_minute(async {
        let members = start_with("voting", 2, |file| (file.coordinators, file.votes) = (Some(5), Some(3))).await;
        assert_eq!(members[0].group().processes(), 7);
        for _ in 0..ENTRIES {
            members[0].lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        // Three voters get REQUEST, GRANT and RELEASE for each entry, wherever they are.
        assert_eq!(sum(&members).messages, 3 * 3 * ENTRIES);
        for member in &members {
            member.lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        assert_eq!(sum(&members).entries, ENTRIES + 2);
    })
    .await;
}
