//! What `baton lock` is told on its command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use baton_client::Mode;
use baton_types::limits::{LABEL_BYTES_MAX, LOCK_DELAY_MS_MAX, PERMITS_MAX, TTL_MS, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::name::Quoted;

use crate::output::Failure;
use crate::service_args::{NameArgs, ServerArgs};

/// The owner of a lock, handed down to the command: a nested `baton lock` has an owner of its own, and this one as its parent.
pub const OWNER: &str = "BATON_OWNER";

/// Run a command while holding a lock
///
///   baton lock deploy -- ./migrate.sh --all   waits for its turn, runs the command
///   baton lock -n nightly -c 'make report'    gives up if the lock is held
///   baton lock deploy                         holds until it is interrupted
///
/// If the lock is lost, the command is ended before another client can get the
/// lock: all its processes get SIGTERM min(5 s, TTL/3) before the deadline, and
/// SIGKILL halfway from there. No process of the command outlives the lock.
///
/// The environment of the command has BATON_LOCK, BATON_FENCE, BATON_DEADLINE (in
/// seconds of CLOCK_BOOTTIME, as of the start), and BATON_OWNER and BATON_SERVER for
/// a `baton lock` in the command. Without a command, the fence is printed.
///
/// Exit status:
///   the command's; 128 + n if signal n ended it
///   1, or -E's   the lock was not acquired
///   2            bad usage
///   69           no server opened a session
///   74           the fence cannot be written to standard output
///   75           the lock was lost, and the command was ended
///   126, 127     the command cannot be run; was not found
#[derive(clap::Args)]
#[command(verbatim_doc_comment, args_override_self = true)]
pub struct Args {
    #[command(flatten)]
    name: NameArgs,
    /// Share the lock with other holders that use --shared
    #[arg(short, long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Hold the lock alone; this is the default
    #[arg(short = 'x', short_alias = 'e', long, conflicts_with = "permits")]
    exclusive: bool,
    /// Give up if the lock is held; each server is asked once, within 5 s for all together
    #[arg(short, long, visible_alias = "nb", conflicts_with = "timeout")]
    nonblock: bool,
    /// Wait at most this long, including the time to open a session; without -w the servers have 10 s to open one
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "SECS", value_parser = timeout)]
    #[arg(allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Hold one of PERMITS permits, 1 to 1000000; all users of the lock must name the same number
    #[arg(short = 'k', long, value_name = "PERMITS", value_parser = permits, allow_negative_numbers = true)]
    permits: Option<u32>,
    /// Time to live of the session, 1 to 86400 s: the server frees the lock after this long without a keep-alive
    #[arg(long, value_name = "SECS", default_value_t = TTL_MS / 1_000, value_parser = ttl, allow_negative_numbers = true)]
    ttl: u64,
    /// Keep the lock closed for this long after the session expires, 0 to 3600 s
    #[arg(long, value_name = "SECS", default_value = "0", value_parser = lock_delay, allow_negative_numbers = true)]
    lock_delay: Duration,
    /// Exit status if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1, allow_negative_numbers = true)]
    conflict_exit_code: u8,
    /// Run CMD with the shell ($SHELL, or /bin/sh)
    #[arg(short, long = "command", value_name = "CMD", conflicts_with = "command")]
    command_line: Option<OsString>,
    /// Name of the holder in `baton locks` [default: the name of the program]
    #[arg(long, value_name = "TEXT", value_parser = told_label)]
    label: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// The command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is wanted, with all that can be checked without a server.
pub struct Wanted<'a> {
    /// The lock.
    pub name: Vec<u8>,
    /// How it is wanted.
    pub mode: Mode,
    /// How long to wait; for ever if there is none.
    pub timeout: Option<Duration>,
    /// The TTL of the session.
    pub ttl: Duration,
    /// How long the lock stays closed if it is lost.
    pub lock_delay: Duration,
    /// The exit status if it is not acquired.
    pub conflict: u8,
    /// The owner that the `baton lock` around us holds its lock for, if there is one.
    pub parent: Option<u64>,
    /// What to run, if anything.
    pub command: Vec<OsString>,
    /// For people: what it is.
    pub label: String,
    /// Where to ask.
    pub server: &'a ServerArgs,
}

