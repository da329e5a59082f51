//! The names of locks: any bytes.

use baton_state::state::locks::{Acquire, LockName, Mode, Operation, Refusal};
use baton_state::state::{Answer, Effect, OwnerId};
use expect_test::expect;

use crate::records::again;
use crate::script::{Script, check, request, session};

/// Such names are shown in the escaped form. A lock whose name is the escaped text is another lock.
#[test]
fn a_name_need_not_be_utf_8() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 caf\xe9,caf\xc3\xa9,a\\b\xff x delay 300
            a 1: granted, fence 1
        acquire b 1 caf\xe9 x timeout 0
            b 1: the lock is not free, and the request does not wait
        acquire b 2 caf\\xe9 x
            b 2: granted, fence 2
        session a
            A, ttl 10000 ms, holds [caf\xe9 café a\\b\xff], waits []
        session b
            B, ttl 10000 ms, holds [caf\xe9], waits []
        acquire b 3 caf\xe9 p2
            b 3: the lock "caf\xe9" is in use as exclusive or shared (1 permit), and the request says 2
        acquire b 4 caf\xe8,caf\xe8 x
            b 4: an acquire names the lock "caf\xe8" twice; it must name each lock once
        acquire b 5 caf\xe9 x
        acquire a 2 caf\\xe9 x
            a 2: deadlock: A -> caf\xe9, B -> caf\xe9
        expire a
            a ended, Expired
            caf\xe9 closed, generation 1, 300 ms
            café closed, generation 2, 300 ms
            a\\b\xff closed, generation 3, 300 ms
        timers
            PendingTimers { sessions: [(SessionId(98), 10000)], waits: [], delays: [("a\\b\xff", 3, 300), ("café", 2, 300), ("caf\xe9", 1, 300)], closed_ms: None }
        end-delay caf\xe9 1
            b 5: granted, fence 3
        force caf\xe9 now
            caf\xe9 forced: b (fence 3, since 11)
            b 5 revoked
        lock caf\xe9
            permits 1
            was a's, fence 1, 3 to 10, Expired
            was b's, fence 3, 11 to 12, Forced
    "#]]);
}

/// So a listing with a prefix begins and ends at the right names.
#[test]
fn locks_are_ordered_by_the_bytes_of_their_names() {
    let mut script = Script::default();
    script.line("open a");
    script.line(r"acquire a 1 b,\xff,aa,a,\x00,\xc3\xa9,B x");
    let names = |from: &[u8]| script.state.locks_from(from).map(|lock| lock.name().to_string()).collect::<Vec<_>>();
    assert_eq!(names(b""), ["\0", "B", "a", "aa", "b", "é", r"\xff"]);
    assert_eq!(names(b"aa"), ["aa", "b", "é", r"\xff"]);
    assert_eq!(names(b"ab"), ["b", "é", r"\xff"]);
    assert_eq!(names(b"\xff\x00"), Vec::<String>::new());
}

#[test]
fn a_name_has_1_to_512_bytes() {
    let mut script = Script::default();
    script.line("open a");
    let answers = [0, 1, 512, 513].map(|bytes| {
        let name = vec![0xfe; bytes];
        let acquire = Operation::Acquire(Acquire::one(&name, Mode::Exclusive, OwnerId(1)));
        let effects = script.apply(&request(session("a"), bytes as u64 + 1, 0, acquire));
        let [Effect::Answer { answer, .. }] = &effects[..] else { panic!("{effects:?}") };
        match answer {
            Answer::Refused(refusal) => refusal.to_string(),
            answer => format!("{answer:?}"),
        }
    });
    let expected = [
        "the name of a lock is empty; it has 1 to 512 bytes",
        "Locks(Granted { fence: 1 })",
        "Locks(Granted { fence: 2 })",
        "the name of a lock has 513 bytes; it has 1 to 512",
    ];
    assert_eq!(answers, expected);
    assert_eq!(again(&script.state), script.state);
}

/// Errors appear in terminals and logs, so a name must not contain raw control characters, whether it is UTF-8 or not.
#[test]
fn a_name_within_a_sentence_has_no_control_characters() {
    let sentence =
        |name: &[u8]| Refusal::PermitsDiffer { lock: Some(LockName::from(name)), has: 1, says: 2 }.to_string();
    let rest = "is in use as exclusive or shared (1 permit), and the request says 2";
    assert_eq!(sentence(b"de\"ploy"), format!(r#"the lock "de\"ploy" {rest}"#));
    assert_eq!(sentence(b"\x1b[2J\n"), format!(r#"the lock "\u{{1b}}[2J\n" {rest}"#));
    assert_eq!(sentence(b"\x1b[2J\n\xff"), format!(r#"the lock "\x1b[2J\x0a\xff" {rest}"#));
}
