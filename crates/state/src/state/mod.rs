//! The state of the lock service: a pure, deterministic state machine. It applies the commands of the log, and returns
//! effects.
//!
//! The state itself knows two parts: `sessions` (the open sessions, and that a request is applied once) and `cluster` (the
//! secret, the longest TTL, and how long nothing is granted). Everything that clients use is in a module (`module.rs`),
//! which has words, limits, records and views of its own:
//!
//! - `locks`: claims, queues, fences.
//! - `feed`: the newest changes of all modules.
//!
//! **Architecture invariant: what applies commands, keeps records and runs timers names no module**; the list of modules does
//! (`baton_types::modules!`). What reads the state for people is a part of the module.
//!
//! What holds for all parts:
//!
//! - The state never decides by time. It emits an effect for whatever must happen later. The leader then arms a timer,
//!   and proposes a command when the timer ends. The command names what the timer was armed for, and does nothing if
//!   that no longer exists.
//! - A request is applied once: the state keeps its answer until the client has seen it, and gives the same answer to a
//!   retry.
//! - Whatever the log contains, the state neither panics nor keeps more than its limits. A panic here means that one of
//!   our own indices is broken; it ends the process.
//! - **Bytes on disk outlive us**: the same entries must lead to the same state in every later version, because clients
//!   have received the answers. A different decision needs a new command. The texts of `Invalid` are part of the kept
//!   answers, so they must not change either. Only labels and names in an answer may be cut: see
//!   `locks::limits::CYCLE_BYTES_MAX`.
//! - A clone is cheap, because all maps are persistent (shared). A reader takes a clone, and blocks no other thread.
//!   So are the lines of claims, so the work of a command does not grow with the line that it changes.

mod change;
pub mod cluster;
#[cfg(feature = "test-module")]
pub mod counter;
pub mod feed;
mod ids;
mod limits;
pub mod locks;
mod module;
mod modules;
mod record;
pub mod sessions;
mod turn;
mod views;
mod words;

use std::collections::BTreeMap;

pub use change::{Cause, Change, Held, Outcome};
pub use ids::{OwnerId, RequestNumber, SessionId};
pub use locks::{HolderView, LockView, Standing, WaiterView};
pub use modules::{Answer, Command, Effect, Operation, Record, Timer, What};
pub use views::{Counts, PendingTimers, SessionView};
pub use words::{Caller, Entry, Principal, Request};

use cluster::{Cluster, Consequence};
use feed::{Feed, Member};
use locks::Grants;
use module::Beside;
use modules::Modules;
use sessions::{Arrival, EndReason, Refusal, Sessions};
use turn::Turn;

/// The revision of a state in which nothing has changed yet. etcd begins with 1, too.
const FIRST_REVISION: u64 = 1;

/// The whole replicated state.
///
/// Apply the commands of each committed entry in log order with [`State::apply`], on every node in the same way. Two
/// states that applied the same entries are equal. The effects are for the leader: it sends the answers, and arms and
/// disarms the timers. A new leader takes over the timers with [`State::pending_timers`] once its own `Lead` command is
/// applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    now_ms: u64,
    revision: u64,
    sessions: Sessions,
    cluster: Cluster,
    feed: Feed,
    modules: Modules,
}

impl Default for State {
    fn default() -> Self {
        State {
            now_ms: 0,
            revision: FIRST_REVISION,
            sessions: Sessions::default(),
            cluster: Cluster::default(),
            feed: Feed::default(),
            modules: Modules::default(),
        }
    }
}

impl State {
    /// Applies a command of the entry at `index`, which was proposed at `now_ms`. Adds effects and changes to
    /// `outcome`, which collects them for the whole entry.
    pub fn apply(&mut self, index: u64, now_ms: u64, command: &Command, outcome: &mut Outcome) {
        self.apply_by(Grants::ByState, index, now_ms, command, outcome);
    }

    /// Like [`State::apply`]. `grants` says who grants the locks; it is the same for all commands of a state.
    pub fn apply_by(&mut self, grants: Grants, index: u64, now_ms: u64, command: &Command, outcome: &mut Outcome) {
        self.now_ms = self.now_ms.max(now_ms);
        let first = outcome.changes.len();
        if let Command::Cluster(cluster::Command::Leads(leader)) = command {
            self.feed.leads(index, leader, outcome);
        }
        let State { now_ms, revision, sessions, cluster, feed, modules } = self;
        let (is_kept, now_ms) = (feed.is_on(), *now_ms);
        let mut turn = Turn { index, now_ms, grants, is_kept, revision, raised: false, sessions, outcome };
        match command {
            Command::Sessions(sessions::Command::Lead { term }) => turn.sessions.lead(*term),
            Command::Sessions(sessions::Command::Open(open)) => {
                if turn.open(open, cluster.max_ttl_ms()) {
                    modules.resumed(&mut turn, open.session);
                }
            }
            Command::Sessions(sessions::Command::Expire { session, term }) => {
                if turn.sessions.may_expire(*session, *term) {
                    end(&mut turn, modules, *session, EndReason::Expired);
                }
            }
            Command::Request(request) => apply_request(&mut turn, modules, request),
            Command::Cluster(command) => {
                if let cluster::Command::BeginAnew { .. } = command {
                    // The positions of before are of another cluster.
                    *feed = Feed::default();
                }
                apply_to_cluster(&mut turn, modules, cluster, command);
            }
            of_module => modules.apply(&mut turn, of_module),
        }
        feed.keep(now_ms, &outcome.changes[first..]);
    }

