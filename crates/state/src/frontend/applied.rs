//! Handles an applied entry: answers the client that asked for it, and starts or stops timers.

use baton_types::frames::ToClient;

use super::modules::Modules;
use super::{Frontend, Note, Output, Standing, UnderWay, words};
use crate::state::sessions::EndReason;
use crate::state::{Command, Effect, Outcome, State, What, sessions};

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
            UnderWay::Call { .. } => self.out.extend(Modules::note(command, outcome).map(Output::Note)),
            UnderWay::Timer => {}
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
                self.say(session, ToClient::Answer { number, answer: Modules::answer(answer) });
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
            of_module => {
                if let Some((session, said)) = Modules::told(of_module) {
                    self.say(session, said);
                }
                if let UnderWay::Call { call, .. } = *asked {
                    let expires_in = |session| self.leases.expires_in(session, now_ms).unwrap_or(0);
                    if let Some(reply) = Modules::reply(of_module, &expires_in) {
                        self.reply(call, reply);
                    }
                }
            }
        }
    }

    fn note(&mut self, what: &What, outcome: &Outcome) {
        if let What::Session { id, before: Some(before), after: None, .. } = what
            && outcome.effects.contains(&Effect::Ended { session: *id, reason: EndReason::Expired })
        {
            let (session, label, host) = (*id, before.who.label.to_string(), before.who.host.to_string());
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
            (UnderWay::Call { command: called, .. }, command) => **called == *command,
            (UnderWay::Timer, command) => command.is_of_timer(),
            _ => false,
        }
    }
}
