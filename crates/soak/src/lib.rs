//! The whole lock service in virtual time, for `baton soak`: the real front end and state of the server, the real
//! sessions of the client library, and groups of one, three and five nodes with a simulated Raft ([`model`]) between
//! them. Clients connect to any node; a follower carries their streams to the leader.
//!
//! The simulator injects all faults that the service must survive: leaders change, restart, pause, or do not know yet
//! that they are deposed; nodes are cut off from the others, in one direction or in both; messages are late, lost and
//! repeated; proposals are refused; entries that are not synced are lost; clients pause or do not read; streams break;
//! clocks drift; disks are full; limits are reached; operators force releases; thieves try to resume sessions. Then the
//! simulator heals everything, and every client must be served.
//!
//! What the oracle checks ([`oracle`]):
//! - No two holds that clients believe in overlap. A client that learns of a loss may believe in its hold until the
//!   deadline. Holds that a forced release took at once are exempt from that moment on, and only they.
//! - No client believes in a session that has ended, and no session begins twice.
//! - Fences grow, also those of permits. A lock is granted in the order of the requests, as soon as it is free, and not
//!   before its lock-delay is over.
//! - A repeated request gets the same answer as before. The front end never refuses a request that is in the log.
//! - A client reports only answers as seen that it has seen.
//! - A forced release names the holders that it hit. A later release by such a holder ends no other hold.
//! - A request is refused as a deadlock if and only if it would wait for itself, also by way of parents and children.
//! - A live stream is never replaced by an earlier one. No stream outlives the term of its leader. No limit is exceeded.
//! - The simulated Raft keeps its own promises: one leader a term, and one log.
//! - After healing, every waiter is served and every client gets one more lock. In the end there are no holders, no
//!   waiters and no sessions.
//!
//! One seed is one run. [`Broken`] breaks a rule on purpose, so that tests can check that the oracle notices.

mod agenda;
mod carry;
pub mod client;
pub mod clock;
#[cfg(feature = "test-module")]
pub mod counter;
mod deadlock;
mod diagram;
pub mod effects;
mod faults;
mod lines;
pub mod model;
mod modules;
mod node;
pub mod oracle;
mod peers;
mod shipped;
mod story;
mod user;
mod words;
pub mod world;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use baton_client::session::MARGIN_SHARE;
pub use shipped::Most;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The seed of all randomness.
    pub seed: u64,
    /// The number of clients. None: the seed decides.
    pub clients: Option<usize>,
    /// The number of nodes. None: the seed decides.
    pub nodes: Option<usize>,
    pub engine: Engine,
    /// The run stops at this time of the simulation, served or not. None: it goes on to its end.
    pub stop_at: Option<Duration>,
    /// A rule to break on purpose.
    pub broken: Option<Broken>,
    /// Whether to record the story of the run.
    pub story: bool,
    /// Whether to draw the run.
    pub diagram: bool,
    /// Whether to record all bytes between the nodes of the shipped engine.
    pub trace: bool,
}

/// Upper limit for the number of clients.
pub const CLIENTS_MAX: usize = 64;
/// Upper limit for the number of nodes.
pub const NODES_MAX: usize = 7;

impl Options {
    /// The service with all its rules.
    pub fn new(seed: u64) -> Self {
        Options {
            seed,
            clients: None,
            nodes: None,
            engine: Engine::Model,
            stop_at: None,
            broken: None,
            story: false,
            diagram: false,
            trace: false,
        }
    }

    /// How much each clock's rate may be off. Two clocks that differ by the most that this allows are still within the
    /// client's margin.
    fn drift(&self) -> f64 {
        let within = 0.45 / MARGIN_SHARE as f64;
        if self.broken == Some(Broken::Drift) { 5.0 * within } else { within }
    }
}

/// What replicates the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The node that ships, with openraft and everything around it, on disks in memory.
    Raft,
    /// A small Raft of the simulator, which is faster.
    #[default]
    Model,
}

/// A rule that the service breaks in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Clocks differ by more than the client's margin.
    Drift,
    /// Any node that believes to be the leader acknowledges a keep-alive at once, without asking the other nodes.
    NoRound,
    /// A new leader gives sessions only a part of their leases.
    LeasesNotAnew,
    /// A follower acknowledges the keep-alives of the streams that it carries, instead of the leader.
    FollowerAcknowledges,
    /// When the leader changes, a follower carries its streams on to the next leader.
    StreamOutlivesTerm,
    /// A follower goes on to carry its streams to a leader that it knows to be deposed.
    CarriesToDeposed,
    /// A node leads as soon as it is elected, before its own first entry is applied.
    LeadSkipped,
}

impl Broken {
    pub const ALL: [Broken; 7] = [
        Broken::Drift,
        Broken::NoRound,
        Broken::LeasesNotAnew,
        Broken::FollowerAcknowledges,
        Broken::StreamOutlivesTerm,
        Broken::CarriesToDeposed,
        Broken::LeadSkipped,
    ];
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoakReport {
    pub seed: u64,
    pub violation: Option<String>,
    /// How often a client began to believe in a lock.
    pub grants: u64,
    /// How many requests the front end refused by itself, for low space or limits.
    pub refusals: u64,
    /// How many forced releases named the holders that they hit.
    pub forced: u64,
    /// How many holds a forced release took at once.
    pub taken: u64,
    /// How many requests were refused as deadlocks.
    pub deadlocks: u64,
    /// How many thieves were refused.
    pub thefts: u64,
    /// How many terms had a leader.
    pub terms: u64,
    /// How many streams a follower carried to the leader.
    pub carried: u64,
    /// How many log entries were committed.
    pub entries: u64,
    /// How many events the simulator processed.
    pub events: u64,
    /// The most tasks, connections and waiting entries of a node of the shipped engine.
    pub most: Most,
    /// What the faults of the shipped engine have done, and how often.
    pub effects: BTreeMap<effects::Effect, u64>,
    /// The story of the run, if the options ask for it.
    pub story: Vec<String>,
    /// Holders, faults and leaders over time, as SVG, if the options ask for it.
    pub diagram: Option<String>,
    /// All bytes between the nodes of the shipped engine, with the moments and the connections, if the options ask for it.
    pub trace: Vec<u8>,
}

pub fn run(options: Options) -> SoakReport {
    report(&mut world::World::new(options))
}

fn report(world: &mut world::World) -> SoakReport {
    let violation = world.run().err();
    world.mark(|| violation.clone().unwrap_or_else(|| diagram::NO_VIOLATION.to_owned()));
    SoakReport {
        seed: world.options.seed,
        violation,
        grants: world.oracle.grants,
        refusals: world.oracle.refusals,
        forced: world.oracle.forced_judged,
        taken: world.oracle.taken,
        deadlocks: world.oracle.deadlocks(),
        thefts: world.thefts,
        terms: world.leaders.len() as u64,
        carried: world.carried,
        entries: world.entries,
        events: world.events,
        most: world.most(),
        effects: world.took_effect(),
        diagram: world.draw(),
        trace: world.traced(),
        story: world.story.take().unwrap_or_default(),
    }
}
