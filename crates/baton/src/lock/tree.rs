//! Finds all processes that a command started, in /proc.
//!
//! A process that calls setsid leaves its process group. A process that forks twice leaves its parent. But no process
//! leaves its subreaper. So all processes of a command descend from the process that supervises it. When the supervisor
//! has no child left, all of them are gone.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid};
use std::collections::HashMap;
use std::{fs, io};

/// All descendants of `root`, without the processes in `except` and their descendants.
pub fn descendants(root: Pid, except: &[Pid]) -> io::Result<Vec<Pid>> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw) else { continue };
        // The process may have ended meanwhile.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let here = children.remove(&parent).unwrap_or_default();
        let here: Vec<Pid> = here.into_iter().filter(|pid| !except.contains(pid)).collect();
        next.extend(&here);
        found.extend(here);
    }
    Ok(found)
}

/// The parent in a line of /proc/PID/stat: `1 (name) S 0 ...`. The name may contain any text, even `) S`.
fn parent(stat: &[u8]) -> Option<Pid> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

/// The names of these processes, without those that have ended.
pub fn named(pids: &[Pid]) -> Vec<(String, i32)> {
    let name = |pid: &Pid| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        name(&stat).map(|name| (name, pid.as_raw()))
    };
    pids.iter().filter_map(name).collect()
}

/// The name in a line of /proc/PID/stat; none for a zombie, which only waits for its parent.
fn name(stat: &[u8]) -> Option<String> {
    let (start, end) = (stat.iter().position(|&byte| byte == b'(')?, stat.iter().rposition(|&byte| byte == b')')?);
    let is_zombie = stat.get(end + 2).is_none_or(|state| matches!(state, b'Z' | b'X'));
    let name = stat.get(start + 1..end).filter(|_| !is_zombie)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Sends a signal to the process group, if given, and to all descendants of `root` without `except`.
pub fn signal(root: Pid, group: Option<Pid>, except: &[Pid], signal: Signal) -> io::Result<()> {
    // The group comes first: the kernel signals all its processes at once, so none can fork in between.
    if let Some(group) = group {
        sent(killpg(group, signal))?;
    }
    let outside = |&pid: &Pid| group.is_none_or(|group| getpgid(Some(pid)) != Ok(group));
    for pid in descendants(root, except)?.into_iter().filter(outside) {
        sent(kill(pid, signal))?;
    }
    Ok(())
}

/// Ignores two errors. A process that is gone needs no signal. A process with another user's rights cannot be
/// signalled: it is reported at the end of the lease.
fn sent(result: nix::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The result of [`reap`].
pub enum Child {
    /// A child ended or stopped.
    Changed(WaitStatus),
    /// A child was ended by a real-time signal, which nix cannot represent.
    Nameless,
    /// No child has changed.
    Unchanged,
    /// There is no child.
    Gone,
}

/// Collects the status of one child that ended or stopped, without waiting.
pub fn reap() -> io::Result<Child> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
        Ok(WaitStatus::StillAlive) => Ok(Child::Unchanged),
        Ok(status) => Ok(Child::Changed(status)),
        Err(Errno::ECHILD) => Ok(Child::Gone),
        Err(Errno::EINVAL) => Ok(Child::Nameless),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        assert_eq!(parent(b"7 (sh) S 3 7 7 0"), Some(Pid::from_raw(3)));
        assert_eq!(parent(b"7 (a) R 9 (b) S 4 7 7 0"), Some(Pid::from_raw(4)));
        assert_eq!(parent(b"7 (\xff\xfe) S 5 7 7 0"), Some(Pid::from_raw(5)));
        assert_eq!(parent(b"7 (sh) S"), None);
        assert_eq!(parent(b""), None);
    }

    #[test]
    fn a_zombie_is_not_named() {
        assert_eq!(name(b"7 (a) b) S 4 7 7 0").as_deref(), Some("a) b"));
        assert_eq!(name(b"7 (sh) Z 4 7 7 0"), None);
        assert_eq!(name(b"7 (sh)"), None);
        assert_eq!(name(b""), None);
    }

    #[test]
    fn children_and_their_children_are_found() {
        // Both `sh` and its `cat` live until their standard input is closed. `cat` prints its process id first.
        let script = "sh -c 'echo $$; exec cat'; true";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut number = String::new();
        output.read_line(&mut number).unwrap();
        let (child, grandchild) = (Pid::from_raw(shell.id() as i32), Pid::from_raw(number.trim().parse().unwrap()));
        let me = nix::unistd::getpid();
        let found = descendants(me, &[]).unwrap();
        assert!(found.contains(&child) && found.contains(&grandchild), "{child} and {grandchild} in {found:?}");
        assert_eq!(descendants(child, &[]).unwrap(), [grandchild]);
        let spared = descendants(me, &[child]).unwrap();
        assert!(!spared.contains(&child) && !spared.contains(&grandchild), "{spared:?}");
        drop(shell.stdin.take());
        assert!(shell.wait().unwrap().success());
        assert!(!descendants(me, &[]).unwrap().contains(&child));
    }
}
