//! The log of `baton serve`: structured lines on the standard error, about what an operator should know.
//!
//! A thread of its own writes them, so that no other one waits for a terminal or a pipe that is full. Lines that do not fit are
//! lost. (tracing-appender does that, too, but if its queue is full at the end it prints to the standard output, and panics if
//! that is closed.)

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::output::Failure;

/// Lines that may wait for the writing thread.
const WAITING_MAX: usize = 4096;
/// How long the last lines have to be written.
const LAST_LINES_MAX: Duration = Duration::from_millis(200);

/// The log. When it is dropped, the lines that wait are written, unless that takes too long.
pub struct Log(Lines);

#[derive(Clone)]
struct Lines(SyncSender<Message>);

enum Message {
    Line(Vec<u8>),
    /// All lines before it are written.
    Written(SyncSender<()>),
}

impl Log {
    /// Begins to write what `--log` says, or else the environment.
    pub fn begin(option: Option<&str>) -> Result<Self, Failure> {
        let environment = std::env::var("RUST_LOG").ok();
        let filter = filter(option, environment.as_deref()).map_err(Failure::bad_input)?;
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let write = move || {
            for message in waiting {
                // If the standard error is closed, nobody reads what is written.
                let _ = match message {
                    Message::Line(line) => io::stderr().write_all(&line).is_ok(),
                    Message::Written(done) => done.send(()).is_ok(),
                };
            }
        };
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        thread.map_err(|error| Failure::bad_input(format!("cannot start a thread for the log: {error}")))?;
        let log = Log(Lines(sender));
        let lines = log.0.clone();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || lines.clone()).with_ansi(false).init();
        Ok(log)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // A queue that is full is one that nobody reads.
        if self.0.0.try_send(Message::Written(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES_MAX);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Without room for it, the line is lost.
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The filter that the option asks for, or else the environment.
fn filter(option: Option<&str>, environment: Option<&str>) -> Result<EnvFilter, String> {
    let environment = environment.filter(|filter| !filter.is_empty()).map(|filter| ("RUST_LOG", filter));
    let (source, said) = option.map(|filter| ("--log", filter)).or(environment).unwrap_or(("", "info"));
    let wrong = |why: &dyn Display| format!("{source} {said:?} is no filter for the log: {why}; say info, for example");
    let filter = match said.parse() {
        Ok(level) => of_the_server(level),
        Err(_) => match unknown_part(said).filter(|_| option.is_some()) {
            // The library would write nothing at all.
            Some(part) => return Err(wrong(&format_args!("the server has no part {part:?}"))),
            None => said.to_owned(),
        },
    };
    EnvFilter::builder().parse(filter).map_err(|why| wrong(&why))
}

/// The first part of the program that the filter names and that writes no lines.
fn unknown_part(filter: &str) -> Option<&str> {
    let parts = filter.split(',').map(|directive| directive.split(['=', '[', ':']).next().unwrap_or_default().trim());
    parts.into_iter().find(|part| !PARTS.contains(part) && part.parse::<LevelFilter>().is_err())
}

/// The parts of the program that write lines: the server, and the libraries under it.
const PARTS: [&str; 9] = ["baton", "baton_service", "openraft", "tonic", "h2", "hyper", "hyper_util", "tower", "mio"];

/// A level alone is about the server: of the libraries under it only warnings matter to an operator. Those of openraft do not: it
/// warns in its own words of what happens at every first start.
fn of_the_server(level: LevelFilter) -> String {
    let (libraries, raft) = (level.min(LevelFilter::WARN), level.min(LevelFilter::ERROR));
    format!("{libraries},openraft={raft},baton={level},baton_service={level}")
}
