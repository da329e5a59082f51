//! Whole clusters in one thread, under virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_runtime::simulation::{Clock, Ran, Simulation, stop_soon};

use super::*;
use crate::raft::simulated::{Flags, Loss, Seat};

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Options {
    Options { segment_bytes: 4096, snapshot_after_bytes: 4096, ..Options::default() }
}

struct Trio {
    simulation: Simulation,
    seats: Vec<Seat>,
    /// Whether a node may end by itself.
    may_end: bool,
}

impl Trio {
    fn new(seed: u64) -> Trio {
        let simulation = Simulation::new(seed);
        simulation.network().set_delays(Duration::from_millis(2), Duration::from_millis(50));
        let seats = (0..3).map(|number| Seat::new(&simulation, number, Clock::default())).collect();
        Trio { simulation, seats, may_end: false }
    }

    fn start(&mut self, seat: usize) {
        let list = self.seats.iter().map(Seat::in_list).collect();
        self.seats[seat].start(&self.simulation, Flags::Cluster(list), settings());
    }

    /// The node that leads in the latest term.
    fn leader(&self) -> Option<(usize, u64)> {
        let leads = |(seat, place): (usize, &Seat)| Some((seat, place.leads_in()?));
        self.seats.iter().enumerate().filter_map(leads).max_by_key(|(_, term)| *term)
    }

    /// Lets time pass until the condition holds.
    fn until<T>(&self, what: &str, mut holds: impl FnMut(&Trio) -> Option<T>) -> T {
        let end = self.simulation.now() + 60 * SECOND;
        loop {
            self.simulation.run_ready();
            assert_eq!(self.simulation.panics(), Vec::<String>::new());
            for seat in self.seats.iter().filter(|_| !self.may_end) {
                assert_eq!(seat.ended(), None, "{} ends by itself", seat.name);
            }
            if let Some(held) = holds(self) {
                return held;
            }
            let next = self.simulation.next_alarm().filter(|next| *next < end);
            self.simulation.advance_to(next.unwrap_or_else(|| panic!("{what} within a minute")));
        }
    }

    fn kill(&mut self, seat: usize, loss: Loss) {
        self.seats[seat].kill(&self.simulation, loss);
    }

    /// The state that all nodes have.
    fn agreed(&self) -> Option<State> {
        let states: Option<Vec<_>> = self.seats.iter().map(|seat| Some(seat.node()?.state())).collect();
        let states = states?;
        states.iter().all(|state| *state == states[0]).then(|| states[0].clone())
    }

    /// Proposes an entry at the leader, again and again, until one says that it is applied.
    fn apply(&self, entry: &Entry) {
        loop {
            let (leader, _) = self.until("a leader", Trio::leader);
            let (node, entry) = (self.seats[leader].node().unwrap(), entry.clone());
            let applied = self
                .simulation
                .block_on(self.seats[leader].host, 5 * SECOND, async move { node.propose(entry).await.is_ok() });
            if applied == Some(true) {
                return;
            }
        }
    }
}

/// Three empty nodes form a cluster, one of them late. The leader loses power at a random moment, between any two steps of
/// its tasks. Returns all bytes that were sent.
fn survives_a_power_cut(seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut trio = Trio::new(seed);
    trio.simulation.network().trace();
    for seat in 0..3 {
        trio.start(seat);
        trio.simulation.run_until(trio.simulation.now() + rng.u32(..800) * Duration::from_millis(1));
    }
    for session in 1..10 {
        trio.apply(&open_session(session));
    }
    let (leader, term) = trio.until("a leader", Trio::leader);
    trio.simulation.stop_after(trio.seats[leader].host, rng.u64(1..2_000));
    let (node, host) = (trio.seats[leader].node().unwrap(), trio.seats[leader].host);
    for session in 10..200 {
        trio.simulation.on(host, || node.submit(term, open_session(session)));
    }
    drop(node);
    assert_eq!(trio.simulation.run_until(trio.simulation.now() + 60 * SECOND), Ran::Stopped(host));
    let known = trio.seats[leader].node().unwrap().state().counts().sessions;
    trio.seats[leader].kill(&trio.simulation, Loss::Unsynced(rng.u64(..4)));
    trio.apply(&open_session(1_000));
    trio.start(leader);
    let sessions = trio.until("all nodes have the same state", |trio| {
        let state = trio.agreed().filter(|state| state.session(SessionId(1_000)).is_some())?;
        Some(state.counts().sessions)
    });
    assert!(sessions > known, "{sessions} sessions, and the leader had {known} before");
    trio.simulation.network().traced()
}

