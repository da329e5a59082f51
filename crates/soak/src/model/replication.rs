//! Replication: a follower takes entries only if its log has what comes before them. An entry is committed when a
//! majority has synced it and the leader wrote it in its own term; with it, all entries before it are committed.

use super::{End, Entry, Leadership, Message, Micros, NodeId, Output, Peer, Raft, Role, Sync};

impl Raft {
    /// Whether this node leads in this term, and a majority has confirmed it not long ago. The real Raft refuses
    /// proposals without such a lease, although the term goes on.
    pub fn has_lease(&self, now: Micros, term: u64) -> bool {
        self.leadership(now) == Leadership::Leads { term }
    }

    /// Appends a command to the log, if this node leads in this term. The caller calls [`Raft::flush`] soon.
    pub fn propose(&mut self, term: u64, command: u32) -> bool {
        let Role::Leader(leader) = &mut self.role else { return false };
        if term != self.term {
            return false;
        }
        leader.has_news = true;
        self.log.push(Entry { term, command: Some(command) });
        true
    }

    /// Writes and sends the entries that were proposed.
    pub fn flush(&mut self, now: Micros) {
        let Role::Leader(leader) = &mut self.role else { return };
        if std::mem::take(&mut leader.has_news) {
            let (length, removals) = (self.log.len(), self.removals);
            self.out.push_back(Output::Sync(Sync { length, removals, answers: None }));
            if !self.is_suppressed(now) {
                self.send_to_all(now);
            }
        }
    }

    pub fn synced(&mut self, sync: Sync) {
        if sync.removals != self.removals {
            return;
        }
        self.synced = self.synced.max(sync.length);
        if let Some((term, leader, sent_at)) = sync.answers
            && term == self.term
        {
            self.send(leader, Message::Appended { term, matched: Ok(sync.length), sent_at });
        }
        self.advance_commit();
    }

    pub(super) fn send_to_all(&mut self, now: Micros) {
        for to in self.others() {
            self.send_entries(now, to);
        }
    }

    fn send_entries(&mut self, now: Micros, to: NodeId) {
        let length = self.log.len();
        let Role::Leader(leader) = &mut self.role else { return };
        let sent = std::mem::replace(&mut leader.peers[to].sent, length);
        let (term, before, commit) = (self.term, self.end_at(sent), self.commit);
        let entries = self.log[sent..].to_vec();
        self.send(to, Message::Append { term, before, entries, commit, sent_at: now });
    }

    #[allow(clippy::too_many_arguments, reason = "these are the fields of the message")]
    pub(super) fn on_append(
        &mut self,
        now: Micros,
        from: NodeId,
        term: u64,
        before: End,
        entries: &[Entry],
        commit: usize,
        sent_at: Micros,
    ) {
        if term < self.term {
            let term = self.term;
            return self.send(from, Message::Appended { term, matched: Err(0), sent_at });
        }
        if self.leads() {
            self.fault = Some(format!("nodes {} and {from} both lead in term {term}", self.id));
            return;
        }
        self.follow(now, term);
        self.leader = Some(from);
        self.put_off_election(now);
        let (_, start) = before;
        if start > self.log.len() || self.end_at(start) != before {
            let has = self.log.len().min(start.saturating_sub(1));
            return self.send(from, Message::Appended { term, matched: Err(has), sent_at });
        }
        self.store(start, entries);
        let length = start + entries.len();
        self.commit = self.commit.max(commit.min(length));
        if self.synced >= length || entries.is_empty() {
            let matched = Ok(self.synced.min(length));
            return self.send(from, Message::Appended { term, matched, sent_at });
        }
        let (removals, answers) = (self.removals, Some((term, from, sent_at)));
        self.out.push_back(Output::Sync(Sync { length, removals, answers }));
    }

    /// Stores entries, and removes those that another leader left in their places.
    fn store(&mut self, start: usize, entries: &[Entry]) {
        for (place, entry) in (start..).zip(entries) {
            if self.log.get(place).is_some_and(|present| present.term != entry.term) {
                if place < self.commit {
                    self.fault = Some(format!("node {} removes the committed entry {place}", self.id));
                    return;
                }
                self.log.truncate(place);
                self.synced = self.synced.min(place);
                self.removals += 1;
            }
            if place == self.log.len() {
                self.log.push(*entry);
            }
        }
    }

    pub(super) fn on_appended(
        &mut self,
        now: Micros,
        from: NodeId,
        term: u64,
        matched: Result<usize, usize>,
        sent_at: Micros,
    ) {
        let Role::Leader(leader) = &mut self.role else { return };
        if term != self.term {
            return;
        }
        let Peer { sent, matched: known, heard } = &mut leader.peers[from];
        *heard = (*heard).max(Some(sent_at));
        match matched {
            Ok(length) => {
                *known = (*known).max(length);
                *sent = (*sent).max(length);
                self.advance_commit();
            }
            Err(length) => {
                *sent = (*sent).min(length).max(*known);
                self.send_entries(now, from);
            }
        }
        self.end_rounds();
    }

    fn advance_commit(&mut self) {
        let Role::Leader(leader) = &self.role else { return };
        let own = std::iter::once(self.synced);
        let mut synced: Vec<usize> = self.others().map(|node| leader.peers[node].matched).chain(own).collect();
        synced.sort_unstable();
        // At least a majority has this much.
        let length = synced[(self.nodes - 1) / 2];
        if length > self.commit && self.log[length - 1].term == self.term {
            self.commit = length;
        }
    }
}
