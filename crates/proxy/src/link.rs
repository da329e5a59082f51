//! What the proxy does now, with all its connections. Pure.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::plan::Fault;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the dialling process to the target.
    Forward,
    /// From the target to the dialling process.
    Backward,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// How late bytes arrive. Each chunk has a delay of its own between `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    pub min: Duration,
    pub max: Duration,
}

impl Delay {
    /// `draw` is between 0 and 1.
    pub(crate) fn at(&self, draw: f64) -> Duration {
        self.min.saturating_add(self.max.saturating_sub(self.min).mul_f64(draw))
    }
}

impl From<RangeInclusive<Duration>> for Delay {
    fn from(range: RangeInclusive<Duration>) -> Self {
        Delay { min: *range.start(), max: *range.end() }
    }
}

/// What the proxy does now. The default passes all bytes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    pub delay: Delay,
    /// Bytes towards the target wait.
    pub hold_forward: bool,
    /// Bytes towards the dialling process wait.
    pub hold_backward: bool,
    /// There is no connection, and new ones are refused.
    pub cut: bool,
}

impl Conditions {
    pub fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.hold_forward,
            Direction::Backward => self.hold_backward,
        }
    }

    pub(crate) fn hold(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.hold_forward = true,
            Direction::Backward => self.hold_backward = true,
        }
    }

    /// Nothing passes in either direction.
    pub(crate) fn is_silent(&self) -> bool {
        self.hold_forward && self.hold_backward
    }

    fn and(&self, other: &Conditions) -> Conditions {
        let delay = Delay {
            min: self.delay.min.saturating_add(other.delay.min),
            max: self.delay.max.saturating_add(other.delay.max),
        };
        Conditions {
            delay,
            hold_forward: self.hold_forward || other.hold_forward,
            hold_backward: self.hold_backward || other.hold_backward,
            cut: self.cut || other.cut,
        }
    }
}

/// Why a connection ends before both of its ends have closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Cut,
    CutAfter,
    Reset,
    /// One of the two ends reset it, or cannot be written to.
    Broken,
}

/// The closes and resets that had happened when a connection was accepted. Later ones end the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Birth {
    closes: u64,
    resets: u64,
}

/// How many of its bytes a connection may pass on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    Bytes(usize),
    Cut,
}

/// A limit from `cut_after`. The first connection with bytes takes it. If that connection ends before the limit is
/// used up, the next connection takes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    bytes_left: u64,
    connection: Option<u64>,
}

/// Everything that the connections of a proxy obey. Commands and weather have conditions of their own, so that the
/// end of a random fault does not undo a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    commanded: Conditions,
    weather: Conditions,
    weathers: u64,
    births: Birth,
    limits: [Option<Limit>; 2],
}

impl Link {
    pub(crate) fn conditions(&self) -> Conditions {
        self.commanded.and(&self.weather)
    }

    pub(crate) fn commanded(&self) -> Conditions {
        self.commanded
    }

    pub(crate) fn set(&mut self, conditions: Conditions) {
        if conditions.cut {
            self.close();
        }
        self.commanded = conditions;
    }

    pub(crate) fn close(&mut self) {
        self.births.closes += 1;
    }

    pub(crate) fn reset(&mut self) {
        self.births.resets += 1;
    }

    pub(crate) fn cut_after(&mut self, direction: Direction, bytes: u64) {
        self.limits[direction as usize] = Some(Limit { bytes_left: bytes, connection: None });
    }

    pub(crate) fn heal(&mut self) {
        *self = Link { births: self.births, weathers: self.weathers + 1, ..Link::default() };
    }

    /// Returns the number of this weather. Faults of earlier weathers change nothing from now on.
    pub(crate) fn start_weather(&mut self, delay: Delay) -> u64 {
        self.weathers += 1;
        self.weather = Conditions { delay, ..Conditions::default() };
        self.weathers
    }

    /// Returns false if this weather is over.
    pub(crate) fn begin(&mut self, weather: u64, fault: Fault) -> bool {
        if weather != self.weathers {
            return false;
        }
        match fault {
            Fault::Cut => {
                self.close();
                self.weather.cut = true;
            }
            Fault::Reset => self.reset(),
            Fault::CutAfter(direction, bytes) => self.cut_after(direction, bytes),
            Fault::Hold => Direction::BOTH.into_iter().for_each(|direction| self.weather.hold(direction)),
            Fault::CutOneWay(direction) => self.weather.hold(direction),
        }
        true
    }

    pub(crate) fn end(&mut self, weather: u64) {
        if weather == self.weathers {
            self.weather = Conditions { delay: self.weather.delay, ..Conditions::default() };
        }
    }

    /// What a new connection must remember, or `None` if it is refused.
    pub(crate) fn accept(&self) -> Option<Birth> {
        (!self.conditions().cut).then_some(self.births)
    }

    /// Whether a connection must end now.
    pub(crate) fn fate(&self, birth: Birth) -> Option<End> {
        match () {
            () if birth.resets != self.births.resets => Some(End::Reset),
            () if birth.closes != self.births.closes => Some(End::Cut),
            () => None,
        }
    }

    pub(crate) fn has_limit(&self, direction: Direction) -> bool {
        self.limits[direction as usize].is_some()
    }

    /// A connection asks before it passes bytes on. It takes the limit, if no other connection has it.
    pub(crate) fn allow(&mut self, connection: u64, direction: Direction, bytes: usize) -> Allowance {
        let slot = &mut self.limits[direction as usize];
        match slot {
            Some(limit) if limit.connection.is_none_or(|owner| owner == connection) => {
                limit.connection = Some(connection);
                if limit.bytes_left == 0 {
                    *slot = None;
                    return Allowance::Cut;
                }
                Allowance::Bytes(bytes.min(usize::try_from(limit.bytes_left).unwrap_or(usize::MAX)))
            }
            _ => Allowance::Bytes(bytes),
        }
    }

    /// A connection has passed bytes on. Returns true if it must be cut now.
    pub(crate) fn passed(&mut self, connection: u64, direction: Direction, bytes: usize) -> bool {
        let slot = &mut self.limits[direction as usize];
        let Some(limit) = slot.as_mut().filter(|limit| limit.connection == Some(connection)) else { return false };
        limit.bytes_left = limit.bytes_left.saturating_sub(bytes as u64);
        let used_up = limit.bytes_left == 0;
        if used_up {
            *slot = None;
        }
        used_up
    }

    /// A connection has ended, and leaves its limits to the next one.
    pub(crate) fn leave(&mut self, connection: u64) {
        for limit in self.limits.iter_mut().flatten() {
            limit.connection = limit.connection.filter(|&owner| owner != connection);
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
