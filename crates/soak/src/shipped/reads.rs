//! Somebody looks at nodes, and reads at them. The reads are linearizable: each sees all that was applied before it began, and
//! lists all that clients held before and still hold.

use std::collections::BTreeSet;

use baton_server::replica::Replica;
use baton_state::listing::{self, ListLocks, Moment};
use baton_state::state::{SessionId, State};

use super::super::clock::Micros;
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::Heard;

/// Somebody reads at some node so often.
pub(super) const LOOKS_EVERY: Micros = 100 * MS;

/// A read that has succeeded.
pub(super) struct Read {
    /// The node had applied the entries up to this one.
    applied: u64,
    /// All entries up to this one were applied somewhere before the read began.
    since: u64,
    /// What clients believed to hold when it began.
    held: BTreeSet<Hold>,
    /// What the reader sees.
    state: State,
}

/// A hold of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    lock: String,
    session: SessionId,
    fence: u64,
}

/// All holders, as a user sees them, page by page.
fn listed(state: &State) -> Result<BTreeSet<Hold>, String> {
    let moment = Moment { now_ms: 0, expires_in_ms: &|_| 0 };
    let (mut request, mut holds) = (ListLocks::default(), BTreeSet::new());
    loop {
        let page = listing::locks(state, &moment, &request);
        let page = page.map_err(|_| "a listing refuses its own token".to_owned())?;
        for lock in page.items {
            let name = String::from_utf8_lossy(&lock.name).into_owned();
            let hold = |(session, fence)| Hold { lock: name.clone(), session: SessionId(session), fence };
            holds.extend(lock.holders.iter().map(|holder| (holder.session, holder.fence)).map(hold));
        }
        if page.next.is_empty() {
            return Ok(holds);
        }
        request.page = page.next;
    }
}

impl World {
    /// Looks at a node, and reads there. A read that succeeds has all that was applied before it began.
    pub(in super::super) fn look(&mut self) -> Result<(), String> {
        let node = self.rng.usize(..self.nodes.len());
        self.after(LOOKS_EVERY, WorldEvent::Look);
        self.judge_limits()?;
        let running = self.shipped.as_ref().and_then(|shipped| shipped.node(node));
        let Some(running) = running.filter(|_| self.nodes[node].is_up) else { return Ok(()) };
        let applied = running.status().applied;
        self.judge_state(applied, &running.state())
            .map_err(|()| format!("node {node} has another state than that of the log up to entry {applied}"))?;
        self.read_at(node);
        Ok(())
    }

    /// Somebody reads at a node, if it leads.
    pub(super) fn read_at(&self, node: NodeId) {
        let Some(shipped) = &self.shipped else { return };
        let Some(running) = shipped.node(node) else { return };
        let (ears, since) = (shipped.ears.clone(), shipped.judged.keys().next_back().copied().unwrap_or(0));
        let held = self.held();
        shipped.spawn(node, async move {
            if Replica::read_index(&*running).await {
                let (applied, state) = (running.status().applied, running.state());
                let read = Box::new(Read { applied, since, held, state });
                ears.tell(Heard::Read { node, read });
            }
        });
    }

    /// What clients believe to hold, except what a forced release has taken from them.
    fn held(&self) -> BTreeSet<Hold> {
        let all = self.clients.iter().flat_map(|client| client.believes(self.now));
        let untouched = all.filter(|hold| !self.oracle.is_taken(hold.asked));
        untouched.map(|hold| Hold { lock: hold.lock.to_owned(), session: hold.asked.0, fence: hold.fence }).collect()
    }

    /// A read sees all that was applied before it began, and nothing else than the log says.
    pub(super) fn judge_read(&mut self, node: NodeId, read: &Read) -> Result<(), String> {
        let Read { applied, since, held, state } = read;
        self.takes_effect("a read succeeds");
        if applied < since {
            return Err(format!(
                "a read at node {node} sees the entries up to {applied}, and entry {since} was applied before it began"
            ));
        }
        self.judge_state(*applied, state).map_err(|()| {
            format!("a read at node {node} sees another state than that of the log up to entry {applied}")
        })?;
        let (listed, now) = (listed(state)?, self.held());
        let mut all = held.intersection(&now).peekable();
        if all.peek().is_some() {
            self.takes_effect("a listing has what clients hold");
        }
        match all.find(|hold| !listed.contains(hold)) {
            Some(hold) => Err(format!("a client has {hold:?}, and a listing at node {node} does not have it")),
            None => Ok(()),
        }
    }

    /// The state of any node, at any time, is what the entries that it has applied say: also after it has read its own
    /// snapshot, or has got one of another node.
    fn judge_state(&self, applied: u64, state: &State) -> Result<(), ()> {
        let Some(shipped) = &self.shipped else { return Ok(()) };
        let right = shipped.judged.range(..=applied).next_back().map(|(_, judged)| &judged.state);
        if right.unwrap_or(&State::default()) == state { Ok(()) } else { Err(()) }
    }
}
