use super::*;
use crate::handshake::{LinkError, hello_of};

mod simulated;

fn past(generation: u64, ttl_max_ms: u64, held_nothing: bool) -> Past {
    Past { generation, ttl_max_ms, held_nothing, group: 0 }
}

/// Members that read these files at their start. Everything that they say arrives at once.
fn members(pasts: &[Past]) -> Vec<Beginning> {
    let entry = |id: usize| Entry { incarnation: 100 + id as u64, past: pasts[id] };
    (0..pasts.len()).map(|id| Beginning::new(id, pasts.len(), entry(id), false)).collect()
}

/// The two members meet, or meet again.
fn meet(members: &mut [Beginning], a: usize, b: usize) {
    for (me, other) in [(a, b), (b, a)] {
        let incarnation = members[other].list[other].unwrap().incarnation;
        let hello = Hello { incarnation, ..hello_of(members.len(), other, me) };
        members[me].meet(&hello).unwrap();
    }
}

/// Member `to` hears what member `from` says now.
fn tell(members: &mut [Beginning], from: usize, to: usize) {
    let statement = members[from].statement();
    members[to].hear(from, statement).unwrap();
}

/// Everybody who has met hears the others, and writes, until nothing changes.
fn stabilize(members: &mut [Beginning]) {
    for _ in 0..10 {
        for from in 0..members.len() {
            for to in 0..members.len() {
                let incarnation = members[from].list[from].unwrap().incarnation;
                if from != to && members[to].incarnations.of(from) == Some(incarnation) {
                    tell(members, from, to);
                }
            }
            if let Some(work) = members[from].take_work() {
                members[from].written(work);
            }
        }
    }
}

fn meet_all(members: &mut [Beginning]) {
    for a in 0..members.len() {
        (0..a).for_each(|b| meet(members, a, b));
    }
}

/// What each member has agreed to: the generation, and the wait.
fn agreed(members: &[Beginning]) -> Vec<Option<(u64, u64)>> {
    members.iter().map(|member| member.begun().map(|agreed| (agreed.generation, agreed.wait_ms))).collect()
}

fn begin(pasts: &[Past]) -> Vec<Option<(u64, u64)>> {
    let mut members = members(pasts);
    meet_all(&mut members);
    stabilize(&mut members);
    agreed(&members)
}

#[test]
fn the_generation_follows_the_highest_file() {
    let agreed = begin(&[past(4, 1000, true), past(9, 1000, true), past(2, 1000, true)]);
    assert_eq!(agreed, [Some((10, 1000)); 3]);
}

#[test]
fn a_group_waits_for_leases_of_its_clients_from_earlier() {
    let wait_ms = |pasts: &[Past]| begin(pasts)[0].unwrap().1;
    let new = past(0, 5000, true);
    assert_eq!(wait_ms(&[new, new]), 0, "nobody has a file");
    assert_eq!(wait_ms(&[past(4, 1000, true), past(4, 3000, false)]), 3000, "by the longest lease");
    assert_eq!(wait_ms(&[past(4, 9000, false), past(4, 3000, true)]), 9000);
    assert_eq!(wait_ms(&[past(4, 1000, true), past(4, 3000, true)]), 0, "no client held anything");
    assert_eq!(wait_ms(&[past(4, 1000, true), new]), 5000, "a member has lost its file");
    assert_eq!(wait_ms(&[past(4, 1000, true), past(3, 3000, true)]), 3000, "a member has an old copy of its file");
}

#[test]
fn nobody_begins_while_two_members_have_not_met() {
    let mut members = members(&[past(0, 0, true); 3]);
    meet(&mut members, 1, 0);
    meet(&mut members, 2, 1);
    stabilize(&mut members);
    assert!(members.iter().all(|member| member.begun().is_none()));
    assert_eq!(members[1].incomplete(), [0, 2]);
    // Member 0 starts again, and then meets all.
    members[0] = Beginning::new(0, 3, Entry { incarnation: 500, past: past(0, 0, true) }, false);
    meet_all(&mut members);
    stabilize(&mut members);
    assert_eq!(agreed(&members), [Some((1, 0)); 3]);
}

