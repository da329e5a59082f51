//! Which start of a node has this node's vote of a term.
//!
//! A copied data folder makes two processes with one id. Raft cannot tell them apart, so it would give both the same
//! vote, and both could lead in one term. Therefore a vote of a term goes to one start of a process only:
//! - The start is on disk before a candidate hears that it has the vote. Raft saves its vote meanwhile.
//! - A place of the file VOTED is written again only when Raft has a later vote: Raft may refuse the candidate that the
//!   other place names, and its own vote is then still the earlier one.
//! - The first start that this node hears leading in a term is remembered, in memory only.
//!
//! A process that is started again never asks for a vote of an old term, and never leads in one. So none is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::Raft;
use openraft::raft::{VoteRequest, VoteResponse};
use tokio::sync::{Semaphore, mpsc};

use super::log_store::Fatal;
use super::machine::Machine;
use super::types::TypeConfig;
use crate::format::record::Vote;
use crate::store::{Cast, Disk, Files, OpenError, Voted};

/// The most requests for a vote that wait.
const WAITING_MAX: usize = 64;

/// Why a request is refused. The sentence is about its sender.
pub type Refused = String;

pub struct Votes {
    known: Mutex<Known>,
    /// Held while Raft decides about a vote. None after a write failed.
    file: tokio::sync::Mutex<Option<Arc<Voted>>>,
    /// Places for requests that wait for the disk or for Raft.
    places: Arc<Semaphore>,
    fatal: Fatal,
    /// `Node::shutdown` waits until it is dropped.
    alive: mpsc::Sender<()>,
}

/// What the file says, and what was heard since this node started.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    places: [Option<Cast>; 2],
    /// The place of the last vote that Raft has given.
    given: usize,
    /// The first start that leads in the last term of which a leader was heard.
    leads: Option<Cast>,
}

impl Known {
    /// `vote` is Raft's own.
    fn new(places: [Option<Cast>; 2], vote: Option<Vote>) -> Known {
        let is_given = |cast: &Option<Cast>| {
            cast.zip(vote).is_some_and(|(cast, vote)| (cast.term, cast.node) == (vote.term, vote.node))
        };
        Known { places, given: usize::from(is_given(&places[1])), leads: None }
    }

    fn check(&self, asked: Cast) -> Result<(), Refused> {
        let Cast { term, node, start } = asked;
        let is_other = |cast: &&Cast| (cast.term, cast.node) == (term, node) && cast.start != start;
        match self.places.iter().chain([&self.leads]).flatten().find(is_other) {
            Some(_) => Err(format!(
                "another process with its id, node {node}, asked for votes or led in term {term}; one of the two data folders \
                 is a copy of the other: stop one process, and empty its folder"
            )),
            None => Ok(()),
        }
    }

    /// The place to write, unless the file says this already.
    fn place(&self, asked: Cast) -> Option<usize> {
        (!self.places.contains(&Some(asked))).then_some(1 - self.given)
    }

    fn gave(&mut self, asked: Cast) {
        self.given = usize::from(self.places[1] == Some(asked));
    }
}

impl Votes {
    /// `vote` is the one in the log.
    pub fn open(
        disk: &dyn Disk,
        files: &Files,
        vote: Option<Vote>,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> Result<Votes, OpenError> {
        let (voted, places) = Voted::open(disk, files)?;
        let known = Mutex::new(Known::new(places, vote));
        let (file, places) = (tokio::sync::Mutex::new(Some(Arc::new(voted))), Arc::new(Semaphore::new(WAITING_MAX)));
        Ok(Votes { known, file, places, fatal, alive })
    }

    /// Refuses a vote of another start of the node than the one that has it. The node and the term were checked before.
    pub fn check(&self, vote: Vote, start: u64) -> Result<(), Refused> {
        let (mut known, asked) = (self.known(), Cast { term: vote.term, node: vote.node, start });
        known.check(asked)?;
        // The sender says that it leads.
        if vote.committed && known.leads.is_none_or(|leads| leads.term < asked.term) {
            known.leads = Some(asked);
        }
        Ok(())
    }

    /// Asks Raft for its vote. The start of the candidate is on disk when this returns.
    ///
    /// Goes on if the caller no longer waits: the file and the memory must not differ.
    pub async fn cast(
        self: Arc<Self>,
        raft: Raft<TypeConfig, Machine>,
        request: VoteRequest<TypeConfig>,
        start: u64,
    ) -> Result<VoteResponse<TypeConfig>, Refused> {
        // A candidate that connects again asks again, and the earlier request still waits.
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| "too many requests for a vote wait for the disk".to_owned())?;
        let cast = baton_runtime::spawn(async move {
            let _place = place;
            let mut file = self.file.lock().await;
            let voted = file.clone().ok_or("the file VOTED cannot be written")?;
            let vote = Vote::from(request.vote);
            let asked = Cast { term: vote.term, node: vote.node, start };
            let place = {
                let mut known = self.known();
                known.check(asked)?;
                let place = known.place(asked);
                place.inspect(|place| known.places[*place] = Some(asked))
            };
            let (written, response) = tokio::join!(self.write(voted, place, asked), raft.vote(request));
            if let Err(why) = written {
                *file = None;
                (self.fatal)(&why);
                return Err(why);
            }
            let response = response.map_err(|stopped| stopped.to_string())?;
            if response.vote_granted {
                self.known().gave(asked);
            }
            Ok(response)
        });
        cast.await.map_err(|panic| panic.to_string())?
    }

    async fn write(&self, voted: Arc<Voted>, place: Option<usize>, asked: Cast) -> Result<(), String> {
        let Some(place) = place else { return Ok(()) };
        let alive = self.alive.clone();
        let written = baton_runtime::spawn_blocking(move || {
            let written = voted.write(place, asked);
            // The folder is in use until here.
            drop((voted, alive));
            written
        });
        let written = written.await.map_err(|panic| panic.to_string())?;
        written.map_err(|error| format!("VOTED cannot be written ({error}); no vote is given any more"))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A1: Cast = Cast { term: 5, node: 1, start: 1 };
    const A2: Cast = Cast { start: 2, ..A1 };
    const C: Cast = Cast { term: 6, node: 3, start: 9 };

    #[test]
    fn the_start_that_has_raft_s_vote_is_known_until_raft_gives_a_later_one() {
        let mut known = Known::default();
        for cast in [A1, C, Cast { term: 7, ..C }, Cast { term: 8, ..C }] {
            known.check(cast).unwrap();
            known.places[known.place(cast).unwrap()] = Some(cast);
            // Raft refuses the others.
            if cast == A1 {
                known.gave(cast);
            }
            assert_eq!(known.place(A1), None, "it is there already");
            assert!(known.check(A2).is_err());
        }
        let again = Known::new(known.places, Some(Vote { term: 5, node: 1, committed: true }));
        assert_eq!((again.given, again.check(A1)), (known.given, Ok(())));
        assert!(
            again
                .check(A2)
                .unwrap_err()
                .starts_with("another process with its id, node 1, asked for votes or led in term 5")
        );
    }

    #[test]
    fn a_start_that_leads_is_the_only_one_of_its_term() {
        let known = Known { leads: Some(A1), ..Known::default() };
        assert!(known.check(A2).is_err());
        for other in [A1, C, Cast { term: 6, ..A2 }, Cast { node: 2, ..A2 }] {
            assert_eq!(known.check(other), Ok(()));
        }
    }
}
