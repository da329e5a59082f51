//! A member: its part of the agreement on views, and its part of the algorithm in the present view.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::instance::{Effect, Instance, Plan};
use super::message::{Hold, Message, View};
use super::user::{Heard, Now, User, Wanted};
use super::{Timer, Viewed, counts_of};
use crate::broken::views::Mistake;
use crate::picture::Kind;
use crate::{Counter, Fence, Input, Outbox, Picture, ProcessId, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member<P: Protocol, U> {
    pub core: Core<P>,
    pub user: U,
}

/// Everything of a member except its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Core<P: Protocol> {
    pub me: ProcessId,
    pub plan: Plan<P>,
    /// On stable storage: no session begins twice.
    session: u64,
    /// The latest view that this member took.
    view: View,
    phase: Phase,
    pub instance: Option<Instance<P>>,
    /// The highest count of grants in this view that this member knows.
    pub count: u64,
    /// Messages of later views, and of this view before it has started here. In the order of their arrival.
    later: Vec<(ProcessId, Message<P::Message>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// No member of any view: before the first one, and after the end of the session.
    Out,
    /// The algorithm has stopped. This member waits for START, or, as the lowest member, for every READY.
    Stopped {
        /// At the lowest member: what each member holds.
        ready: BTreeMap<ProcessId, Option<Fence>>,
        /// Whether FREE has come before START.
        freed: bool,
    },
    /// The algorithm runs.
    Started {
        /// A process that is inside since an earlier view. No process requests until it has left.
        hold: Option<Hold>,
    },
}

type Out<P, U> = Outbox<Viewed<P, U>>;

impl<P: Protocol, U: User<P>> Member<P, U> {
    pub fn new(me: ProcessId, plan: Plan<P>) -> Self {
        let core = Core {
            me,
            plan,
            session: 1,
            view: View::default(),
            phase: Phase::Out,
            instance: None,
            count: 0,
            later: Vec::new(),
        };
        Member { core, user: U::default() }
    }

    pub fn forget(&mut self, fresh: Self) {
        let session = self.core.session;
        *self = fresh;
        self.core.session = session;
    }

    pub fn step(&mut self, input: Input<Viewed<P, U>>, out: &mut Out<P, U>) {
        let (me, source) = (self.core.me, self.core.plan.clients);
        match input {
            Input::Start(Start::Fresh) => self.begin_first_view(out),
            Input::Start(Start::Recovered) => self.recover(out),
            Input::Command(command) => {
                let wanted = self.user.command(command, self.core.now());
                self.carry_out_wish(wanted, out);
            }
            Input::Message { from, message: Message::View(view) } if from == source => self.on_view(view, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(Timer { process, timer }) => self.step_inside(process, Input::Timer(timer), out),
            Input::Suspect(process) if process == source => self.on_lease_over(out),
            Input::Trust(process) if process == source => self.core.join(out),
            Input::AppSend => self.step_inside(me, Input::AppSend, out),
            Input::AppReceive(stamp) => self.step_inside(me, Input::AppReceive(stamp), out),
            Input::Suspect(_) | Input::Trust(_) => {}
        }
        self.user.settle().into_iter().for_each(|event| out.emit(event));
    }

    /// All clients start together, so view 1 needs no READY and no START.
    fn begin_first_view(&mut self, out: &mut Out<P, U>) {
        let members = (0..self.core.plan.clients).map(|client| (client, 1)).collect();
        self.core.view = View { epoch: 1, members };
        self.start(None, out);
    }

    /// The users of the earlier life are gone, so nothing is lost, and nobody waits.
    fn recover(&mut self, out: &mut Out<P, U>) {
        self.user = U::default();
        self.core.instance = None;
        self.core.phase = Phase::Out;
        self.core.later.clear();
        self.core.session += 1;
        self.core.join(out);
    }

    /// The lease of the session is over, because the source does not answer. This member stops before the source
    /// publishes a view without it. Its waiting callers stay.
    fn on_lease_over(&mut self, out: &mut Out<P, U>) {
        self.core.stop(out);
        self.core.phase = Phase::Out;
        self.user.stop(true).into_iter().for_each(|lost| out.emit(lost));
        let session = self.core.session;
        self.core.session += 1;
        out.send(self.core.plan.clients, Message::Out { session });
    }

    fn on_view(&mut self, view: View, out: &mut Out<P, U>) {
        let core = &mut self.core;
        let names_session = view.members.contains(&(core.me, core.session));
        let names_id = view.members.iter().any(|(member, _)| *member == core.me);
        let names_me = names_session || (names_id && core.plan.mistake == Some(Mistake::NamesIds));
        if view.epoch <= core.view.epoch || !names_me {
            return;
        }
        if core.plan.mistake != Some(Mistake::RunsOn) {
            core.stop(out);
        }
        let epoch = view.epoch;
        core.view = view;
        self.user.stop(false).into_iter().for_each(|lost| out.emit(lost));
        let hold = self.user.hold();
        core.phase = Phase::Stopped { ready: BTreeMap::new(), freed: false };
        match core.lowest() {
            Some(lowest) if lowest != core.me => out.send(lowest, Message::Ready { epoch, hold }),
            _ => self.on_ready(self.core.me, hold, out),
        }
        self.handle_later(out);
    }

    /// Handles the messages that came too early. Those that are still too early stay.
    fn handle_later(&mut self, out: &mut Out<P, U>) {
        for (from, message) in core::mem::take(&mut self.core.later) {
            self.on_message(from, message, out);
        }
    }

    fn on_message(&mut self, from: ProcessId, message: Message<P::Message>, out: &mut Out<P, U>) {
        let mistake = self.core.plan.mistake;
        let Some(epoch) = message.epoch() else { return };
        if let (Message::Free { .. }, Some(Mistake::FreesAnyEpoch)) = (&message, mistake) {
            return self.on_free(out);
        }
        match epoch.cmp(&self.core.view.epoch) {
            Ordering::Greater if mistake == Some(Mistake::DropsLater) => {}
            Ordering::Greater => self.core.later.push((from, message)),
            Ordering::Less if mistake == Some(Mistake::AcceptsEarlier) => {
                if let (Message::Carried { from: process, to, message, .. }, Phase::Started { .. }) =
                    (message, &self.core.phase)
                {
                    self.step_inside(to, Input::Message { from: process, message }, out);
                }
            }
            // The instance of the earlier view runs on until START.
            Ordering::Less if self.core.instance.as_ref().is_some_and(|instance| instance.epoch == epoch) => {
                self.on_present(from, message, out);
            }
            Ordering::Less => {}
            Ordering::Equal => self.on_present(from, message, out),
        }
    }

    /// A message of the present view.
    fn on_present(&mut self, from: ProcessId, message: Message<P::Message>, out: &mut Out<P, U>) {
        let core = &mut self.core;
        match (message, &core.phase) {
            (_, Phase::Out) => {}
            (Message::Ready { hold, .. }, Phase::Stopped { .. }) => self.on_ready(from, hold, out),
            (Message::Start { hold, .. }, Phase::Stopped { .. }) if core.lowest() == Some(from) => {
                self.start(hold, out)
            }
            (Message::Free { .. }, _) => self.on_free(out),
            (Message::Carried { epoch, from: process, to, count, message }, _) => {
                if core.instance.as_ref().is_none_or(|instance| instance.epoch != epoch) {
                    let message = Message::Carried { epoch, from: process, to, count, message };
                    return core.later.push((from, message));
                }
                let is_sound = count <= Fence::COUNT_MAX && process < core.plan.processes;
                if is_sound && core.plan.home(process, &core.members()) == Some(from) {
                    core.count = core.count.max(count);
                    self.step_inside(to, Input::Message { from: process, message }, out);
                }
            }
            _ => {}
        }
    }

    /// At the lowest member: starts the view when all members have stopped.
    fn on_ready(&mut self, from: ProcessId, hold: Option<Fence>, out: &mut Out<P, U>) {
        let members = self.core.members();
        let Phase::Stopped { ready, .. } = &mut self.core.phase else { return };
        if members.first() != Some(&self.core.me) || !members.contains(&from) {
            return;
        }
        ready.entry(from).or_insert(hold);
        let holds: Vec<Hold> =
            ready.iter().filter_map(|(&process, fence)| fence.map(|fence| Hold { process, fence })).collect();
        let all = ready.len() == members.len() || self.core.plan.mistake == Some(Mistake::StartsEarly);
        // With two holds something is wrong, and it is safer to stop here for ever.
        if !all || holds.len() > 1 {
            return;
        }
        let hold = holds.first().copied().filter(|_| self.core.plan.mistake != Some(Mistake::IgnoresHold));
        let epoch = self.core.view.epoch;
        out.multicast(members.into_iter().filter(|&member| member != self.core.me), Message::Start { epoch, hold });
        self.start(hold, out);
    }

    /// A new instance of the algorithm begins to run.
    fn start(&mut self, hold: Option<Hold>, out: &mut Out<P, U>) {
        let core = &mut self.core;
        // Only if it has run on, by mistake.
        core.stop(out);
        let forgets = core.plan.mistake == Some(Mistake::ForgetsFree);
        let freed = matches!(core.phase, Phase::Stopped { freed: true, .. } if !forgets);
        core.phase = Phase::Started { hold: hold.filter(|_| !freed) };
        core.count = 0;
        let members = core.members();
        let absent: Vec<ProcessId> = (0..core.plan.clients).filter(|client| !members.contains(client)).collect();
        let mut instance = Instance::new(core.view.epoch, &core.plan, core.me, members);
        let suspected = if core.plan.replaces { &[][..] } else { &absent };
        let effects = instance.start(suspected, &mut |process, input| out.step_inside(process, input));
        core.instance = Some(instance);
        self.carry_out(effects, out);
        self.resume(out);
        self.handle_later(out);
    }

    /// The process that was inside since an earlier view has left.
    fn on_free(&mut self, out: &mut Out<P, U>) {
        match &mut self.core.phase {
            Phase::Stopped { freed, .. } => *freed = true,
            Phase::Started { hold } => {
                if hold.take().is_some() {
                    self.resume(out);
                }
            }
            Phase::Out => {}
        }
    }

    /// Asks again for a caller that waits.
    fn resume(&mut self, out: &mut Out<P, U>) {
        if self.core.plan.mistake != Some(Mistake::AsksOnce) {
            let wanted = self.user.resume(self.core.now());
            self.carry_out_wish(wanted, out);
        }
    }

    fn carry_out_wish(&mut self, wanted: Wanted<P>, out: &mut Out<P, U>) {
        match wanted {
            Wanted::Nothing => {}
            Wanted::Command(command) => self.step_inside(self.core.me, Input::Command(command), out),
            Wanted::Free => {
                let (me, epoch) = (self.core.me, self.core.view.epoch);
                out.multicast(self.core.members().into_iter().filter(|&member| member != me), Message::Free { epoch });
                self.on_free(out);
            }
        }
    }

    /// Steps a process of the algorithm, if it is here.
    fn step_inside(&mut self, process: ProcessId, input: Input<P>, out: &mut Out<P, U>) {
        let Some(instance) = &mut self.core.instance else { return };
        let effects = instance.step(process, input, &mut |process, input| out.step_inside(process, input));
        self.carry_out(effects, out);
    }

    fn carry_out(&mut self, effects: Vec<Effect<P>>, out: &mut Out<P, U>) {
        let core = &mut self.core;
        let Some(Instance { epoch, members, .. }) = &core.instance else { return };
        let (epoch, members) = (*epoch, members.clone());
        for effect in effects {
            match effect {
                Effect::Send { from, to, message } => {
                    if let Some(home) = core.plan.home(to, &members) {
                        out.send(home, Message::Carried { epoch, from, to, count: core.count, message });
                    }
                }
                Effect::SetTimer { process, timer, after } => out.set_timer_within(Timer { process, timer }, after),
                Effect::CancelTimer { process, timer } => out.cancel_timer(Timer { process, timer }),
                Effect::Event { process, event } if process == core.me => match self.user.event(event, core.now()) {
                    Heard::Nothing => {}
                    Heard::Granted(event) => {
                        core.count += 1;
                        out.emit(event);
                    }
                    Heard::NoFence => out.send(core.plan.clients, Message::Renew { epoch }),
                },
                Effect::Event { .. } => {}
                Effect::Stamp(clock) => out.stamp(clock),
            }
        }
    }

    pub fn view(&self) -> Picture {
        let core = &self.core;
        let (state, hold) = match &core.phase {
            Phase::Out => ("out", None),
            Phase::Stopped { .. } => ("stopped", None),
            Phase::Started { hold } => ("started", *hold),
        };
        let carried = core.instance.iter().flat_map(Instance::processes).count() as u64;
        let views = Picture::new()
            .field("state", String::from(state))
            .field("epoch", core.view.epoch)
            .set("members", core.members())
            .pointer("hold", hold.map(|hold| hold.process))
            .field("carries", carried)
            .inside("user", self.user.view());
        let own = core.instance.as_ref().and_then(|instance| instance.process(core.me));
        let mut picture = own.map_or_else(Picture::new, Protocol::view);
        core.show_homes(&mut picture);
        picture.inside("view", views)
    }

    pub fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let core = &mut self.core;
        visit(counts_of(core.view.epoch), &mut core.count);
        self.user.counters(visit);
        if let Phase::Started { hold: Some(Hold { fence, .. }) } = &mut core.phase {
            visit(counts_of(fence.epoch), &mut fence.count);
        }
        if let Phase::Stopped { ready, .. } = &mut core.phase {
            for fence in ready.values_mut().flatten() {
                visit(counts_of(fence.epoch), &mut fence.count);
            }
        }
        core.later.iter_mut().for_each(|(from, message)| crate::Message::counters(message, *from, visit));
        core.instance.iter_mut().flat_map(Instance::each).for_each(|process| process.counters(visit));
    }

    /// What is wrong if several processes hold the critical section among the READYs of a view.
    pub fn two_holds(&self) -> Option<String> {
        let Phase::Stopped { ready, .. } = &self.core.phase else { return None };
        let mut holders = ready.iter().filter(|(_, hold)| hold.is_some()).map(|(process, _)| process);
        let (one, other) = (holders.next()?, holders.next()?);
        let epoch = self.core.view.epoch;
        Some(format!("P{one} and P{other} both report READY for view {epoch} while inside"))
    }

    /// The view that has started here, and the process that START lists as inside.
    pub fn started(&self) -> Option<(u64, Option<Hold>)> {
        match &self.core.phase {
            Phase::Started { hold } => Some((self.core.view.epoch, *hold)),
            _ => None,
        }
    }
}

impl<P: Protocol> Core<P> {
    fn members(&self) -> Vec<ProcessId> {
        self.view.members.iter().map(|(member, _)| *member).collect()
    }

    fn lowest(&self) -> Option<ProcessId> {
        self.view.members.first().map(|(member, _)| *member)
    }

    fn now(&self) -> Now {
        let epoch = if self.plan.mistake == Some(Mistake::CountsOnly) { 0 } else { self.view.epoch };
        Now {
            epoch,
            takes_commands: match &self.phase {
                Phase::Started { hold } => hold.is_none(),
                _ => self.instance.is_some(),
            },
            is_lowest: self.lowest() == Some(self.me),
            best: self.plan.elects.best(self.members()),
            fence: (self.count < Fence::COUNT_MAX).then(|| Fence { epoch, count: self.count + 1 }),
        }
    }

    /// In the picture of a carried process: shows the members that carry helpers instead of the helpers, because a group in
    /// views has no such processes.
    fn show_homes(&self, picture: &mut Picture) {
        let (clients, members) = (self.plan.clients, self.members());
        let home = |process: ProcessId| match process {
            client if client < clients => Some(client),
            helper => self.plan.home(helper, &members),
        };
        for part in &mut picture.parts {
            match &mut part.kind {
                Kind::Field { .. } => {}
                Kind::Pointer { to } => *to = to.and_then(home),
                Kind::Set { of } => {
                    *of = of.iter().copied().filter_map(home).collect::<BTreeSet<_>>().into_iter().collect()
                }
                Kind::Queue { of } => of.retain(|queued| queued.process < clients),
                Kind::Numbers { of } => of.retain(|(process, _)| *process < clients),
                Kind::Token { carries, .. } => self.show_homes(carries),
            }
        }
    }

    /// Ends the instance of the view before, with its timers.
    fn stop<U: User<P>>(&mut self, out: &mut Out<P, U>) {
        for (process, timer) in self.instance.take().into_iter().flat_map(|instance| instance.timers) {
            out.cancel_timer(Timer { process, timer });
        }
    }

    fn join<U: User<P>>(&self, out: &mut Out<P, U>) {
        out.send(self.plan.clients, Message::Join { session: self.session });
    }
}