/// Each thread has simulations of its own.
#[test]
fn a_seed_repeats_a_cluster_byte_for_byte() {
    const THREADS: u64 = 4;
    let lengths = std::thread::scope(|scope| {
        let some_seeds = |first| move || (first..100).step_by(THREADS as usize).map(repeats).collect::<Vec<usize>>();
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(some_seeds(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<usize>>()
    });
    assert!(lengths.len() > 90, "other seeds, other runs");
}

fn repeats(seed: u64) -> usize {
    let (one, other) = (survives_a_power_cut(seed), survives_a_power_cut(seed));
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    assert!(one == other, "seed {seed} sends other bytes after {same} of {} and {} bytes", one.len(), other.len());
    one.len()
}

/// Nodes 0 and 1 decide entries that node 2 does not get. Then the folder of node 1 is set back, so that it forgets these
/// entries and its votes, and it decides others with node 2, often in the same term. When node 0 is back, and another term
/// begins, there are two histories. Returns true if a node ends and says why, and false if all have one state. No two nodes
/// may go on with different states.
fn ends(seed: u64) -> bool {
    let mut trio = Trio::new(seed);
    (0..3).for_each(|seat| trio.start(seat));
    trio.apply(&open_session(1));
    trio.until("all have the first entries", Trio::agreed);
    (0..3).for_each(|seat| trio.kill(seat, Loss::Nothing));
    let older = trio.seats[1].disk.fork();
    [0, 1].into_iter().for_each(|seat| trio.start(seat));
    (10..10 + seed % 7).for_each(|session| trio.apply(&open_session(session)));
    [0, 1].into_iter().for_each(|seat| trio.kill(seat, Loss::Nothing));
    trio.seats[1].disk = older;
    [1, 2].into_iter().for_each(|seat| trio.start(seat));
    (20..20 + seed % 5).for_each(|session| trio.apply(&open_session(session)));
    trio.may_end = true;
    trio.start(0);
    let (leader, term) = trio.until("a leader", Trio::leader);
    trio.kill(leader, Loss::Nothing);
    trio.start(leader);
    let later = |trio: &Trio| trio.leader().is_some_and(|(_, now)| now > term);
    trio.until("a node ends, or all agree", |trio| {
        let why = trio.seats.iter().find_map(Seat::ended);
        if let Some(why) = &why {
            assert!(why.contains("was set back to an older copy"), "{why}");
        }
        why.map(|_| true).or_else(|| trio.agreed().filter(|_| later(trio)).map(|_| false))
    })
}

#[test]
fn two_histories_with_the_same_terms_do_not_go_on_side_by_side() {
    let ended = (0..40).filter(|seed| ends(*seed)).count();
    assert!(ended > 20, "{ended} of 40");
}

/// The folder of node 0 is copied to the machine of node 2, which starts with it while node 0 is cut off for a moment. No two
/// processes may lead in one term, and the copy ends: node 0 is at the address where the members look for it. Returns
/// whether the copy led.
fn copy_ends(seed: u64) -> bool {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut trio = Trio::new(seed);
    (0..3).for_each(|seat| trio.start(seat));
    trio.apply(&open_session(1));
    trio.until("all have the first entries", Trio::agreed);
    trio.kill(2, Loss::Nothing);
    trio.seats[2].disk = trio.seats[0].disk.copy();
    trio.may_end = true;
    trio.start(2);
    let hosts = [trio.seats[0].host, trio.seats[1].host];
    for (from, to) in [(0, 1), (1, 0)] {
        trio.simulation.network().cut(hosts[from], hosts[to]);
    }
    let mut leaders = BTreeMap::new();
    let mut judge = |trio: &Trio| {
        for (seat, term) in trio.seats.iter().enumerate().filter_map(|(seat, place)| Some((seat, place.leads_in()?))) {
            let first = *leaders.entry(term).or_insert(seat);
            assert_eq!(first, seat, "seed {seed}: two processes lead in term {term}");
        }
        leaders.values().any(|seat| *seat == 2)
    };
    let joins_at = trio.simulation.now() + rng.u32(..3_000) * Duration::from_millis(1);
    trio.until("the cut ends", |trio| {
        judge(trio);
        (trio.simulation.now() >= joins_at).then_some(())
    });
    trio.simulation.network().heal();
    trio.until("the copy ends", |trio| {
        judge(trio);
        assert_eq!(trio.seats[0].ended(), None, "seed {seed}: the original ends");
        trio.seats[2].ended()
    });
    judge(&trio)
}

#[test]
fn a_copy_of_a_folder_ends_and_shares_no_term_with_the_original() {
    let led = (0..40).filter(|seed| copy_ends(*seed)).count();
    assert!(led > 5, "{led} of 40");
}

/// A follower needs a snapshot. Its power is cut while it writes what arrives, so nobody closes the connection. When it is
/// back, it gets the snapshot again soon, although the leader would wait for a minute until it is installed.
fn gets_another_snapshot(seed: u64) {
    let mut trio = Trio::new(seed);
    (0..3).for_each(|seat| trio.start(seat));
    trio.apply(&open_session(1));
    trio.until("all have the first entries", Trio::agreed);
    trio.kill(2, Loss::Nothing);
    (10..80).for_each(|session| trio.apply(&open_session(session)));
    // The log that stays behind a snapshot is not older than that.
    trio.simulation.run_until(trio.simulation.now() + 20 * SECOND);
    (80..150).for_each(|session| trio.apply(&open_session(session)));
    let (host, disk) = (trio.seats[2].host, trio.seats[2].disk.clone());
    let mut left = 1 + seed % 3;
    disk.before_each(move |_, operation| {
        if operation.name().is_some_and(|name| name.starts_with("snapshot-")) {
            // The host ends soon, and may begin another operation before.
            if left == 1 {
                stop_soon(host);
            }
            left = left.saturating_sub(1);
        }
        Ok(())
    });
    trio.start(2);
    assert_eq!(trio.simulation.run_until(trio.simulation.now() + 60 * SECOND), Ran::Stopped(host), "seed {seed}");
    disk.ask_no_more();
    trio.kill(2, Loss::Unsynced(seed));
    trio.start(2);
    let end = trio.simulation.now() + 20 * SECOND;
    trio.until("all have the same state", |trio| {
        assert!(trio.simulation.now() < end, "seed {seed}: there is no other snapshot");
        trio.agreed()
    });
}

#[test]
fn a_node_that_loses_power_while_it_gets_a_snapshot_soon_gets_another() {
    (0..10).for_each(gets_another_snapshot);
}
