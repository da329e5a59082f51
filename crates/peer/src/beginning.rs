//! How a group agrees that it begins. Pure: the caller passes on what arrives, sends [`Beginning::statement`] to all other
//! members whenever it changes and first on each new connection, and does the [`Work`].
//!
//! Each member keeps a list: which incarnation of each member it has met, and what that incarnation read from its file at
//! its start. Members tell each other their lists.
//!
//! 1. When the lists of all members are equal, each member writes the new generation to its file: the highest generation in
//!    the list, plus 1. Then it says READY.
//! 2. The group begins at a member when all members are READY with the same list, or when another member with this list
//!    says that it has begun. From then on the list is frozen.
//!
//! Before the beginning a member that starts again is simply accepted: it takes the place of its earlier start in the
//! lists. The same holds for a second process with its id: the later start takes part, and the earlier one is told. If a member that was READY changes its list, others may have begun meanwhile. So the generation that it wrote
//! counts as used from then on: no two beginnings have the same generation. If some members have begun and another one has
//! a different list, they can never agree, and all of them end. The same holds if a member is started again whose earlier
//! start has not told that it has begun: see [`Beginning::refused_restart`].
//!
//! Two processes with one id may be in two groups, one after the other, if all other members start again. The member of the
//! earlier generation ends when it meets one of the later generation.
//!
//! No member handles a message of the algorithm before the beginning. None arrives before: a member says that it has begun
//! before it sends its first item, and whoever hears that begins or ends.

use serde::{Deserialize, Serialize};

use crate::group::MemberId;
use crate::handshake::{Hello, Incarnations, Met, Refusal};

/// The generation is the highest part of each fence, and has 19 bits.
pub const GENERATION_MAX: u64 = (1 << 19) - 1;

/// What a member knows of earlier beginnings of its group: what its file said at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The last generation that the member wrote. 0: none.
    pub generation: u64,
    /// The longest lease that a client of the member may still have from earlier, in milliseconds.
    pub ttl_max_ms: u64,
    /// No client of the member has a lease from earlier.
    pub held_nothing: bool,
    /// The group that the file belongs to: see [`Agreed::group`]. 0: none yet.
    pub group: u64,
}

/// One start of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub incarnation: u64,
    pub past: Past,
}

/// By member. None: not met, or its list has not arrived yet.
type List = Vec<Option<Entry>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Gathering,
    /// The member has the generation in its file.
    Ready {
        generation: u64,
    },
    Begun {
        generation: u64,
    },
    /// The member knows that the group can never begin.
    Ended,
}

/// What a member tells the others about itself. The newest one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub stage: Stage,
    pub list: List,
}

/// The caller writes this to the member's file and syncs it, then calls [`Beginning::written`]. One after the other, in
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub past: Past,
    /// Only the newest one counts. So no write is under way when the group has begun, which could undo a later one.
    pub attempt: u64,
}

/// The group has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub generation: u64,
    /// Nothing may be granted for so long: clients of earlier generations may believe in their leases.
    pub wait_ms: u64,
    /// A number by which a member notices the file of another group. The first beginning makes it, and the files keep it.
    pub group: u64,
}

/// Why the group can never begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    #[error(
        "a process was started again, or runs twice, when some members had begun and others had not (as process \
         {told_by} tells); all members end: start the whole group again"
    )]
    Torn { told_by: MemberId },
    #[error(
        "process {id} was started again, or runs twice, before its first start had told this member that it had begun; \
         all members end: start the whole group again"
    )]
    Lost { id: MemberId },
    #[error(
        "the group has been started {GENERATION_MAX} times, which is the limit; remove the data folders of all members, \
         when no client has a lease of this group any more"
    )]
    Exhausted,
    #[error(
        "the file of process {other} (--data) belongs to another group than the file of process {one}; no member has \
         changed its file: start each member with its own folder"
    )]
    Foreign { one: MemberId, other: MemberId },
}

/// The member's statement cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gathering,
    Writing(Work),
    /// This is in the member's file.
    Ready(Past),
    Begun(Agreed),
    Ended(Ended),
}

#[derive(Debug)]
pub struct Beginning {
    me: MemberId,
    incarnations: Incarnations,
    bears_restarts: bool,
    list: List,
    /// What the present incarnation of each other member said last.
    heard: Vec<Option<Statement>>,
    phase: Phase,
    work: Option<Work>,
    attempts: u64,
    outdated: Vec<MemberId>,
}

impl Beginning {
    /// `own` is this start of the member. If the algorithm bears members that start again, the group needs no agreement:
    /// it begins at a member that has met all others.
    pub fn new(me: MemberId, members: usize, own: Entry, bears_restarts: bool) -> Self {
        let mut list = vec![None; members];
        list[me] = Some(own);
        Beginning {
            me,
            incarnations: Incarnations::new(members, bears_restarts),
            bears_restarts,
            list,
            heard: vec![None; members],
            phase: Phase::Gathering,
            work: None,
            attempts: 0,
            outdated: Vec::new(),
        }
    }

