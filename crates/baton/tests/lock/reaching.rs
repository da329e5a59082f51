//! How the commands find a server, and their messages if no server serves them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_api::v1;

use super::command::{baton, done};
use super::processes::{BATON, until};
use super::server::{Answer, Server};

const FOREIGN: &str = "does not speak Baton's protocol (gRPC over HTTP/2)";

/// A server that accepts connections and sends nothing, until the listener is dropped.
fn silent_server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A server that does not speak the protocol.
struct Foreign {
    address: String,
    connections: Arc<AtomicUsize>,
}

impl Foreign {
    /// One attempt makes up to three connections: a second one if the first is closed before the call, and a third one
    /// to find out which protocol the server speaks.
    fn was_tried_once(&self) -> bool {
        (1..=3).contains(&self.connections.load(Ordering::Relaxed))
    }
}

/// A server that reads once from each connection, sends `says`, and closes the connection.
fn foreign_server(says: &'static [u8]) -> Foreign {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, connections) = (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            // The client may have closed the connection.
            let _ = stream.read(&mut [0; 1024]).and_then(|_| stream.write_all(says));
        }
    });
    Foreign { address, connections }
}

fn http_server() -> Foreign {
    foreign_server(b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\n\r\n")
}

/// The message of a `baton lock` that ends with status 69 and does not run its command.
fn no_lock(addresses: &[&str], options: &[&str]) -> String {
    let mut command = Command::new(BATON);
    command.args(["lock", "a", "--server", &addresses.join(",")]).args(options).args(["--", "echo", "never"]);
    let (status, output, error) = done(command.env_remove("BATON_OWNER"));
    assert_eq!((status, output.as_str(), error.lines().count()), (69, "", 1), "{error}");
    error
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_none_within_the_time_that_there_is() {
    let (_silent, address) = silent_server();
    for options in [&["-w", "1"][..], &["-n", "--ttl", "2"]] {
        let error = no_lock(&[&address], options);
        let told =
            format!("baton: no server opened a session: {address} accepts connections, but did not answer within");
        assert!(error.starts_with(&told), "{error}");
    }
}

#[test]
fn a_server_of_another_kind_is_told_from_one_that_hangs_up_or_is_silent() {
    let (http, garbage, closes) = (http_server(), foreign_server(b"SSH-2.0-OpenSSH_9.9\r\n"), foreign_server(b""));
    let (_silent, silent) = silent_server();
    let cases = [
        (&http.address, format!("{} {FOREIGN}\n", http.address)),
        (&garbage.address, format!("{} {FOREIGN}\n", garbage.address)),
        (&closes.address, format!("the connection to {} was closed\n", closes.address)),
        // There are two attempts of 5 s each.
        (&silent, format!("{silent} accepts connections, but did not answer within 10 s\n")),
    ];
    for (address, reason) in cases {
        let (status, output, error) = done(Command::new(BATON).args(["status", "--server", address]));
        assert_eq!((status, output.as_str()), (69, ""));
        assert_eq!(error, format!("baton: no server answered: {reason}"));
        if *address != silent {
            assert_eq!(no_lock(&[address], &["-w", "1"]), format!("baton: no server opened a session: {reason}"));
        }
    }
    for Foreign { address, .. } in [http, garbage] {
        let (status, _, error) = done(Command::new(BATON).args(["release", "a", "--force", "--server", &address]));
        assert_eq!(status, 69);
        assert!(error.ends_with(&format!("{FOREIGN}\n")), "{error}");
    }
    let (status, _, error) = done(Command::new(BATON).args(["release", "a", "--force", "--server", &closes.address]));
    let told = "baton: the server did not answer; it may still do what it was asked for\n";
    assert_eq!((status, error.as_str()), (69, told));
}

#[test]
fn who_does_not_wait_tries_each_server_once() {
    let (http, closes) = (http_server(), foreign_server(b""));
    // The listener is dropped, so no process listens on this port.
    let nobody = silent_server().1;
    let error = no_lock(&[&http.address, &closes.address, &nobody], &["-n"]);
    let (foreign, closed) = (&http.address, &closes.address);
    let told = format!("{foreign} {FOREIGN}; the connection to {closed} was closed; {nobody}: Connection refused");
    assert!(error.starts_with(&format!("baton: no server opened a session: {told}")), "{error}");
    assert!(http.was_tried_once() && closes.was_tried_once());
}

#[test]
fn a_server_of_another_kind_is_not_asked_again() {
    let servers = [http_server(), foreign_server(b"SSH-2.0-OpenSSH_9.9\r\n")];
    let addresses = servers.each_ref().map(|server| server.address.as_str()).join(",");
    let mut command = Command::new(BATON);
    // -w is longer than `until` waits.
    command.args(["lock", "a", "-w", "120", "--server", &addresses, "true"]).env_remove("BATON_OWNER");
    let mut running = command.spawn().unwrap();
    until("it has ended", || running.try_wait().unwrap().is_some());
    assert_eq!(running.wait().unwrap().code(), Some(69));
    assert!(servers.iter().all(Foreign::was_tried_once));
}

#[test]
fn each_server_is_named_with_what_went_wrong_there() {
    let (one, two) = (foreign_server(b""), foreign_server(b""));
    let error = no_lock(&[&one.address, &two.address], &["-w", "1"]);
    let (one, two) = (&one.address, &two.address);
    let told = format!("the connection to {one} was closed; the connection to {two} was closed\n");
    assert_eq!(error, format!("baton: no server opened a session: {told}"));
}

#[test]
fn a_server_that_is_full_is_asked_again_while_there_is_time() {
    let server = Server::start();
    server.facts().refuses_sessions = usize::MAX;
    for options in [&["-n"][..], &["-w", "1"]] {
        let error = no_lock(&[&server.address], options);
        assert_eq!(error, format!("baton: no server opened a session: {}: no room in /data\n", server.address));
    }
    server.facts().refuses_sessions = 3;
    assert_eq!(done(&mut baton(&server, &["lock", "a", "-w", "60", "true"])), (0, String::new(), String::new()));
}

#[test]
fn a_server_that_does_not_take_the_lock_on_is_not_asked_again() {
    let server = Server::start();
    for refusal in [v1::Refusal::LowSpace, v1::Refusal::TooManyLocks, v1::Refusal::TooManyWaiters] {
        server.facts().answer = Answer::Refused(refusal);
        let told = done(&mut baton(&server, &["lock", "a", "-w", "60", "-E", "9", "true"]));
        assert_eq!(told, (9, String::new(), "baton: the server refused: not with me\n".to_owned()));
    }
    assert_eq!(server.facts().acquired.len(), 3);
}

#[test]
fn a_server_that_falls_silent_keeps_nobody_who_does_not_want_to_wait() {
    let server = Server::start();
    server.facts().answer = Answer::Nothing;
    for wait in [&["-n"][..], &["-w", "1"]] {
        let start = Instant::now();
        let mut command = baton(&server, &["lock", "a", "--ttl", "600", "-E", "9", "-q"]);
        assert_eq!(done(command.args(wait).args(["--", "echo", "never"])), (9, String::new(), String::new()));
        assert!(start.elapsed() < Duration::from_secs(60), "{wait:?}");
    }
}

#[test]
fn another_server_is_asked_while_there_is_time() {
    let server = Server::start();
    let (_silent, silent) = silent_server();
    for options in [&["-w", "6"][..], &["-n"]] {
        let mut command = baton(&server, &["lock", "a", "--server", &format!("{silent}, {}", server.address)]);
        assert_eq!(done(command.args(options).arg("true")), (0, String::new(), String::new()));
    }
}
