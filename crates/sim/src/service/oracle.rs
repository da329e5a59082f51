//! Judges from outside: what clients believe, what the log says, and when.

use std::collections::BTreeMap;

use baton_client::session::Mode;
use baton_service::table::{Answer, Effect, SessionId};

use super::client::Client;
use super::clock::Micros;

/// What somebody believes to hold.
#[derive(Clone, Copy, Debug)]
pub struct Believed<'a> {
    /// Who.
    pub client: usize,
    /// Which lock.
    pub lock: &'a str,
    /// How.
    pub mode: Mode,
    /// Under which fence.
    pub fence: u64,
}

/// What was seen so far.
#[derive(Default)]
pub struct Oracle {
    /// The highest fence under which each lock was believed, and whether that was shared.
    fences: BTreeMap<String, (u64, bool)>,
    /// The answer to each request that was ever answered.
    answers: BTreeMap<(SessionId, u64), Answer>,
    /// How often a lock was believed to be held.
    pub grants: u64,
}

impl Oracle {
    /// A client has just begun to believe in a lock. No belief begins without a grant, so that this is when overlaps begin.
    pub fn granted(&mut self, now: Micros, grant: Believed<'_>, clients: &[Client]) -> Result<(), String> {
        self.grants += 1;
        let Believed { client, lock, mode, fence } = grant;
        let others = || clients.iter().flat_map(|client| client.believes(now)).filter(|other| other.lock == lock);
        let allowed = match mode {
            Mode::Exclusive => 1,
            Mode::Permit { of } => of as usize,
            Mode::Shared => usize::MAX,
        };
        let exclusive = others().any(|other| other.mode == Mode::Exclusive);
        let holders: Vec<usize> = others().map(|other| other.client).collect();
        if holders.len() > allowed || (exclusive && holders.len() > 1) {
            return Err(format!("clients {holders:?} all believe to hold {lock:?} when client {client} is granted it"));
        }
        let is_shared = mode == Mode::Shared;
        match self.fences.get(lock) {
            // A permit's fences grow in the order of grants, which reach their holders in any order.
            Some(_) if matches!(mode, Mode::Permit { .. }) => Ok(()),
            Some((highest, was_shared)) if fence < *highest || (fence == *highest && !(is_shared && *was_shared)) => {
                Err(format!("client {client} is granted {lock:?} with fence {fence} after {highest}"))
            }
            _ => {
                self.fences.insert(lock.to_owned(), (fence, is_shared));
                Ok(())
            }
        }
    }

    /// An entry was committed, with this effect.
    pub fn committed(&mut self, now: Micros, effect: &Effect, clients: &[Client]) -> Result<(), String> {
        match effect {
            Effect::Answer { session, number, answer } => {
                let first = self.answers.entry((*session, *number)).or_insert_with(|| answer.clone());
                if first != answer {
                    return Err(format!("request {number} of {session} is answered {answer:?}, and was by {first:?}"));
                }
            }
            Effect::Ended { session, .. } => {
                if let Some(client) = clients.iter().find(|client| client.believes_in(now, *session)) {
                    return Err(format!("client {} believes in {session}, which has ended", client.id));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
