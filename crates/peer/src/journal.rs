//! Writes the trace of one member, in the format of all drivers. `baton trace merge` makes one trace of the traces of
//! all members.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_protocol::ProcessId;
use baton_trace::{Event, Header, Network, Recorder, Unit, Writer};
use serde_json::json;
use tokio::time::Instant;

use crate::group::{MemberId, PeerGroup};
use crate::options::{Warning, Warnings};

/// The trace of this member. After a failed write it writes nothing more.
pub(crate) struct Journal {
    recorder: Option<Recorder<Writer<Held>>>,
    start: Instant,
    /// The names of the resources, by number.
    names: Vec<String>,
    warnings: Warnings,
}

impl Journal {
    /// Begins the trace. Times in the trace are seconds from now.
    pub fn new(group: &PeerGroup, me: MemberId, sink: Box<dyn Write + Send>, warnings: Warnings) -> Self {
        let mut journal = Journal { recorder: None, start: Instant::now(), names: Vec::new(), warnings };
        match Recorder::begin(Held { early: Some(Vec::new()), sink }, &header(group, me), 0) {
            Ok(recorder) => journal.recorder = Some(recorder),
            Err(error) => journal.fail(&error),
        }
        journal
    }

    /// The name of the next resource.
    pub fn name(&mut self, name: &[u8]) {
        self.names.push(baton_types::name::escaped(name));
    }

    pub fn write(&mut self, resource: u32, process: ProcessId, event: Event) {
        let Some(recorder) = &mut self.recorder else { return };
        let (t, name) = (self.start.elapsed().as_secs_f64(), self.names.get(resource as usize));
        recorder.record_for(t, Some(process), name.map(String::as_str), event);
        // The trace of a member that is killed must have everything that other members could see of it.
        if let Err(error) = recorder.flush() {
            self.fail(&error);
        }
    }

    /// The group is complete: writes to the sink what there is. A member that is killed before its first event has a
    /// trace, too; one that is refused leaves the file of its first life as it was.
    pub fn begin(&mut self) {
        if let Some(Err(error)) = self.recorder.as_mut().map(|recorder| recorder.sink_mut().sink_mut().begin()) {
            self.fail(&error);
        }
    }

    /// Writes the last event and flushes the trace.
    pub fn end(&mut self, reason: &str) {
        let t = self.start.elapsed().as_secs_f64();
        let ended = self.recorder.take().map(|recorder| recorder.finish(t, reason));
        if let Some(Err(error)) = ended {
            self.fail(&error);
        }
        // No more warnings come from here, even if a grant that is never left keeps the journal alive.
        self.warnings = Warnings(None);
    }

    fn fail(&mut self, error: &std::io::Error) {
        self.recorder = None;
        self.warnings.tell(Warning::TraceFailed(error.to_string()));
    }
}

/// A sink that gets nothing before the group is complete.
struct Held {
    /// What was written so far. None: the group is complete.
    early: Option<Vec<u8>>,
    sink: Box<dyn Write + Send>,
}

impl Held {
    fn begin(&mut self) -> std::io::Result<()> {
        self.sink.write_all(&self.early.take().unwrap_or_default())?;
        self.sink.flush()
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.early {
            Some(early) => early.write(bytes),
            None => self.sink.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.early.is_some() { Ok(()) } else { self.sink.flush() }
    }
}

fn header(group: &PeerGroup, me: MemberId) -> Header {
    // The start time helps to merge the traces of several members. A clock before 1970 gives 0, not an error.
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let notes = baton_trace::notes(json!({ "kind": "tcp", "started_unix_s": started_unix_s }));
    Header {
        network: Network { member: Some(me), notes, ..Network::default() },
        ..Header::new(group.about(), &group.params(), group.processes(), group.topology(), Unit::Seconds)
    }
}
