//! The servers that a client knows: those that the user named, and leaders that followers named. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_types::cluster_id::ClusterId;

use crate::pin::{By, Pin};

/// How many leaders the client remembers besides the servers that the user named. A further one replaces the oldest.
const LEARNT_MAX: usize = 4;
/// How long the client does not go to a leader that it could not reach.
const AVOIDED: Duration = Duration::from_secs(10);

/// A server has a number: its place in the list. The list is never empty.
#[derive(Debug)]
pub(crate) struct Known {
    /// The servers that the user named, then the learnt ones.
    addresses: Vec<String>,
    named: usize,
    /// How many leaders were learnt so far.
    learnt: usize,
    /// The servers that could not be reached, and until when the client avoids them.
    avoided: BTreeMap<usize, Instant>,
    /// The leader, if the client has reached one and it has not failed since.
    leader: Option<usize>,
    /// The cluster of all sessions.
    pin: Option<Pin>,
}

impl Known {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        Known { named: addresses.len(), addresses, learnt: 0, avoided: BTreeMap::new(), leader: None, pin: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }

    /// How many servers the user named. They come first.
    pub(crate) fn named(&self) -> usize {
        self.named
    }

    /// The server of a turn, which may be any number.
    pub(crate) fn server(&self, turn: usize) -> usize {
        turn % self.addresses.len()
    }

    pub(crate) fn address(&self, turn: usize) -> &str {
        &self.addresses[self.server(turn)]
    }

    /// The server to try after this one. Passes over learnt servers that were not reached lately: their addresses may
    /// be of no use to this client, or of no use any more. The servers that the user named always get their turn.
    pub(crate) fn next(&self, turn: usize, now: Instant) -> usize {
        let count = self.addresses.len();
        let turns = (1..=count).map(|step| (self.server(turn) + step) % count);
        let mut usable = turns.filter(|&server| server < self.named || !self.is_avoided(server, now));
        // There is always one, because the user named at least one server.
        usable.next().unwrap_or_default()
    }

    /// A follower at `turn` named this leader. Returns the server to go to; none if the client is there already, or
    /// could not reach it lately.
    pub(crate) fn learn(&mut self, turn: usize, address: &str, now: Instant) -> Option<usize> {
        let server = match self.addresses.iter().position(|known| known == address) {
            Some(server) => server,
            None => {
                let server = self.named + self.learnt % LEARNT_MAX;
                self.learnt += 1;
                match self.addresses.get_mut(server) {
                    Some(oldest) => address.clone_into(oldest),
                    None => self.addresses.push(address.to_owned()),
                }
                self.avoided.remove(&server);
                self.leader = self.leader.filter(|leader| *leader != server);
                server
            }
        };
        (server != self.server(turn) && !self.is_avoided(server, now)).then_some(server)
    }

    /// The client has reached the leader.
    pub(crate) fn leads(&mut self, server: usize) {
        self.avoided.remove(&server);
        self.leader = Some(server);
    }

    /// The cluster of all sessions, once a session is open or the user has named it.
    pub(crate) fn pin(&self) -> Option<&Pin> {
        self.pin.as_ref()
    }

    /// The user says that the servers must belong to this cluster.
    pub(crate) fn pin_by_user(&mut self, cluster: ClusterId) {
        self.pin = Some(Pin { cluster, by: By::User });
    }

    /// The server of this turn says that it belongs to this cluster. `named` is what a follower has said of it. A server
    /// of another cluster is avoided for a while. The error is a sentence.
    pub(crate) fn belongs(
        &mut self,
        turn: usize,
        named: Option<&Pin>,
        cluster: Option<ClusterId>,
        now: Instant,
    ) -> Result<(), String> {
        let address = self.address(turn);
        let checked = named.into_iter().chain(&self.pin).try_for_each(|pin| pin.check(address, cluster));
        checked.inspect_err(|_| self.unreachable(self.server(turn), now))
    }

    /// Like [`belongs`](Known::belongs), when the server opens a session. The first one decides to which cluster all
    /// servers must belong.
    pub(crate) fn opened(
        &mut self,
        turn: usize,
        named: Option<&Pin>,
        cluster: Option<ClusterId>,
        now: Instant,
    ) -> Result<(), String> {
        self.belongs(turn, named, cluster, now)?;
        if let (None, Some(cluster)) = (&self.pin, cluster) {
            self.pin = Some(Pin { cluster, by: By::Session(self.address(turn).to_owned()) });
        }
        Ok(())
    }

    /// Where a new session should begin.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// A server gave no answer, or its connection broke.
    pub(crate) fn failed(&mut self, turn: usize, now: Instant) {
        let server = self.server(turn);
        self.leader = self.leader.filter(|leader| *leader != server);
        if server >= self.named {
            self.avoided.insert(server, now + AVOIDED);
        }
    }

    /// A leader could not be reached at the address that a follower named.
    pub(crate) fn unreachable(&mut self, server: usize, now: Instant) {
        self.failed(server, now);
        self.avoided.insert(server, now + AVOIDED);
    }

    fn is_avoided(&self, server: usize, now: Instant) -> bool {
        self.avoided.get(&server).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known::new(vec!["a:1".to_owned(), "b:2".to_owned()])
    }

