//! The pictures of processes on runs without faults: the token, the tree, the quorums, and the serde form.

use std::collections::BTreeSet;

use baton_protocol::append::{self, Append};
use baton_protocol::detector::{Detector, Watcher};
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::picture::{Kind, Part};
use baton_protocol::registry::{self, ALGORITHMS, About, Family, Params, Topology, Visitor};
use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, Picture, ProcessId, Protocol, Start};
use expect_test::expect_file;

const STEPS: usize = 400;
const SEEDS: u64 = 5;

/// A group at one moment.
struct Moment {
    pictures: Vec<Picture>,
    /// Sender and receiver of each TOKEN in flight.
    tokens: Vec<(ProcessId, ProcessId)>,
    topology: Topology,
}

impl Moment {
    /// The processes whose picture has the token.
    fn holders(&self) -> Vec<ProcessId> {
        let shows = |picture: &Picture| picture.parts.iter().any(|part| matches!(part.kind, Kind::Token { .. }));
        (0..self.pictures.len()).filter(|&process| shows(&self.pictures[process])).collect()
    }

    fn part(&self, process: ProcessId, name: &str) -> &Kind {
        let named = |part: &&Part| part.name == name;
        &self.pictures[process].parts.iter().find(named).unwrap_or_else(|| panic!("P{process} shows no `{name}`")).kind
    }

    fn pointer(&self, process: ProcessId, name: &str) -> Option<ProcessId> {
        match self.part(process, name) {
            Kind::Pointer { to } => *to,
            other => panic!("`{name}` is no pointer but {other:?}"),
        }
    }
}

#[test]
fn a_token_is_shown_by_the_one_process_that_has_it_unless_it_is_on_its_way() {
    let tokens = |name: &str, variant: Option<&str>| {
        let moments = random_moments(name, variant, 4);
        let counts: BTreeSet<usize> =
            moments.iter().map(|moment| moment.holders().len() + moment.tokens.len()).collect();
        assert_eq!(counts.len(), 1, "{name} {variant:?} has now one number of tokens and now another: {counts:?}");
        assert!(moments.iter().any(|moment| moment.tokens.is_empty()));
        counts.first().copied().unwrap_or_default()
    };
    let mutex = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex).map(|about| about.name);
    let with_token: Vec<&str> = mutex.filter(|name| tokens(name, None) == 1).collect();
    assert_eq!(
        with_token,
        [
            "raymond",
            "suzuki-kasami",
            "singhal",
            "naimi-trehel",
            "token-ring",
            "raymond-greedy",
            "raymond-asks-once",
            "suzuki-kasami-no-outdated-check",
            "singhal-1989",
            "token-ring-last-word"
        ]
    );
    assert_eq!(tokens("token-ring", Some("parked")), 1);
}

#[test]
fn the_holders_of_raymond_lead_along_the_tree_to_the_token() {
    for variant in ["chain", "star", "binary"] {
        for moment in random_moments("raymond", Some(variant), 7) {
            let tree = moment.topology.tree.as_ref().unwrap();
            let ends = match moment.tokens.first() {
                Some(&(from, to)) => vec![from, to],
                None => moment.holders(),
            };
            for process in 0..7 {
                let mut at = process;
                // A path in a tree of 7 processes has at most 6 edges.
                for _ in 0..6 {
                    let next = moment.pointer(at, "holder").unwrap();
                    assert!(next == at || tree.contains(&(at, next)) || tree.contains(&(next, at)), "{at} -> {next}");
                    if ends.contains(&at) {
                        break;
                    }
                    at = next;
                }
                assert!(
                    ends.contains(&at),
                    "{variant}: the way from P{process} ends at P{at}, the token is at {ends:?}"
                );
            }
        }
    }
}

