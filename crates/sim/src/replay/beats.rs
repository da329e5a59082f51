//! Repeats a trace of failure detectors, with their clocks. In a counterexample of the checker all clocks show the ticks of
//! the records. In a simulation the header says how fast each clock runs. So the replay can ask the detectors again: a
//! suspected process must be overdue, and everything that is due must happen before time goes on. A
//! [`Stage`](crate::stage::Stage) has no time, so this loop is its own. A crash and a recovery mean the same in both.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use baton_protocol::detector::{Beat, Detector, Period, StampedBeat, Watcher, heartbeat};
use baton_protocol::{Group, Message, ProcessId, Protocol, Ticks};
use baton_trace::{Action, Event, Header, Record};

use super::{Repeated, ReplayError, Replayed, claim, differs};
use crate::clocks::Clocks;
use crate::oracle::mutex::Violation;
use crate::oracle::suspicions::Suspicions;
use crate::stage::{Refused, Role, Shown, ShownMessage, ShownProcess, ShownTimer, range};
use crate::time::{T, in_t, ticks};

/// A process that sends heartbeats and watches the other processes.
struct Member<D> {
    watcher: Watcher<D>,
    /// The true time of the next heartbeat. None while the process is down.
    beats_at: Option<Ticks>,
    /// The time of the last crash or recovery.
    since: Option<Ticks>,
}

struct InFlight {
    from: ProcessId,
    to: ProcessId,
    sent: Ticks,
    beat: StampedBeat,
}

/// A trace during its replay.
pub struct Beats<'t, D> {
    algorithm: &'static str,
    members: Vec<Member<D>>,
    /// The time from a crash until every live process must suspect the process, in a counterexample.
    noticed_after: Ticks,
    period: Ticks,
    clocks: Clocks,
    /// Whether the trace is a counterexample. Its times count ticks, and every message takes at least one.
    by_ticks: bool,
    now: Ticks,
    paused: BTreeSet<ProcessId>,
    /// The messages in flight, by their number.
    in_flight: BTreeMap<u64, InFlight>,
    /// Number of deliveries and losses of each message that are still to come in the trace.
    ends_left: BTreeMap<u64, u32>,
    suspicions: Suspicions,
    /// The first suspicion of a live process in a simulation.
    mistake: Option<String>,
    records: &'t [Record],
    next: usize,
    /// The latest step in words.
    text: Vec<String>,
}

impl<'t, D: Detector> Beats<'t, D> {
    pub fn new(
        algorithm: &'static str,
        header: &Header,
        records: &'t [Record],
        group: Group<D>,
    ) -> Result<Self, ReplayError> {
        let (n, period, by_ticks) = (group.processes, (group.make)(0).period(), header.is_dated_by_ticks());
        let rates = header.network.clock_rates.as_deref().filter(|_| !by_ticks);
        let clocks = rates.map_or(Some(Clocks::default()), |rates| Clocks::from_rates(rates, n));
        let mut ends_left = BTreeMap::new();
        for record in records {
            if let Event::Deliver { msg, .. } | Event::Drop { msg, .. } = record.event {
                *ends_left.entry(msg).or_default() += 1;
            }
        }
        let group = Watcher::group(group, if by_ticks { 1 } else { T });
        let member = |me| Member { watcher: (group.make)(me), beats_at: Some(0), since: None };
        Ok(Beats {
            algorithm,
            members: (0..n).map(member).collect(),
            noticed_after: heartbeat::noticed_after(period, &header.group_params()),
            period,
            clocks: clocks.ok_or(ReplayError::Clocks { processes: n })?,
            by_ticks,
            now: 0,
            paused: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            ends_left,
            suspicions: Suspicions::new(n),
            mistake: None,
            records,
            next: 0,
            text: Vec::new(),
        })
    }