    #[test]
    fn a_leader_that_the_user_named_keeps_its_place_and_another_one_is_added() {
        let (mut known, now) = (known(), Instant::now());
        assert_eq!(known.learn(0, "b:2", now), Some(1));
        assert_eq!(known.learn(3, "b:2", now), None, "the client is there");
        assert_eq!(known.learn(0, "c:3", now), Some(2));
        assert_eq!(known.learn(0, "c:3", now), Some(2));
        assert_eq!((known.count(), known.address(5)), (3, "c:3"));
        assert_eq!([0, 1, 2].map(|turn| known.next(turn, now)), [1, 2, 0]);
    }

    #[test]
    fn a_learnt_server_that_fails_is_passed_over_for_a_while_and_a_named_one_never() {
        let (mut known, now) = (known(), Instant::now());
        known.learn(0, "c:3", now);
        (0..3).for_each(|server| known.failed(server, now));
        assert_eq!([0, 1, 2].map(|turn| known.next(turn, now)), [1, 0, 0]);
        assert_eq!(known.learn(0, "c:3", now), None);
        assert_eq!(known.learn(0, "b:2", now), Some(1), "a follower has just heard of it");
        let later = now + AVOIDED;
        assert_eq!(known.next(1, later), 2);
        assert_eq!(known.learn(0, "c:3", later), Some(2));
    }

    #[test]
    fn a_leader_that_cannot_be_reached_is_not_tried_again_for_a_while() {
        let (mut known, now) = (known(), Instant::now());
        known.unreachable(1, now);
        assert_eq!(known.learn(0, "b:2", now), None);
        assert_eq!(known.next(0, now), 1);
        assert_eq!(known.learn(0, "b:2", now + AVOIDED), Some(1));
        known.leads(1);
        assert_eq!((known.leader(), known.learn(0, "b:2", now)), (Some(1), Some(1)));
    }

    #[test]
    fn the_first_server_that_opens_a_session_decides_which_cluster_the_client_talks_to() {
        let (mut known, now) = (known(), Instant::now());
        let (a, b) = (ClusterId::new(0xa), ClusterId::new(0xb));
        assert_eq!(known.opened(0, None, None, now), Ok(()), "an older server does not say it");
        assert_eq!(known.belongs(0, None, b, now), Ok(()), "no session is open there");
        assert_eq!(known.opened(0, None, a, now), Ok(()));
        let refused = known.opened(1, None, b, now).unwrap_err();
        assert_eq!(refused, known.belongs(3, None, b, now).unwrap_err());
        let both = ["b:2", "000000000000000b", "a:1", "000000000000000a"];
        assert!(both.iter().all(|part| refused.contains(part)), "{refused}");
        assert_eq!(known.learn(0, "b:2", now), None, "no follower sends the client there");
        assert_eq!(known.opened(1, None, a, now + AVOIDED), Ok(()));
        known.pin_by_user(b.unwrap());
        assert!(known.opened(0, None, a, now).is_err() && known.opened(0, None, b, now).is_ok());
    }

    #[test]
    fn a_leader_must_belong_to_the_cluster_of_the_follower_that_named_it() {
        let (mut known, now) = (known(), Instant::now());
        let (a, b) = (ClusterId::new(0xa), ClusterId::new(0xb));
        let named =
            Pin { cluster: a.unwrap(), by: By::Follower { follower: "a:1".to_owned(), leader: "c:3".to_owned() } };
        let server = known.learn(0, "c:3", now).unwrap();
        let refused = known.opened(server, Some(&named), b, now).unwrap_err();
        assert!(refused.starts_with("c:3 belongs to cluster 000000000000000b, but a:1 has named it"), "{refused}");
        assert_eq!(known.learn(0, "c:3", now), None);
        assert_eq!(known.pin(), None);
        assert_eq!(known.opened(0, Some(&named), a, now), Ok(()));
        assert_eq!(known.pin().map(|pin| pin.cluster), a);
    }

    #[test]
    fn a_session_begins_at_the_leader_until_the_leader_fails() {
        let (mut known, now) = (known(), Instant::now());
        assert_eq!(known.leader(), None);
        known.leads(1);
        known.failed(0, now);
        assert_eq!(known.leader(), Some(1));
        known.failed(1, now);
        assert_eq!(known.leader(), None);
    }

    #[test]
    fn few_leaders_are_remembered_and_the_oldest_is_replaced() {
        let (mut known, now) = (known(), Instant::now());
        for port in 0..9 {
            let server = known.learn(0, &format!("c:{port}"), now).unwrap();
            known.leads(server);
        }
        assert_eq!(known.addresses, ["a:1", "b:2", "c:8", "c:5", "c:6", "c:7"]);
        assert_eq!(known.leader(), Some(2));
        known.learn(0, "d:1", now);
        known.learn(0, "d:2", now);
        assert_eq!(known.leader(), Some(2));
        known.learn(0, "d:3", now);
        assert_eq!(known.leader(), Some(2));
        known.learn(0, "d:4", now);
        assert_eq!(known.leader(), None, "another server has its place");
    }
}
