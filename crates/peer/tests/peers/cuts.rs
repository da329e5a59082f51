//! Links that are cut, reset, cut in the middle of a frame and held: the members exclude each other all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_peer::{GroupFile, LinkError, Member, Options, PeerGroup, Warning};
use baton_protocol::registry::{ALGORITHMS, Family};
use baton_proxy::{Counters, Mesh, Weather};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::{listeners, listening, within_a_minute};

/// The members of a group, with a proxy in every link.
pub struct Field {
    pub mesh: Mesh,
    pub members: Vec<Member>,
}

impl Field {
    pub async fn start(algorithm: &str, size: usize, seed: u64) -> Field {
        Field::with(algorithm, size, seed, |_| {}, |_, options| options).await
    }

    /// `option` changes the options of each member.
    pub async fn with(
        algorithm: &str,
        size: usize,
        seed: u64,
        change: impl FnOnce(&mut GroupFile),
        option: impl Fn(usize, Options) -> Options,
    ) -> Field {
        let (mut file, listeners) = listeners(algorithm, size).await;
        change(&mut file);
        let mesh = Mesh::start(&file.members, seed).unwrap();
        let mut joining = JoinSet::new();
        for (id, listener) in listeners.into_iter().enumerate() {
            let group = PeerGroup::new(GroupFile { members: mesh.addresses(id), ..file.clone() }).unwrap();
            let options = option(id, listening(listener));
            joining.spawn(async move { Member::join(&group, id, options).await.unwrap() });
        }
        let mut members = joining.join_all().await;
        members.sort_by_key(Member::id);
        Field { mesh, members }
    }

    /// Lets everybody enter again and again while `break_links` breaks links, and checks that they exclude each other.
    pub async fn everybody_wants(&self, label: &str, break_links: impl Future<Output = ()>) {
        let round = Round::default();
        let mut entering = JoinSet::new();
        for member in &self.members {
            entering.spawn(round.clone().enter(member.clone()));
        }
        break_links.await;
        self.mesh.heal();
        round.enough.store(true, Ordering::Relaxed);
        let mut entries = entering.join_all().await.concat();
        entries.sort_unstable();
        assert!(!round.overlapped.load(Ordering::Relaxed), "{label}: two were inside");
        assert!(entries.iter().map(|(seen, _)| *seen).eq(0..entries.len() as u64), "{label}: {entries:?}");
        assert!(entries.windows(2).all(|pair| pair[0].1 < pair[1].1), "{label}: fences grow: {entries:?}");
    }
}

/// What all callers share.
#[derive(Clone, Default)]
struct Round {
    counter: Arc<AtomicU64>,
    inside: Arc<AtomicBool>,
    overlapped: Arc<AtomicBool>,
    /// A member that has made its entries stops.
    enough: Arc<AtomicBool>,
}

/// How often each member enters at least.
const ENTRIES: usize = 5;

impl Round {
    /// Returns what the counter was at each entry, and the fence.
    async fn enter(self, member: Member) -> Vec<(u64, u64)> {
        let lock = member.lock(b"a").unwrap();
        let mut entries = Vec::new();
        while entries.len() < ENTRIES || !self.enough.load(Ordering::Relaxed) {
            let grant = lock.acquire().await.unwrap();
            if self.inside.swap(true, Ordering::SeqCst) {
                self.overlapped.store(true, Ordering::Relaxed);
            }
            let seen = self.counter.load(Ordering::Relaxed);
            sleep(Duration::from_millis(1)).await;
            self.counter.store(seen + 1, Ordering::Relaxed);
            entries.push((seen, grant.fence()));
            self.inside.store(false, Ordering::SeqCst);
            grant.release();
        }
        entries
    }
}

/// Frequent and short, so that there are many faults in a second.
pub const STORM: Weather = Weather {
    calm: Duration::from_millis(20),
    lasts_max: Duration::from_millis(30),
    delay: baton_proxy::Delay { min: Duration::ZERO, max: Duration::from_millis(1) },
    cuts: 1,
    resets: 2,
    cuts_after: 3,
    cut_after_bytes_max: 300,
    holds: 1,
    cuts_one_way: 1,
};

/// Many faults of every kind have happened to connections in use.
fn were_many(counters: Counters) -> bool {
    let Counters { cut, reset, cut_after, held, .. } = counters;
    cut >= 60 && reset >= 30 && cut_after >= 20 && held >= 30
}

