//! Messages that decode but that no correct member sends: no process panics, whatever the algorithm is.

use baton_protocol::detector::Detector;
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::registry::{self, ALGORITHMS, About, Family, Visitor};
use baton_protocol::{Group, Input, Outbox, Picture, ProcessId, Protocol, Start};

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt;
use serde::{Deserialize, Serialize};

use super::Driver;
use crate::fences::COUNT_MAX;
use crate::frame::{Envelope, unique_id};
use crate::lock::{AcquireError, Callers, Lock};
use crate::resource::{AnyResource, Resource};
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
        let id = unique_id(from, number);
        let envelope = Envelope { resource: 0, from, to, id, lamport: 1, count: 0, payload: &payload };
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

/// Visits the registry. Returns the fences of three entries, of which only the first has one.
struct LastFence<'a>(&'a PeerGroup);

impl Visitor for LastFence<'_> {
    type Output = Vec<Result<u64, AcquireError>>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        unreachable!("{} has no locks", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        let wires = Arc::new(Wires::new(0, self.0.members(), None, usize::MAX));
        wires.begin(3);
        let resource = Resource::new(0, &group, self.0, wires, Callers::default());
        resource.clone().start(Start::Fresh);
        resource.core().driver.fences.learn(COUNT_MAX - 1);
        let lock = Lock::new(resource);
        let enter = || lock.acquire().now_or_never().expect("the token is here");
        (0..3).map(|_| enter().map(|grant| grant.fence())).collect()
    }

    fn election<P: Election>(self, about: &'static About, _: Group<P>) -> Self::Output {
        self.unsupported(about)
    }

    fn detector<D: Detector>(self, about: &'static About, _: Group<D>) -> Self::Output {
        self.unsupported(about)
    }
}

/// The member leaves at once, so the lock does not stay locked for ever.
#[tokio::test]
async fn a_caller_for_whom_no_fence_is_left_is_refused() {
    let members = (1..=2).map(|port| format!("127.0.0.1:{port}")).collect();
    let peers = PeerGroup::new(GroupFile::new("raymond", members)).unwrap();
    let fences = registry::visit("raymond", &peers.params(), LastFence(&peers)).unwrap();
    assert_eq!(fences, [Ok(3 << 34 | COUNT_MAX), Err(AcquireError::NoFences), Err(AcquireError::NoFences)]);
}

/// P0 greets the helper of its member when it starts. The helper counts greetings that come before its own start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Greeter {
    me: ProcessId,
    started: bool,
    early: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Hello;

impl baton_protocol::Message for Hello {
    fn kind(&self) -> &'static str {
        "HELLO"
    }
}

impl Protocol for Greeter {
    type Message = Hello;
    type Timer = Infallible;
    type Command = Infallible;
    type Event = Infallible;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(_) => {
                self.started = true;
                out.multicast((self.me == 0).then_some(3), Hello);
            }
            Input::Message { .. } => self.early += u64::from(!self.started),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new().field("early", self.early)
    }
}

#[tokio::test]
async fn all_processes_of_a_member_start_before_they_get_messages_of_each_other() {
    let group = Group::new(3, 4, |me| Greeter { me, started: false, early: 0 });
    let (wires, mut touched) = (Wires::new(0, 3, None, usize::MAX), Touched::default());
    let mut driver = Driver::new(0, &group, [0, 3].into_iter());
    driver.start(Start::Fresh, &wires, &mut touched);
    let early: Vec<u64> = driver.processes.iter().map(|process| process.protocol.early).collect();
    assert_eq!((early, driver.stats.messages), (vec![0, 0], 1));
}
