//! The state of the lock service: a pure, deterministic state machine. The log tells it what happens, it says what follows.
//!
//! It consists of modules, each in a folder of its own with its words, limits, records and views:
//!
//! - `sessions`: who is there, and that a request is applied once. They know nothing of what is requested.
//! - `locks`: claims, queues, fences.
//!
//! **Architecture invariant: no module knows another one but through its public functions.** A module is listed in the enums of
//! `words.rs` and `record.rs` and in [`State`]; the edge (`frontend/words.rs`) maps its words. Nothing else has to know it.
//!
//! What holds for all modules:
//!
//! - The state never decides by time. What has to happen after a while is told by effects; the leader arms a timer and proposes a
//!   command when it is over. Each such command names what it was armed for, and does nothing if that is no more.
//! - A request is applied once: its answer is kept until its client has seen it, and given again to a retry.
//! - Whatever the log says, the state neither panics nor keeps more than its limits. A panic here means that an index of
//!   our own is broken; it ends the process.
//! - **Bytes on disk outlive us**: the same entries must lead to the same state in every later version, since clients were told
//!   what followed from them. What would decide differently needs a new command.
//! - A clone takes no time: all maps are persistent. Whoever wants to look at the state takes a clone and stops nobody. (While
//!   a clone lives, the first change of a lock copies the line of its claims: about 10 ns for each.)

mod change;
mod ids;
mod limits;
pub mod locks;
mod record;
pub mod sessions;
mod turn;
mod views;
mod words;

pub use change::{Change, Outcome, What};
pub use ids::{OwnerId, RequestNumber, SessionId};
pub use locks::{HolderView, LockView, Standing, WaiterView};
pub use record::Record;
pub use views::{Counts, PendingTimers, SessionView};
pub use words::{Answer, Caller, Command, Effect, Entry, Operation, Principal, Request};

use locks::Locks;
use sessions::{Arrival, EndReason, Refusal, Sessions};
use turn::Turn;

/// The first revision, as etcd has it: that of a state in which nothing has changed yet.
const FIRST_REVISION: u64 = 1;

/// All there is.
///
/// Apply the commands of each committed entry in log order with [`State::apply`], at every node alike; two states that were
/// told the same are equal. The effects are for the node that leads: it sends the answers, arms and disarms the timers.
/// A process that begins to lead takes up the timers with [`State::pending_timers`] once its own `Lead` command is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    now_ms: u64,
    revision: u64,
    sessions: Sessions,
    locks: Locks,
}

impl Default for State {
    fn default() -> Self {
        State { now_ms: 0, revision: FIRST_REVISION, sessions: Sessions::default(), locks: Locks::default() }
    }
}

impl State {
    /// Applies a command of the entry at this index of the log, proposed at this time. Adds what follows to `outcome`, which is
    /// that of the whole entry.
    pub fn apply(&mut self, index: u64, now_ms: u64, command: &Command, outcome: &mut Outcome) {
        self.now_ms = self.now_ms.max(now_ms);
        let State { now_ms, revision, sessions, locks } = self;
        let mut turn = Turn { index, now_ms: *now_ms, revision, raised: false, sessions, outcome };
        match command {
            Command::Sessions(sessions::Command::Lead { term }) => turn.sessions.lead(*term),
            Command::Sessions(sessions::Command::Open(open)) => {
                if turn.open(open) {
                    locks.resumed(&mut turn, open.session);
                }
            }
            Command::Sessions(sessions::Command::Expire { session, term }) => {
                if turn.sessions.may_expire(*session, *term) {
                    end(&mut turn, locks, *session, EndReason::Expired);
                }
            }
            Command::Request(request) => apply_request(&mut turn, locks, request),
            Command::Locks(command) => locks.apply(&mut turn, command),
        }
    }

    /// Counts the commands that changed claims: one that entered or ended a claim raises it by one, however many it entered or
    /// ended. A grant to a waiter does not, nor does the end of a session without claims, nor that a holder is told to give its
    /// locks back. A snapshot of data format 1 has revision 1; what its log says after that counts.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether everything fits together, or a sentence about the first thing that does not. It looks at everything.
    pub fn check(&self) -> Result<(), String> {
        if !(FIRST_REVISION..=limits::COUNTER_MAX).contains(&self.revision) {
            return Err(format!("the revision is {}; it goes from {FIRST_REVISION} on", self.revision));
        }
        self.sessions.check()?;
        self.locks.check(self.revision)?;
        if let Some(id) = self.locks.sessions().find(|id| self.sessions.get(*id).is_none()) {
            return Err(format!("session {id} has claims, and is not there"));
        }
        for view in self.sessions() {
            let waits = view.claims().filter(|claim| !claim.holds()).map(|claim| claim.number);
            if !view.session.waiting().eq(waits) {
                return Err(format!("the requests of session {} that wait are not its claims that wait", view.id));
            }
            let mut holds = view.claims().filter(|claim| claim.holds()).map(|claim| claim.number);
            if let Some(number) = holds.find(|number| !view.session.is_answered(*number)) {
                return Err(format!("request {number} of session {} holds, and was never answered", view.id));
            }
        }
        Ok(())
    }
}

fn apply_request(turn: &mut Turn<'_>, locks: &mut Locks, request: &Request) {
    let (session, number) = (request.session, request.number);
    match turn.sessions.arrives(request) {
        Arrival::NoSession => turn.tell(Effect::Ended { session, reason: EndReason::Unknown }),
        Arrival::Known => {}
        Arrival::Answered(answer) => turn.tell(Effect::Answer { session, number, answer }),
        // Not kept: the number belongs to another request, or there is no room for the answer.
        Arrival::Refused(refusal) => turn.tell(Effect::Answer { session, number, answer: Answer::Refused(refusal) }),
        Arrival::Invalid(sentence) => turn.answer(session, number, Answer::Refused(Refusal::Invalid(sentence))),
        Arrival::New => match &request.operation {
            Operation::Close => {
                turn.tell(Effect::Answer { session, number, answer: Answer::Closed });
                end(turn, locks, session, EndReason::Closed);
            }
            Operation::Locks(operation) => locks.request(turn, session, number, operation),
        },
    }
}

/// The session ends, and with it all that it has in any module.
fn end(turn: &mut Turn<'_>, locks: &mut Locks, session: SessionId, reason: EndReason) {
    turn.tell(Effect::Ended { session, reason });
    locks.session_ends(turn, session, reason);
    turn.end(session);
}