/// While a REQUEST is on its way, its requester and the old root are both without a father.
#[test]
fn the_fathers_of_naimi_and_trehel_lead_to_a_root_and_the_next_pointers_are_a_queue() {
    let mut roots = BTreeSet::new();
    for moment in random_moments("naimi-trehel", None, 6) {
        let is_root = |&process: &ProcessId| moment.pointer(process, "father").is_none();
        for process in 0..6 {
            // A path through 6 processes has at most 5 edges.
            let path = std::iter::successors(Some(process), |&at| moment.pointer(at, "father"));
            assert!(path.take(6).any(|at| is_root(&at)), "P{process} has no way to a root");
        }
        roots.insert((0..6).filter(is_root).count());
        let next: Vec<ProcessId> = (0..6).filter_map(|process| moment.pointer(process, "next")).collect();
        assert_eq!(next.len(), next.iter().collect::<BTreeSet<_>>().len(), "{next:?}");
    }
    assert!(roots.contains(&1) && roots.len() > 1, "requests on their way have roots of their own: {roots:?}");
}

#[test]
fn the_voting_sets_of_maekawa_are_those_of_the_topology() {
    for (variant, n) in [(None, 7), (Some("grid"), 9), (Some("majority"), 5), (Some("tree"), 7)] {
        let moment = random_moments("maekawa", variant, n).remove(0);
        let quorums = moment.topology.quorums.as_ref().unwrap();
        for (process, quorum) in quorums.iter().enumerate() {
            for name in ["request set", "inform set"] {
                assert_eq!(moment.part(process, name), &Kind::Set { of: quorum.clone() }, "{variant:?}, P{process}");
            }
        }
    }
}

/// P0 of each algorithm, and its first helper if there is one, after three requests and five deliveries.
#[test]
fn the_serde_form_is_stable() {
    let variants = [("token-ring", "parked"), ("bully", "quorum"), ("bully", "witness")];
    let plain = ALGORITHMS.iter().map(|about| (about.name, None));
    let mut text = String::new();
    for (name, variant) in plain.chain(variants.map(|(name, variant)| (name, Some(variant)))) {
        for (process, picture) in registry::visit(name, &params(3, variant), Example).unwrap() {
            let json = serde_json::to_string(&picture).unwrap();
            assert_eq!(serde_json::from_str::<Picture>(&json).unwrap(), picture);
            let variant = variant.map(|variant| format!("+{variant}")).unwrap_or_default();
            text += &format!("{name}{variant} P{process} {json}\n");
        }
    }
    expect_file!["views.txt"].assert_eq(&text);
}

fn params(n: usize, variant: Option<&str>) -> Params {
    Params { variant: variant.map(str::to_owned), ..Params::new(n, 10) }
}

/// The pictures of a mutual exclusion group after each step of some random runs.
fn random_moments(name: &str, variant: Option<&str>, n: usize) -> Vec<Moment> {
    let run = |seed| registry::visit(name, &params(n, variant), RandomRun { seed }).unwrap();
    (0..SEEDS).flat_map(run).collect()
}

/// Each link delivers messages in the order of sending. No process crashes.
struct World<P: Protocol> {
    group: Group<P>,
    processes: Vec<P>,
    in_flight: Vec<(ProcessId, ProcessId, P::Message)>,
    timers: Vec<(ProcessId, P::Timer)>,
    /// The processes that have got an event since their request.
    answered: BTreeSet<ProcessId>,
}

impl<P: Protocol> World<P> {
    fn new(group: Group<P>) -> Self {
        let processes = (0..group.processes).map(&group.make).collect();
        let (in_flight, timers, answered) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut world = World { group, processes, in_flight, timers, answered };
        for process in 0..world.processes.len() {
            world.step(process, Input::Start(Start::Fresh));
        }
        world
    }

    fn step(&mut self, me: ProcessId, input: Input<P>) {
        let mut out = Outbox::new(Choices::seeded(1));
        self.processes[me].step(input, &mut out);
        for output in out.drain() {
            match output {
                Output::Send { to, message } => self.in_flight.push((me, to, message)),
                Output::SetTimer { timer, .. } => {
                    self.timers.retain(|running| *running != (me, timer));
                    self.timers.push((me, timer));
                }
                Output::CancelTimer(timer) => self.timers.retain(|running| *running != (me, timer)),
                Output::Event(_) => {
                    self.answered.insert(me);
                }
                Output::Stamp(_) => {}
            }
        }
    }

