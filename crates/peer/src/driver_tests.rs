//! Messages that decode but that no correct member sends: no process panics, whatever the algorithm is.

use baton_protocol::detector::Detector;
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::registry::{self, ALGORITHMS, About, Family, Visitor};
use baton_protocol::{Group, Protocol, Start};

use super::Driver;
use crate::frame::{Envelope, unique_id};
use crate::wires::{Touched, Wires};
use crate::{GroupFile, PeerGroup};

const RUNS: u64 = 300;
const MESSAGES: u64 = 30;

/// Visits the registry. Returns how many messages were taken.
struct Nonsense<'a>(&'a PeerGroup);

impl Visitor for Nonsense<'_> {
    type Output = u64;

    fn unsupported(self, _: &'static About) -> u64 {
        0
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> u64 {
        (0..RUNS).map(|seed| deliver_nonsense(self.0, &group, mutex::Command::Acquire, seed)).sum()
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> u64 {
        (0..RUNS).map(|seed| deliver_nonsense(self.0, &group, election::Command::Elect, seed)).sum()
    }

    fn detector<D: Detector>(self, _: &'static About, _: Group<D>) -> u64 {
        0
    }
}

fn deliver_nonsense<P: Protocol>(peers: &PeerGroup, group: &Group<P>, command: P::Command, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let (wires, mut touched) = (Wires::new(0, peers.members(), None, usize::MAX), Touched::default());
    let mut driver = Driver::new(0, group, peers.carried_by(0));
    driver.start(Start::Fresh, &wires, &mut touched);
    if random.bool() && driver.is_ready() {
        driver.command(command, &wires, &mut touched);
    }
    let carried: Vec<_> = peers.carried_by(0).collect();
    let mut taken = 0;
    for number in 0..MESSAGES {
        // Small numbers mostly, so that many are kinds of messages, members and short lengths.
        let largest = if random.u8(..10) == 0 { u8::MAX } else { 5 };
        let payload: Vec<u8> = (0..random.usize(1..10)).map(|_| random.u8(..=largest)).collect();
        let (from, to) = (random.usize(1..peers.members()), carried[random.usize(..carried.len())]);
        let envelope = Envelope { resource: 0, from, to, id: unique_id(from, number), lamport: 1, payload: &payload };
        taken += u64::from(driver.deliver(&envelope, &wires, &mut touched).is_ok());
    }
    taken
}

#[tokio::test]
async fn nonsense_makes_no_process_panic() {
    let is_sound = |about: &&&About| matches!(about.family, Family::Mutex | Family::Election) && about.broken.is_none();
    for about in ALGORITHMS.iter().filter(is_sound) {
        let members = (1..=3).map(|port| format!("127.0.0.1:{port}")).collect();
        let assume_synchronous = about.family == Family::Election;
        let file = GroupFile { assume_synchronous, ..GroupFile::new(about.name, members) };
        let mut files = vec![file.clone()];
        if about.family == Family::Election {
            let guarded =
                |guard: &str| GroupFile { variant: Some(guard.into()), assume_synchronous: false, ..file.clone() };
            files.extend([guarded("quorum"), guarded("witness")]);
        }
        for file in files {
            let peers = PeerGroup::new(file).unwrap();
            let taken = registry::visit(about.name, &peers.params(), Nonsense(&peers)).unwrap();
            assert!(taken > RUNS / 10, "{}: {taken} of {} decode", about.name, RUNS * MESSAGES);
        }
    }
}