    /// Whether a connection with the sender of `theirs` may be used. Changes nothing: see [`meet`](Self::meet).
    pub fn judge(&self, theirs: &Hello) -> Result<Met, Refusal> {
        match self.phase {
            Phase::Begun(Agreed { generation: ours, .. }) if theirs.generation > ours => {
                Err(Refusal::BegunAgain { ours, theirs: theirs.generation })
            }
            _ => self.incarnations.judge(theirs),
        }
    }

    /// The generation in which the group has begun at this member, for its Hello. 0: it has not.
    pub fn generation(&self) -> u64 {
        self.begun().map_or(0, |agreed| agreed.generation)
    }

    /// Both sides have accepted the connection.
    pub fn meet(&mut self, theirs: &Hello) -> Result<Met, Refusal> {
        let met = self.incarnations.meet(theirs)?;
        if met == Met::Later {
            self.heard[theirs.from] = None;
            self.change(theirs.from, None);
        }
        self.settle();
        Ok(met)
    }

    /// The member broke the rules: nothing that it says is believed from now on.
    pub fn condemn(&mut self, id: MemberId, why: String) {
        self.incarnations.condemn(id, why);
    }

    /// A statement of another member arrives on its present connection.
    pub fn hear(&mut self, peer: MemberId, statement: Statement) -> Result<(), Malformed> {
        let theirs = statement.list.get(peer).copied().flatten();
        let Some(met) = self.incarnations.of(peer) else { return Ok(()) };
        let is_theirs = theirs.is_some_and(|entry| entry.incarnation == met);
        if !is_theirs || statement.list.len() != self.list.len() {
            return Err(Malformed);
        }
        match self.phase {
            _ if self.bears_restarts => {}
            Phase::Ended(_) => {}
            // A member that is no longer READY with this list has another entry.
            Phase::Begun(_) if statement.stage == Stage::Ended || theirs != self.list[peer] => self.end(peer),
            Phase::Begun(_) => self.heard[peer] = Some(statement),
            _ if statement.stage == Stage::Ended => match complete(&statement.list).and_then(|list| never(&list)) {
                Some(why) => self.phase = Phase::Ended(why),
                None => self.end(peer),
            },
            _ => {
                self.hear_of_later(&statement.list);
                let has_begun = matches!(statement.stage, Stage::Begun { .. });
                self.heard[peer] = Some(statement);
                self.change(peer, theirs);
                self.settle();
                if has_begun && self.begun().is_none() {
                    self.end(peer);
                }
            }
        }
        Ok(())
    }

    /// This member has begun, and has refused a later start of another member, which knows of its refusal. If the earlier
    /// start has died before it had begun, it was never part of the group, and a new start of all is needed anyway. Whether
    /// it had begun is known from its own words only.
    pub fn refused_restart(&mut self, id: MemberId) {
        let has_begun = |heard: &Statement| matches!(heard.stage, Stage::Begun { .. });
        if self.begun().is_some() && !self.heard[id].as_ref().is_some_and(has_begun) {
            self.phase = Phase::Ended(Ended::Lost { id });
        }
    }

    /// This is in the member's file, and synced.
    pub fn written(&mut self, work: Work) {
        if self.phase == Phase::Writing(work) {
            self.phase = Phase::Ready(work.past);
            self.settle();
        }
    }

    pub fn take_work(&mut self) -> Option<Work> {
        self.work.take()
    }

    /// The members of which another member has met a later start. The caller closes the connections with them.
    pub fn take_outdated(&mut self) -> Vec<MemberId> {
        std::mem::take(&mut self.outdated)
    }

    /// What the member says of itself now. An incomplete list would change often, so the others get only the member's own
    /// entry of it.
    pub fn statement(&self) -> Statement {
        let stage = match self.phase {
            Phase::Gathering | Phase::Writing(_) => Stage::Gathering,
            Phase::Ready(Past { generation, .. }) => Stage::Ready { generation },
            Phase::Begun(Agreed { generation, .. }) => Stage::Begun { generation },
            Phase::Ended(_) => Stage::Ended,
        };
        let is_complete = self.list.iter().all(Option::is_some);
        let tells = |(id, entry): (MemberId, &Option<Entry>)| entry.filter(|_| is_complete || id == self.me);
        Statement { stage, list: self.list.iter().enumerate().map(tells).collect() }
    }

    /// What was agreed, if the group has begun at this member.
    pub fn begun(&self) -> Option<Agreed> {
        match self.phase {
            Phase::Begun(agreed) => Some(agreed),
            _ => None,
        }
    }

    /// Whether items of other members are expected.
    pub fn takes_items(&self) -> bool {
        self.bears_restarts || self.begun().is_some()
    }

    /// Why the member must end.
    pub fn ended(&self) -> Option<Ended> {
        match self.phase {
            Phase::Ended(why) => Some(why),
            _ => None,
        }
    }

    /// The members that this one has met, but that have not met all others.
    pub fn incomplete(&self) -> Vec<MemberId> {
        let is_incomplete = |heard: &Statement| heard.list.contains(&None);
        self.others().filter(|&id| self.heard[id].as_ref().is_some_and(is_incomplete)).collect()
    }

