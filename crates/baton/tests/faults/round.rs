//! Runs one round: load, faults, healing, and the verdict.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_client::Client;
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::LONG;
use crate::clients::{Recorder, SHORT, STEADY, Worker};
use crate::cluster::{Beginning, Cluster, Stuck};
use crate::history::{History, Micros};
use crate::judge::{Violation, judge};
use crate::planted::unnoticed;
use crate::schedule::{Fault, Kind, Round, Story};

/// Clients with short leases, which contend for a few locks.
const WORKERS: usize = 6;
const LOCKS: usize = 3;
/// Clients that are never excused, which pass one lock around.
const STEADY_WORKERS: usize = 4;
/// Clients that wait for one lock from the beginning to the end.
const KEEPERS: usize = 4;

/// What happened in a round.
#[derive(Debug, Default)]
pub struct Report {
    /// For each fault: how long after it a lock was granted for which a client had asked after it. For a change of
    /// several steps: the longest time in which no lock was granted.
    pub gaps: Vec<(String, Duration)>,
    pub claims: usize,
    pub grants: usize,
    pub sights: usize,
    pub lost_sessions: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, gap) in &self.gaps {
            write!(f, "{fault} {:.2} s, ", gap.as_secs_f64())?;
        }
        let Report { claims, grants, sights, lost_sessions, .. } = self;
        write!(f, "{claims} requests, {grants} grants, {sights} listings, {lost_sessions} sessions lost")
    }
}

struct Running {
    cluster: Cluster,
    recorder: Arc<Recorder>,
    clients: Vec<JoinHandle<()>>,
    report: Report,
}

/// Returns what happened, or all that went wrong.
pub async fn run(round: &Round, folder: PathBuf) -> Result<Report, Vec<String>> {
    let (size, listed) = match round.story {
        Story::Faults { size, .. } => (size, size),
        Story::Growth => (5, 1),
    };
    let cluster = Cluster::new(folder, size, listed, round.seed).map_err(|error| vec![error.to_string()])?;
    let (recorder, clients, report) = (Recorder::new(), Vec::new(), Report::default());
    let mut running = Running { cluster, recorder, clients, report };
    let stuck = running.tell(round).await.err();
    let served = running.ends().await;
    let (history, mut violations) = running.recorder.history();
    violations.extend(judge(&history));
    let mut wrong: Vec<String> = stuck.into_iter().chain(served.err()).collect();
    // One mistake often has many consequences.
    wrong.extend(violations.iter().take(20).map(Violation::to_string));
    running.report.count(&history, running.recorder.lost_sessions());
    if wrong.is_empty() {
        wrong = unnoticed(&history);
    }
    if wrong.is_empty() {
        return Ok(running.report);
    }
    wrong.push(format!("so far: {}{}", running.report, running.cluster.views().await));
    let text = format!("{history:#?}");
    let path = running.cluster.folder().join("history.txt");
    wrong.push(match std::fs::write(&path, text) {
        Ok(()) => format!("the history, the logs and the folders are in {}", running.cluster.folder().display()),
        Err(error) => format!("the history cannot be written: {error}"),
    });
    Err(wrong)
}

impl Report {
    fn count(&mut self, history: &History, lost_sessions: u64) {
        self.claims = history.claims.len();
        self.grants = history.claims.iter().filter(|claim| claim.hold().is_some()).count();
        self.sights = history.sights.len();
        self.lost_sessions = lost_sessions;
    }
}

impl Running {
    async fn tell(&mut self, round: &Round) -> Result<(), Stuck> {
        let mut random = fastrand::Rng::with_seed(round.seed);
        match &round.story {
            Story::Faults { size, faults, is_stormy } => {
                let beginning = if *size == 1 { Beginning::Alone } else { Beginning::Listed };
                for node in 0..*size {
                    self.cluster.start_as(node, beginning)?;
                }
                self.cluster.settles().await?;
                self.load(&mut random).await?;
                if *is_stormy {
                    self.cluster.storm();
                }
                for fault in faults {
                    sleep(fault.calm).await;
                    self.fault(fault).await.map_err(|stuck| format!("{:?}: {stuck}", fault.kind))?;
                }
                self.cluster.mesh.heal();
            }
            Story::Growth => {
                self.cluster.start_as(0, Beginning::Alone)?;
                self.cluster.leader().await?;
                self.load(&mut random).await?;
                self.grow(&mut random).await?;
            }
        }
        self.cluster.settles().await
    }