async fn members_exclude_each_other_in_a_storm(algorithm: &str, size: usize, seed: u64) {
    let field = Field::start(algorithm, size, seed).await;
    field.mesh.weather(STORM);
    let storm = async {
        while !were_many(field.mesh.counters()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    field.everybody_wants(algorithm, storm).await;
    assert!(were_many(field.mesh.counters()));
    for member in &field.members {
        member.shutdown().await;
    }
}

/// Every algorithm that is not broken on purpose: those whose number modulo 3 is `part`.
async fn storms(part: usize) {
    let locks = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    for (number, about) in locks.enumerate().filter(|(number, _)| number % 3 == part) {
        let size = 3 + number / 3 % 3;
        within_a_minute(members_exclude_each_other_in_a_storm(about.name, size, number as u64)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_exclude_each_other_in_a_storm_first_part() {
    storms(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_exclude_each_other_in_a_storm_second_part() {
    storms(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_exclude_each_other_in_a_storm_third_part() {
    storms(2).await;
}

/// A reset connection is not a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_reset_again_and_again() {
    const RESETS: u64 = 30;
    for algorithm in ["lamport", "ricart-agrawala", "central-elected", "token-ring"] {
        within_a_minute(async {
            // Short beats, so that every connection is soon used.
            let field = Field::with(algorithm, 3, 0, |file| file.delay_max_ms = 20, |_, options| options).await;
            let link = field.mesh.link(1, 0);
            let resets = async {
                for resets in 1..=RESETS {
                    // The connection was used.
                    let before = link.counters();
                    link.wait_until(|now| now.open == 1 && now.backward_bytes > before.backward_bytes).await;
                    field.mesh.reset(0, 1);
                    link.wait_until(|now| now.reset + now.broken >= resets).await;
                }
            };
            field.everybody_wants(algorithm, resets).await;
            assert!(link.counters().reset >= RESETS / 2, "{:?}", link.counters());
        })
        .await;
    }
}

/// The next warning that `is` asks for.
async fn warning(warnings: &mut mpsc::Receiver<Warning>, is: impl Fn(&Warning) -> bool) -> Warning {
    loop {
        let warning = warnings.recv().await.expect("the member runs");
        if is(&warning) {
            return warning;
        }
    }
}

/// A cable that is pulled closes no connection. Both sides notice the silence, and go on when the cable is back.
#[tokio::test]
async fn a_silent_link_is_noticed_and_opened_again() {
    within_a_minute(async {
        let (notices, mut warnings): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(64)).unzip();
        let option = |id: usize, options| Options { warnings: Some(notices[id].clone()), ..options };
        let field = Field::with("ricart-agrawala", 2, 0, |_| {}, option).await;
        field.mesh.hold(0, 1);
        let lock = field.members[0].lock(b"a").unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
        for (id, warnings) in warnings.iter_mut().enumerate() {
            let peer = 1 - id;
            let is_silent = |error: &LinkError| matches!(error, LinkError::SilentFor(_));
            warning(warnings, |warning| matches!(warning, Warning::Broken { error, .. } if is_silent(error))).await;
            let hopeless = field.members[id].hopeless().unwrap();
            assert_eq!(hopeless.peer, peer);
            let start = format!("waiting for process {peer}, not heard of for ");
            assert!(hopeless.to_string().starts_with(&start), "{hopeless}");
        }
        assert!(!waiting.is_finished());
        field.mesh.heal();
        waiting.await.unwrap().unwrap();
        for (id, warnings) in warnings.iter_mut().enumerate() {
            warning(warnings, |warning| *warning == Warning::Back { peer: 1 - id }).await;
            while field.members[id].hopeless().is_some() {
                yield_now().await;
            }
        }
    })
    .await;
}

/// Member 1 is inside and the others wait, when one of the three is gone without a word. Everybody else is told whom they
/// wait for, and nobody enters beside the holder.
async fn one_is_killed(algorithm: &'static str, victim: usize) {
    let label = format!("{algorithm}, process {victim} is killed");
    let mut members: Vec<Option<Member>> = crate::start(algorithm, 3).await.into_iter().map(Some).collect();
    let lock = |id: usize| members[id].as_ref().unwrap().lock(b"a").unwrap();
    let grant = lock(1).acquire().await.unwrap();
    let fence = grant.fence();
    let mut waiting = Vec::new();
    for id in [0, 2] {
        let lock = lock(id);
        waiting.push(tokio::spawn(async move { lock.acquire().await.map(|grant| grant.fence()) }));
        crate::requests(members[id].as_ref().unwrap(), 1).await;
    }
    drop(members[victim].take());
    for member in members.iter().flatten() {
        while member.hopeless().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(member.hopeless().unwrap().peer, victim, "{label}");
    }
    for (id, waiting) in [0, 2].into_iter().zip(&waiting) {
        assert!(!waiting.is_finished() || id == victim, "{label}: nobody overlaps");
    }
    // The grant of a member that is gone releases nothing. Another grant may let others in, one after the other.
    grant.release();
    for member in members.iter().flatten() {
        member.shutdown().await;
    }
    let mut fences = Vec::new();
    for waiting in waiting {
        // Each member that was not let in is told.
        fences.extend(waiting.await.unwrap().ok());
    }
    assert!(victim != 1 || fences.is_empty(), "{label}: nobody can enter after a holder that is gone");
    assert!(fences.iter().all(|&later| later > fence), "{label}: fences grow");
}

#[tokio::test]
async fn when_one_is_killed_nobody_overlaps_and_all_are_told() {
    let locks = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    let mut groups = JoinSet::new();
    for (about, victim) in locks.flat_map(|about| (0..3).map(move |victim| (about, victim))) {
        groups.spawn(within_a_minute(one_is_killed(about.name, victim)));
    }
    groups.join_all().await;
}