    /// Of two processes with one id, one may be connected with some members, and the other one with the others. The later
    /// start takes part.
    fn hear_of_later(&mut self, theirs: &List) {
        let me = self.me;
        for (id, entry) in theirs.iter().enumerate().filter(|(id, _)| *id != me) {
            let Some(entry) = entry else { continue };
            if self.incarnations.hear_of(id, entry.incarnation) {
                self.outdated.push(id);
                self.heard[id] = None;
                self.change(id, None);
            }
        }
    }

    /// The list changes, if the group has not begun.
    fn change(&mut self, id: MemberId, entry: Option<Entry>) {
        if self.list[id] == entry || matches!(self.phase, Phase::Begun(_) | Phase::Ended(_)) {
            return;
        }
        self.list[id] = entry;
        if let (Phase::Ready(past), Some(own)) = (self.phase, &mut self.list[self.me]) {
            // The member's file says so now.
            own.past = past;
        }
        (self.phase, self.work) = (Phase::Gathering, None);
    }

    /// Makes the steps that are due.
    fn settle(&mut self) {
        if self.phase == Phase::Gathering {
            self.agree();
        }
        if let Phase::Ready(Past { generation, .. }) = self.phase
            && self.may_begin(generation)
            && let Some(list) = complete(&self.list)
        {
            let group = group(&self.list);
            self.phase = Phase::Begun(Agreed { generation, wait_ms: wait_ms(&list), group });
            self.incarnations.freeze();
        }
    }

    /// Writes the next generation if the lists of all members are equal.
    fn agree(&mut self) {
        if self.bears_restarts {
            if self.others().all(|id| self.incarnations.of(id).is_some()) {
                self.phase = Phase::Begun(Agreed { generation: 1, wait_ms: 0, group: 0 });
            }
            return;
        }
        let Some(list) = complete(&self.list) else { return };
        let is_equal = |id: MemberId| self.heard[id].as_ref().is_some_and(|heard| heard.list == self.list);
        if !self.others().all(is_equal) {
            return;
        }
        if let Some(why) = never(&list) {
            self.phase = Phase::Ended(why);
            return;
        }
        let last = last_generation(&list);
        let own = list[self.me];
        // Others may begin with this generation, also a double of this member with a file of its own. So this file says
        // that no client has a lease only when the member has begun, and stops without one.
        let past = Past { generation: last + 1, held_nothing: false, ..own };
        self.attempts += 1;
        let work = Work { past, attempt: self.attempts };
        (self.phase, self.work) = (Phase::Writing(work), Some(work));
    }

    fn may_begin(&self, generation: u64) -> bool {
        let (ready, begun) = (Stage::Ready { generation }, Stage::Begun { generation });
        let says = |id: MemberId, stages: &[Stage]| {
            self.heard[id].as_ref().is_some_and(|heard| heard.list == self.list && stages.contains(&heard.stage))
        };
        self.others().all(|id| says(id, &[ready, begun])) || self.others().any(|id| says(id, &[begun]))
    }

    fn end(&mut self, told_by: MemberId) {
        (self.phase, self.work) = (Phase::Ended(Ended::Torn { told_by }), None);
    }

    fn others(&self) -> impl Iterator<Item = MemberId> + use<> {
        let me = self.me;
        (0..self.list.len()).filter(move |&id| id != me)
    }
}

/// What all members know of earlier beginnings, if the list is complete.
fn complete(list: &[Option<Entry>]) -> Option<Vec<Past>> {
    list.iter().map(|entry| entry.map(|entry| entry.past)).collect()
}

/// Why members with these files can never begin, if so.
fn never(list: &[Past]) -> Option<Ended> {
    let one = list.iter().position(|past| past.group != 0);
    let differs = |one: usize| list.iter().position(|past| past.group != 0 && past.group != list[one].group);
    match one.and_then(|one| Some((one, differs(one)?))) {
        Some((one, other)) => Some(Ended::Foreign { one, other }),
        None => (last_generation(list) >= GENERATION_MAX).then_some(Ended::Exhausted),
    }
}

/// The group of the files. If all files are new, their starts make the number.
fn group(list: &[Option<Entry>]) -> u64 {
    let entries = || list.iter().flatten();
    let known = entries().map(|entry| entry.past.group).find(|&group| group != 0);
    let incarnations: Vec<u8> = entries().flat_map(|entry| entry.incarnation.to_le_bytes()).collect();
    known.unwrap_or_else(|| crate::group::fnv(&incarnations).max(1))
}

fn last_generation(list: &[Past]) -> u64 {
    list.iter().map(|past| past.generation).max().unwrap_or(0)
}

/// Whether the member knows that its clients have no leases from earlier. With no file, or an older one than another
/// member's, it has lost its own file, and does not know.
fn remembers_nothing(past: Past, last: u64) -> bool {
    past.held_nothing && past.generation == last
}

fn wait_ms(list: &[Past]) -> u64 {
    let last = last_generation(list);
    if list.iter().all(|&past| remembers_nothing(past, last)) {
        return 0;
    }
    list.iter().map(|past| past.ttl_max_ms).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