    /// Starts the clients.
    async fn load(&mut self, random: &mut fastrand::Rng) -> Result<(), Stuck> {
        let addresses = self.cluster.addresses();
        self.clients.push(tokio::spawn(Arc::clone(&self.recorder).watch(addresses.clone())));
        for number in 0..KEEPERS {
            let keeps = self.recorder.keep(100 + number, &addresses, "kept");
            let task = timeout(LONG, keeps).await.map_err(|_| "a first request does not appear in a listing")?;
            self.clients.push(task);
        }
        for number in 0..WORKERS + STEADY_WORKERS {
            let is_steady = number >= WORKERS;
            let worker = Worker {
                recorder: Arc::clone(&self.recorder),
                number,
                addresses: addresses.clone(),
                ttl: if is_steady { STEADY } else { SHORT },
                locks: match is_steady {
                    true => vec!["queue".to_owned()],
                    false => (0..LOCKS).map(|lock| format!("work-{lock}")).collect(),
                },
                random: random.fork(),
                work_max: Duration::from_millis(if is_steady { 100 } else { 20 }),
                is_fickle: !is_steady,
            };
            self.clients.push(tokio::spawn(worker.run()));
        }
        // Nobody else wants this lock, so it shows how long no lock is granted.
        let probe = Worker {
            recorder: Arc::clone(&self.recorder),
            number: WORKERS + STEADY_WORKERS,
            addresses,
            ttl: Duration::from_secs(10),
            locks: vec!["probe".to_owned()],
            random: random.fork(),
            work_max: Duration::ZERO,
            is_fickle: false,
        };
        self.clients.push(tokio::spawn(probe.run()));
        Ok(())
    }

    /// Waits until locks are granted again. Returns how long that took.
    async fn recovers(&mut self, name: &str, since: Micros) -> Result<Duration, Stuck> {
        let stuck = |_| format!("{name}: no lock is granted for {LONG:?}");
        let gap = timeout(LONG, self.recorder.granted_after(since)).await.map_err(stuck)?;
        self.report.gaps.push((name.to_owned(), gap));
        Ok(gap)
    }

    /// After a change of several steps: notes the longest time without a grant.
    async fn went_on(&mut self, name: &str, since: Micros) -> Result<(), Stuck> {
        self.recovers(name, self.recorder.now()).await?;
        let (pause, last) = (self.recorder.longest_pause(since), self.report.gaps.last_mut());
        last.expect("it was noted").1 = pause;
        Ok(())
    }

