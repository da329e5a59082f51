//! Makes the records of a trace. Simulator, stage, checker and peers all record through it, so a trace means the same
//! whoever drives the group.

use std::collections::HashMap;
use std::io::{self, Write};

use baton_protocol::ProcessId;
use baton_protocol::clock::LamportClock;

use crate::{Event, Header, Record, Writer};

/// Where records go.
pub trait Sink {
    fn put(&mut self, record: Record) -> io::Result<()>;
}

impl Sink for Vec<Record> {
    fn put(&mut self, record: Record) -> io::Result<()> {
        self.push(record);
        Ok(())
    }
}

impl<W: Write> Sink for Writer<W> {
    fn put(&mut self, record: Record) -> io::Result<()> {
        self.write(&record)
    }
}

/// Numbers the records, and counts entries and messages for the last one. Keeps Lamport clocks of its own for the
/// processes of the group, so that requests of every algorithm have a Lamport time.
#[derive(Debug)]
pub struct Recorder<S> {
    sink: S,
    next_seq: u64,
    entries: u64,
    messages: u64,
    clocks: Vec<LamportClock>,
    /// The Lamport time at which each message was sent.
    sent: HashMap<u64, u64>,
    /// The latest request of each process, of those that this recorder has numbered.
    requests: Vec<u64>,
    next_request: u64,
    /// The first error. After it nothing more is recorded.
    failed: Option<io::Error>,
}

impl<S: Sink> Recorder<S> {
    /// `processes`: how many processes have their clocks here. 0 for a member of a peer group, whose messages carry the
    /// Lamport times of their senders.
    pub fn new(sink: S, processes: usize) -> Self {
        Recorder {
            sink,
            next_seq: 0,
            entries: 0,
            messages: 0,
            clocks: vec![LamportClock::default(); processes],
            sent: HashMap::new(),
            requests: vec![0; processes],
            next_request: 0,
            failed: None,
        }
    }

    pub fn record(&mut self, t: f64, p: Option<ProcessId>, event: Event) {
        self.record_for(t, p, None, event);
    }

    /// Records an event of a member that runs several resources. The text of `resource` is the escaped form of its name.
    pub fn record_for(&mut self, t: f64, p: Option<ProcessId>, resource: Option<&str>, mut event: Event) {
        if let Some(p) = p {
            self.keep_clock(p, &mut event);
        }
        match event {
            Event::Enter { .. } => self.entries += 1,
            Event::Send { .. } => self.messages += 1,
            _ => {}
        }
        if self.failed.is_none() {
            let record = Record { seq: self.next_seq, t, p, resource: resource.map(str::to_owned), event };
            self.next_seq += 1;
            self.failed = self.sink.put(record).err();
        }
    }

    /// A number for the next request of `p`, which becomes its latest one.
    pub fn number_request(&mut self, p: ProcessId) -> u64 {
        self.requests[p] = self.next_request;
        self.next_request += 1;
        self.requests[p]
    }

    pub fn latest_request(&self, p: ProcessId) -> u64 {
        self.requests[p]
    }

    /// Number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// A request gets its Lamport time here.
    fn keep_clock(&mut self, p: ProcessId, event: &mut Event) {
        let Some(clock) = self.clocks.get_mut(p) else { return };
        match event {
            Event::Request { lamport, .. } => *lamport = clock.tick(),
            Event::Send { msg, .. } | Event::AppSend { msg, .. } => {
                self.sent.insert(*msg, clock.tick());
            }
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                clock.receive(self.sent.get(msg).copied().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Records the last event.
    fn end(&mut self, t: f64, reason: &str) {
        let (entries, messages) = (self.entries, self.messages);
        self.record(t, None, Event::End { reason: reason.into(), entries, messages });
    }
}

impl Recorder<Vec<Record>> {
    pub fn records(&self) -> &[Record] {
        &self.sink
    }

    /// All records, with the last one.
    pub fn finish(mut self, t: f64, reason: &str) -> Vec<Record> {
        self.end(t, reason);
        self.sink
    }
}

impl<W: Write> Recorder<Writer<W>> {
    /// Begins a trace. Wrap a file in a `BufWriter` first.
    pub fn begin(sink: W, header: &Header, processes: usize) -> io::Result<Self> {
        Ok(Recorder::new(Writer::new(sink, header)?, processes))
    }

    /// Flushes the sink. Returns the first error since the trace began.
    pub fn flush(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.sink.flush(),
        }
    }

    /// Writes the last record, and flushes the sink. Returns the first error since the trace began.
    pub fn finish(mut self, t: f64, reason: &str) -> io::Result<()> {
        self.end(t, reason);
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::header;

    fn send(msg: u64) -> Event {
        Event::Send { msg, to: 1, kind: "REQUEST".into(), bytes: 1, body: None }
    }

    #[test]
    fn requests_have_the_lamport_time_of_what_their_process_has_heard() {
        let mut recorder = Recorder::new(Vec::new(), 2);
        let first = recorder.number_request(0);
        recorder.record(0.0, Some(0), Event::request(first));
        recorder.record(0.0, Some(0), send(7));
        recorder.record(1.0, Some(1), Event::Deliver { msg: 7, from: 0, kind: "REQUEST".into() });
        let second = recorder.number_request(1);
        recorder.record(1.0, Some(1), Event::request(second));
        recorder.record(1.0, Some(1), Event::Enter { req: second, fence: 1 });
        let records = recorder.finish(2.0, "finished");
        let times: Vec<(u64, u64)> = records
            .iter()
            .filter_map(|record| match record.event {
                Event::Request { req, lamport } => Some((req, lamport)),
                _ => None,
            })
            .collect();
        assert_eq!(times, [(0, 1), (1, 4)]);
        assert_eq!(records[5].event, Event::End { reason: "finished".into(), entries: 1, messages: 1 });
        assert!(records.iter().map(|record| record.seq).eq(0..6));
    }

    #[test]
    fn the_first_error_is_reported_and_ends_the_trace() {
        /// Takes the header and one record.
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += usize::from(bytes == b"\n");
                if self.0 > 1 { Err(io::Error::other("the disk is full")) } else { Ok(bytes.len()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut recorder = Recorder::begin(Full(0), &header(), 0).unwrap();
        recorder.record_for(0.5, Some(9), Some("a"), Event::Crash);
        recorder.record(0.5, Some(9), Event::Crash);
        assert_eq!(recorder.next_seq(), 1);
        assert_eq!(recorder.finish(1.0, "limit").unwrap_err().to_string(), "the disk is full");
    }
}
