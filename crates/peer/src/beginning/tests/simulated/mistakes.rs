//! Mistakes in the beginning, each of which the oracle must find.
//!
//! Some changes of `beginning.rs` are no mistakes, because a second rule does the same. A member that has begun ends when
//! another one has changed its list: the other one also ends, and says so. A member begins only with those that are READY
//! with the same list: the generation is the same only if the list is. A member writes only when all lists are equal: it
//! would begin only then anyway, although the generations would have gaps. A wrong write that counts, and a mark that a member
//! keeps when it is READY, do harm only at rare moments: `beginning/tests.rs` looks at them directly.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::World;
use crate::beginning::{Agreed, Beginning, Past, Phase, Stage, Statement, complete, group, wait_ms};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A member begins when it is READY itself.
    BeginsAlone,
    /// A member says READY before its file is written.
    SaysReadyWhileItWrites,
    DoesNotWrite,
    ReadsNoFile,
    /// A member that was READY changes its list, and does not count its generation as used.
    UsesAGenerationTwice,
    /// A member waits for READY of all, although another one has begun.
    BeginsOnlyByItself,
    /// A member that has begun goes on when another one says that it has ended.
    IgnoresAnEnd,
    EndsSilently,
    /// A member that has begun goes on when a member that never began starts again.
    GoesOnWithoutTheLost,
    /// A member stays connected with an earlier start of another one.
    KeepsOutdated,
    /// A member of an earlier generation does not end when it meets a later one.
    JudgesNoGeneration,
    DoesNotWait,
}

/// What the oracle says, and the seed with which the search begins: the seeds below it are known to find nothing.
const MISTAKES: [(Mistake, &str, u64); 12] = [
    (Mistake::BeginsAlone, "did not write", 0),
    (Mistake::SaysReadyWhileItWrites, "did not write", 0),
    (Mistake::DoesNotWrite, "did not write", 0),
    (Mistake::ReadsNoFile, "two beginnings of generation", 0),
    (Mistake::UsesAGenerationTwice, "two beginnings of generation", 100),
    (Mistake::BeginsOnlyByItself, "an item before the beginning", 0),
    (Mistake::IgnoresAnEnd, "goes on, although a process of its list has ended", 0),
    (Mistake::EndsSilently, "goes on, although a process of its list has ended", 0),
    (Mistake::GoesOnWithoutTheLost, "was started again before it had begun", 0),
    (Mistake::KeepsOutdated, "waits for ever", 100),
    (Mistake::JudgesNoGeneration, "two groups", 2500),
    (Mistake::DoesNotWait, "may have a lease", 0),
];

const SEEDS_MAX: u64 = 20_000;

/// Changes what a member has decided. `read` is what its file said at its start.
pub fn distort(mistake: Mistake, beginning: &mut Beginning, read: Past) {
    match (mistake, beginning.phase) {
        (Mistake::BeginsAlone, Phase::Ready(past)) => {
            let Some(list) = complete(&beginning.list) else { return };
            let (wait_ms, group) = (wait_ms(&list), group(&beginning.list));
            beginning.phase = Phase::Begun(Agreed { generation: past.generation, wait_ms, group });
            beginning.incarnations.freeze();
        }
        (Mistake::UsesAGenerationTwice, Phase::Gathering) => {
            let me = beginning.me;
            beginning.list[me].iter_mut().for_each(|own| own.past = read);
        }
        _ => {}
    }
}

/// What a member says.
pub fn said(mistake: Option<Mistake>, beginning: &Beginning) -> Statement {
    let statement = beginning.statement();
    match (mistake, beginning.phase) {
        (Some(Mistake::SaysReadyWhileItWrites), Phase::Writing(work)) => {
            Statement { stage: Stage::Ready { generation: work.past.generation }, ..statement }
        }
        _ => statement,
    }
}

/// What a member hears. None: nothing.
pub fn heard(mistake: Option<Mistake>, beginning: &Beginning, statement: Statement) -> Option<Statement> {
    let Some(mistake) = mistake else { return Some(statement) };
    match (mistake, statement.stage) {
        (Mistake::IgnoresAnEnd, Stage::Ended) if beginning.begun().is_some() => None,
        (Mistake::BeginsOnlyByItself, Stage::Begun { generation }) if beginning.begun().is_none() => {
            Some(Statement { stage: Stage::Ready { generation }, ..statement })
        }
        _ => Some(statement),
    }
}

/// The seed that finds the mistake, and what the oracle says.
fn find(mistake: Mistake, from: u64) -> Option<(u64, String)> {
    (from..from + SEEDS_MAX).find_map(|seed| {
        let run = || {
            let mut world = World::new(seed, Some(mistake));
            world.run();
            world.judge();
        };
        let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
        let said = panic.downcast_ref::<String>().cloned();
        Some((seed, said.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"").to_string())))
    })
}

#[test]
fn each_mistake_in_the_beginning_is_found() {
    for (mistake, words, from) in MISTAKES {
        let found = find(mistake, from);
        println!("{mistake:?}: {found:?}");
        let (_, said) = found.unwrap_or_else(|| panic!("{mistake:?} is not found in {SEEDS_MAX} seeds"));
        assert!(said.contains(words), "{mistake:?}: {said}");
    }
}