    async fn fault(&mut self, fault: &Fault) -> Result<(), Stuck> {
        let (leader, _) = self.cluster.leader().await?;
        let followers: Vec<usize> = self.cluster.others(leader).collect();
        // A lone node has no follower.
        let follower = followers.get(fault.draw % followers.len().max(1)).copied().unwrap_or(leader);
        let since = self.recorder.now();
        match fault.kind {
            Kind::KillLeader => self.cluster.kill(leader)?,
            Kind::StopLeader => self.cluster.signal(leader, Signal::SIGSTOP)?,
            Kind::CutOffLeader => self.cluster.mesh.cut_off(leader),
            Kind::UnplugLeader => self.cluster.unplug(leader),
            Kind::DeafLeader => self.cluster.deafen(leader),
            Kind::DumbLeader => self.cluster.silence(leader),
            Kind::RestartLeader => {
                self.cluster.terminate(leader).await?;
                self.cluster.start(leader)?;
            }
            Kind::TransferLeader => self.transfer(leader, follower).await?,
            Kind::KillFollower => self.cluster.kill(follower)?,
            Kind::WipeFollower => self.wipe(leader, follower).await?,
            Kind::KillAll => {
                let all = self.cluster.running();
                all.iter().try_for_each(|&node| self.cluster.kill(node))?;
                all.iter().try_for_each(|&node| self.cluster.start(node))?;
            }
            Kind::RollingRestart => {
                for node in self.cluster.running() {
                    self.cluster.terminate(node).await?;
                    self.cluster.start(node)?;
                    self.cluster.settles().await?;
                }
            }
        }
        let name = format!("{:?}", fault.kind);
        let gap = match fault.kind {
            Kind::WipeFollower | Kind::RollingRestart | Kind::TransferLeader => {
                return self.went_on(&name, since).await;
            }
            _ => self.recovers(&name, since).await?,
        };
        match fault.kind {
            Kind::KillLeader | Kind::KillFollower => {
                sleep(fault.lasts.saturating_sub(gap)).await;
                self.cluster.start(if fault.kind == Kind::KillLeader { leader } else { follower })?;
            }
            Kind::StopLeader => {
                sleep(fault.lasts.saturating_sub(gap)).await;
                self.cluster.signal(leader, Signal::SIGCONT)?;
            }
            Kind::CutOffLeader | Kind::UnplugLeader | Kind::DeafLeader | Kind::DumbLeader => {
                sleep(fault.lasts.saturating_sub(gap)).await;
                self.cluster.bring_back(leader);
            }
            _ => {}
        }
        Ok(())
    }

    async fn transfer(&mut self, leader: usize, to: usize) -> Result<(), Stuck> {
        // Another node may come to lead meanwhile. Any change of the leader will do.
        let name = self.cluster.name(leader);
        let leads_other =
            |members: &[baton_client::views::Member]| members.iter().any(|m| m.role == "leader" && m.name != name);
        self.cluster.change(&["transfer", self.cluster.name(to)], leads_other).await
    }

    /// A follower loses its folder. Under its old id it could vote twice, so it comes back as a new node.
    async fn wipe(&mut self, leader: usize, follower: usize) -> Result<(), Stuck> {
        self.cluster.kill(follower)?;
        self.cluster.wipe(follower)?;
        self.cluster.remove(follower).await?;
        self.cluster.start_as(follower, Beginning::Joins(leader))?;
        self.cluster.admit(follower).await
    }

    /// From one node to three, to five, to three and to one.
    async fn grow(&mut self, random: &mut fastrand::Rng) -> Result<(), Stuck> {
        sleep(Duration::from_millis(random.u64(300..1_000))).await;
        let since = self.recorder.now();
        self.cluster.terminate(0).await?;
        self.cluster.start_as(0, Beginning::Reachable)?;
        self.went_on("restarted with an address for others", since).await?;
        for node in 1..self.cluster.size() {
            let (leader, _) = self.cluster.leader().await?;
            let since = self.recorder.now();
            self.cluster.start_as(node, Beginning::Joins(leader))?;
            self.cluster.admit(node).await?;
            self.went_on(&format!("grown to {}", node + 1), since).await?;
        }
        self.cluster.settles().await?;
        while self.cluster.running().len() > 1 {
            sleep(Duration::from_millis(random.u64(..500))).await;
            let running = self.cluster.running();
            let gone = running[random.usize(..running.len())];
            let since = self.recorder.now();
            self.cluster.remove(gone).await?;
            self.cluster.terminate(gone).await?;
            self.went_on(&format!("shrunk to {}", running.len() - 1), since).await?;
        }
        Ok(())
    }

    /// Every waiter is served, every client ends, and every node can be stopped.
    async fn ends(&mut self) -> Result<(), Stuck> {
        self.recorder.stop();
        for client in std::mem::take(&mut self.clients) {
            let abort = client.abort_handle();
            if timeout(LONG, client).await.is_err() {
                abort.abort();
                return Err(format!("a client does not end within {LONG:?}"));
            }
        }
        let client = Client::lazy(self.cluster.addresses()).map_err(|error| error.to_string())?;
        self.recorder.look(&client).await;
        for node in self.cluster.running() {
            self.cluster.terminate(node).await?;
        }
        Ok(())
    }
}
