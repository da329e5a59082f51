//! The log of `baton serve`: structured lines on the standard error, for operators.
//!
//! One thread writes the lines, so that no other thread waits for a slow terminal or a full pipe. Lines that do not fit
//! into the queue are lost. (tracing-appender works alike. But if its queue is full at the end, it prints to the
//! standard output, and panics if the standard output is closed.)

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::output::Failure;

/// The longest queue of lines that wait for the writing thread.
const WAITING_MAX: usize = 4096;
/// At the end, how long to wait until the queued lines are written.
const LAST_LINES_MAX: Duration = Duration::from_millis(200);

/// The log. Dropping it waits until the queued lines are written, for at most [`LAST_LINES_MAX`].
pub struct Log(Lines);

#[derive(Clone)]
struct Lines(SyncSender<Message>);

enum Message {
    Line(Vec<u8>),
    /// The writing thread answers this when all earlier lines are written.
    Written(SyncSender<()>),
}

impl Log {
    /// Starts the log with the filter of `--log`, else of RUST_LOG, else `info`.
    pub fn begin(option: Option<&str>) -> Result<Self, Failure> {
        let environment = std::env::var("RUST_LOG").ok();
        let filter = filter(option, environment.as_deref()).map_err(Failure::bad_input)?;
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let write = move || {
            for message in waiting {
                // If the standard error is closed, the lines have no reader and may be lost.
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
        // A full queue means that the reader has stopped reading. Do not wait for it.
        if self.0.0.try_send(Message::Written(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES_MAX);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // If the queue is full, the line is lost.
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn filter(option: Option<&str>, environment: Option<&str>) -> Result<EnvFilter, String> {
    let environment = environment.filter(|filter| !filter.is_empty()).map(|filter| ("RUST_LOG", filter));
    let (source, said) = option.map(|filter| ("--log", filter)).or(environment).unwrap_or(("", "info"));
    let wrong = |why: &dyn Display| format!("{source} {said:?} is not a log filter: {why}; an example is info");
    let filter = match said.parse() {
        Ok(level) => of_the_server(level),
        Err(_) => match unknown_part(said).filter(|_| option.is_some()) {
            // The library would accept the filter and write no line.
            Some(part) => return Err(wrong(&format_args!("the server has no module {part:?}"))),
            None => said.to_owned(),
        },
    };
    EnvFilter::builder().parse(filter).map_err(|why| wrong(&why))
}

/// The first module in the filter that writes no lines.
fn unknown_part(filter: &str) -> Option<&str> {
    let parts = filter.split(',').map(|directive| directive.split(['=', '[', ':']).next().unwrap_or_default().trim());
    parts.into_iter().find(|part| !PARTS.contains(part) && part.parse::<LevelFilter>().is_err())
}

/// The modules that write lines: those of the server and the libraries that it uses.
const PARTS: [&str; 9] = ["baton", "baton_server", "openraft", "tonic", "h2", "hyper", "hyper_util", "tower", "mio"];

/// The filter for a level without a module. The level applies to the server. Libraries write only warnings and errors,
/// openraft only errors, because it warns of normal events of every first start. Its module `raft` says in its own words
/// why a call failed; the server says it in a sentence.
fn of_the_server(level: LevelFilter) -> String {
    let (libraries, raft) = (level.min(LevelFilter::WARN), level.min(LevelFilter::ERROR));
    format!("{libraries},openraft={raft},openraft::raft=off,baton={level},baton_server={level}")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);

    impl Write for Text {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The errors with these targets that a level lets through.
    fn written(level: &str) -> String {
        let (text, filter) = (Text::default(), filter(Some(level), None).unwrap());
        let lines = text.clone();
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || lines.clone());
        tracing::subscriber::with_default(subscriber.with_ansi(false).without_time().finish(), || {
            tracing::error!(target: "openraft::raft", "rx recv error");
            tracing::error!(target: "openraft::core::raft_core", "stopped");
            tracing::error!(target: "baton_server", "why");
        });
        String::from_utf8(text.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn no_error_of_a_call_to_openraft_stands_before_our_own_sentence() {
        let lines = "ERROR openraft::core::raft_core: stopped\nERROR baton_server: why\n";
        assert_eq!(written("info"), lines);
        assert!(written("openraft=error").contains("rx recv error"), "who asks for it gets it");
    }
}
