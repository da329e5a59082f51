//! Two further measurements: how fair the algorithms are, and how voting behaves under contention.

use baton_protocol::registry;
use baton_sim::app::mutex::Load;
use baton_sim::metrics::DelaySummary;
use baton_sim::network::Delay;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::voting;
use serde::Serialize;

use crate::mutex::{Contestant, HOLD};
use crate::parallel::{self, Caller, Cancelled};

#[derive(Clone, Debug, Serialize)]
pub struct Fairness {
    pub name: String,
    pub client_delay: DelaySummary,
    /// Entries of the client with the fewest entries, as a share of the mean.
    pub least: f64,
    /// Entries of the client with the most entries, as a share of the mean.
    pub most: f64,
}

pub const FAIRNESS_CLIENTS: usize = 9;

/// All clients always want to enter, on a network whose delays have heavy tails, where clients are easily treated
/// unequally.
pub fn fairness(contestants: &[Contestant], caller: Caller) -> Result<Vec<Fairness>, Cancelled> {
    let measured = parallel::map(contestants, caller, |contestant| {
        let mut options = contestant.options(FAIRNESS_CLIENTS, Load::All);
        options.network.delay = Delay::Pareto(1.0, 1.5);
        options.params.delay_max = options.network.delay.guess();
        options.workload.entries = 300 * FAIRNESS_CLIENTS as u64;
        let report = measure(&options)?;
        let entries = &report.entries_by_client;
        let fair = entries.iter().sum::<u64>() as f64 / entries.len() as f64;
        Some(Fairness {
            name: contestant.name(),
            client_delay: report.client_delay?,
            least: *entries.iter().min()? as f64 / fair,
            most: *entries.iter().max()? as f64 / fair,
        })
    })?;
    Ok(measured.into_iter().flatten().collect())
}

/// How well voting uses the critical section, by the number of clients that compete.
#[derive(Clone, Debug, Serialize)]
pub struct Utilization {
    /// The variant of voting.
    pub name: String,
    /// The number of clients, and the share of time in which a client is in the critical section.
    pub points: Vec<(f64, f64)>,
}

pub const COORDINATORS: usize = 5;

/// The numbers of clients. With more clients and a fixed back-off, an entry takes extremely long.
const COMPETITORS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Asking m coordinators or all, each with the default back-off, which grows with the number of competitors, and a
/// fixed one.
pub fn utilization(caller: Caller) -> Result<Vec<Utilization>, Cancelled> {
    let Ok(about) = registry::find("voting") else { return Ok(Vec::new()) };
    let variants = [None, Some("ask-all"), Some("back-off:8"), Some("ask-all+back-off:8")];
    let variants = variants.map(|variant| Contestant { about, variant });
    let each = |contestant: Contestant| COMPETITORS.map(|competitors| (contestant, competitors));
    let tasks: Vec<(Contestant, usize)> = variants.into_iter().flat_map(each).collect();
    let shares = parallel::map(&tasks, caller, |(contestant, competitors)| {
        let mut options = contestant.options(*competitors, Load::All);
        options.params.coordinators = Some(COORDINATORS);
        // If all messages took equally long, all coordinators would vote for the same client, and votes would never be
        // split.
        options.network.delay = Delay::Uniform(0.5, 1.5);
        options.params.delay_max = options.network.delay.guess();
        options.workload.entries = 4 * *competitors as u64 + 400;
        let sync_delay = measure(&options)?.sync_delay?;
        Some((*competitors as f64, voting::utilization(HOLD, sync_delay.mean)))
    })?;
    let points = shares.chunks(COMPETITORS.len()).map(|points| points.iter().copied().flatten().collect());
    Ok(variants.iter().zip(points).map(|(variant, points)| Utilization { name: variant.name(), points }).collect())
}

fn measure(options: &Options) -> Option<MutexReport> {
    match simulate(options, None) {
        Ok(Report::Mutex(report)) => Some(*report),
        _ => None,
    }
}
