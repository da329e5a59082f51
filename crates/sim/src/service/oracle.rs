//! Judges from outside: what clients believe, what the log says, and when.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use baton_client::session::Mode;
use baton_proto::v1::{self, client_frame, server_frame};
use baton_service::state::locks::{self, LockName, Want};
use baton_service::state::{Answer, Command, Effect, Operation, Request, SessionId};

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
    /// What each acquire of the log wants.
    acquires: BTreeMap<(SessionId, u64), Want>,
    /// The answer to each request that was ever answered.
    answers: BTreeMap<(SessionId, u64), Answer>,
    /// What each client ever asked, and whether it has heard the answer.
    heard: BTreeMap<(SessionId, u64), bool>,
    /// The highest fence that the log ever granted.
    highest_fence: u64,
    /// The fence of those who share a lock, if they were the last to be granted it.
    shared_fences: BTreeMap<LockName, u64>,
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
            // A permit's fences grow in the order of the log, and reach their holders in any order.
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

    /// A client says this, of its own session. Whatever it says that it has seen the server forgets: it must be true. (A Close
    /// makes the answers to all else pointless.)
    pub fn says(&mut self, session: SessionId, frame: &v1::ClientFrame) -> Result<(), String> {
        let Some(client_frame::Frame::Request(request)) = &frame.frame else { return Ok(()) };
        let v1::Request { number, seen, missing, operation } = request;
        let closes = matches!(operation, Some(v1::request::Operation::Close(_)));
        for ((_, earlier), heard) in self.heard.range((session, 1)..(session, *number)) {
            if !heard && !closes && earlier <= seen && !missing.contains(earlier) {
                return Err(format!("request {number} of {session} says that {earlier} was answered, and it was not"));
            }
        }
        self.heard.entry((session, *number)).or_insert(false);
        Ok(())
    }

    /// A client hears this.
    pub fn hears(&mut self, session: SessionId, frame: &v1::ServerFrame) {
        if let Some(server_frame::Frame::Answer(v1::Answer { number, .. })) = frame.frame {
            self.heard.insert((session, number), true);
        }
    }

    /// This command is committed; what follows from it comes next.
    pub fn asked(&mut self, command: &Command) {
        if let Command::Request(Request { session, number, operation, .. }) = command
            && let Operation::Locks(locks::Operation::Acquire(acquire)) = operation
            && let [want] = &acquire.wants[..]
        {
            self.acquires.entry((*session, *number)).or_insert_with(|| want.clone());
        }
    }

    /// An entry was committed, with this effect.
    pub fn committed(&mut self, now: Micros, effect: &Effect, clients: &[Client]) -> Result<(), String> {
        match effect {
            Effect::Answer { session, number, answer } => match self.answers.entry((*session, *number)) {
                Entry::Occupied(first) if first.get() != answer => {
                    let first = first.get();
                    return Err(format!("request {number} of {session} is answered {answer:?}, and was by {first:?}"));
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(first) => {
                    first.insert(answer.clone());
                    if let Answer::Locks(locks::Answer::Granted { fence }) = *answer {
                        return self.fence_grows((*session, *number), fence);
                    }
                }
            },
            Effect::Ended { session, .. } => {
                if let Some(client) = clients.iter().find(|client| client.believes_in(now, *session)) {
                    return Err(format!("client {} believes in {session}, which has ended", client.id));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// In the order of the log each grant has a greater fence than all before it, on whatever lock; but who joins others that
    /// share has theirs.
    fn fence_grows(&mut self, acquire: (SessionId, u64), fence: u64) -> Result<(), String> {
        let (session, number) = acquire;
        let Want { lock, mode } = self.acquires.get(&acquire).ok_or("something is granted that nobody asked for")?;
        let joins = *mode == locks::Mode::Shared && self.shared_fences.get(lock) == Some(&fence);
        if fence <= self.highest_fence && !joins {
            let highest = self.highest_fence;
            return Err(format!(
                "request {number} of {session} is granted {lock:?} with fence {fence} after {highest}"
            ));
        }
        self.highest_fence = self.highest_fence.max(fence);
        if *mode == locks::Mode::Shared {
            self.shared_fences.insert(lock.clone(), fence);
        } else {
            self.shared_fences.remove(lock);
        }
        Ok(())
    }
}
