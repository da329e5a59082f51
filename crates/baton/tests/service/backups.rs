//! Backups with a real server: made while it works, restored twice, and refused when they are not sound.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::commands::json;
use crate::server::{BATON, Server, Setup};

fn baton(args: &[&str]) -> Output {
    Command::new(BATON).args(args).env_remove("BATON_SERVER").env_remove("BATON_CLUSTER").output().unwrap()
}

/// What a command prints that succeeds.
fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one sentence of a command that fails with this status.
fn refused(output: &Output, status: i32) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(status), 1), "{output:?}");
    error
}

fn fence(server: &Server) -> u64 {
    said(server.run(&["lock", "deploy", "--", "sh", "-c", "echo $BATON_FENCE"])).trim().parse().unwrap()
}

/// The files of a folder, with their contents.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut files: Vec<_> = files.map(|path| (name(&path), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

fn server_on(data: &Path) -> Server {
    Server::start_as(Setup { data: Some(data.to_owned()), ..Setup::default() })
}

fn cluster(server: &Server) -> Value {
    json(server, &["status"])["cluster_id"].clone()
}

#[test]
fn a_backup_restored_twice_gives_other_clusters_and_fences_and_grants_nothing_yet() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut server = Server::start_with(&["--max-ttl", "20s", "--fence-from", "1000"]);
    assert_eq!(fence(&server), 1000);
    // While a lock is held.
    let held = format!("{BATON} backup {}", path("held"));
    let told = said(server.run(&["lock", "deploy", "--", "sh", "-c", &held]));
    assert!(told.contains("1 session, 1 lock in use, last fence 1001"), "{told}");
    assert_eq!(fence(&server), 1002);
    let cluster_of_before = cluster(&server);

    // Of the folder of a server that runs, and of the same one when it is stopped.
    let error = refused(&baton(&["backup", &path("stopped"), "--data", server.data().to_str().unwrap()]), 1);
    assert!(error.contains("in use by another process"), "{error}");
    assert!(server.stop().success());
    let told = said(baton(&["backup", &path("stopped"), "--data", server.data().to_str().unwrap()]));
    assert!(told.contains("0 sessions, 0 locks in use, last fence 1002"), "{told}");
    for name in ["held", "stopped"] {
        said(baton(&["backup", "--verify", &path(name)]));
    }

    let mut clusters = vec![cluster_of_before];
    let mut fences = vec![1002];
    for name in ["one", "two"] {
        let told = said(baton(&["restore", &path("held"), "--data", &path(name), "--wait", "0"]));
        assert!(told.contains("Stop all servers of the old cluster for good"), "{told}");
        let restored = server_on(Path::new(&path(name)));
        clusters.push(cluster(&restored));
        fences.push(fence(&restored));
    }
    // Within a second, the drawn part decides which of the two has the higher fences.
    assert!(fences[1] > 1 << 50 && fences[2] > 1 << 50 && fences[1] != fences[2], "{fences:?}");
    assert!(clusters[0] != clusters[1] && clusters[1] != clusters[2] && clusters[0] != clusters[2], "{clusters:?}");

    // With the wait nothing is granted, also after a restart.
    let told = said(baton(&["restore", &path("held"), "--data", &path("waits")]));
    assert!(told.contains("nothing is granted for 20 s after the first start"), "{told}");
    let mut restored = server_on(Path::new(&path("waits")));
    for _ in 0..2 {
        let error = refused(&restored.run(&["lock", "-n", "deploy", "--", "true"]), 69);
        assert!(error.contains("because the cluster began anew"), "{error}");
        let error = refused(&restored.run(&["status", "--check"]), 1);
        assert!(error.contains("no lock is granted for another"), "{error}");
        let error = refused(&restored.run(&["lock", "-w", "100ms", "deploy", "--", "true"]), 1);
        // A server that hears of it after the time refuses it with the same reason.
        assert!(error.contains(" is granted for another ") && !error.contains("held"), "{error}");
        let told = said(restored.run(&["lock-info", "deploy"]));
        assert!(told.starts_with("lock \"deploy\": nothing is granted for another "), "{told}");
        let told = said(restored.run(&["locks", "--all"]));
        assert!(told.contains("(closed for ") && !told.contains("(free)"), "{told}");
        assert!((1..=20_000).contains(&json(&restored, &["status"])["closed_ms"].as_u64().unwrap()));
        restored.kill_and_restart();
    }
    // A waiter says it also without a terminal, at once and not only at the end.
    let mut waiter = restored.command(&["lock", "deploy", "--", "true"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut told).unwrap();
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    assert!(told.starts_with("baton: waiting for deploy: nothing is granted for another "), "{told}");
}

