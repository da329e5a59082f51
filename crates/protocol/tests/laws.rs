//! Laws that every protocol obeys, checked on random schedules.
//!
//! The schedules come from fixed seeds, so a failure can be repeated. The tests drive every algorithm of the registry,
//! in every variant, with a careless [`Driver`]. Messages get lost, overtake each other, arrive twice, and arrive at or
//! from processes that have nothing to do with them. Processes crash and recover, with and without memory.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use baton_protocol::append::{self, Append};
use baton_protocol::detector::{Detector, Watcher};
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::picture::Kind;
use baton_protocol::registry::{self, About, Params, SetupError, Visitor};
use baton_protocol::{Choice, Choices, Group, Input, Outbox, Output, Picture, ProcessId, Protocol, Start};

/// Some variants work only for some of these sizes.
const SIZES: [usize; 4] = [2, 3, 4, 5];
const SEEDS: u64 = 20;
const STEPS: usize = 300;

#[test]
fn equal_states_and_inputs_and_choices_give_equal_states_and_outputs() {
    for_every_algorithm(Law::IsAFunction);
}

#[test]
fn messages_go_to_other_members_of_the_group() {
    for_every_algorithm(Law::SendsToOthers);
}

#[test]
fn messages_survive_encoding() {
    for_every_algorithm(Law::MessagesSurviveEncoding);
}

/// All other tests would notice a panic too; this test names the law.
#[test]
fn no_message_of_a_member_makes_a_process_panic() {
    for_every_algorithm(Law::DoesNotPanic);
}

#[test]
fn equal_states_hash_alike() {
    for_every_algorithm(Law::EqualStatesHashAlike);
}

#[test]
fn a_timer_is_set_for_some_time() {
    for_every_algorithm(Law::TimersTakeTime);
}

#[test]
fn a_view_shows_something_under_names_of_its_own_and_no_process_that_is_not_there() {
    for_every_algorithm(Law::ShowsMembers);
}

/// The id in a REQUEST comes from another process, which may be wrong.
#[test]
fn naimi_and_trehel_ignore_a_request_of_no_other_member() {
    use mutex::naimi_trehel::{Message, group};
    let fresh = (group(&Params::new(3, 10)).unwrap().make)(0);
    for requester in [0, 3, usize::MAX] {
        let mut process = fresh.clone();
        let done = step_one(&mut process, Input::Message { from: 1, message: Message::Request { requester } }, 1);
        assert!(done.outputs.is_empty() && process == fresh, "P{requester}");
    }
}

/// The law that the driver checks after each step.
#[derive(Clone, Copy, Debug)]
enum Law {
    IsAFunction,
    SendsToOthers,
    MessagesSurviveEncoding,
    DoesNotPanic,
    EqualStatesHashAlike,
    TimersTakeTime,
    ShowsMembers,
}

/// The result of a step, and the result of the same step of a twin that got the same inputs from the start.
struct Step<'a, P: Protocol> {
    me: ProcessId,
    processes: usize,
    after: &'a P,
    twin_after: &'a P,
    /// The states of all processes after all earlier steps.
    earlier: &'a [P],
    done: Done<P>,
    twin_done: Done<P>,
}

#[derive(Debug, PartialEq)]
struct Done<P: Protocol> {
    outputs: Vec<Output<P>>,
    choices: Vec<Choice>,
}

impl Law {
    fn check<P: Protocol>(self, step: &Step<P>) {
        match self {
            Law::IsAFunction => {
                assert_eq!(step.done, step.twin_done);
                assert_eq!(step.after, step.twin_after);
            }
            Law::SendsToOthers => {
                for (to, message) in step.sent() {
                    assert!(to != step.me && to < step.processes, "P{} sends {message:?} to P{to}", step.me);
                }
            }
            Law::MessagesSurviveEncoding => {
                for (_, message) in step.sent() {
                    let bytes = postcard::to_stdvec(message).unwrap();
                    assert_eq!(&postcard::from_bytes::<P::Message>(&bytes).unwrap(), message);
                }
            }
            Law::DoesNotPanic => {}
            Law::EqualStatesHashAlike => {
                let clone = step.after.clone();
                assert_eq!(&clone, step.after);
                for equal in step.earlier.iter().filter(|&earlier| earlier == step.after).chain([&clone]) {
                    assert_eq!(hash_of(equal), hash_of(step.after), "{equal:?}");
                }
            }
            Law::TimersTakeTime => {
                for output in &step.done.outputs {
                    if let Output::SetTimer { timer, after } = output {
                        assert!(0 < *after.start() && !after.is_empty(), "P{} sets {timer:?} to {after:?}", step.me);
                    }
                }
            }
            Law::ShowsMembers => check_picture(&step.after.view(), step.processes),
        }
    }
}

