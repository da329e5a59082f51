//! The users of protocols, one kind for each family: what they do, what they measure and how they judge.

use baton_protocol::{ProcessId, Protocol};

use crate::world::Wire;

pub mod append;
pub mod detector;
pub mod election;
pub mod mutex;

/// The users of a protocol: they give commands, hear events, and judge what they see.
pub trait Application<P: Protocol> {
    /// Something that a user plans to do at some later time.
    type Plan;

    /// The world begins.
    fn start(&mut self, wire: &mut Wire<P, Self::Plan>);
    /// The time for a plan of `process` has come; it is alive.
    fn carry_out(&mut self, process: ProcessId, plan: Self::Plan, wire: &mut Wire<P, Self::Plan>);
    /// The protocol tells the user of `process` something.
    fn event(&mut self, process: ProcessId, event: P::Event, wire: &mut Wire<P, Self::Plan>);
    /// An application message has arrived at `process`.
    fn app_message(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process` has crashed. Its plans are void.
    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process` runs again. It may not be [ready](Wire::is_ready) yet.
    fn recovered(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process`, which runs again, is ready for commands, and was not when it recovered.
    fn ready(&mut self, _: ProcessId, _: &mut Wire<P, Self::Plan>) {}
    /// Nothing that can still happen matters.
    fn finished(&self, wire: &Wire<P, Self::Plan>) -> bool;
    /// Which part of what the users want is done, from 0 to 1, if anybody can say.
    fn progress(&self) -> Option<f64> {
        None
    }
    /// A fault is about to strike.
    fn struck(&mut self, _: &mut Wire<P, Self::Plan>) {}
}
