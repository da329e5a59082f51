//! The users of protocols, one module for each family: what the users do, measure and judge.

use baton_protocol::{ProcessId, Protocol};

use crate::world::Wire;

pub mod append;
pub mod detector;
pub mod election;
pub mod mutex;

/// The users of a protocol. They give commands, receive events, and judge the run.
pub trait Application<P: Protocol> {
    /// An action that a user plans for a later time.
    type Plan;

    /// The run begins.
    fn start(&mut self, wire: &mut Wire<P, Self::Plan>);
    /// The time of a plan of `process` has come. The process is up.
    fn carry_out(&mut self, process: ProcessId, plan: Self::Plan, wire: &mut Wire<P, Self::Plan>);
    /// The protocol at `process` emits an event for its user.
    fn event(&mut self, process: ProcessId, event: P::Event, wire: &mut Wire<P, Self::Plan>);
    /// An application message arrived at `process`.
    fn app_message(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process` has crashed. Plans that are due while it is down are not carried out.
    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process` has recovered. It may not be [ready](Wire::is_ready) yet.
    fn recovered(&mut self, process: ProcessId, wire: &mut Wire<P, Self::Plan>);
    /// `process` is ready for commands now. Called only if it was not ready when it recovered.
    fn ready(&mut self, _: ProcessId, _: &mut Wire<P, Self::Plan>) {}
    /// Whether the run can end, because no later event matters.
    fn finished(&self, wire: &Wire<P, Self::Plan>) -> bool;
    /// The completed part of the users' work, from 0 to 1. None if it is unknown.
    fn progress(&self) -> Option<f64> {
        None
    }
    /// The live processes break an invariant of the algorithm, after a step of `process`.
    fn broken_invariant(&mut self, process: ProcessId, detail: String, wire: &mut Wire<P, Self::Plan>) {
        let _ = (process, detail, wire);
    }
    /// A fault is about to strike.
    fn struck(&mut self, _: &mut Wire<P, Self::Plan>) {}
}