fn check_picture(picture: &Picture, processes: usize) {
    assert!(!picture.parts.is_empty());
    let mut names = BTreeSet::new();
    for part in &picture.parts {
        assert!(names.insert(&part.name), "two parts have the name `{}`: {picture:?}", part.name);
        let shown: Vec<ProcessId> = match &part.kind {
            Kind::Field { .. } => vec![],
            Kind::Pointer { to } => to.iter().copied().collect(),
            Kind::Set { of } => of.clone(),
            Kind::Queue { of } => of.iter().map(|queued| queued.process).collect(),
            Kind::Numbers { of } => of.iter().map(|(process, _)| *process).collect(),
            Kind::Token { carries, .. } if carries.parts.is_empty() => vec![],
            Kind::Token { carries, .. } => {
                check_picture(carries, processes);
                vec![]
            }
        };
        assert!(shown.iter().all(|&process| process < processes), "{part:?}");
        let ascends = matches!(part.kind, Kind::Set { .. } | Kind::Numbers { .. });
        assert!(!ascends || shown.windows(2).all(|pair| pair[0] < pair[1]), "{part:?}");
    }
}

impl<P: Protocol> Step<'_, P> {
    fn sent(&self) -> impl Iterator<Item = (ProcessId, &P::Message)> {
        self.done.outputs.iter().filter_map(|output| match output {
            Output::Send { to, message } => Some((*to, message)),
            _ => None,
        })
    }
}