    /// The entry at `index` has this membership. The caller also gives the membership after the entry that begins the
    /// feed.
    pub fn members_are(&mut self, index: u64, members: BTreeMap<u64, Member>, outcome: &mut Outcome) {
        let first = outcome.changes.len();
        self.feed.members_are(index, members, outcome);
        self.feed.keep(self.now_ms, &outcome.changes[first..]);
    }

    /// The newest changes.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The same state without the secret of the cluster and without its changes, for a copy that leaves the cluster.
    pub fn without_secret(&self) -> State {
        let mut state = self.clone();
        state.cluster.forget_secret();
        state.feed = Feed::default();
        state
    }

    /// Counts the commands that began or ended a claim. Such a command raises the revision by one, however many claims
    /// it began or ended. Not counted: a grant to a waiter, the end of a session without claims, and a revocation.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Checks everything. Returns a sentence about the first inconsistency.
    pub fn check(&self) -> Result<(), String> {
        self.check_by(Grants::ByState)
    }

    /// Like [`State::check`], for a state to which commands were [applied](State::apply_by) in this way.
    pub fn check_by(&self, grants: Grants) -> Result<(), String> {
        if !(FIRST_REVISION..=limits::COUNTER_MAX).contains(&self.revision) {
            return Err(format!("the revision is {}; it must be at least {FIRST_REVISION}", self.revision));
        }
        self.cluster.check()?;
        self.feed.check()?;
        self.sessions.check()?;
        self.modules.check(&Beside { grants, revision: self.revision, sessions: &self.sessions })?;
        for (id, session) in self.sessions.from(SessionId(0)) {
            if !session.waiting().eq(self.modules.owed(id)) {
                return Err(format!("the waiting requests of session {id} differ from its waiting claims"));
            }
        }
        Ok(())
    }
}

fn apply_request(turn: &mut Turn<'_>, modules: &mut Modules, request: &Request) {
    let (session, number) = (request.session, request.number);
    match turn.sessions.arrives(request) {
        Arrival::NoSession => turn.tell(Effect::Ended { session, reason: EndReason::Unknown }),
        Arrival::Known => {}
        Arrival::Answered(answer) => turn.tell(Effect::Answer { session, number, answer }),
        // The refusal is not kept: the number belongs to another request, or the session has no room for an answer.
        Arrival::Refused(refusal) => turn.tell(Effect::Answer { session, number, answer: Answer::Refused(refusal) }),
        Arrival::Invalid(sentence) => turn.answer(session, number, Answer::Refused(Refusal::Invalid(sentence))),
        Arrival::New => match &request.operation {
            Operation::Close => {
                turn.tell(Effect::Answer { session, number, answer: Answer::Closed });
                end(turn, modules, session, EndReason::Closed);
            }
            _ => modules.request(turn, session, number, &request.operation),
        },
    }
}

fn apply_to_cluster(turn: &mut Turn<'_>, modules: &mut Modules, cluster: &mut Cluster, command: &cluster::Command) {
    let longest_ttl_ms = match command {
        cluster::Command::BeginAnew { .. } => turn.sessions.longest_ttl_ms(),
        _ => 0,
    };
    match cluster.apply(command, turn.sessions.is_untouched(), longest_ttl_ms) {
        Consequence::Nothing => {}
        Consequence::Anew { fence_from, left_ms } => {
            modules.raise_fences(fence_from);
            modules.closes();
            let sessions: Vec<SessionId> = turn.sessions.from(SessionId(0)).map(|(id, _)| id).collect();
            sessions.into_iter().for_each(|session| end(turn, modules, session, EndReason::Expired));
            turn.tell(cluster::Effect::Closed { left_ms });
            if left_ms == 0 {
                modules.opens(turn);
            }
        }
        Consequence::FencesFrom(from) => modules.raise_fences(from),
        Consequence::Closed { left_ms } => {
            turn.tell(cluster::Effect::Closed { left_ms });
            if left_ms == 0 {
                modules.opens(turn);
            }
        }
    }
}

/// Ends the session in all modules.
fn end(turn: &mut Turn<'_>, modules: &mut Modules, session: SessionId, reason: EndReason) {
    turn.tell(Effect::Ended { session, reason });
    let held = turn.is_kept.then(|| modules.locks.held_by(session));
    modules.session_ends(turn, session, reason);
    turn.end(session, reason, held);
}
