//! The last step before the command: settings that a process can only make for itself.

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::{CANNOT_RUN, NOT_FOUND};
use crate::output::{Failure, Outcome};

/// Becomes the command of `baton lock`. Only the watchdog of `baton lock` starts this
#[derive(clap::Args)]
pub struct Args {
    /// The process id of the watchdog
    #[arg(long)]
    parent: i32,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only if the command cannot be run.
pub fn run(args: &Args) -> Outcome {
    let failure = |message: String, status| Failure { message, status: ExitCode::from(status) };
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| failure(format!("cannot let the command end with its watchdog: {error}"), CANNOT_RUN))?;
    // The watchdog may have died before the kernel knew that this process must die with it.
    if getppid().as_raw() != args.parent {
        return Err(failure("the watchdog is gone".into(), CANNOT_RUN));
    }
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(failure("there is no command to run".into(), CANNOT_RUN));
    };
    let error = Command::new(program).args(arguments).exec();
    let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    Err(failure(format!("cannot run `{}`: {error}", program.display()), status))
}