impl Args {
    /// Checks it all.
    pub fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        let command = self.command();
        // An empty variable in a script, most likely: to hold the lock until a signal comes is not what was meant.
        if command.is_empty() && std::env::args_os().next_back().is_some_and(|last| last == "--") {
            return Err(Failure::bad_input(
                "there is no command after `--`; leave that out to hold the lock without one",
            ));
        }
        let name = self.name.bytes()?;
        if !command.is_empty() && name.contains(&0) {
            return Err(Failure::bad_input(format!(
                "the name of the lock, {}, has a byte 0, which the environment of a command cannot hold; use another name",
                Quoted(&name)
            )));
        }
        Ok(Wanted {
            name,
            mode: match self.permits {
                Some(of) => Mode::Permit { of },
                None if self.shared => Mode::Shared,
                None => Mode::Exclusive,
            },
            timeout: if self.nonblock { Some(Duration::ZERO) } else { self.timeout },
            ttl: Duration::from_secs(self.ttl),
            lock_delay: self.lock_delay,
            conflict: self.conflict_exit_code,
            parent: std::env::var_os(OWNER).filter(|owner| !owner.is_empty()).map(owner).transpose()?,
            label: self.label.clone().unwrap_or_else(|| label(&command)),
            command,
            server: &self.server,
        })
    }

    fn command(&self) -> Vec<OsString> {
        match &self.command_line {
            Some(line) => {
                let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
                vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line.clone()]
            }
            None => self.command.clone(),
        }
    }
}

/// The owner that was handed down.
fn owner(owner: OsString) -> Result<u64, Failure> {
    let digits = owner.to_str().filter(|text| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| {
        Failure::bad_input(format!("{OWNER} is {owner:?}; it must be 16 hexadecimal digits, or not set"))
    })
}

/// What people see in the list of holders: the name of the program, without its arguments, which may be secrets.
fn label(command: &[OsString]) -> String {
    let program = command.first().map(|program| Path::new(program).file_name().unwrap_or(program).to_string_lossy());
    let label = program.map(|program| on_one_line(&program)).filter(|program| !program.is_empty());
    let label = label.unwrap_or_else(|| "baton lock".into());
    label[..label.floor_char_boundary(LABEL_BYTES_MAX)].to_owned()
}

/// What `--label` says, as it is sent.
fn told_label(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a label has at least 1 byte; without --label it is the name of the program".into()),
        1..=LABEL_BYTES_MAX => Ok(on_one_line(text)),
        bytes => Err(format!("a label has at most {LABEL_BYTES_MAX} bytes, not {bytes}")),
    }
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Seconds, as `flock -w` takes them.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

fn timeout(text: &str) -> Result<Duration, &'static str> {
    seconds(text).ok_or("say for how many seconds to wait, 0 or more; without -w it waits for ever")
}

fn lock_delay(text: &str) -> Result<Duration, String> {
    let most = Duration::from_millis(LOCK_DELAY_MS_MAX);
    let delay = seconds(text).filter(|delay| *delay <= most);
    delay.ok_or(format!("a lock stays closed for 0 to {} seconds", most.as_secs()))
}

fn ttl(text: &str) -> Result<u64, String> {
    let (least, most) = (TTL_MS_MIN / 1_000, TTL_MS_MAX / 1_000);
    whole(text, least..=most).ok_or(format!("the TTL is a whole number of seconds from {least} to {most}"))
}

fn permits(text: &str) -> Result<u32, String> {
    whole(text, 1..=PERMITS_MAX).ok_or(format!("a lock has from 1 to {PERMITS_MAX} permits"))
}

