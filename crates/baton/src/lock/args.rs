//! The options of `baton lock`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use baton_client::Mode;
use baton_types::limits::{LABEL_BYTES_MAX, LOCK_DELAY_MS_MAX, PERMITS_MAX, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::name::Quoted;
use baton_types::sentences;

use crate::durations;
use crate::output::Failure;
use crate::service_args::{NameArgs, ServerArgs};

/// The environment variable with the owner of the lock, for the command. A nested `baton lock` has its own owner, with
/// this one as its parent.
pub const OWNER: &str = "BATON_OWNER";

/// Run a command while holding a lock
///
///   baton lock deploy -- ./migrate.sh --all   waits for the lock, runs the command
///   baton lock -n nightly -c 'make report'    gives up if the lock is held
///   baton lock deploy                         holds the lock until a signal comes
///
/// If the lock is lost, the command is ended before another client can get the
/// lock. All its processes get SIGTERM at min(5 s, TTL/3) before the deadline of
/// the lease, and SIGKILL at half of that time. docs/lock-command.md lists the few
/// processes that can escape.
///
/// The environment of the command has BATON_LOCK, BATON_FENCE, BATON_DEADLINE (in
/// seconds of CLOCK_BOOTTIME, as of the start), and BATON_OWNER, BATON_SERVER and
/// BATON_CLUSTER for a nested `baton lock`. Without a command, the fence is printed.
///
/// A TIME is a number with a unit (500ms, 5s, 2m, 1h), or a number of seconds. The
/// words (holder, lease, fence, ...) are explained in docs/glossary.md.
///
/// Exit status:
///   the command's; 128 + n if signal n ended it
///   1, or -E's   the lock was not acquired
///   2            bad input
///   69           no server opened a session; or, with -n, a peer group cannot say
///                whether the lock is free, or a cluster that began anew grants
///                nothing yet
///   74           the fence cannot be written to standard output
///   75           the lock was lost, and the command was ended
///   126          the command cannot be run, or `baton lock` cannot watch signals,
///                start its watchdog or get random numbers
///   127          the command was not found
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
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "TIME", value_parser = timeout)]
    #[arg(allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Hold one of PERMITS permits, 1 to 1000000; all users of the lock must name the same number
    #[arg(short = 'k', long, value_name = "PERMITS", value_parser = permits, allow_negative_numbers = true)]
    permits: Option<u32>,
    /// Time to live of the session, 1s to 24h: the server frees the lock after this long without a keep-alive
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = ttl, allow_negative_numbers = true)]
    ttl: Duration,
    /// Keep the lock closed for this long after the session expires, 0s to 1h
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = lock_delay, allow_negative_numbers = true)]
    lock_delay: Duration,
    /// When the command has ended by itself: how long processes that it left behind may go on before they get SIGTERM
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = linger, allow_negative_numbers = true)]
    linger: Duration,
    /// While waiting, say whom for; at a terminal this is the default
    #[arg(short, long)]
    verbose: bool,
    /// Say neither whom the wait is for, nor who holds a lock that was not acquired, nor which processes the command left behind
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Exit status if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1, value_parser = exit_status)]
    #[arg(allow_negative_numbers = true)]
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

/// The checked options. All checks that need no server are done.
pub struct Wanted<'a> {
    pub name: Vec<u8>,
    pub mode: Mode,
    /// How long to wait; none: without a limit.
    pub timeout: Option<Duration>,
    pub ttl: Duration,
    pub lock_delay: Duration,
    /// How long processes may go on after the command has ended by itself.
    pub linger: Duration,
    /// Say whom the wait is for.
    pub tells_wait: bool,
    /// Say nothing about who holds the lock.
    pub quiet: bool,
    /// The exit status if the lock is not acquired.
    pub conflict: u8,
    /// The owner of the `baton lock` that runs this one, if any.
    pub parent: Option<u64>,
    /// The program and its arguments; empty: hold the lock without a command.
    pub command: Vec<OsString>,
    pub label: String,
    pub server: &'a ServerArgs,
}

