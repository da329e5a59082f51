//! The terminal, lent to the command when it needs it.
//!
//! The command has a process group of its own, so it is in the background of the terminal, and the kernel stops it when it
//! reads from there. Only then it is lent the terminal: until it asks, a ^C reaches all of a script or a pipeline that `baton lock`
//! is a part of, as it would without us.

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::{File, OpenOptions};
use std::io;

/// The terminal that this process was started from, if any.
pub struct Terminal {
    device: Option<File>,
    lent: bool,
}

impl Terminal {
    /// Finds it.
    pub fn find() -> Self {
        // A process with no terminal, such as a service, cannot open it: then there is nothing to lend.
        Terminal { device: OpenOptions::new().read(true).write(true).open("/dev/tty").ok(), lent: false }
    }

    /// Lends it to this group, if it is ours to lend; tells whether it was.
    pub fn lend(&mut self, group: Pid) -> io::Result<bool> {
        let Some(device) = &self.device else { return Ok(false) };
        if tcgetpgrp(device) != Ok(getpgrp()) {
            return Ok(false);
        }
        tcsetpgrp(device, group)?;
        self.lent = true;
        Ok(true)
    }

    /// Takes it back, if it was lent; tells whether it was.
    pub fn take_back(&mut self) -> io::Result<bool> {
        let Some(device) = &self.device else { return Ok(false) };
        if !std::mem::take(&mut self.lent) {
            return Ok(false);
        }
        // We are in the background now, and may do this only while the signal that would stop us is blocked.
        let mut stopping = SigSet::empty();
        stopping.add(Signal::SIGTTOU);
        stopping.thread_block()?;
        let taken = tcsetpgrp(device, getpgrp());
        stopping.thread_unblock()?;
        taken?;
        Ok(true)
    }
}
