//! Handles an applied entry: answers the client that asked for it, and starts or stops timers.

use std::net::SocketAddr;

use baton_types::frames::ToClient;

use super::{Frontend, Note, Output, Reply, Standing, UnderWay, words};
use crate::state::locks::ForcedHolder;
use crate::state::sessions::EndReason;
use crate::state::{Command, Effect, Outcome, State, What, locks, sessions};

impl Frontend {
    /// An entry of `entry_term` was applied. `state` is the state right after the command.
    pub fn applied(&mut self, now_ms: u64, state: &State, entry_term: u64, command: &Command, outcome: &Outcome) {
        let is_lead = *command == Command::Sessions(sessions::Command::Lead { term: entry_term });
        let is_last_lead = is_lead && self.is_last_lead(entry_term);
        let term = match (self.standing, command) {
            (Standing::Begins { term, .. }, _) if term == entry_term && is_last_lead => {
                return self.lead(now_ms, state, term);
            }
            // A second `Lead` of this term: the first one seemed to be lost.
            (Standing::Leads { term }, Command::Sessions(sessions::Command::Lead { .. })) if term == entry_term => {
                return;
            }
            (Standing::Leads { term }, _) if term == entry_term => term,
            // Another node has led since. This node does not know what the other leader's entries ended, so it may
            // acknowledge nothing.
            (Standing::Begins { term, .. } | Standing::Leads { term }, _) if term < entry_term => {
                return self.deposed();
            }
            _ => return,
        };
        let asked = self.under_way.pop_front();
        let Some(asked) = asked.filter(|asked| asked.is_of(command)) else {
            // The shell did not keep the order of the proposals, so the front end does not know which stream asked for
            // this.
            self.out.push_back(Output::Note(Note::OutOfOrder { term }));
            return self.lost(now_ms, term, false);
        };
        for effect in &outcome.effects {
            let may_tell = self.leases.observe(now_ms, effect);
            self.follow(now_ms, state, &asked, effect, may_tell);
        }
        outcome.changes.iter().for_each(|change| self.note(&change.what, outcome));
        match asked {
            UnderWay::Open { begins, .. } => self.opens_under_way -= usize::from(begins),
            UnderWay::Request { stream, session, number } => {
                if let Command::Request(request) = command {
                    self.no_longer_under_way(session, number, &request.operation);
                }
                self.request_done(now_ms, state, stream, session);
            }
            UnderWay::Force { now, by, .. } => self.note_forced(now, by, outcome),
            UnderWay::Timer => self.leases.done(command),
        }
    }

    /// A lock of a member of a peer group was granted or denied: see [`State::admit`]. `state` is the state right after that. Nothing
    /// was proposed for it, so it is not counted as under way.
    pub fn admitted(&mut self, now_ms: u64, state: &State, outcome: &Outcome) {
        if self.leads() {
            for effect in &outcome.effects {
                let may_tell = self.leases.observe(now_ms, effect);
                self.follow(now_ms, state, &UnderWay::Timer, effect, may_tell);
            }
        }
    }

    fn follow(&mut self, now_ms: u64, state: &State, asked: &UnderWay, effect: &Effect, may_tell: bool) {
        match effect {
            &Effect::Opened { session, ttl_ms } => {
                if let UnderWay::Open { stream, attempt, secret_hash, .. } = *asked {
                    self.opened(state, stream, attempt, secret_hash, (session, ttl_ms), may_tell);
                }
            }
            &Effect::Answer { session, number, ref answer } => {
                self.say(session, ToClient::Answer { number, answer: words::answer(answer) });
            }
            &Effect::Ended { session, reason } => {
                let (reason, message) = words::ended(reason, self.is_member);
                let asker = if let UnderWay::Open { stream, .. } = asked { Some(*stream) } else { None };
                let carrier = self.sessions.remove(&session).and_then(|presence| presence.stream);
                for stream in asker.into_iter().chain(carrier) {
                    if self.streams.contains_key(&stream) {
                        self.end(stream, reason, message.to_owned());
                    }
                }
            }
            &Effect::Locks(locks::Effect::Revoked { session, acquire }) => {
                self.say(session, ToClient::Revoked { acquire });
            }
            Effect::Locks(locks::Effect::Forced { holders, .. }) => {
                let UnderWay::Force { call, .. } = *asked else { return };
                let shown = |holder: &ForcedHolder| {
                    words::holder(holder, self.leases.expires_in(holder.session, now_ms).unwrap_or(0))
                };
                let shown = holders.iter().map(shown).collect();
                self.reply(call, Reply::Forced(shown));
            }
            // Only the leases use these.
            Effect::Locks(locks::Effect::Waits { .. } | locks::Effect::LockDelay { .. }) | Effect::Cluster(_) => {}
        }
    }

    /// Tells the operator, unless the lock had no holder and nothing changed.
    fn note_forced(&mut self, now: bool, by: Option<SocketAddr>, outcome: &Outcome) {
        for effect in &outcome.effects {
            if let Effect::Locks(locks::Effect::Forced { lock, holders }) = effect
                && !(holders.is_empty() && outcome.changes.is_empty())
            {
                let (lock, holders) = (lock.clone(), holders.len());
                self.out.push_back(Output::Note(Note::Forced { lock, now, holders, by }));
            }
        }
    }

    fn note(&mut self, what: &What, outcome: &Outcome) {
        if let What::Session { id, before: Some(before), after: None } = what
            && outcome.effects.contains(&Effect::Ended { session: *id, reason: EndReason::Expired })
        {
            let (session, label, host) = (*id, before.label.to_string(), before.host.to_string());
            self.out.push_back(Output::Note(Note::Expired { session, label, host }));
        }
    }
}

impl UnderWay {
    /// Whether this proposal was for such a command.
    fn is_of(&self, command: &Command) -> bool {
        match (self, command) {
            (UnderWay::Open { session, secret_hash, .. }, Command::Sessions(sessions::Command::Open(open))) => {
                (*session, *secret_hash) == (open.session, open.secret_hash)
            }
            (UnderWay::Request { session, number, .. }, Command::Request(request)) => {
                (*session, *number) == (request.session, request.number)
            }
            (
                UnderWay::Force { lock, now, by, .. },
                Command::Locks(locks::Command::Force { lock: forced, now: at_once, caller }),
            ) => (lock, now, *by) == (forced, at_once, caller.from),
            (UnderWay::Timer, Command::Sessions(sessions::Command::Expire { .. })) => true,
            (UnderWay::Timer, Command::Cluster(command)) => command.is_of_timer(),
            (
                UnderWay::Timer,
                Command::Locks(locks::Command::CancelWait { .. } | locks::Command::EndLockDelay { .. }),
            ) => true,
            _ => false,
        }
    }
}