    /// Repeats the whole trace, judges it, and checks that it violates the properties that it claims to violate.
    pub fn repeat(mut self) -> Result<Replayed, ReplayError> {
        self.play_to(usize::MAX)?;
        let records = self.records;
        if !matches!(records.last(), Some(Record { event: Event::End { .. }, .. })) {
            return Err(ReplayError::CutOff { records: records.len() });
        }
        let violations: Vec<Violation> = match self.by_ticks {
            true => self.mistaken().into_iter().chain(self.missed()).collect(),
            false => {
                let mistake = self.mistake.take().map(|detail| ("safety", detail));
                mistake.into_iter().chain(self.incomplete()).collect()
            }
        };
        let found = |property: &str| violations.iter().any(|(found, _)| *found == property);
        if let Some(property) = records.iter().filter_map(claim).find(|property| !found(property)) {
            return Err(ReplayError::Outcome { property: property.into() });
        }
        let held = ["safety", "liveness"].into_iter().filter(|property| !found(property)).collect();
        let shown = records.iter().find_map(claim).filter(|_| self.by_ticks).map(String::from);
        Ok(Replayed { steps: records.len(), entries: 0, violations, held, shown })
    }

    /// Moves time forward to a record. Fails if a heartbeat or a suspicion was due before that time.
    fn pass_time(&mut self, record: &Record) -> Result<(), ReplayError> {
        let time = if self.by_ticks { record.t as Ticks } else { ticks(record.t) };
        if (self.by_ticks && time as f64 != record.t) || time < self.now {
            let now = if self.by_ticks { format!("tick {}", self.now) } else { format!("{} T", in_t(self.now)) };
            return Err(differs(record, format!("that it is {now} or a later one")));
        }
        if let Some(last) = time.checked_sub(1).filter(|_| time > self.now) {
            // A simulation may have many processes. Each one is asked when it does something.
            let asked: Range<ProcessId> = match record.p.filter(|_| !self.by_ticks) {
                Some(at) => at..at.saturating_add(1).min(self.members.len()),
                None => 0..self.members.len(),
            };
            asked.into_iter().try_for_each(|at| self.check_nothing_is_due(at, last, record))?;
        }
        self.now = time;
        Ok(())
    }

    fn check_nothing_is_due(&self, at: ProcessId, last: Ticks, record: &Record) -> Result<(), ReplayError> {
        let member = &self.members[at];
        let Some(beats_at) = member.beats_at.filter(|_| !self.paused.contains(&at)) else { return Ok(()) };
        if beats_at <= last {
            return Err(differs(record, format!("that P{at} first sends a heartbeat")));
        }
        let clock = self.clocks.shows(at, last);
        let due = (0..self.members.len()).find(|&peer| member.watcher.is_overdue(peer, clock));
        match due {
            // The violation itself may be a suspicion that is missing.
            Some(peer) if !matches!(record.event, Event::Violation { .. }) => {
                Err(differs(record, format!("that P{at} first suspects P{peer}")))
            }
            _ => Ok(()),
        }
    }

    fn repeat_one(&mut self, record: &Record) -> Result<(), ReplayError> {
        let wrong = |expected: &str| differs(record, expected.into());
        let Some(at) = record.p else { return Ok(()) };
        let (now, clock, n) = (self.now, self.clocks.shows(at, self.now), self.members.len());
        let member = self.members.get_mut(at).ok_or_else(|| wrong(&format!("that there are {n} processes")))?;
        let is_up = member.beats_at.is_some();
        if is_up {
            member.watcher.set_clock(clock);
        }
        match &record.event {
            Event::Timer { name } => {
                let is_due = member.beats_at.is_some_and(|due| if self.by_ticks { due == now } else { due <= now });
                if *name != format!("{Period:?}") || !is_due {
                    return Err(wrong("that no heartbeat is due"));
                }
                self.text.push(format!("the timer {name} of P{at} fires"));
                self.beat(at)
            }
            Event::Deliver { msg, from, .. } => self.deliver(record, at, *msg, *from),
            Event::Suspect { peer } => {
                if *peer >= n || *peer == at {
                    return Err(wrong("that no other process has this id"));
                }
                if !is_up || !member.watcher.is_overdue(*peer, clock) {
                    return Err(wrong("that it is not overdue"));
                }
                member.watcher.suspect(*peer);
                let deadline = member.watcher.deadline(*peer).unwrap_or_default();
                self.text.push(format!("P{at} suspects P{peer}: by its clock the deadline {deadline} is over"));
                if let Some(mistake) = self.suspicions.see(at, &record.event) {
                    let detail = format!("P{at} suspected P{peer}, which was alive, at {} T", in_t(now));
                    self.mistake.get_or_insert(detail);
                    self.text.push(format!("VIOLATES safety: {mistake}"));
                }
                Ok(())
            }
            Event::Drop { msg, .. } => {
                self.lose(*msg);
                Ok(())
            }
            Event::Crash => {
                if !is_up {
                    return Err(wrong(&format!("that {}", Refused::Down { process: at })));
                }
                (member.beats_at, member.since) = (None, Some(now));
                self.paused.remove(&at);
                self.suspicions.see(at, &record.event);
                self.in_flight.retain(|_, message| message.to != at);
                self.text.push(format!("P{at} crashes"));
                Ok(())
            }
            Event::Recover { .. } => {
                if is_up {
                    return Err(wrong(&format!("that {}", Refused::NotDown { process: at })));
                }
                member.since = Some(now);
                self.suspicions.see(at, &record.event);
                self.in_flight.retain(|_, message| message.from != at);
                self.text.push(format!("P{at} recovers"));
                self.start(at)
            }
            Event::Pause => {
                self.paused.insert(at);
                Ok(())
            }
            Event::Resume => {
                self.paused.remove(&at);
                Ok(())
            }
            Event::Violation { .. } => Ok(()),
            _ => Err(wrong("that this did not happen")),
        }
    }