impl Args {
    pub fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        let command = self.command();
        // Most likely a variable in a script was empty. The user did not mean to hold the lock until a signal comes.
        if command.is_empty() && std::env::args_os().next_back().is_some_and(|last| last == "--") {
            return Err(Failure::bad_input(
                "there is no command after `--`; leave out `--` to hold the lock without a command",
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
            ttl: self.ttl,
            lock_delay: self.lock_delay,
            linger: self.linger,
            tells_wait: !self.quiet && (self.verbose || std::io::stderr().is_terminal()),
            quiet: self.quiet,
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

/// Parses the value of [`OWNER`].
fn owner(owner: OsString) -> Result<u64, Failure> {
    let digits = owner.to_str().filter(|text| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| {
        Failure::bad_input(format!("{OWNER} is {owner:?}; it must be 16 hexadecimal digits, or not set"))
    })
}

/// The default label: the name of the program, without its arguments, which may contain secrets.
fn label(command: &[OsString]) -> String {
    let program = command.first().map(|program| Path::new(program).file_name().unwrap_or(program).to_string_lossy());
    let label = program.map(|program| on_one_line(&program)).filter(|program| !program.is_empty());
    let label = label.unwrap_or_else(|| "baton lock".into());
    label[..label.floor_char_boundary(LABEL_BYTES_MAX)].to_owned()
}

/// Parses `--label`.
fn told_label(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("the label is empty; without --label it is the name of the program".into()),
        1..=LABEL_BYTES_MAX => Ok(on_one_line(text)),
        bytes => Err(sentences::long_label(bytes)),
    }
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn timeout(text: &str) -> Result<Duration, String> {
    durations::any("the timeout", text)
}

fn linger(text: &str) -> Result<Duration, String> {
    durations::any("--linger", text)
}

fn lock_delay(text: &str) -> Result<Duration, String> {
    durations::within("the lock-delay", text, Duration::ZERO..=Duration::from_millis(LOCK_DELAY_MS_MAX))
}

fn ttl(text: &str) -> Result<Duration, String> {
    durations::within("the time to live", text, Duration::from_millis(TTL_MS_MIN)..=Duration::from_millis(TTL_MS_MAX))
}

fn exit_status(text: &str) -> Result<u8, &'static str> {
    text.parse().map_err(|_| "the exit status must be a whole number from 0 to 255")
}

fn permits(text: &str) -> Result<u32, String> {
    whole(text, 1..=PERMITS_MAX).ok_or(format!("a lock must have from 1 to {PERMITS_MAX} permits"))
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
    fn durations_have_units_and_a_plain_number_is_seconds() {
        let wanted = |args: &[&str]| {
            let args = parse(&[&["a"], args].concat()).unwrap();
            let wanted = args.wanted().ok().unwrap();
            [wanted.timeout.unwrap_or_default(), wanted.ttl, wanted.lock_delay, wanted.linger]
                .map(|time| time.as_millis())
        };
        assert_eq!(
            wanted(&["-w", "500ms", "--ttl", "1.5", "--lock-delay", "2m", "--linger", "1h"]),
            [500, 1_500, 120_000, 3_600_000]
        );
        assert_eq!(
            wanted(&["-w", "0.3", "--ttl", "24h", "--lock-delay", "1h", "--linger", "7"]),
            [300, 86_400_000, 3_600_000, 7_000]
        );
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
        let timeout = "the timeout must be a duration, such as 500ms, 5s, 2m or 1h; a plain number is seconds";
        let lines: [(&[&str], &str); 10] = [
            (&["-w", "inf"], timeout),
            (&["-w", "-1"], timeout),
            (&["--ttl", "-1"], "the time to live must be from 1s to 24h; a plain number is seconds"),
            (&["--ttl", "999ms"], "the time to live must be from 1s to 24h; a plain number is seconds"),
            (
                &["--linger", "2d"],
                "--linger must be a duration, such as 500ms, 5s, 2m or 1h; a plain number is seconds",
            ),
            (&["-E", "256"], "the exit status must be a whole number from 0 to 255"),
            (&["-k", "-1"], "a lock must have from 1 to 1000000 permits"),
            (&["-k", "1000001"], "a lock must have from 1 to 1000000 permits"),
            (&["--lock-delay", "-1"], "the lock-delay must be from 0s to 1h; a plain number is seconds"),
            (&["--lock-delay", "NaN"], "the lock-delay must be from 0s to 1h; a plain number is seconds"),
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
            assert!(parse(&["a", "--label", bad]).err().unwrap().to_string().contains("the label "));
        }
    }
}