#[test]
fn a_client_of_the_old_cluster_refuses_the_restored_one_until_it_is_told_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let [file, data] = ["file", "data"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let mut server = Server::start();
    let old = cluster(&server).as_str().unwrap().to_owned();
    said(server.run(&["backup", &file]));
    server.kill();
    said(baton(&["restore", &file, "--data", &data, "--wait", "0"]));
    let restored = server_on(Path::new(&data));
    let new = cluster(&restored).as_str().unwrap().to_owned();
    let error = refused(&restored.run(&["lock", "--cluster-id", &old, "-w", "1", "deploy", "--", "true"]), 69);
    assert!(error.contains(&old) && error.contains(&new), "{error}");
    said(restored.run(&["lock", "--cluster-id", &new, "deploy", "--", "true"]));
}

#[test]
fn files_and_folders_that_are_there_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    let server = Server::start();
    fs::write(&file, "precious").unwrap();
    let error = refused(&server.run(&["backup", &file]), 2);
    assert!(error.contains("exists; name another file, or add --overwrite"), "{error}");
    assert_eq!(contents(folder.path()), [("file".to_owned(), b"precious".to_vec())]);
    said(server.run(&["backup", &file, "--overwrite"]));

    let before = contents(folder.path());
    let error = refused(&baton(&["restore", &file, "--data", folder.path().to_str().unwrap()]), 2);
    assert!(error.contains("is not empty; name an empty folder"), "{error}");
    assert_eq!(contents(folder.path()), before);

    let missing = folder.path().join("missing");
    let error = refused(&baton(&["backup", &format!("{file}2"), "--data", missing.to_str().unwrap()]), 1);
    assert!(error.contains("it has no data of a server"), "{error}");
    let error = refused(&baton(&["restore", &file, "--data", missing.to_str().unwrap(), "--fence-from", "7"]), 2);
    assert!(error.contains("--fence-from 7 is too low"), "{error}");
    assert_eq!(contents(folder.path()), before);
    assert!(!missing.exists());
}

#[test]
fn a_backup_that_cannot_be_written_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    let server = Server::start();
    // Without the trap, SIGXFSZ would end the command, and the write would not fail.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", BATON, "backup", &file]);
    command.env("BATON_SERVER", &server.address).env_remove("BATON_CLUSTER");
    let told = refused(&command.output().unwrap(), 2);
    let says = format!("baton: cannot write {file}: File too large (os error 27)");
    assert!(told.starts_with(&says) && !told.contains(".baton-backup-"), "{told}");
    assert_eq!(contents(folder.path()), []);
}

#[test]
fn a_backup_that_is_not_sound_is_refused_and_nothing_is_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let server = Server::start();
    said(server.run(&["backup", path("file").to_str().unwrap()]));
    let sound = fs::read(path("file")).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    let newer = |says: &str| format!("{says} {:08x}\n", crc32c::crc32c(says.as_bytes())).into_bytes();
    let cases = [
        (sound[..sound.len() - 1].to_vec(), "it is cut short"),
        (flipped, "it is damaged"),
        (newer("baton backup 2 of a newer kind"), "a newer version wrote it"),
        (b"hello".to_vec(), "it is not a backup of baton"),
    ];
    for (bytes, told) in cases {
        fs::write(path("bad"), bytes).unwrap();
        let bad = path("bad").to_str().unwrap().to_owned();
        let made = path("made").to_str().unwrap().to_owned();
        for args in [vec!["backup", "--verify", &bad], vec!["restore", &bad, "--data", &made]] {
            let error = refused(&baton(&args), 2);
            assert!(error.contains(told) && error.contains(&bad), "{error}");
        }
        assert!(!path("made").exists());
    }
}

