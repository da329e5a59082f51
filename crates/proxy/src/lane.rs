//! One direction of one connection: the bytes that are inside the proxy, and what to do next. Pure; the time is an
//! argument.

use std::collections::VecDeque;
use std::time::Duration;

use crate::link::{Conditions, Direction};
use crate::mix;

pub(crate) const CHUNK_BYTES_MAX: usize = 16 << 10;
pub(crate) const CHUNKS_MAX: usize = 64;

/// What was read at once. A chunk without bytes is the end of the stream.
struct Chunk {
    arrived: Duration,
    /// Between 0 and 1: where in the range of delays this chunk is. The range may change while the chunk waits.
    draw: f64,
    bytes: Vec<u8>,
    written: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Write(&'a [u8]),
    /// The sender has closed its end and all its bytes are written.
    Finish,
    /// Nothing to write, until a time if there is one.
    Rest(Option<Duration>),
}

pub(crate) struct Lane {
    direction: Direction,
    random: fastrand::Rng,
    chunks: VecDeque<Chunk>,
    ended: bool,
    held: bool,
}

impl Lane {
    /// The same seed, number of the connection and direction give the same delays, chunk by chunk.
    pub(crate) fn new(seed: u64, connection: u64, direction: Direction) -> Lane {
        let purpose = connection.wrapping_mul(2).wrapping_add(direction as u64);
        let random = fastrand::Rng::with_seed(mix(seed, purpose));
        Lane { direction, random, chunks: VecDeque::new(), ended: false, held: false }
    }

    /// While this is false the lane does not read, so that TCP stops the sender.
    pub(crate) fn reads(&self, conditions: &Conditions) -> bool {
        !self.ended && !conditions.holds(self.direction) && self.chunks.len() < CHUNKS_MAX
    }

    /// No bytes: the sender has closed its end.
    pub(crate) fn arrived(&mut self, now: Duration, bytes: &[u8]) {
        debug_assert!(!self.ended && self.chunks.len() < CHUNKS_MAX && bytes.len() <= CHUNK_BYTES_MAX);
        self.ended = bytes.is_empty();
        let draw = self.random.f64();
        self.chunks.push_back(Chunk { arrived: now, draw, bytes: bytes.to_vec(), written: 0 });
    }

    /// Only the first chunk can be written, so a short delay does not overtake a long one.
    pub(crate) fn decide(&self, now: Duration, conditions: &Conditions) -> Step<'_> {
        let Some(first) = self.chunks.front() else { return Step::Rest(None) };
        let due = first.arrived.saturating_add(conditions.delay.at(first.draw));
        match () {
            () if conditions.holds(self.direction) => Step::Rest(None),
            () if due > now => Step::Rest(Some(due)),
            () if first.bytes.is_empty() => Step::Finish,
            () => Step::Write(&first.bytes[first.written..]),
        }
    }

    pub(crate) fn wrote(&mut self, bytes: usize) {
        let Some(first) = self.chunks.front_mut() else { return };
        first.written += bytes;
        debug_assert!(first.written <= first.bytes.len());
        if first.written >= first.bytes.len() {
            self.chunks.pop_front();
        }
    }

    /// Returns true once for each time that this direction is stopped.
    pub(crate) fn is_newly_held(&mut self, conditions: &Conditions) -> bool {
        let before = std::mem::replace(&mut self.held, conditions.holds(self.direction));
        self.held && !before
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
