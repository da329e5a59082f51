//! What the commands say at a member of a group: it knows only its own clients.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::LONG;
use crate::group::{BATON, Group};

/// Runs a command at these members.
async fn at(group: &mut Group, members: &[usize], args: &[&str]) -> Output {
    let mut addresses = Vec::new();
    for &id in members {
        addresses.push(group.clients_of(id).await);
    }
    let mut command = Command::new(BATON);
    command.args(args).env("BATON_SERVER", addresses.join(",")).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// The status, and what the command said.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

async fn held_by_a_client_of_another_member() {
    let mut group = Group::start("ricart-agrawala", 3, 1).await;
    let session = group.client(0).await.session().open().await.unwrap();
    let guard = session.lock("work").acquire().await.unwrap();
    let other = group.client(1).await.session().open().await.unwrap();
    other.lock("old").acquire().await.unwrap().release().await.unwrap();

    let elsewhere = "not held by a client of member 1; a client of member 0 or 2 may hold it";
    let info = said(&at(&mut group, &[1], &["lock-info", "work"]).await);
    assert_eq!(info, (Some(1), format!("baton: the lock \"work\" is {elsewhere}\n")));
    let (status, info) = said(&at(&mut group, &[1], &["lock-info", "old"]).await);
    assert!(status == Some(0) && info.starts_with(&format!("lock \"old\": {elsewhere}\n")), "{info}");
    let (status, locks) = said(&at(&mut group, &[1], &["locks", "--all"]).await);
    assert!(status == Some(0) && locks.contains("(not held here)") && !locks.contains("free"), "{locks}");
    let released = said(&at(&mut group, &[1], &["release", "--force", "work"]).await);
    let sentence = format!("baton: the lock \"work\" is {elsewhere}: ask that member (--server)\n");
    assert_eq!(released, (Some(1), sentence));

    // A bystander dies. The holder lives, so the lock is held.
    group.signal(2, Signal::SIGKILL);
    group.members[1].says(|line| line["not_heard"] == serde_json::json!([2])).await;
    let (status, tried) = said(&at(&mut group, &[1], &["lock", "-n", "work", "true"]).await);
    assert_eq!((status, tried), (Some(1), format!("baton: the lock work was not granted at once: {elsewhere}\n")));
    // Nobody holds it, but nobody can get it without process 2.
    guard.release().await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let queue = group.client(1).await.session().open().await.unwrap();
    let waiting = queue.lock("work").on_hopeless(move |why| tell.send(why.process).unwrap_or_default());
    let waiting = tokio::spawn(waiting.acquire());
    assert_eq!(told.recv().await, Some(2), "the release is known");
    let server = group.clients_of(1).await;
    for round in 0..3 {
        let tries = (0..8).map(|_| {
            let mut command = Command::new(BATON);
            command.args(["lock", "-n", "--server", &server, "work", "true"]).stdin(Stdio::null());
            tokio::task::spawn_blocking(move || command.output().unwrap())
        });
        for tried in tries.collect::<Vec<_>>() {
            let (status, tried) = said(&tried.await.unwrap());
            let start =
                "baton: the server refused: the group cannot grant the lock: waiting for process 2, not heard of for ";
            assert!(status == Some(69) && tried.starts_with(start), "round {round}: {status:?} {tried}");
        }
    }
    let (status, tried) = said(&at(&mut group, &[1], &["lock", "-w", "1", "work", "true"]).await);
    let last = tried.lines().last().unwrap_or_default();
    let start = "baton: the lock work was not granted within 1.0 s: the group cannot grant it: waiting for process 2, ";
    // The member and the client count the time-out each, and one of them is first.
    assert!(last.starts_with(start) || last.contains("refused: the group cannot grant the lock: "), "{tried}");
    assert_eq!(status, Some(1), "{tried}");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_does_not_call_a_lock_free_that_a_client_of_another_member_may_hold() {
    timeout(LONG, held_by_a_client_of_another_member()).await.unwrap();
}

/// A session lives at one member, so a client with several addresses loses its place when that member dies.
async fn place_lost() {
    let mut group = Group::start("raymond", 3, 1).await;
    let session = group.client(0).await.session().open().await.unwrap();
    let guard = session.lock("work").acquire().await.unwrap();
    let queue = group.client(2).await;
    let servers = format!("{},{}", group.clients_of(2).await, group.clients_of(1).await);
    let mut command = Command::new(BATON);
    command.args(["lock", "--ttl", "2s", "--server", &servers, "work", "true"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while queue.get_lock("work").await.unwrap().is_none_or(|lock| lock.waiters.is_empty()) {
        tokio::task::yield_now().await;
    }
    group.signal(2, Signal::SIGKILL);
    let said = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find(|line| line.contains("the place in the queue for work is lost"));
        child.kill().unwrap();
        child.wait().unwrap();
        said
    });
    let said = said.await.unwrap().expect("it says that the place is lost");
    let reason = "because the server ended the session: this member of a peer group does not know the session";
    assert!(said.contains(reason), "{said}");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_several_members_is_told_why_it_loses_its_place() {
    timeout(LONG, place_lost()).await.unwrap();
}
