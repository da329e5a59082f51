//! What the page shows beyond the rows: how fair the algorithms are, and what becomes of voting under contention.

use baton_protocol::registry;
use baton_sim::app::mutex::Load;
use baton_sim::metrics::DelaySummary;
use baton_sim::network::Delay;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::voting;

use super::{Contestant, HOLD, parallel};

/// How fairly an algorithm treats its clients.
pub struct Fairness {
    /// Which algorithm.
    pub name: String,
    /// From request to entry.
    pub client_delay: DelaySummary,
    /// How often the least and the most served client entered, as a share of what would be fair.
    pub least: f64,
    /// The same of the most served one.
    pub most: f64,
}

/// How many clients compete for fairness.
pub const FAIRNESS_CLIENTS: usize = 9;

/// Everybody always wants to enter, on a network whose delays have heavy tails: there luck is unevenly spread.
pub fn fairness(contestants: &[Contestant]) -> Vec<Fairness> {
    let measured = parallel::map(contestants, "fairness", |contestant| {
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
    });
    measured.into_iter().flatten().collect()
}

/// How well voting uses the critical section, by the number of clients that compete.
pub struct Utilization {
    /// Which way of asking.
    pub name: String,
    /// Clients, and the share of time that somebody is inside.
    pub points: Vec<(f64, f64)>,
}

/// How many coordinators they compete for.
pub const COORDINATORS: usize = 5;

/// Beyond these, a fixed back-off takes next to for ever.
const COMPETITORS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Both ways of asking, each with a back-off that grows with the competitors, as by default, and with a fixed one.
pub fn utilization() -> Vec<Utilization> {
    let Ok(about) = registry::find("voting") else { return Vec::new() };
    let variants = [None, Some("ask-all"), Some("back-off:8"), Some("ask-all+back-off:8")];
    let variants = variants.map(|variant| Contestant { about, variant });
    let each = |contestant: Contestant| COMPETITORS.map(|competitors| (contestant, competitors));
    let tasks: Vec<(Contestant, usize)> = variants.into_iter().flat_map(each).collect();
    let shares = parallel::map(&tasks, "voting under contention", |(contestant, competitors)| {
        let mut options = contestant.options(*competitors, Load::All);
        options.params.coordinators = Some(COORDINATORS);
        // If all messages took equally long, the first to ask would be the first everywhere, and votes never split.
        options.network.delay = Delay::Uniform(0.5, 1.5);
        options.params.delay_max = options.network.delay.guess();
        options.workload.entries = 4 * *competitors as u64 + 400;
        let sync_delay = measure(&options)?.sync_delay?;
        Some((*competitors as f64, voting::utilization(HOLD, sync_delay.mean)))
    });
    let points = shares.chunks(COMPETITORS.len()).map(|points| points.iter().copied().flatten().collect());
    variants.iter().zip(points).map(|(variant, points)| Utilization { name: variant.name(), points }).collect()
}

fn measure(options: &Options) -> Option<MutexReport> {
    match simulate(options, None) {
        Ok(Report::Mutex(report)) => Some(*report),
        _ => None,
    }
}