    /// Delivers the oldest message on the link of the message at `index`.
    fn deliver(&mut self, index: usize) {
        let link = |envelope: &(ProcessId, ProcessId, P::Message)| (envelope.0, envelope.1);
        let chosen = link(&self.in_flight[index]);
        let oldest = self.in_flight.iter().position(|envelope| link(envelope) == chosen).unwrap_or(index);
        let (from, to, message) = self.in_flight.remove(oldest);
        self.step(to, Input::Message { from, message });
    }

    /// Fires the only timer of a process.
    fn fire(&mut self, me: ProcessId) {
        let place = self.timers.iter().position(|(process, _)| *process == me).unwrap();
        let (_, timer) = self.timers.swap_remove(place);
        self.step(me, Input::Timer(timer));
    }

    fn moment(&self) -> Moment {
        let tokens = self.in_flight.iter().filter(|(.., message)| message.kind() == "TOKEN");
        Moment {
            pictures: self.processes.iter().map(P::view).collect(),
            tokens: tokens.map(|&(from, to, _)| (from, to)).collect(),
            topology: self.group.topology.clone(),
        }
    }
}

struct RandomRun {
    seed: u64,
}

impl Visitor for RandomRun {
    type Output = Vec<Moment>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is not for mutual exclusion", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut world = World::new(group);
        let mut moments = vec![world.moment()];
        let mut asked = BTreeSet::new();
        for _ in 0..STEPS {
            let client = random.usize(..world.group.clients);
            match random.u8(..10) {
                0..2 if asked.insert(client) => world.step(client, Input::Command(mutex::Command::Acquire)),
                2..4 if world.answered.remove(&client) => {
                    asked.remove(&client);
                    world.step(client, Input::Command(mutex::Command::Release));
                }
                4 if !world.timers.is_empty() => {
                    let (process, timer) = world.timers.swap_remove(random.usize(..world.timers.len()));
                    world.step(process, Input::Timer(timer));
                }
                _ if !world.in_flight.is_empty() => world.deliver(random.usize(..world.in_flight.len())),
                _ => {}
            }
            moments.push(world.moment());
        }
        moments
    }
}

struct Example;

impl Example {
    fn of<P: Protocol>(group: Group<P>, command: P::Command) -> Vec<(ProcessId, Picture)> {
        let mut world = World::new(group);
        for client in 0..world.group.clients {
            world.step(client, Input::Command(command.clone()));
        }
        for _ in 0..5 {
            if !world.in_flight.is_empty() {
                world.deliver(0);
            }
        }
        let helper = (world.group.processes > world.group.clients).then_some(world.group.clients);
        [0].into_iter().chain(helper).map(|process| (process, world.processes[process].view())).collect()
    }
}

impl Visitor for Example {
    type Output = Vec<(ProcessId, Picture)>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Self::of(group, mutex::Command::Acquire)
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Self::of(group, election::Command::Elect)
    }

    fn append<P: Append>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Self::of(group, append::Command::Append { data: vec![1] })
    }

    /// A detector whose process has sent one heartbeat, and then none for two periods. Then a process with detectors: P0
    /// has heard P2 in its second period, and not P1, which it suspects.
    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) -> Self::Output {
        let mut detector = (group.make)(0);
        let beat = detector.period();
        detector.watch(0);
        detector.beat(beat);
        let mut world = World::new(Watcher::group(group, 1));
        world.fire(0);
        let of_p2 = world.in_flight.iter().position(|(from, to, _)| (*from, *to) == (2, 0));
        world.deliver(of_p2.unwrap());
        world.fire(0);
        vec![(0, detector.view(3 * beat)), (0, world.processes[0].view())]
    }
}