#[test]
fn a_generation_that_others_may_have_begun_is_not_used_again() {
    let mut members = members(&[past(0, 7, true); 3]);
    meet_all(&mut members);
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (0, 1), (0, 2), (1, 0), (2, 0)] {
        tell(&mut members, from, to);
    }
    let Some(written) = members[0].take_work() else { panic!("{:?}", members[0]) };
    members[0].written(written);
    assert_eq!(members[0].statement().stage, Stage::Ready { generation: 1 });
    // Process 2 starts again, without its file.
    members[2] = Beginning::new(2, 3, Entry { incarnation: 500, past: past(0, 7, true) }, false);
    meet_all(&mut members);
    stabilize(&mut members);
    assert_eq!(agreed(&members), [Some((2, 7)); 3]);
}

/// Of two processes with one id and two folders, the other one may begin with this generation and have clients. Then the
/// next start may use this folder.
#[test]
fn a_member_that_is_ready_does_not_say_that_no_client_has_a_lease() {
    let mut members = members(&[past(4, 7, true); 2]);
    meet_all(&mut members);
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        tell(&mut members, from, to);
    }
    let written: Vec<Past> = members.iter_mut().map(|member| member.take_work().unwrap().past).collect();
    assert_eq!(written, [past(5, 7, false); 2]);
}

/// A member that was READY and changes its list may have missed that others began.
#[test]
fn a_generation_that_others_may_have_begun_brings_a_wait() {
    let mut members = members(&[past(4, 7, true); 2]);
    meet_all(&mut members);
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        tell(&mut members, from, to);
    }
    for member in &mut members {
        let Some(work) = member.take_work() else { panic!("{member:?}") };
        member.written(work);
    }
    members[1] = Beginning::new(1, 2, Entry { incarnation: 500, past: past(5, 7, true) }, false);
    meet_all(&mut members);
    stabilize(&mut members);
    assert_eq!(agreed(&members), [Some((6, 7)); 2]);
}

/// A group of an earlier generation meets a member that has begun again without it.
#[test]
fn a_member_of_an_earlier_generation_ends_when_it_meets_a_later_one() {
    let mut members = members(&[past(3, 0, true); 2]);
    meet_all(&mut members);
    stabilize(&mut members);
    let theirs = |generation| Hello { incarnation: 500, generation, ..hello_of(2, 1, 0) };
    assert_eq!(members[0].judge(&theirs(5)), Err(Refusal::BegunAgain { ours: 4, theirs: 5 }));
    assert!(matches!(members[0].judge(&theirs(0)), Err(Refusal::Restarted { id: 1, .. })));
    assert!(LinkError::Refused(Refusal::BegunAgain { ours: 4, theirs: 5 }).ends_membership());
}

/// A write that is still under way when the group begins could undo the erased mark.
#[test]
fn only_the_newest_write_makes_a_member_ready() {
    let mut members = members(&[past(0, 0, true); 2]);
    meet_all(&mut members);
    tell(&mut members, 1, 0);
    tell(&mut members, 0, 1);
    tell(&mut members, 1, 0);
    let Some(first) = members[0].take_work() else { panic!("{:?}", members[0]) };
    members[1] = Beginning::new(1, 2, Entry { incarnation: 500, past: past(0, 0, true) }, false);
    meet(&mut members, 1, 0);
    tell(&mut members, 1, 0);
    tell(&mut members, 0, 1);
    tell(&mut members, 1, 0);
    let Some(second) = members[0].take_work() else { panic!("{:?}", members[0]) };
    assert_eq!(first.past, second.past);
    members[0].written(first);
    assert_eq!(members[0].statement().stage, Stage::Gathering);
    members[0].written(second);
    assert_eq!(members[0].statement().stage, Stage::Ready { generation: 1 });
}

#[test]
fn all_end_if_a_member_starts_again_when_only_some_have_begun() {
    let mut members = members(&[past(0, 0, true); 3]);
    meet_all(&mut members);
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)] {
        tell(&mut members, from, to);
    }
    for member in &mut members {
        let Some(work) = member.take_work() else { panic!("{member:?}") };
        member.written(work);
    }
    tell(&mut members, 1, 0);
    tell(&mut members, 2, 0);
    assert!(members[0].begun().is_some() && members[1].begun().is_none());
    members[2] = Beginning::new(2, 3, Entry { incarnation: 500, past: past(1, 0, true) }, false);
    meet(&mut members, 2, 1);
    let refused = members[0].judge(&Hello { incarnation: 500, ..hello_of(3, 2, 0) });
    assert!(matches!(refused, Err(Refusal::Restarted { id: 2, .. })), "{refused:?}");
    stabilize(&mut members);
    assert!(members.iter().all(|member| member.ended().is_some()), "{members:?}");
    let ended = Ended::Torn { told_by: 0 }.to_string();
    assert_eq!(members[1].ended().unwrap().to_string(), ended);
    assert!(ended.ends_with("(as process 0 tells); all members end: start the whole group again"), "{ended}");
}