#[test]
fn a_ttl_beyond_the_longest_and_a_floor_below_the_last_fence_are_refused() {
    let mut server = Server::start_with(&["--max-ttl", "20s"]);
    let error = refused(&server.run(&["lock", "--ttl", "21s", "deploy", "--", "true"]), 69);
    assert!(error.contains("allows at most 20 s (`baton serve --max-ttl`)"), "{error}");
    assert_eq!(json(&server, &["status"])["max_ttl_ms"], 20_000);
    assert!(said(server.run(&["status"])).lines().any(|line| line == "max TTL     20 s"));
    assert_eq!(fence(&server), 1);
    assert!(server.stop().success());
    let serve = |floor: &str| {
        let data = server.data().to_str().unwrap();
        baton(&["serve", "--data", data, "--listen", "127.0.0.1:0", "--fence-from", floor])
    };
    let error = refused(&serve("1"), 1);
    assert!(error.contains("its last fence is 1, so --fence-from 1 is too low"), "{error}");
    let error = refused(&serve("9007199254740992"), 2);
    assert!(error.contains("must be a whole number from 1 to 4503599627370496"), "{error}");
    server.restart_with(&["--max-ttl", "30s"]);
    assert_eq!(fence(&server), 2, "nothing has changed");
    server.log_line("sets the longest TTL of the cluster from 20 s to 30 s");
    assert_eq!(json(&server, &["status"])["max_ttl_ms"], 30_000);
}

#[test]
fn a_new_cluster_is_forced_only_after_a_yes() {
    let mut server = Server::start_with(&["--max-ttl", "20s"]);
    let old = cluster(&server);
    assert_eq!(fence(&server), 1);
    assert!(server.stop().success());
    let before = contents(server.data());
    let data = server.data().to_str().unwrap().to_owned();
    let error = refused(&baton(&["serve", "--data", &data, "--force-new-cluster"]), 2);
    for part in ["needs --yes", "are lost", old.as_str().unwrap(), "members: default", "nothing was changed"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let is_kept = |(name, _): &&(String, Vec<u8>)| name != "SYNCED";
    let kept = |files: &[(String, Vec<u8>)]| files.iter().filter(is_kept).cloned().collect::<Vec<_>>();
    assert_eq!(kept(&contents(server.data())), kept(&before));

    server.restart_with(&["--force-new-cluster", "--yes"]);
    assert_ne!(cluster(&server), old);
    let error = refused(&server.run(&["lock", "-n", "deploy", "--", "true"]), 69);
    assert!(error.contains("because the cluster began anew"), "{error}");
    server.log_line("this node begins a new cluster");
    server.kill();
    server.restart_with(&["--force-new-cluster", "--yes", "--wait", "0"]);
    assert!(fence(&server) > 1 << 50);
}

#[test]
fn a_folder_without_data_stays_as_it_is_when_a_new_cluster_is_forced() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let force = ["--listen", "127.0.0.1:0", "--force-new-cluster", "--yes", "--data"];
    for data in [folder.path(), &missing] {
        let error = refused(&baton(&[&["serve"], &force[..], &[data.to_str().unwrap()]].concat()), 1);
        assert!(error.contains("it has no data; start the server without --force-new-cluster"), "{error}");
        assert!(contents(folder.path()).is_empty(), "files were made in {}", data.display());
        assert!(!missing.exists());
    }
}

#[test]
fn the_help_of_serve_lists_the_options_of_a_lost_majority_last() {
    let help = said(baton(&["serve", "--help"]));
    let (before, after) = help.split_once("Options for a node whose cluster has lost a majority").unwrap();
    assert!(before.contains("--log ") && before.contains("--peer-listen"), "{help}");
    assert!(after.contains("--force-new-cluster") && !after.contains("--log "), "{help}");
}

#[test]
fn the_name_of_a_file_with_control_characters_stays_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let [file, gone] = ["a\nb\x1b[2J", "gone\n/file"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let server = Server::start();
    let told = said(server.run(&["backup", &file]));
    assert_eq!((told.lines().count(), told.contains('\x1b')), (3, false), "{told:?}");
    for args in [&["backup", &file][..], &["backup", &gone], &["backup", "--verify", &gone]] {
        let told = refused(&server.run(args), 2);
        assert!(told.contains(r"\n") && !told.contains(".baton-backup-"), "{args:?}: {told}");
    }
    for data in [&file, "/proc/nothing"] {
        let told = refused(&baton(&["restore", &file, "--data", data]), 2);
        assert!(told.contains("is no folder") || told.contains("cannot make the folder /proc/nothing: "), "{told}");
    }
    fs::write(&file, "cut").unwrap();
    let told = refused(&baton(&["restore", &file, "--data", &gone]), 2);
    assert!(told.contains(r"\n") && !told.contains('\x1b'), "{told:?}");
}
