//! What `baton lock` says while it waits, and when it does not get the lock.

use baton_api::v1;
use nix::sys::signal::Signal;
use std::process::Stdio;

use super::command::{Running, baton, done, start};
use super::processes::{Output, send, until};
use super::server::{Answer, Server};

/// Starts a `baton lock` that waits. Returns its standard error, too.
fn waits(server: &Server, options: &[&str]) -> (Running, Output<std::process::ChildStderr>) {
    server.facts().answer = Answer::Nothing;
    let mut command = baton(server, &["lock", "deploy"]);
    command.args(options).args(["--", "echo", "never"]).stderr(Stdio::piped());
    let mut running = start(command);
    let error = Output::new(running.process.stderr.take().unwrap());
    until("it waits", || server.facts().acquired.len() == 1);
    (running, error)
}

#[test]
fn a_waiter_says_whom_it_waits_for() {
    let server = Server::start();
    let (running, mut error) = waits(&server, &["-v"]);
    let told = error.line();
    assert!(told.starts_with("baton: waiting for deploy: held by make on here for 3 min "), "{told}");
    assert!(told.ends_with(" s, you are 2nd"), "{told}");
    send(running.process.id(), Signal::SIGINT);
    assert_eq!(error.rest().0, "baton: SIGINT ended the wait for the lock\n");
    assert_eq!(running.ends(), 130);
}

#[test]
fn a_waiter_in_a_script_says_nothing() {
    let server = Server::start();
    for options in [&["-w", "2"][..], &["-w", "2", "-q"]] {
        let (running, mut error) = waits(&server, options);
        let told = error.rest().0;
        assert_eq!(running.ends(), 1);
        assert!(!told.contains("waiting for"), "{told}");
        assert_eq!(told.is_empty(), options.contains(&"-q"), "{told}");
        server.facts().acquired.clear();
    }
}

#[test]
fn who_does_not_get_the_lock_learns_who_holds_it_and_for_how_long() {
    let server = Server::start();
    let refused = |name: &str, refusal: v1::Refusal, args: &[&str]| {
        server.facts().answer = Answer::Refused(refusal);
        let (status, output, error) = done(baton(&server, &["lock", name]).args(args).args(["--", "echo", "never"]));
        assert_eq!((status, output.as_str()), (9, ""), "{error}");
        error
    };
    let told = refused("deploy", v1::Refusal::NotAvailable, &["-n", "-E", "9"]);
    assert!(told.starts_with("baton: the lock deploy is not free: held by make on here for 3 min "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let told = refused("deploy", v1::Refusal::TimedOut, &["-w", "1500ms", "-E", "9"]);
    let start = "baton: the lock deploy was not granted within 1.5 s: held by make on here for 3 min ";
    assert!(told.starts_with(start), "{told}");
    // By the time when the client asks, the lock may be free.
    let told = refused("a", v1::Refusal::NotAvailable, &["-n", "-E", "9"]);
    assert_eq!(told, "baton: the lock a is not free: it was held a moment ago\n");
    for quiet in ["-q", "--quiet"] {
        assert_eq!(refused("deploy", v1::Refusal::NotAvailable, &["-n", "-E", "9", quiet]), "");
        assert_eq!(refused("deploy", v1::Refusal::TimedOut, &["-w", "1", "-E", "9", quiet]), "");
    }
}

#[test]
fn a_waiter_queues_again_after_the_server_was_away_for_a_whole_ttl() {
    let server = Server::start();
    server.facts().answer = Answer::Nothing;
    let mut command = baton(&server, &["lock", "deploy", "--ttl", "1", "--", "echo", "done"]);
    command.env("BATON_OWNER", "00000000000000ff").stderr(Stdio::piped());
    let mut running = start(command);
    let mut error = Output::new(running.process.stderr.take().unwrap());
    until("it waits", || server.facts().acquired.len() == 1);
    server.facts().silent = true;
    let told = error.line();
    let lost = "baton: the place in the queue for deploy is lost, because no keep-alive was acknowledged in time";
    assert!(told.starts_with(lost) && told.ends_with("; queues again as soon as a server answers"), "{told}");
    {
        let mut facts = server.facts();
        (facts.silent, facts.answer) = (false, Answer::Granted);
    }
    assert_eq!(running.output.line(), "done");
    assert_eq!(running.ends(), 0);
    assert_eq!(error.rest().0, "");
    let facts = server.facts();
    let [first, second] = [&facts.acquired[0], &facts.acquired[1]];
    assert_eq!((first.owner, first.parent, &first.name), (second.owner, second.parent, &second.name));
    assert_eq!(first.parent, Some(255));
    let (old, new) = (facts.opened[0].session, facts.opened.last().unwrap().session);
    let place = |what| facts.heard.iter().position(|heard| *heard == what).unwrap();
    assert!(place(("resume", old)) < place(("close", old)), "{:?}", facts.heard);
    assert!(place(("close", old)) < place(("open", new)), "{:?}", facts.heard);
}

#[test]
fn a_waiter_does_not_outlast_its_time_when_the_server_stays_away() {
    let server = Server::start();
    let (running, mut error) = waits(&server, &["-w", "3", "--ttl", "1", "-E", "9"]);
    server.facts().silent = true;
    assert!(error.line().starts_with("baton: the place in the queue for deploy is lost"));
    let (told, _) = error.rest();
    assert!(told.starts_with("baton: the lock deploy was not granted within 3.0 s"), "{told}");
    assert_eq!(running.ends(), 9);
}

/// Nothing was held, so nothing stays closed.
#[test]
fn a_server_that_is_away_at_the_end_of_the_wait_is_told_as_it_is() {
    let server = Server::start();
    for quiet in [false, true] {
        server.facts().silent = false;
        let options = if quiet { &["-w", "2", "-q"][..] } else { &["-w", "2"] };
        let (running, mut error) = waits(&server, options);
        server.facts().silent = true;
        let (told, _) = error.rest();
        assert_eq!(running.ends(), 1);
        let left = "baton: no lock was held, but no server confirmed that the request has left the queue: it may stay there \
            until its lease ends";
        assert_eq!(told.lines().last(), if quiet { None } else { Some(left) }, "{told}");
        server.facts().acquired.clear();
    }
}
