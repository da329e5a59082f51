//! Writes the trace of one member, in the format of all drivers. The traces of all members together describe the run.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_protocol::ProcessId;
use baton_trace::{Event, Header, Network, Unit, Writer};
use serde_json::json;
use tokio::time::Instant;

use crate::group::PeerGroup;
use crate::options::{Warning, Warnings};

/// The trace of this member. Without a sink it writes nothing.
pub(crate) struct Journal {
    writer: Option<Writer<Box<dyn Write + Send>>>,
    me: ProcessId,
    start: Instant,
    warnings: Warnings,
}

impl Journal {
    /// Begins the trace. Times in the trace are seconds from now.
    pub fn new(group: &PeerGroup, me: ProcessId, sink: Option<Box<dyn Write + Send>>, warnings: Warnings) -> Self {
        let mut journal = Journal { writer: None, me, start: Instant::now(), warnings };
        match sink.map(|sink| Writer::new(sink, &header(group, me))).transpose() {
            Ok(writer) => journal.writer = writer,
            Err(error) => journal.fail(error),
        }
        journal
    }

    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Writes the event. Makes the event only if there is a trace.
    pub fn write(&mut self, event: impl FnOnce() -> Event) {
        if let Some(writer) = &mut self.writer {
            let t = self.start.elapsed().as_secs_f64();
            if let Err(error) = writer.write(t, Some(self.me), event()) {
                self.fail(error);
            }
        }
    }

    /// Writes the last event and flushes the trace.
    pub fn end(&mut self, event: impl FnOnce() -> Event) {
        self.write(event);
        if let Some(Err(error)) = self.writer.as_mut().map(Writer::flush) {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: std::io::Error) {
        self.writer = None;
        self.warnings.tell(Warning::TraceFailed(error.to_string()));
    }
}

fn header(group: &PeerGroup, me: ProcessId) -> Header {
    // The start time helps people to compare the traces of several members. A clock before 1970 gives 0, not an error.
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let notes = baton_trace::notes(json!({ "kind": "tcp", "started_unix_s": started_unix_s }));
    Header {
        network: Network { order: None, member: Some(me), notes },
        ..Header::new(group.about(), &group.params(), group.processes(), group.topology(), Unit::Seconds)
    }
}