    fn deliver(&mut self, record: &Record, at: ProcessId, msg: u64, from: ProcessId) -> Result<(), ReplayError> {
        let wrong = |expected: &str| differs(record, expected.into());
        let message = self.in_flight.get(&msg).ok_or_else(|| wrong("that this message is not in flight"))?;
        let too_early = if self.by_ticks { message.sent >= self.now } else { message.sent > self.now };
        if message.to != at || message.from != from || too_early || !self.is_up(at) {
            return Err(wrong("that the message cannot arrive here now"));
        }
        let trusts = self.members[at].watcher.hear(from, &message.beat);
        self.end(msg);
        self.suspicions.hear(at, from);
        self.text.push(format!("P{at} gets {} from P{from}", Beat.kind()));
        if !trusts {
            return Ok(());
        }
        self.suspicions.see(at, &Event::Trust { peer: from });
        self.text.push(format!("P{at} trusts P{from} again"));
        let (peer, expected) = (from, || format!("that P{at} trusts P{from} again"));
        let record = self.output(expected)?;
        match record.p == Some(at) && record.event == (Event::Trust { peer }) {
            true => Ok(()),
            false => Err(differs(record, expected())),
        }
    }

    fn start(&mut self, at: ProcessId) -> Result<(), ReplayError> {
        let watcher = &mut self.members[at].watcher;
        watcher.set_clock(self.clocks.shows(at, self.now));
        watcher.watch();
        self.beat(at)
    }

    /// Sends a heartbeat to every other process. The next records must be these messages.
    fn beat(&mut self, at: ProcessId) -> Result<(), ReplayError> {
        let beat = self.members[at].watcher.beat();
        self.members[at].beats_at = Some(self.now.saturating_add(self.clocks.takes(at, self.period)));
        for to in (0..self.members.len()).filter(|&to| to != at) {
            let expected = || format!("that P{at} sends a heartbeat to P{to}");
            let record = self.output(expected)?;
            match &record.event {
                Event::Send { msg, to: traced, kind, .. }
                    if record.p == Some(at) && *traced == to && kind == Beat.kind() =>
                {
                    let message = InFlight { from: at, to, sent: self.now, beat: beat.clone() };
                    // A message to a crashed process is lost.
                    if self.is_up(to) {
                        self.in_flight.insert(*msg, message);
                    }
                }
                _ => return Err(differs(record, expected())),
            }
        }
        self.text.push(format!("P{at} sends {} to every other process", Beat.kind()));
        Ok(())
    }

