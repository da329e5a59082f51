//! The model checker: it tries every interleaving of a small group, through the unchanged step functions.
//!
//! The simulator samples schedules; [`check`] explores all of them. A property that holds here cannot fail within the
//! stated bounds (number of processes, requests of each process, timers). A property that fails comes with a shortest
//! counterexample.
//!
//! ```
//! use baton_check::{Options, Verdict, check};
//! use baton_protocol::registry::Params;
//!
//! let report = check("ricart-agrawala-time-only", &Params::new(2, 1), &Options::default())?;
//! assert_eq!((report.result, report.steps), (Verdict::Violated, Some(6)));
//! # Ok::<(), baton_check::CheckError>(())
//! ```
//!
//! Modules: [`explore`](explore::explore) searches any model and knows nothing of protocols. `system` is a group and
//! its network as a value. `group` is the common part of all models; `mutex`, `election` and `detector` add the steps
//! and properties of their families, and `faults` adds faults. `liveness` looks for a client that waits for ever in a
//! run that never ends; if clients request for ever, `normal` makes the states finitely many. `after` starts a
//! check after a list of actions. `recount` repeats the path to a violation, and `story` describes it.
//!
//! # Decisions
//!
//! - The checker numbers local states and messages, so that a global state is a few integers. It keeps only
//!   fingerprints of them.
//! - A protocol may name its counters (`counters`). Then the checker shifts each family of counters to its smallest
//!   value. This is exact as long as the protocol only compares them and adds 1.
//! - The checker does not use symmetry: ids break ties, so symmetry would be sound for almost no algorithm.
//! - The checker's detectors are perfect by default: every live process is told of a crash before the crashed process
//!   may come back. In elections a deadline is a suspicion too, so a wrong suspicion may be a timer that fires too
//!   early.
//! - When the checker checks detectors, the clock stands still and the times that they remember move into the past
//!   (`recede`). So the number of states is finite.

mod after;
#[cfg(test)]
mod beside_stage;
mod check;
mod detector;
mod election;
pub mod explore;
mod faults;
pub mod gallery;
mod group;
mod links;
mod liveness;
mod memory;
mod mutex;
mod network;
mod normal;
mod options;
mod packed;
mod recount;
mod report;
mod seen;
mod story;
mod system;

pub use baton_protocol::Property;
pub use check::{Checker, check};
pub use faults::Faults;
pub use memory::Memory;
pub use network::LinkOrder;
pub use options::{CheckError, Options, Watch};
pub use report::{CheckReport, Cyclic, Reached, Trace, Unchecked, Verdict};
