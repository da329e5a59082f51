//! What a leader makes the cluster agree on: its secret, the longest TTL, a floor for the fences, and that it leads.
//!
//! The node puts these commands before the first `Lead` that it proposes, so that no session is older than they are. A
//! cluster that is being upgraded gets them later, once all members read their data format. Every `Lead` comes with a
//! `Leads`, which names the node: the feed of changes begins with the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_runtime::sleep;
use baton_types::limits::TTL_MS_MAX_OF_NEW;
use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;

use super::group::Group;
use super::machine::Shared;
use super::types::Encoded;
use crate::clock;
use crate::state::cluster::{self, Secret};
use crate::state::feed::Leader;
use crate::state::{Command, Entry, State};

/// The first data format with these commands.
const SINCE: u8 = 3;
/// The first data format with `Leads`.
const LEADS_SINCE: u8 = 4;

/// How often the node looks whether the cluster has agreed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the operator of this node wants of its cluster, when the node leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The longest TTL of sessions that begin. None: it stays as it is.
    pub max_ttl_ms: Option<u64>,
    /// No later fence is below this one.
    pub fence_from: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Governing {
    wishes: Wishes,
    /// For a cluster that has no secret yet.
    secret: Secret,
    /// The cluster has agreed on everything but the feed, which needs a newer data format.
    has_agreed: AtomicBool,
}

impl Governing {
    pub fn new(wishes: Wishes) -> std::io::Result<Arc<Governing>> {
        Ok(Arc::new(Governing { wishes, secret: draw_secret()?, has_agreed: AtomicBool::new(false) }))
    }

    /// The commands change nothing where the cluster has agreed already.
    fn commands(&self) -> Vec<Command> {
        let Wishes { max_ttl_ms, fence_from } = self.wishes;
        let found = cluster::Command::Found { secret: self.secret.clone(), max_ttl_ms: TTL_MS_MAX_OF_NEW };
        let set = max_ttl_ms.map(|max_ttl_ms| cluster::Command::SetMaxTtl { max_ttl_ms });
        let raise = fence_from.map(|from| cluster::Command::RaiseFences { from });
        [Some(found), set, raise].into_iter().flatten().map(Command::from).collect()
    }

    fn has_agreed_in(&self, state: &State) -> bool {
        let Wishes { max_ttl_ms, fence_from } = self.wishes;
        state.cluster().secret().is_some()
            && max_ttl_ms.is_none_or(|wanted| wanted == state.cluster().max_ttl_ms())
            && fence_from.is_none_or(|from| state.last_fence() + 1 >= from)
    }

    /// The entry of a `Lead`, with the commands before it if the cluster may need them. `format` is the newest data
    /// format that all members read.
    pub fn before_lead(&self, entry: Entry, leader: Leader, format: u8) -> Entry {
        let agreed =
            if self.has_agreed.load(Ordering::Relaxed) || format < SINCE { Vec::new() } else { self.commands() };
        let leads = (format >= LEADS_SINCE).then(|| cluster::Command::Leads(leader).into());
        Entry { commands: agreed.into_iter().chain(leads).chain(entry.commands).collect(), ..entry }
    }

    /// Looks until the cluster has agreed, and proposes the commands again while this node leads.
    pub async fn go_on(self: Arc<Self>, group: Group, shared: Shared) {
        loop {
            sleep(LOOK_EVERY).await;
            let led_in = {
                let replica = shared.read();
                if self.has_agreed_in(&replica.state) {
                    self.has_agreed.store(true, Ordering::Relaxed);
                    if replica.state.feed().is_on() {
                        return;
                    }
                }
                replica.state.term()
            };
            let leads = {
                let metrics = group.raft.metrics();
                let seen = metrics.borrow_watched();
                seen.state == ServerState::Leader && seen.current_term == led_in
            };
            let leader = Leader { node: group.id(), name: group.own_name().into(), term: led_in };
            let nothing = Entry { now_ms: clock::wall_ms(), commands: Vec::new() };
            let entry = self.before_lead(nothing, leader, group.peers.common_format());
            // It is empty while a member does not read the next command.
            if leads && !entry.commands.is_empty() {
                // If it is lost, the next turn proposes it again.
                let _ = group.raft.client_write(Encoded::from(entry)).await;
            }
        }
    }
}

/// A secret that nobody can guess.
pub(crate) fn draw_secret() -> std::io::Result<Secret> {
    Ok(Secret(baton_runtime::random_bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Outcome, sessions};

    fn lead() -> Entry {
        Entry { now_ms: 1, commands: vec![sessions::Command::Lead { term: 1 }.into()] }
    }

    fn leader() -> Leader {
        Leader { node: 7, name: "a".into(), term: 1 }
    }

    fn after(entry: &Entry) -> State {
        let mut state = State::default();
        entry.commands.iter().for_each(|command| state.apply(1, 1, command, &mut Outcome::default()));
        state
    }

    #[test]
    fn the_first_lead_brings_the_secret_and_what_the_operator_wants() {
        let wishes = Wishes { max_ttl_ms: Some(5_000), fence_from: Some(100) };
        let governing = Governing::new(wishes).unwrap();
        let state = after(&governing.before_lead(lead(), leader(), LEADS_SINCE));
        assert_eq!((state.cluster().secret(), state.cluster().max_ttl_ms()), (Some(&governing.secret), 5_000));
        assert_eq!((state.last_fence(), state.term()), (99, 1));
        assert!(governing.has_agreed_in(&state));
    }

    #[test]
    fn a_member_that_does_not_read_the_commands_gets_none() {
        let governing = Governing::new(Wishes::default()).unwrap();
        let entry = governing.before_lead(lead(), leader(), SINCE - 1);
        assert_eq!(entry, lead());
        let older = after(&governing.before_lead(lead(), leader(), LEADS_SINCE - 1));
        assert!(governing.has_agreed_in(&older) && !older.feed().is_on());
        assert!(!governing.has_agreed_in(&after(&entry)));
        // While an older member is there, a cluster that has agreed gets nothing again and again.
        governing.has_agreed.store(true, Ordering::Relaxed);
        let nothing = Entry { now_ms: 1, commands: Vec::new() };
        assert!(governing.before_lead(nothing, leader(), LEADS_SINCE - 1).commands.is_empty());
    }

    #[test]
    fn the_front_end_hears_only_of_its_lead() {
        let governing = Governing::new(Wishes::default()).unwrap();
        let entry = governing.before_lead(lead(), leader(), LEADS_SINCE);
        assert_eq!((entry.commands.len(), entry.of_frontend()), (3, lead().commands.first()));
        assert_eq!(after(&entry).feed().leader().map(|leader| leader.node), Some(7));
        assert_eq!(Entry { now_ms: 1, commands: governing.commands() }.of_frontend(), None);
        let twice = Entry { now_ms: 1, commands: [lead().commands, lead().commands].concat() };
        assert_eq!(twice.of_frontend(), None, "a version that proposed several commands at once is gone");
    }
}
