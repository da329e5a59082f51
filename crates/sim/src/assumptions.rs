//! What a group assumes beyond what its algorithm does, and what can be told only when the group is known.

use std::ops::Range;

use baton_protocol::registry::{About, Crashes};

use crate::faults::{Fault, FaultKind};
use crate::run::{Options, RunError};

/// Refuses recoveries without memory where everybody has to remember.
pub fn check_memory(about: &'static About, options: &Options, needed: bool) -> Result<(), RunError> {
    let forgets = |fault: &Fault| match fault.kind {
        FaultKind::Recover { process, memory: false } => Some(process),
        _ => None,
    };
    match options.faults.iter().find_map(forgets) {
        Some(process) if needed && !options.ignore_assumptions => Err(RunError::Assumption {
            algorithm: about.name,
            assumes: "behind a guard that no judge forgets which terms it gave",
            instead: format!("P{process} would"),
        }),
        _ => Ok(()),
    }
}

/// Refuses to crash all helpers where one has to survive.
pub fn check_survivors(about: &'static About, options: &Options, helpers: Range<usize>) -> Result<(), RunError> {
    let crashes = |helper| options.faults.iter().any(|fault| fault.kind == FaultKind::Crash(helper));
    if about.assumes.crashes != Crashes::ButOne || options.ignore_assumptions || !helpers.clone().all(crashes) {
        return Ok(());
    }
    Err(RunError::Assumption {
        algorithm: about.name,
        assumes: "that one replica never crashes",
        instead: format!("all of them, P{} to P{}, would", helpers.start, helpers.end - 1),
    })
}
