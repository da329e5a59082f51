//! What happened on a link, for tests that must not pass without the faults that they ask for.

use std::ops::Add;

use crate::Direction;

/// What happened since the proxy was started. Each accepted connection is in exactly one of `open`, `refused`,
/// `unreachable`, `finished`, `cut`, `reset` and `broken`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub accepted: u64,
    /// Open now, with those that wait for the target.
    pub open: u64,
    /// Connections that came while the link was cut.
    pub refused: u64,
    /// The target could not be dialled. The dialling process got a reset.
    pub unreachable: u64,
    /// Both ends closed in good order.
    pub finished: u64,
    /// Closed by `cut`, `close` or `cut_after`.
    pub cut: u64,
    /// Reset by `reset`.
    pub reset: u64,
    /// Reset because one of the two ends did it.
    pub broken: u64,
    /// How many of `cut` were due to `cut_after`.
    pub cut_after: u64,
    /// How often a direction of an open connection was stopped by `hold` or `cut_one_way`.
    pub held: u64,
    /// Faults of the weather.
    pub faults: u64,
    /// Bytes that were passed on towards the target.
    pub forward_bytes: u64,
    /// Bytes that were passed on towards the dialling process.
    pub backward_bytes: u64,
}

impl Counters {
    pub(crate) fn passed(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Forward => self.forward_bytes += bytes,
            Direction::Backward => self.backward_bytes += bytes,
        }
    }
}

impl Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            accepted: self.accepted + other.accepted,
            open: self.open + other.open,
            refused: self.refused + other.refused,
            unreachable: self.unreachable + other.unreachable,
            finished: self.finished + other.finished,
            cut: self.cut + other.cut,
            reset: self.reset + other.reset,
            broken: self.broken + other.broken,
            cut_after: self.cut_after + other.cut_after,
            held: self.held + other.held,
            faults: self.faults + other.faults,
            forward_bytes: self.forward_bytes + other.forward_bytes,
            backward_bytes: self.backward_bytes + other.backward_bytes,
        }
    }
}
