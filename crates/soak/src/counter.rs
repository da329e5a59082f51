//! The users and the judge of the test module: see `baton_state::state::counter`.

use std::collections::BTreeMap;

use baton_client::session::{Session, SessionState};
use baton_state::state::counter::{Answer, Command as OfCounter, Operation, RESET_AFTER_MS, VALUE_MAX, What};
use baton_state::state::{self, Command, Effect, Outcome, SessionId, State};
use baton_types::{counter, frames};

use super::modules::Simulated;
use super::{Options, SoakReport};

#[derive(Default)]
pub(super) struct Counter {
    /// None: nobody uses the counter in this run.
    rng: Option<fastrand::Rng>,
    value: u64,
    added_ms: u64,
    answers: BTreeMap<(SessionId, u64), Answer>,
    pub additions: u64,
    /// How often the time of the last addition ended.
    pub resets: u64,
    /// How many answers clients got.
    pub heard: u64,
}

/// A run in which all clients also use the counter. Returns how often they added, how often the counter was reset, and how
/// many answers they got.
pub fn run(options: Options) -> (SoakReport, [u64; 3]) {
    let mut world = super::world::World::new(options);
    world.modules.counter.rng = Some(fastrand::Rng::with_seed(options.seed));
    let report = super::report(&mut world);
    let Counter { additions, resets, heard, .. } = world.modules.counter;
    (report, [additions, resets, heard])
}

impl Simulated for Counter {
    fn acts(&mut self, now_ms: u64, session: &mut Session) {
        let Some(rng) = self.rng.as_mut().filter(|_| session.state(now_ms) == SessionState::Alive) else { return };
        match rng.u8(..4) {
            0 | 1 => drop(session.ask(now_ms, counter::Operation::Add(rng.u64(..40)))),
            2 => drop(session.ask(now_ms, counter::Operation::Read)),
            _ => {}
        }
    }

    fn answered(&mut self, session: SessionId, number: u64, answer: &frames::Answer) -> Result<(), String> {
        let committed = self.answers.get(&(session, number));
        let is_right = match answer {
            frames::Answer::Counter(counter::Answer(value)) => committed == Some(&Answer::Value(*value)),
            // By the state, or by the front end before anything was proposed.
            _ => committed.is_none_or(|committed| *committed == Answer::TooMuch),
        };
        self.heard += 1;
        if is_right { Ok(()) } else { Err(format!("request {number} of {session} got {answer:?}, not {committed:?}")) }
    }

    fn committed(&mut self, now_ms: u64, command: &Command, outcome: &Outcome, truth: &State) -> Result<(), String> {
        for change in &outcome.changes {
            let state::What::Counter(What { before, after }) = change.what else { continue };
            match command {
                Command::Request(_) if before == self.value && (before..=VALUE_MAX).contains(&after) => {
                    (self.additions, self.added_ms) = (self.additions + 1, now_ms);
                }
                // Clocks of the simulator drift by less than a tenth.
                Command::Counter(OfCounter::EndOf { .. })
                    if after == 0 && now_ms >= self.added_ms + RESET_AFTER_MS * 9 / 10 =>
                {
                    self.resets += 1;
                }
                _ => return Err(format!("the counter goes from {before} to {after} by {command:?}")),
            }
            self.value = after;
        }
        for effect in &outcome.effects {
            let Effect::Answer { session, number, answer: state::Answer::Counter(answer) } = effect else { continue };
            let first = self.answers.entry((*session, *number)).or_insert_with(|| answer.clone());
            if first != answer {
                return Err(format!("request {number} of {session} is answered {answer:?} after {first:?}"));
            }
            if let Command::Request(state::Request { operation: state::Operation::Counter(operation), .. }) = command
                && *operation == Operation::Read
                && outcome.changes.iter().any(|change| matches!(change.what, state::What::Counter(_)))
            {
                return Err("a read changes the counter".to_owned());
            }
        }
        if truth.counter().value == self.value { Ok(()) } else { Err("a change of the counter is missing".to_owned()) }
    }
}