/// Member 2 dies when it is READY and the others have begun. Its next start meets only members that have begun.
#[test]
fn all_end_if_a_member_that_never_began_starts_again() {
    let mut members = members(&[past(0, 0, true); 3]);
    meet_all(&mut members);
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)] {
        tell(&mut members, from, to);
    }
    for member in &mut members {
        let Some(work) = member.take_work() else { panic!("{member:?}") };
        member.written(work);
    }
    for (from, to) in [(1, 0), (2, 0), (0, 1)] {
        tell(&mut members, from, to);
    }
    assert!(members[0].begun().is_some() && members[1].begun().is_some() && members[2].begun().is_none());
    let refused = members[0].judge(&Hello { incarnation: 500, ..hello_of(3, 2, 0) });
    assert!(matches!(refused, Err(Refusal::Restarted { id: 2, .. })), "{refused:?}");
    // Member 1 has begun and has said so. Its later start changes nothing.
    tell(&mut members, 1, 0);
    members[0].refused_restart(1);
    assert!(members[0].begun().is_some());
    members[0].refused_restart(2);
    assert_eq!(members[0].ended(), Some(Ended::Lost { id: 2 }));
    tell(&mut members, 0, 1);
    assert_eq!(members[1].ended(), Some(Ended::Torn { told_by: 0 }));
}

#[test]
fn a_group_ends_when_no_generation_is_left() {
    let mut members = members(&[past(GENERATION_MAX, 0, true), past(0, 0, true)]);
    meet_all(&mut members);
    stabilize(&mut members);
    assert_eq!(members[0].ended(), Some(Ended::Exhausted));
    assert_eq!(members[1].ended(), Some(Ended::Exhausted));
}

#[test]
fn files_of_two_groups_never_begin_together() {
    let of = |group: u64| Past { group, ..past(4, 1000, true) };
    let begun = |groups: [u64; 3]| {
        let mut members = members(&groups.map(of));
        meet_all(&mut members);
        stabilize(&mut members);
        members.iter().map(|member| member.begun().map(|agreed| agreed.group).ok_or(member.ended())).collect::<Vec<_>>()
    };
    assert_eq!(begun([0, 7, 7]), [Ok(7); 3], "a new file becomes one of the group");
    let new = begun([0, 0, 0]);
    assert!(new[0].is_ok_and(|group| group != 0) && new.windows(2).all(|pair| pair[0] == pair[1]), "{new:?}");
    assert_eq!(begun([7, 0, 8]), [Err(Some(Ended::Foreign { one: 0, other: 2 })); 3]);
}

/// A member that hears that another one has ended gives the reason of that one. It does not say that a process was started
/// again.
#[test]
fn who_is_told_that_the_group_can_never_begin_is_told_why() {
    let mut members = members(&[Past { group: 7, ..past(4, 0, true) }, Past { group: 8, ..past(4, 0, true) }]);
    meet_all(&mut members);
    tell(&mut members, 1, 0);
    tell(&mut members, 0, 1);
    tell(&mut members, 1, 0);
    assert_eq!(members[0].ended(), Some(Ended::Foreign { one: 0, other: 1 }));
    members[1].heard[0] = None;
    tell(&mut members, 0, 1);
    assert_eq!(members[1].ended(), Some(Ended::Foreign { one: 0, other: 1 }));
}

#[test]
fn a_list_of_another_group_is_malformed() {
    let mut members = members(&[past(0, 0, true); 3]);
    meet(&mut members, 1, 0);
    let statement = members[1].statement();
    let short = Statement { list: statement.list[..2].to_vec(), ..statement.clone() };
    assert_eq!(members[0].hear(1, short), Err(Malformed));
    let silent = Statement { list: vec![None; 3], ..statement };
    assert_eq!(members[0].hear(1, silent), Err(Malformed));
}
