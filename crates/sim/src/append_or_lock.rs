//! Record append next to what it does without: lock, read where the file ends, write there, release.

use crate::app::mutex::{Load, Workload};
use crate::metrics::DelaySummary;
use crate::network::Delay;
use crate::report::Report;
use crate::run::{Options, RunError, run};

/// Both on the same load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Without a lock.
    pub append: Cost,
    /// With a lock around a read and a write of the same replicated file.
    pub lock: Cost,
}

/// What one append costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// All messages, those of lock, read and write included.
    pub messages: f64,
    /// From the wish to the answer, in T, in the mean.
    pub delay: f64,
    /// How many there are per T, all clients together.
    pub throughput: f64,
}

/// A read asks the primary and is answered.
const READ_MESSAGES: f64 = 2.0;
const READ_DELAYS: f64 = 2.0;
/// A write goes through the primary to the other replicas and back, as an append does.
const WRITE_DELAYS: f64 = 4.0;

/// Runs record append as the options say, and then the same load with the mutual exclusion algorithm `lock`, whose holders
/// stay inside for as long as a read and a write take. None if the options are for something else, or nothing was
/// measured. Exact where delays are constant; elsewhere the slowest of several replicas takes longer than the mean.
pub fn compare(options: &Options, lock: &str) -> Result<Option<Comparison>, RunError> {
    let Report::Append(append) = run(options, None)? else { return Ok(None) };
    let mut locked = options.clone();
    locked.algorithm = lock.into();
    locked.params.variant = None;
    locked.workload.hold = (READ_DELAYS + WRITE_DELAYS) * mean(options.network.delay);
    let Report::Mutex(lock) = run(&locked, None)? else { return Ok(None) };
    let write_messages = 2.0 + 2.0 * (append.replicas as f64 - 1.0);
    let with_lock = lock.messages_per_entry.map(|messages| messages + READ_MESSAGES + write_messages);
    let cost = |messages: Option<f64>, delay: Option<DelaySummary>, inside: f64| {
        let delay = delay?.mean + inside;
        let throughput = at_once(&options.workload, append.n) / (delay + options.workload.think);
        Some(Cost { messages: messages?, delay, throughput })
    };
    let without = cost(append.messages_per_append, append.client_delay, 0.0);
    let with = cost(with_lock, lock.client_delay, locked.workload.hold);
    Ok(without.zip(with).map(|(append, lock)| Comparison { append, lock }))
}

/// How many clients have something to append, or think about it, at any time.
fn at_once(workload: &Workload, clients: usize) -> f64 {
    match workload.load {
        Load::Solo | Load::SoloRandom => 1.0,
        Load::All | Load::Random => clients as f64,
    }
}

fn mean(delay: Delay) -> f64 {
    match delay {
        Delay::Constant(mean) | Delay::Exponential(mean) | Delay::Pareto(mean, _) => mean,
        Delay::Uniform(min, max) => (min + max) / 2.0,
    }
}
