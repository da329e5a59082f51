//! The whole lock service in virtual time: the front end and the state that ship, the sessions of the client library, and an
//! abstract log between them. Everything goes wrong that may: leaders change, restart, pause, or do not know yet that they
//! lead no more; proposals are refused; clients pause or do not read; streams break; messages are late, lost and repeated;
//! clocks drift; disks are full; limits are reached; releases are forced; thieves try to take up sessions. Then
//! everything is healed, and every client must be served.
//!
//! What is judged ([`oracle`]):
//! - No two believed holds overlap, until the deadline of a client that was told of a loss. Holds that a forced release took at
//!   once are exempt from that moment on, and only they.
//! - No client believes in a session that has ended, and no session begins twice.
//! - Fences grow, also those of permits. A lock is granted in the order of the requests, as soon as it is free, and not
//!   before its lock-delay is over.
//! - A repeated request is answered as before. A request that the log has is never refused by the front end.
//! - What a client says that it has seen it has seen.
//! - A forced release names the holders that it hit. A release that comes after it ends no other hold.
//! - A request is refused as a deadlock if and only if it would wait for itself, also by way of parents and children.
//! - A live stream never gives way to an earlier one. No limit is exceeded.
//! - After healing every waiter is served, every client gets one lock more, and in the end nothing is held, awaited or kept.
//!
//! One seed is one run. [`Broken`] breaks a rule on purpose, so that the tests can see the oracle bite.

pub mod client;
pub mod clock;
mod deadlock;
mod faults;
mod lines;
pub mod log;
mod node;
pub mod oracle;
mod story;
mod user;
pub mod world;

#[cfg(test)]
mod tests;

use baton_client::session::MARGIN_SHARE;

/// What is to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of all randomness.
    pub seed: u64,
    /// How many clients; drawn from the seed if none is said.
    pub clients: Option<usize>,
    /// A rule to break.
    pub broken: Option<Broken>,
    /// Whether to tell the story of the run.
    pub story: bool,
}

/// The most clients that make sense.
pub const CLIENTS_MAX: usize = 64;

impl Options {
    /// The service as it is.
    pub fn new(seed: u64) -> Self {
        Options { seed, clients: None, broken: None, story: false }
    }

    /// How much each clock's rate may be off: two that differ as far as this allows stay within the client's margin.
    fn drift(&self) -> f64 {
        let within = 0.45 / MARGIN_SHARE as f64;
        if self.broken == Some(Broken::Drift) { 5.0 * within } else { within }
    }
}

/// A rule that the service does not keep in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Clocks differ by more than the client's margin allows for.
    Drift,
    /// A keep-alive is acknowledged at once, by whoever believes to lead.
    NoRound,
    /// Whoever begins to lead gives sessions a part of their leases only.
    LeasesNotAnew,
}

/// How a run came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoakReport {
    /// Which run.
    pub seed: u64,
    /// What must not be, if it was.
    pub violation: Option<String>,
    /// How often a client began to believe in a lock.
    pub grants: u64,
    /// How many requests the front end refused by itself: low space, limits.
    pub refusals: u64,
    /// How many forced releases named the holders that they hit.
    pub forced: u64,
    /// How many holds were taken at once by a forced release.
    pub taken: u64,
    /// How many requests were refused as deadlocks.
    pub deadlocks: u64,
    /// How many thieves were turned away.
    pub thefts: u64,
    /// How many entries were committed.
    pub entries: u64,
    /// How many things happened.
    pub events: u64,
    /// What happened, if it was to be told.
    pub story: Vec<String>,
}

/// Runs one seed.
pub fn run(options: Options) -> SoakReport {
    let mut world = world::World::new(options);
    let violation = world.run().err();
    SoakReport {
        seed: options.seed,
        violation,
        grants: world.oracle.grants,
        refusals: world.oracle.refusals,
        forced: world.oracle.forced_judged,
        taken: world.oracle.taken,
        deadlocks: world.oracle.deadlocks(),
        thefts: world.thefts,
        entries: world.log.committed.len() as u64,
        events: world.events,
        story: world.story.unwrap_or_default(),
    }
}
