//! Compares record append with the same work under a lock: lock, read where the file ends, write there, release.

use crate::app::mutex::{Load, Workload};
use crate::metrics::DelaySummary;
use crate::network::Delay;
use crate::report::Report;
use crate::run::{Options, RunError, run};

/// The costs of both ways under the same load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Record append, without a lock.
    pub append: Cost,
    /// A lock around a read and a write of the same replicated file.
    pub lock: Cost,
}

/// The mean cost of one append.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// All messages, including those of lock, read and write.
    pub messages: f64,
    /// From the request to the answer, in T.
    pub delay: f64,
    /// Appends per T, of all clients together.
    pub throughput: f64,
}

/// A read: a request to the primary, and its answer.
const READ_MESSAGES: f64 = 2.0;
const READ_DELAYS: f64 = 2.0;
/// A write goes from the primary to the other replicas and back, as an append does.
const WRITE_DELAYS: f64 = 4.0;

/// Runs record append with `options`, and then the same load with the mutual exclusion algorithm `lock`. Each holder
/// stays in the critical section for as long as a read and a write take. None if the options are not for record append,
/// or if nothing was measured.
///
/// The result is exact for constant delays. With other delays a real write takes longer, because it waits for the
/// slowest of several replicas, and the model assumes mean delays.
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

/// Number of clients that append, or think before their next append, at any time.
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