fn whole<N: std::str::FromStr + PartialOrd>(text: &str, within: RangeInclusive<N>) -> Option<N> {
    text.parse().ok().filter(|number| within.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &[&str]) -> Result<Args, clap::Error> {
        Line::try_parse_from([&["lock"], line].concat()).map(|line| line.args)
    }

    #[test]
    fn the_letters_of_flock() {
        let args = parse(&["deploy", "-w", "1.5", "-E", "9", "--", "make", "-j4", "-n"]).unwrap();
        let wanted = args.wanted().ok().unwrap();
        assert_eq!((&*wanted.name, wanted.mode, wanted.conflict), (&b"deploy"[..], Mode::Exclusive, 9));
        assert_eq!((wanted.timeout, wanted.ttl), (Some(Duration::from_millis(1_500)), Duration::from_secs(10)));
        assert_eq!(wanted.command, ["make", "-j4", "-n"]);
        // As with flock, the command needs no `--`.
        let args = parse(&["-s", "-n", "deploy", "make", "-j4"]).unwrap();
        let wanted = args.wanted().ok().unwrap();
        assert_eq!((wanted.mode, wanted.timeout), (Mode::Shared, Some(Duration::ZERO)));
        assert_eq!(wanted.command, ["make", "-j4"]);
        let args = parse(&["-k", "3", "deploy", "-c", "a | b"]).unwrap();
        let wanted = args.wanted().ok().unwrap();
        assert_eq!(wanted.mode, Mode::Permit { of: 3 });
        assert_eq!(wanted.command[1..], ["-c", "a | b"]);
    }

    #[test]
    fn an_option_that_is_repeated_counts_as_said_last() {
        let args = parse(&["-x", "-e", "-w", "9", "-w", "2", "-E", "8", "-E", "9", "deploy", "make"]).unwrap();
        let wanted = args.wanted().ok().unwrap();
        assert_eq!((wanted.mode, wanted.conflict), (Mode::Exclusive, 9));
        assert_eq!(wanted.timeout, Some(Duration::from_secs(2)));
        assert_eq!(wanted.command, ["make"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let lines: [&[&str]; 13] = [
            &[],
            &["a", "-n", "-w", "1"],
            &["a", "-s", "-x"],
            &["a", "-s", "-k", "2"],
            &["a", "-c", "x", "--", "y"],
            &["a", "--ttl", "0"],
            &["a", "--ttl", "86401"],
            &["a", "-k", "0"],
            &["a", "-w", "-1"],
            &["a", "-w", "soon"],
            &["a", "-w", "NaN"],
            &["a", "--lock-delay", "3601"],
            &["a", "-E", "256"],
        ];
        for line in lines {
            let error = parse(line).err().unwrap_or_else(|| panic!("{line:?} was taken"));
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_is_told_what_would_be_right() {
        let lines: [(&[&str], &str); 8] = [
            (&["-w", "inf"], "say for how many seconds to wait, 0 or more; without -w it waits for ever"),
            (&["-w", "-1"], "say for how many seconds to wait, 0 or more; without -w it waits for ever"),
            (&["--ttl", "-1"], "the TTL is a whole number of seconds from 1 to 86400"),
            (&["--ttl", "1.5"], "the TTL is a whole number of seconds from 1 to 86400"),
            (&["-k", "-1"], "a lock has from 1 to 1000000 permits"),
            (&["-k", "1000001"], "a lock has from 1 to 1000000 permits"),
            (&["--lock-delay", "-1"], "a lock stays closed for 0 to 3600 seconds"),
            (&["--lock-delay", "NaN"], "a lock stays closed for 0 to 3600 seconds"),
        ];
        for (args, right) in lines {
            let error = parse(&[&["a"], args].concat()).err().unwrap_or_else(|| panic!("{args:?} was taken"));
            let told = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(told.as_deref(), Some(right), "{error}");
        }
    }

    #[test]
    fn an_owner_is_16_hexadecimal_digits() {
        assert_eq!(owner("00000000000000ff".into()).ok(), Some(255));
        for bad in ["", "ff", "+0000000000000ff", "00000000000000fg"] {
            assert!(owner(bad.into()).err().unwrap().message.contains("16 hexadecimal digits"), "{bad}");
        }
    }

    #[test]
    fn a_label_is_the_name_of_the_program_or_what_is_said() {
        assert_eq!(label(&[]), "baton lock");
        assert_eq!(label(&["/usr/bin/mysql".into(), "--password=secret".into()]), "mysql");
        assert_eq!(label(&["a\nb".into()]), "a b");
        assert_eq!(label(&["/".into()]), "/");
        assert_eq!(label(&["é".repeat(200).into()]).len(), 256);
        let told = |args: &[&str]| parse(&[&["a"], args].concat()).unwrap().wanted().ok().unwrap().label;
        assert_eq!(told(&["--", "make", "-j4"]), "make");
        assert_eq!(told(&["--label", "nightly\tbuild", "--", "make", "-j4"]), "nightly build");
        assert!(!told(&["-c", "echo secret"]).contains("secret"));
        for bad in ["", &"x".repeat(257)] {
            assert!(parse(&["a", "--label", bad]).err().unwrap().to_string().contains("a label has"));
        }
    }
}
