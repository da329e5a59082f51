//! `baton lab` as a process: it prints its address, serves its page, and stops at a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("lab").args(arguments).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The address that the lab prints, without `http://` and the last slash.
fn address(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("the lab is at http://").and_then(|rest| rest.strip_suffix('/'));
    address.unwrap_or_else(|| panic!("{line}")).to_owned()
}

#[test]
fn the_lab_prints_its_address_serves_its_page_and_stops_at_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = lab(&["--listen", "127.0.0.1:0", "--no-open"]).spawn().unwrap();
        let address = address(&mut child);
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<!doctype html>"), "{page}");
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    }
}

#[test]
fn without_a_desktop_the_lab_says_what_to_do() {
    let mut child = lab(&["--listen", "127.0.0.1:0"]).spawn().unwrap();
    let address = address(&mut child);
    // The note comes before the lab serves its first page.
    let mut note = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut note).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait().unwrap();
    assert_eq!(note, format!("baton: no browser was opened (there is no desktop); open http://{address}/ yourself\n"));
}

#[test]
fn an_address_in_use_is_refused_in_a_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = lab(&["--listen", &address, "--no-open"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told.starts_with(&format!("baton: cannot listen on {address}: ")) && told.ends_with("--listen\n"),
        "{told}"
    );
}
