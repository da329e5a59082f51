//! Judges a history: pure, and linear in the history after sorting by fence and by time.
//!
//! The fence of an exclusive lock is drawn from one counter of the service in the order of its log. So the fences give
//! the order of the grants, and nothing has to be searched. The rules:
//!
//! - **Unique**: no two grants have one fence.
//! - **Real time**: a request that was made after a grant was received has a higher fence than that grant.
//! - **Overlap**: in the order of the fences, a client believes in a hold only after all clients before it have stopped.
//! - **Queue**: a request that was made after another one was seen in the queue is granted after it.
//! - **Lost**: what a client was told (a grant, a release, a place in the queue) is still true later.
//! - **Unserved**: when the history ends, no client waits.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::history::{Claim, End, History, Hold, HoldEnd, Micros, Queue, Sight};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Unique,
    RealTime,
    Overlap,
    Queue,
    LostHold,
    LostRelease,
    LostPlace,
    Unserved,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// A claim that was granted.
#[derive(Clone, Copy)]
struct Granted<'a> {
    claim: &'a Claim,
    hold: &'a Hold,
    /// When a listing that showed the claim in the queue was answered, or the grant was received.
    placed: Micros,
}

impl<'a> Granted<'a> {
    fn new(claim: &'a Claim, queued: Option<Micros>) -> Option<Self> {
        let hold = claim.hold()?;
        Some(Granted { claim, hold, placed: queued.map_or(hold.at, |queued| queued.min(hold.at)) })
    }
}

#[derive(Default)]
struct Verdict(Vec<Violation>);

impl Verdict {
    fn add(&mut self, rule: Rule, text: String) {
        self.0.push(Violation { rule, text });
    }
}

/// All violations of the rules. None: the history is right.
pub fn judge(history: &History) -> Vec<Violation> {
    let mut verdict = Verdict::default();
    let by_owner: HashMap<u64, &Claim> = history.claims.iter().map(|claim| (claim.owner, claim)).collect();
    let queued = queued(&history.sights);
    let granted = |claim| Granted::new(claim, queued.get(&claim.owner).copied());
    let mut grants: Vec<Granted<'_>> = history.claims.iter().filter_map(granted).collect();
    grants.sort_by_key(|granted| granted.hold.fence);
    fences_are_unique(&grants, &mut verdict);
    fences_follow_time(&grants, &mut verdict);
    let mut locks: BTreeMap<&str, Vec<Granted<'_>>> = BTreeMap::new();
    for granted in grants {
        locks.entry(&granted.claim.lock).or_default().push(granted);
    }
    for grants in locks.values_mut() {
        holds_do_not_overlap(grants, &mut verdict);
        queues_keep_their_order(grants, &mut verdict);
        // Sights are compared in the order of time. With no violation so far this changes nothing.
        grants.sort_by_key(|granted| granted.hold.at);
    }
    claims_end_well(&history.claims, &mut verdict);
    for (lock, grants) in &locks {
        sights_show_holds(lock, grants, &history.sights, &mut verdict);
    }
    sights_show_no_released_hold(&history.sights, &by_owner, &mut verdict);
    sights_keep_places(&history.sights, &by_owner, &mut verdict);
    verdict.0
}

/// For each owner that a listing showed in a queue: when the first such listing was answered.
fn queued(sights: &[Sight]) -> HashMap<u64, Micros> {
    let mut queued = HashMap::new();
    for sight in sights {
        for owner in sight.locks.values().flat_map(|queue| &queue.waiters) {
            queued.entry(*owner).or_insert(sight.answered);
        }
    }
    queued
}

