//! Data folders that this version did not write, and files that disappear.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::commands::json;
use crate::server::{BATON, Server};

/// The output of a server that does not start on this folder.
fn refused(data: &Path) -> Output {
    let mut command = Command::new(BATON);
    command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    command.output().unwrap()
}

fn kept(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/kept/format-3").join(name)
}

/// The server opens a copy of a folder of the version before. It has all locks, also after a kill.
#[test]
fn a_server_starts_on_a_folder_of_an_older_version_and_keeps_it() {
    let mut server = Server::start();
    server.kill();
    for file in fs::read_dir(server.data()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    for file in fs::read_dir(kept("snapshot-and-log")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), server.data().join(file.file_name())).unwrap();
    }
    server.restart();
    let expected = fs::read_to_string(kept("snapshot-and-log.expected.txt")).unwrap();
    let holders = expected.lines().filter(|line| line.starts_with("lock ") && line.contains(" holder ")).count();
    let held = |server: &Server| {
        let locks = json(server, &["locks"]);
        locks.as_array().unwrap().iter().map(|lock| lock["holders"].as_array().unwrap().len()).sum::<usize>()
    };
    assert_eq!(held(&server), holders);
    let before = json(&server, &["status"]);
    assert_eq!(before["node"], 1, "a folder of format 1 keeps the id of its node");
    server.kill_and_restart();
    assert_eq!(held(&server), holders);
    assert_eq!(json(&server, &["status"])["term"], json!(before["term"].as_u64().unwrap() + 1));
    assert!(fs::read_to_string(server.data().join("FORMAT")).unwrap().starts_with("baton data format 4 "));
}

#[test]
fn a_folder_of_a_newer_version_is_refused_with_what_to_do() {
    let mut server = Server::start();
    server.kill();
    let says = "baton data format 5";
    fs::write(server.data().join("FORMAT"), format!("{says} {:08x}\n", crc32c::crc32c(says.as_bytes()))).unwrap();
    fs::write(server.data().join("WRITER"), "baton 9.8.7\n").unwrap();
    let output = refused(server.data());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in ["data format 5", "baton 9.8.7", concat!("baton ", env!("CARGO_PKG_VERSION"))] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("damaged") && error.lines().count() == 1, "{error}");
}

/// With the IDENTITY of another folder, the node would wait for ever for the node of the log.
#[test]
fn a_folder_with_the_identity_of_another_is_refused() {
    let (mut one, mut other) = (Server::start(), Server::start());
    one.kill();
    other.kill();
    fs::copy(other.data().join("IDENTITY"), one.data().join("IDENTITY")).unwrap();
    let output = refused(one.data());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("IDENTITY says node") && error.contains("and the log is of others (default)"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// A new folder gets a random node id, and keeps it.
#[test]
fn a_node_has_an_id_of_its_own_that_stays() {
    let (mut one, other) = (Server::start(), Server::start());
    let node = |server: &Server| json(server, &["status"])["node"].as_u64().unwrap();
    let id = node(&one);
    assert_ne!(id, node(&other));
    assert!((1..1 << 53).contains(&id), "{id}");
    one.kill_and_restart();
    assert_eq!(node(&one), id);
}

#[test]
fn a_server_whose_log_loses_a_segment_says_so_and_ends() {
    let mut server = Server::start();
    let is_segment = |name: &str| name.starts_with("log-");
    let names = fs::read_dir(server.data()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let segment = names.into_iter().find(|name| is_segment(name)).unwrap();
    fs::remove_file(server.data().join(segment)).unwrap();
    assert_eq!(server.ends().code(), Some(1));
}

/// A name that is not UTF-8 goes from one command line through the server to another command line.
#[test]
fn a_lock_whose_name_is_not_utf_8_is_held_shown_and_released() {
    let server = Server::start();
    let name = r"caf\xe9\\";
    let script = format!("{BATON} locks --json; {BATON} lock-info --escaped '{name}' --json");
    let output = server.run(&["lock", "--escaped", name, "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let told: Vec<serde_json::Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for lock in [&told[0][0], &told[1]] {
        assert_eq!((&lock["name"], &lock["escaped"]), (&json!(name), &json!(true)), "{lock}");
        assert_eq!(lock["mode"], "exclusive");
    }
    assert_eq!(json(&server, &["locks"]), json!([]));
}
