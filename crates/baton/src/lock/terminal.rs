//! Lends the terminal to the command when the command needs it.
//!
//! The command has its own process group, so it is in the background of the terminal, and the kernel stops it when it
//! reads from the terminal. Only then `baton lock` lends it the terminal. Until then a ^C reaches the whole script or
//! pipeline that contains `baton lock`, as it would without `baton lock`.

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
    pub fn find() -> Self {
        // A process without a terminal, such as a service, cannot open /dev/tty. Then there is nothing to lend.
        Terminal { device: OpenOptions::new().read(true).write(true).open("/dev/tty").ok(), lent: false }
    }

    /// Lends the terminal to this process group, if `baton lock` is in the foreground. Returns whether it was lent.
    pub fn lend(&mut self, group: Pid) -> io::Result<bool> {
        let Some(device) = &self.device else { return Ok(false) };
        if tcgetpgrp(device) != Ok(getpgrp()) {
            return Ok(false);
        }
        tcsetpgrp(device, group)?;
        self.lent = true;
        Ok(true)
    }

    /// Takes the terminal back. Returns whether it was lent.
    pub fn take_back(&mut self) -> io::Result<bool> {
        let Some(device) = &self.device else { return Ok(false) };
        if !std::mem::take(&mut self.lent) {
            return Ok(false);
        }
        // This process is in the background now. The call would stop it with SIGTTOU unless that signal is blocked.
        let mut stopping = SigSet::empty();
        stopping.add(Signal::SIGTTOU);
        stopping.thread_block()?;
        let taken = tcsetpgrp(device, getpgrp());
        stopping.thread_unblock()?;
        taken?;
        Ok(true)
    }
}
