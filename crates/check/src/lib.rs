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
//! Inside, [`explore`](explore::explore) knows nothing of protocols; `system` is a group and its network as a value;
//! `group` has what all models have in common; `mutex`, `election` and `detector` say what can happen to a group of their
//! family and what must not, `faults` what can go wrong; `liveness` looks for somebody who waits for ever in runs that never
//! end; of those who ask for ever `normal` forms make the states finite; `after` starts a check after a list of actions;
//! `recount` goes the way to a violation again, and `story` tells it.

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
