use super::*;
use crate::state::locks::{self, Acquire, Mode};
use crate::state::sessions::{self, Open};
use crate::state::{Caller, Command, Operation, Outcome, OwnerId, Request, SessionId, cluster};

const ABOUT: About = About { cluster: ClusterId::MIN, term: 3, index: 4, made_ms: 1_700_000_000_000 };

/// A state with a secret, a session and a lock that it holds.
fn state() -> State {
    let session = SessionId(7);
    let (label, host, secret_hash, caller) = ("label".to_owned(), "host".to_owned(), None, Caller::default());
    let open =
        Open { session, ttl_ms: 10_000, label, host, pid: 1, resume: false, secret_hash, caller: caller.clone() };
    let acquire = locks::Operation::Acquire(Acquire::one("lock", Mode::Exclusive, OwnerId(1)));
    let (number, seen, missing, operation) = (1, 0, Vec::new(), Operation::Locks(acquire));
    let commands: [Command; 4] = [
        cluster::Command::Found { secret: cluster::Secret([0xab; 32]), max_ttl_ms: 5_000 }.into(),
        sessions::Command::Lead { term: 3 }.into(),
        cluster::Command::SetMaxTtl { max_ttl_ms: 20_000 }.into(),
        sessions::Command::Open(open).into(),
    ];
    let request = Command::Request(Request { session, number, seen, missing, caller, operation });
    let mut state = State::default();
    for command in commands.into_iter().chain([request]) {
        state.apply(4, 1_000, &command, &mut Outcome::default());
    }
    assert_eq!((state.last_fence(), state.counts().holders), (1, 1));
    state
}

fn file(state: &State) -> Vec<u8> {
    let mut file = Vec::new();
    let written: Result<(), std::convert::Infallible> = write(ABOUT, state, |piece| {
        file.extend(piece);
        Ok(())
    });
    written.unwrap();
    file
}

fn refusal(file: &[u8]) -> String {
    let refusal = Backup::read(file).expect_err("it is refused").to_string();
    assert!(!refusal.contains('\n'), "{refusal}");
    refusal
}

#[test]
fn a_backup_has_the_state_and_not_the_secret() {
    let (state, file) = (state(), file(&state()));
    let backup = Backup::read(&file[..]).unwrap();
    assert_eq!((backup.about, backup.bytes), (ABOUT, file.len() as u64));
    assert_eq!(backup.state, state.without_secret());
    assert_eq!((backup.state.cluster().secret(), backup.state.cluster().max_ttl_ms()), (None, 20_000));
    assert_eq!((backup.last_fence(), backup.counts()), (1, (1, 1)));
    assert!(!file.windows(32).any(|bytes| bytes == [0xab; 32]));
    assert!(file.starts_with(b"baton backup 1 cluster 0000000000000001 term 3 entry 4 made 1700000000000 "));
}

#[test]
fn a_backup_that_is_cut_short_anywhere_is_refused() {
    let file = file(&state());
    for end in 0..file.len() {
        let refusal = refusal(&file[..end]);
        assert_eq!(refusal, format!("it is cut short: it ends at byte {end}; use another backup"));
    }
    assert!(refusal(&[&file[..], b"x"].concat()).contains("more bytes follow its end"));
}

#[test]
fn a_backup_with_a_changed_byte_anywhere_is_refused() {
    let file = file(&state());
    for at in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= flip;
            let refusal = refusal(&changed);
            let told = ["not a backup", "damaged before byte", "cut short"].iter().any(|told| refusal.contains(told));
            assert!(told, "byte {at}: {refusal}");
        }
    }
}

#[test]
fn a_backup_of_a_newer_version_is_refused_as_such() {
    let newer = line::encode("baton backup 2 of something else");
    assert!(refusal(newer.as_bytes()).starts_with("a newer version wrote it (backup format 2), and this is baton "));
    // The layout is known, but a chunk is of a newer data format.
    let chunk = [crate::format::VERSION + 1, 0, 0];
    let body = [ABOUT.head(), sealed(chunk.to_vec())].concat();
    let end = [0_u32.to_le_bytes(), crc32c(&body).to_le_bytes()].concat();
    assert!(refusal(&[body, end].concat()).starts_with("a newer version wrote it (data format 5), and this is"));
}

#[test]
fn another_file_is_refused() {
    for other in ["hello", "baton backup", "BATSNAP3", "baton data format 3 00000000\n"] {
        let cut = "baton backup ".starts_with(other);
        assert_eq!(refusal(other.as_bytes()).contains("it is not a backup of baton"), !cut, "{other}");
    }
    assert!(refusal(&[b"baton backup ", &[b'x'; 1000][..]].concat()).contains("not a backup"));
}