    /// The next record of an output. Loses the messages whose losses come in between.
    fn output(&mut self, expected: impl Fn() -> String) -> Result<&'t Record, ReplayError> {
        loop {
            let missing =
                || ReplayError::Differs { seq: self.next as u64, found: "nothing more".into(), expected: expected() };
            let record = self.records.get(self.next).ok_or_else(missing)?;
            self.next += 1;
            match &record.event {
                Event::Drop { msg, .. } => self.lose(*msg),
                _ => return Ok(record),
            }
        }
    }

    fn lose(&mut self, msg: u64) {
        if let Some(InFlight { from, to, .. }) = self.in_flight.get(&msg) {
            self.text.push(format!("P{from} -> P{to} {} is lost", Beat.kind()));
            self.end(msg);
        }
    }

    /// A message has arrived or is lost. If the trace has a further delivery or loss of it, a copy stays in flight.
    fn end(&mut self, msg: u64) {
        let left = self.ends_left.entry(msg).or_default();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.in_flight.remove(&msg);
        }
    }

    /// In a counterexample: a live process is suspected.
    fn mistaken(&self) -> Option<Violation> {
        let (at, peer) = self.pairs().find(|&(at, peer)| self.suspects(at, peer) && self.is_up(peer))?;
        Some(("safety", format!("P{at} suspects P{peer}, which is alive")))
    }

    /// In a counterexample: a process has been down for too long, by the tick before now. A process that has been up for
    /// as long does not suspect it.
    fn missed(&self) -> Option<Violation> {
        let noticed_after = self.noticed_after;
        let for_long = |process: ProcessId| {
            let since = self.members[process].since;
            since.is_none_or(|since| self.now > since.saturating_add(noticed_after).saturating_add(1))
        };
        let missed = |&(at, peer): &(ProcessId, ProcessId)| {
            !self.is_up(peer) && for_long(peer) && for_long(at) && !self.suspects(at, peer)
        };
        let (at, peer) = self.pairs().find(missed)?;
        let detail = format!("P{at} does not suspect P{peer}, which has been dead for more than {noticed_after} ticks");
        Some(("liveness", detail))
    }

    /// At the end of a simulation: a live process does not suspect a crashed one.
    fn incomplete(&self) -> Option<Violation> {
        let (at, peer) = self.suspicions.unnoticed()?;
        let since = in_t(self.members[peer].since.unwrap_or_default());
        Some(("liveness", format!("P{at} does not suspect P{peer}, which crashed at {since} T")))
    }

    /// Each live process, paired with each other process.
    fn pairs(&self) -> impl Iterator<Item = (ProcessId, ProcessId)> {
        let n = self.members.len();
        let live = (0..n).filter(|&at| self.is_up(at));
        live.flat_map(move |at| (0..n).filter(move |&peer| peer != at).map(move |peer| (at, peer)))
    }

    fn is_up(&self, process: ProcessId) -> bool {
        self.members[process].beats_at.is_some()
    }

    fn suspects(&self, at: ProcessId, peer: ProcessId) -> bool {
        self.members[at].watcher.suspects(peer)
    }

    fn show_process(&self, id: ProcessId) -> ShownProcess {
        let (up, mut watcher) = (self.is_up(id), self.members[id].watcher.clone());
        if up {
            watcher.set_clock(self.clocks.shows(id, self.now));
        }
        ShownProcess {
            id,
            role: Role::Client,
            up,
            ready: up,
            waiting: false,
            inside: false,
            leader: None,
            suspects: (0..self.members.len()).filter(|&peer| up && self.suspects(id, peer)).collect(),
            picture: watcher.view(),
        }
    }
}

impl<D: Detector> Repeated for Beats<'_, D> {
    fn play_to(&mut self, index: usize) -> Result<(), ReplayError> {
        (0..self.members.len()).try_for_each(|process| {
            self.text.clear();
            self.start(process)
        })?;
        while self.next <= index
            && let Some(record) = self.records.get(self.next)
        {
            self.next += 1;
            self.text.clear();
            self.pass_time(record)?;
            self.repeat_one(record)?;
        }
        Ok(())
    }

    fn now(&self) -> (Shown, Vec<String>) {
        let message = |(&id, &InFlight { from, to, .. }): (&u64, &InFlight)| ShownMessage {
            id,
            original: id,
            from,
            to,
            kind: Beat.kind(),
            body: None,
            text: Beat.kind().into(),
            app: false,
            blocked: false,
        };
        let live = (0..self.members.len()).filter(|&process| self.is_up(process));
        let after = range(&(self.period..=self.period));
        let shown = Shown {
            processes: (0..self.members.len()).map(|id| self.show_process(id)).collect(),
            pending: self.in_flight.iter().map(message).collect(),
            timers: live
                .map(|process| ShownTimer { process, name: format!("{Period:?}"), after: after.clone() })
                .collect(),
        };
        (shown, self.text.clone())
    }

    fn actions(&mut self) -> Result<Vec<Action>, ReplayError> {
        let reason = "by hand there is no time, and this run depends on it";
        Err(ReplayError::Unsupported { algorithm: self.algorithm, reason })
    }
}