fn fences_are_unique(by_fence: &[Granted<'_>], verdict: &mut Verdict) {
    for pair in by_fence.windows(2) {
        if pair[0].hold.fence == pair[1].hold.fence {
            verdict.add(Rule::Unique, format!("{} and {} have one fence", pair[0], pair[1]));
        }
    }
}

/// Over all locks, because all fences come from one counter.
fn fences_follow_time(by_fence: &[Granted<'_>], verdict: &mut Verdict) {
    // Of all grants with higher fences, the one that was received first.
    let mut first: Option<Granted<'_>> = None;
    for &granted in by_fence.iter().rev() {
        if let Some(first) = first.filter(|first| first.hold.at < granted.claim.called) {
            verdict.add(Rule::RealTime, format!("{granted} was asked for after {first} was received"));
        }
        if first.is_none_or(|first| granted.hold.at < first.hold.at) {
            first = Some(granted);
        }
    }
}

fn holds_do_not_overlap(by_fence: &[Granted<'_>], verdict: &mut Verdict) {
    // Of all holds with lower fences, the one that was believed in longest.
    let mut last: Option<Granted<'_>> = None;
    for &granted in by_fence {
        if let Some(last) = last.filter(|last| granted.hold.at < last.hold.until) {
            verdict.add(Rule::Overlap, format!("{granted} was received while {last} was believed in"));
        }
        if last.is_none_or(|last| granted.hold.until > last.hold.until) {
            last = Some(granted);
        }
    }
}

fn queues_keep_their_order(by_fence: &[Granted<'_>], verdict: &mut Verdict) {
    // Of all claims with lower fences, the one that was made last.
    let mut last: Option<Granted<'_>> = None;
    for &granted in by_fence {
        // A claim that was placed by its grant alone is judged by the rule of real time.
        let waited = granted.placed < granted.hold.at;
        if let Some(last) = last.filter(|last| waited && granted.placed < last.claim.called) {
            verdict.add(Rule::Queue, format!("{last} overtook {granted}, which waited since {}", s(granted.placed)));
        }
        if last.is_none_or(|last| granted.claim.called > last.claim.called) {
            last = Some(granted);
        }
    }
}

fn claims_end_well(claims: &[Claim], verdict: &mut Verdict) {
    for claim in claims {
        match &claim.end {
            End::Waits => verdict.add(Rule::Unserved, format!("{claim} still waits")),
            End::NotGranted { why, .. } if claim.is_steady => {
                verdict.add(Rule::LostPlace, format!("{claim} was not granted: {why}"));
            }
            End::NotGranted { why, is_excused: false } => {
                verdict.add(Rule::Refused, format!("{claim} was not granted: {why}"));
            }
            End::NotGranted { .. } => {}
            End::Granted(hold) => match &hold.end {
                HoldEnd::Denied(why) => verdict.add(Rule::LostHold, format!("{claim} could not be released: {why}")),
                HoldEnd::Lost(why) if claim.is_steady => {
                    verdict.add(Rule::LostHold, format!("{claim} was lost: {why}"));
                }
                HoldEnd::Open => verdict.add(Rule::Unserved, format!("{claim} waits for the answer to its release")),
                HoldEnd::Released(_) | HoldEnd::Lost(_) => {}
            },
        }
    }
}

/// A listing shows the hold in which a client believed from before the listing was asked for until it was answered.
fn sights_show_holds(lock: &str, by_time: &[Granted<'_>], sights: &[Sight], verdict: &mut Verdict) {
    let mut next = 0;
    for sight in sights {
        while by_time.get(next).is_some_and(|granted| granted.hold.at <= sight.asked) {
            next += 1;
        }
        let Some(granted) = next.checked_sub(1).map(|last| by_time[last]) else { continue };
        let shown = sight.locks.get(lock).and_then(|queue| queue.holder).map(|(_, fence)| fence);
        if granted.hold.until >= sight.answered && shown != Some(granted.hold.fence) {
            let text = format!("the listing of {} shows {shown:?} as the holder, not {granted}", s(sight.answered));
            verdict.add(Rule::LostHold, text);
        }
    }
}

fn sights_show_no_released_hold(sights: &[Sight], by_owner: &HashMap<u64, &Claim>, verdict: &mut Verdict) {
    for sight in sights {
        for (owner, fence) in sight.locks.values().filter_map(|queue| queue.holder) {
            let Some(claim) = by_owner.get(&owner) else { continue };
            let released = claim.hold().filter(|hold| matches!(hold.end, HoldEnd::Released(at) if at < sight.asked));
            if released.is_some() {
                let text = format!("the listing of {} shows {claim} as the holder (fence {fence})", s(sight.asked));
                verdict.add(Rule::LostRelease, text);
            }
        }
    }
}

/// A claim that a listing showed is in all later listings, until its client has let go of it.
fn sights_keep_places(sights: &[Sight], by_owner: &HashMap<u64, &Claim>, verdict: &mut Verdict) {
    let nothing = Queue::default();
    let mut expected: Vec<&Claim> = Vec::new();
    for sight in sights {
        // A client that was granted nothing may have given up at any time.
        expected.retain(|claim| claim.hold().is_some_and(|hold| hold.until >= sight.answered));
        for claim in &expected {
            if !sight.locks.get(&claim.lock).unwrap_or(&nothing).shows(claim.owner) {
                let text = format!("the listing of {} does not show {claim} any more", s(sight.answered));
                verdict.add(Rule::LostPlace, text);
            }
        }
        expected.clear();
        let owners = |queue: &'_ Queue| queue.holder.map(|(owner, _)| owner).into_iter().chain(queue.waiters.clone());
        expected.extend(sight.locks.values().flat_map(owners).filter_map(|owner| by_owner.get(&owner)).copied());
    }
}

fn s(time: Micros) -> String {
    format!("{}.{:06} s", time / 1_000_000, time % 1_000_000)
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of client {} (owner {:016x}, asked for at {}",
            self.lock,
            self.client,
            self.owner,
            s(self.called)
        )?;
        if let Some(hold) = self.hold() {
            write!(f, ", fence {}, believed from {} to {}, {:?}", hold.fence, s(hold.at), s(hold.until), hold.end)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Granted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim.fmt(f)
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
