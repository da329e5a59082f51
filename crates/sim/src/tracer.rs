//! Writes the events of a world to a trace.

use std::io::{self, Write};

use baton_protocol::clock::LamportClock;
use baton_protocol::{ProcessId, Ticks};
use baton_trace::{Event, Header, Writer};
use rustc_hash::FxHashMap;

use crate::time::in_t;

/// Keeps Lamport clocks of its own, so that requests of every algorithm can be stamped.
pub struct Tracer {
    writer: Writer<Box<dyn Write>>,
    clocks: Vec<LamportClock>,
    /// The Lamport time at which each message was sent.
    sent: FxHashMap<u64, u64>,
    /// The first error. After an error nothing more is written.
    failed: Option<io::Error>,
}

impl Tracer {
    pub fn new(sink: Box<dyn Write>, header: &Header) -> io::Result<Self> {
        Ok(Tracer {
            writer: Writer::new(sink, header)?,
            clocks: vec![LamportClock::default(); header.processes],
            sent: FxHashMap::default(),
            failed: None,
        })
    }

    /// Writes that `process` requests, with its Lamport time.
    pub fn request(&mut self, now: Ticks, process: ProcessId, req: u64) {
        let lamport = self.clocks[process].tick();
        self.write(now, Some(process), Event::Request { req, lamport });
    }

    /// Writes any other event.
    pub fn write(&mut self, now: Ticks, process: Option<ProcessId>, event: Event) {
        if let Some(process) = process {
            self.keep_clocks(process, &event);
        }
        if self.failed.is_none() {
            self.failed = self.writer.write(in_t(now), process, event).err();
        }
    }

    fn keep_clocks(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Send { msg, .. } | Event::AppSend { msg, .. } => {
                self.sent.insert(*msg, self.clocks[process].tick());
            }
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                let sent = self.sent.get(msg).copied().unwrap_or_default();
                self.clocks[process].receive(sent);
            }
            _ => {}
        }
    }

    /// Ends the trace. Returns the first error of all writes.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }
}