fn hash_of(value: &impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

fn for_every_algorithm(law: Law) {
    for about in registry::ALGORITHMS {
        let variants = about.variants.iter().map(|variant| Some(variant.name));
        for variant in variants.chain([None]) {
            let mut served = 0;
            for (n, seed) in SIZES.into_iter().flat_map(|n| (0..SEEDS).map(move |seed| (n, seed))) {
                let params = Params { variant: variant.map(|name| with_value(about, name, n)), ..Params::new(n, 10) };
                // The test runner shows this only if the test fails.
                println!("{}, variant {variant:?}, n = {n}, seed {seed}", about.name);
                match registry::visit(about.name, &params, Check { law, seed }) {
                    Ok(()) => served += 1,
                    Err(SetupError::Value { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(served > 0, "{}, variant {variant:?}, serves none of {SIZES:?}", about.name);
        }
    }
}

/// Replaces the `VALUE` in `name:VALUE` by a value that makes sense for n processes.
fn with_value(about: &About, variant: &str, n: usize) -> String {
    match variant.split_once(':') {
        // A token that never rests cannot be carried in views.
        None if variant == "views" && about.variants.iter().any(|other| other.name == "parked") => {
            "parked+views".into()
        }
        Some(("edges", _)) => {
            let edges: Vec<String> = (1..n).map(|process| format!("{process}-{}", process / 2)).collect();
            format!("edges:{}", edges.join(","))
        }
        Some(("request", _)) => "request:0,1,3|1,2,3|2,0,3".to_string(),
        Some(("inform", _)) => "request:0,1,2|0,1,2|0,1,2+inform:0,1|1,2|2,0".to_string(),
        Some(("ring", _)) => {
            let ids: Vec<String> = (0..n).map(|process| process.to_string()).collect();
            format!("ring:{}", ids.join(","))
        }
        // All other variants accept 2.
        Some((name, _)) => format!("{name}:2"),
        None => variant.to_string(),
    }
}

/// Runs one random schedule and checks the law after each step.
struct Check {
    law: Law,
    seed: u64,
}

impl Visitor for Check {
    type Output = ();

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) {
        let next_command = |previous| match previous {
            Some(mutex::Command::Acquire) => mutex::Command::Release,
            Some(mutex::Command::Release) | None => mutex::Command::Acquire,
        };
        // A process releases only after a grant, and requests only while no request is pending.
        let may_command = |previous, granted| previous != Some(mutex::Command::Acquire) || granted;
        Driver::new(group, self, next_command, may_command).run();
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) {
        Driver::new(group, self, |_| election::Command::Elect, |_, _| true).run();
    }

    fn append<P: Append>(self, _: &'static About, group: Group<P>) {
        let append = |_| append::Command::Append { data: vec![1, 2, 3] };
        Driver::new(group, self, append, |previous, answered| previous.is_none() || answered).run();
    }

    /// For a detector alone only one law applies: equal inputs give equal detectors. Also, after a beat the process is
    /// trusted for some time, but not for ever. All laws apply to the processes that run detectors.
    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (mut detector, mut twin) = ((group.make)(0), (group.make)(0));
        let mut now = random.u64(..1_000);
        detector.watch(now);
        twin.watch(now);
        for _ in 0..STEPS {
            // Times between beats of every order of magnitude.
            now = now.saturating_add(random.u64(..) >> random.u32(..64));
            assert!(detector.period() > 0);
            if random.u8(..10) == 0 {
                detector.watch(now);
                twin.watch(now);
            } else {
                detector.beat(now);
                twin.beat(now);
            }
            assert_eq!(detector, twin);
            assert!(!detector.suspects(now));
            check_picture(&detector.view(now), group.processes);
            let deadline = detector.deadline();
            assert!(deadline > now || now == u64::MAX, "{detector:?} at {now}");
            assert!(!detector.suspects(deadline) && (deadline == u64::MAX || detector.suspects(deadline + 1)));
        }
        Driver::new(Watcher::group(group, 1), self, |_| unreachable!("there are no commands"), |_, _| false).run();
    }
}

/// Gives random inputs to two copies of a group in lockstep, and carries out the outputs of the first copy.
struct Driver<P: Protocol> {
    law: Law,
    random: fastrand::Rng,
    group: Group<P>,
    processes: Vec<P>,
    twins: Vec<P>,
    earlier: Vec<P>,
    up: Vec<bool>,
    in_flight: Vec<Envelope<P::Message>>,
    /// Every message ever sent.
    sent: Vec<P::Message>,
    /// Stamps of application messages.
    stamps: Vec<u64>,
    /// Running timers, by owner.
    timers: Vec<(ProcessId, P::Timer)>,
    users: BTreeMap<ProcessId, User<P>>,
    next_command: fn(Option<P::Command>) -> P::Command,
    may_command: fn(Option<P::Command>, bool) -> bool,
}

struct Envelope<M> {
    from: ProcessId,
    to: ProcessId,
    message: M,
}

/// The last command of a user, and whether the process has emitted an event since then.
struct User<P: Protocol> {
    command: P::Command,
    answered: bool,
}

impl<P: Protocol> Driver<P> {
    fn new(
        group: Group<P>,
        check: Check,
        next_command: fn(Option<P::Command>) -> P::Command,
        may_command: fn(Option<P::Command>, bool) -> bool,
    ) -> Self {
        Driver {
            law: check.law,
            random: fastrand::Rng::with_seed(check.seed),
            processes: (0..group.processes).map(&group.make).collect(),
            twins: (0..group.processes).map(&group.make).collect(),
            earlier: Vec::new(),
            up: vec![true; group.processes],
            group,
            in_flight: Vec::new(),
            sent: Vec::new(),
            stamps: Vec::new(),
            timers: Vec::new(),
            users: BTreeMap::new(),
            next_command,
            may_command,
        }
    }

    fn run(mut self) {
        for process in 0..self.group.processes {
            self.step(process, Input::Start(Start::Fresh));
        }
        for _ in 0..STEPS {
            self.do_something();
        }
    }

    fn do_something(&mut self) {
        let process = self.random.usize(..self.group.processes);
        let member = self.random.usize(..self.group.processes);
        match self.random.u8(..100) {
            0..45 => self.deliver(),
            45..60 => self.command(),
            60..75 => self.fire_a_timer(),
            75..85 => self.replay(process),
            85 => self.lose(),
            86..88 => self.crash_or_recover(process),
            88..91 => self.step_if_up(process, Input::Suspect(member)),
            91 => self.step_if_up(process, Input::Trust(member)),
            92..96 => self.step_if_up(process, Input::AppSend),
            _ => {
                if let Some(&stamp) = self.random.choice(&self.stamps) {
                    self.step_if_up(process, Input::AppReceive(stamp));
                }
            }
        }
    }

    fn deliver(&mut self) {
        if let Some(index) = self.any(self.in_flight.len()) {
            let Envelope { from, to, message } = self.in_flight.swap_remove(index);
            self.step_if_up(to, Input::Message { from, message });
        }
    }

    /// Delivers a random message of the whole run to this process, as if from a random other process.
    fn replay(&mut self, to: ProcessId) {
        let from = (to + self.random.usize(1..self.group.processes)) % self.group.processes;
        if let Some(message) = self.random.choice(&self.sent).cloned() {
            self.step_if_up(to, Input::Message { from, message });
        }
    }

    fn lose(&mut self) {
        if let Some(index) = self.any(self.in_flight.len()) {
            self.in_flight.swap_remove(index);
        }
    }

    fn command(&mut self) {
        let process = self.random.usize(..self.group.clients);
        let user = self.users.get(&process);
        let previous = user.map(|user| user.command.clone());
        if self.up[process] && (self.may_command)(previous.clone(), user.is_some_and(|user| user.answered)) {
            let command = (self.next_command)(previous);
            self.users.insert(process, User { command: command.clone(), answered: false });
            self.step(process, Input::Command(command));
        }
    }

    fn fire_a_timer(&mut self) {
        if let Some(index) = self.any(self.timers.len()) {
            let (process, timer) = self.timers.swap_remove(index);
            self.step(process, Input::Timer(timer));
        }
    }

    fn crash_or_recover(&mut self, process: ProcessId) {
        self.up[process] = !self.up[process];
        if !self.up[process] {
            self.timers.retain(|(owner, _)| *owner != process);
            return;
        }
        if self.random.bool() {
            self.processes[process].forget((self.group.make)(process));
            self.twins[process].forget((self.group.make)(process));
            self.users.remove(&process);
        }
        self.step(process, Input::Start(Start::Recovered));
    }

    fn any(&mut self, of: usize) -> Option<usize> {
        (of > 0).then(|| self.random.usize(..of))
    }

    fn step_if_up(&mut self, process: ProcessId, input: Input<P>) {
        if self.up[process] {
            self.step(process, input);
        }
    }

    fn step(&mut self, me: ProcessId, input: Input<P>) {
        let seed = self.random.u64(..);
        let step = Step {
            me,
            processes: self.group.processes,
            done: step_one(&mut self.processes[me], input.clone(), seed),
            twin_done: step_one(&mut self.twins[me], input, seed),
            after: &self.processes[me],
            twin_after: &self.twins[me],
            earlier: &self.earlier,
        };
        self.law.check(&step);
        let outputs = step.done.outputs;
        self.earlier.push(self.processes[me].clone());
        for output in outputs {
            self.carry_out(me, output);
        }
    }

    fn carry_out(&mut self, me: ProcessId, output: Output<P>) {
        match output {
            Output::Send { to, message } => {
                self.sent.push(message.clone());
                self.in_flight.push(Envelope { from: me, to, message });
            }
            Output::SetTimer { timer, .. } => {
                self.timers.retain(|running| *running != (me, timer));
                self.timers.push((me, timer));
            }
            Output::CancelTimer(timer) => self.timers.retain(|running| *running != (me, timer)),
            Output::Event(_) => {
                if let Some(user) = self.users.get_mut(&me) {
                    user.answered = true;
                }
            }
            Output::Stamp(clock) => self.stamps.push(clock),
        }
    }
}

fn step_one<P: Protocol>(process: &mut P, input: Input<P>, seed: u64) -> Done<P> {
    let mut out = Outbox::new(Choices::seeded(seed));
    process.step(input, &mut out);
    Done { outputs: out.drain().collect(), choices: out.choices().take_made() }
}
