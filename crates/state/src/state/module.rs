//! What a module of the state is. The list of modules is in `baton_types::modules!`.
//!
//! The state itself knows sessions, requests and the cluster; see [`State`](super::State). Everything that clients use is
//! in a module. A module has this half in the state, and another half in the front end (`frontend/modules.rs`).
//!
//! A module keeps itself small in memory and on disk: it checks each operation against its own limits, and the front end
//! has done so before. Words that are on disk (commands, operations, answers, records) only ever get new variants at
//! their ends: see `format`.

use std::fmt::Debug;

use super::locks::Grants;
use super::sessions::{EndReason, Sessions};
use super::turn::Turn;
use super::words::Fingerprint;
use super::{RequestNumber, SessionId};

pub(in crate::state) trait Module: Clone + Debug + Default + PartialEq {
    /// A change that no session asks for: a call, or the end of a timer.
    type Command;
    /// What a session may ask for.
    type Operation;
    type Answer;
    /// An action for the leader.
    type Effect;
    /// A change to watch.
    type What;
    type Record;
    /// A timer that runs at the leader. Its order is the one in which timers of the same time end.
    type Timer: Ord;

    /// The first data format that has the module. An older node cannot read its words, so the leader does not propose
    /// them before all members read this format.
    const FORMAT: u8;
    /// What the one record is, in words, that every snapshot must have; none if an empty module has no record. A module
    /// that is newer than format 2 has none: older nodes read snapshots without it.
    const HEAD: Option<&'static str> = None;

    /// Applies a command.
    fn apply(&mut self, turn: &mut Turn<'_>, command: &Self::Command);

    /// Handles a request that has come for the first time and is valid. The module answers it now, or later.
    fn request(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, operation: &Self::Operation);

    /// The session was opened or resumed.
    fn resumed(&self, turn: &mut Turn<'_>, session: SessionId);

    /// The session ends: nothing of it may stay.
    fn session_ends(&mut self, turn: &mut Turn<'_>, session: SessionId, reason: EndReason);

    /// The cluster begins anew, and leases of before may still run: nothing is granted until [`Module::opens`].
    fn closes(&mut self) {}

    /// All leases of before have ended.
    fn opens(&mut self, _: &mut Turn<'_>) {}

    /// Every later fence is at least this one.
    fn raise_fences(&mut self, _: u64) {}

    /// All records. Equal modules give equal records in the same order.
    fn records(&self) -> impl Iterator<Item = Self::Record> + '_;

    /// Adds a record. The consistency of all records is checked at the end.
    fn restore(&mut self, record: Self::Record) -> Result<(), String>;

    /// After the last record: derives what is in no record. `is_closed`: the cluster grants nothing now.
    fn restored(&mut self, _is_closed: bool) {}

    /// Whether this is the record that [`Module::HEAD`] names.
    fn is_head(_: &Self::Record) -> bool {
        false
    }

    /// Checks everything. Returns a sentence about the first inconsistency. A snapshot is outside input: if it passes
    /// here, it causes no panic later.
    fn check(&self, beside: &Beside<'_>) -> Result<(), String>;

    /// The requests of the session that the module will answer later, in the order of their numbers.
    fn owed(&self, session: SessionId) -> Vec<RequestNumber>;

    /// The timers that run now, with their full times in milliseconds. A new leader arms them again.
    fn timers(&self) -> impl Iterator<Item = (Self::Timer, u64)> + '_;

    /// The timer that an effect arms, and its time in milliseconds. It replaces the timers from
    /// [`first`](Module::first) to itself.
    fn armed_by(effect: &Self::Effect) -> Option<(Self::Timer, u64)>;

    /// The first of the timers that this one replaces; usually itself.
    fn first(timer: &Self::Timer) -> Self::Timer;

    /// The request of the timer, if it belongs to one. The timer then ends when the request is answered, or its session
    /// ends.
    fn request_of(timer: &Self::Timer) -> Option<(SessionId, RequestNumber)>;

    /// The command that the leader proposes at the end of the timer. It names what the timer was armed for, and does
    /// nothing if that no longer exists.
    fn at_end_of(timer: Self::Timer) -> Self::Command;

    /// Whether the command comes from a timer.
    fn is_of_timer(command: &Self::Command) -> bool;

    /// Fails with a sentence if a request of this number cannot have this operation. The sentence is part of a kept
    /// answer, so it must never change.
    fn check_operation(operation: &Self::Operation, number: RequestNumber) -> Result<(), String>;

    /// Whether the operation gives something back. It is never refused because space is low, and a session with too many
    /// requests may still ask for it.
    fn frees(operation: &Self::Operation) -> bool;

    /// Adds all fields to the hash: see [`Operation::fingerprint`](super::Operation::fingerprint).
    fn fingerprint(operation: &Self::Operation, hash: &mut Fingerprint);

    /// The answer as this version keeps it, in few bytes. An older version may have kept more.
    fn shortened(answer: Self::Answer) -> Self::Answer {
        answer
    }
}

/// What a module may look at when it checks itself.
pub(in crate::state) struct Beside<'a> {
    /// Whether the state or a peer group grants: see [`State::check_by`](super::State::check_by).
    pub grants: Grants,
    pub revision: u64,
    pub sessions: &'a Sessions,
}
