//! The watched side of failure detection: a process that sends beats.

use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::{Input, Message, Outbox, Picture, ProcessId, Protocol, Start, Ticks};

/// Sends a beat to all other processes every `period`. Only this half is a [`Protocol`]; the watching half, a
/// [`Detector`](super::Detector), needs a clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Beater {
    me: ProcessId,
    n: usize,
    period: Ticks,
}

/// The sender is alive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Beat;

impl Message for Beat {
    fn kind(&self) -> &'static str {
        "BEAT"
    }
}

/// Time for the next beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period;

/// A beat of the named process has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard(pub ProcessId);

impl Beater {
    pub fn new(me: ProcessId, n: usize, period: Ticks) -> Self {
        Beater { me, n, period }
    }

    fn others(&self) -> impl Iterator<Item = ProcessId> + use<> {
        let me = self.me;
        (0..self.n).filter(move |&other| other != me)
    }
}

impl Protocol for Beater {
    type Message = Beat;
    type Timer = Period;
    type Command = Infallible;
    type Event = Heard;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Fresh | Start::Recovered) | Input::Timer(Period) => {
                out.multicast(self.others(), Beat);
                out.set_timer(Period, self.period);
            }
            Input::Message { from, .. } => out.emit(Heard(from)),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new().field("period", self.period).set("beats to", self.others())
    }
}
