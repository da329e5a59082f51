//! Repeats a counterexample of the checker with heartbeats. In the checker all clocks show the ticks of the records. So
//! the replay can ask the detectors again: a suspected process must be overdue, and everything that is due must happen
//! before time goes on. A [`Stage`](crate::stage::Stage) has no clocks, so this loop is its own. A crash and a recovery mean
//! the same in both.

use std::collections::BTreeMap;

use baton_protocol::detector::{Beat, Detector, Period, heartbeat};
use baton_protocol::{Group, Message, ProcessId, Ticks};
use baton_trace::{Event, Header, Record};

use super::{ReplayError, Replayed, claim, differs};
use crate::oracle::mutex::Violation;
use crate::stage::Refused;

/// A process that sends heartbeats and watches the other processes.
struct Member<D> {
    /// A detector for each other process, and whether it suspects that process. None for the process itself.
    watches: Vec<Option<(D, bool)>>,
    /// The time of the next heartbeat. None while the process is down.
    beats_at: Option<Ticks>,
    /// The time of the last crash or recovery.
    since: Option<Ticks>,
}

struct InFlight {
    from: ProcessId,
    to: ProcessId,
    sent: Ticks,
}

struct Beats<'t, D> {
    members: Vec<Member<D>>,
    period: Ticks,
    now: Ticks,
    /// The messages in flight, by their number.
    in_flight: BTreeMap<u64, InFlight>,
    records: &'t [Record],
    next: usize,
}

/// Repeats a counterexample, and checks that it violates the property that it claims to violate.
pub fn repeat<D: Detector>(header: &Header, records: &[Record], group: &Group<D>) -> Result<Replayed, ReplayError> {
    let n = group.processes;
    let member = |me| Member {
        watches: (0..n).map(|peer| (peer != me).then(|| watched((group.make)(peer), 0))).collect(),
        beats_at: Some(0),
        since: None,
    };
    let mut beats = Beats {
        members: (0..n).map(member).collect(),
        period: (group.make)(0).period(),
        now: 0,
        in_flight: BTreeMap::new(),
        records,
        next: 0,
    };
    (0..n).try_for_each(|process| beats.beat(process))?;
    while let Some(record) = records.get(beats.next) {
        beats.next += 1;
        beats.pass_time(record)?;
        beats.repeat(record)?;
    }
    if !matches!(records.last(), Some(Record { event: Event::End { .. }, .. })) {
        return Err(ReplayError::CutOff { records: records.len() });
    }
    let noticed_after = heartbeat::noticed_after(beats.period, &header.group_params());
    let violations: Vec<Violation> = beats.mistake().into_iter().chain(beats.missed(noticed_after)).collect();
    let found = |property: &str| violations.iter().any(|(found, _)| *found == property);
    if let Some(property) = records.iter().filter_map(claim).find(|property| !found(property)) {
        return Err(ReplayError::Outcome { property: property.into() });
    }
    let held = ["safety", "liveness"].into_iter().filter(|property| !found(property)).collect();
    let shown = records.iter().find_map(claim).map(String::from);
    Ok(Replayed { steps: records.len(), entries: 0, violations, held, shown })
}

fn watched<D: Detector>(mut detector: D, now: Ticks) -> (D, bool) {
    detector.watch(now);
    (detector, false)
}

impl<'t, D: Detector> Beats<'t, D> {
    /// Moves time forward to a record. Fails if a heartbeat or a suspicion was due before that time.
    fn pass_time(&mut self, record: &Record) -> Result<(), ReplayError> {
        let time = record.t as Ticks;
        if time as f64 != record.t || time < self.now {
            return Err(differs(record, format!("that it is tick {} or a later one", self.now)));
        }
        if let Some(last) = time.checked_sub(1).filter(|_| time > self.now) {
            for (at, member) in self.members.iter().enumerate() {
                if member.beats_at.is_some_and(|due| due <= last) {
                    return Err(differs(record, format!("that P{at} first sends a heartbeat")));
                }
                let is_due = |(_, watch): &(usize, &Option<(D, bool)>)| {
                    watch.as_ref().is_some_and(|(detector, suspects)| !suspects && detector.suspects(last))
                };
                let due = member.watches.iter().enumerate().find(is_due).filter(|_| member.beats_at.is_some());
                // The violation itself may be a suspicion that is missing.
                if let (Some((peer, _)), false) = (due, matches!(record.event, Event::Violation { .. })) {
                    return Err(differs(record, format!("that P{at} first suspects P{peer}")));
                }
            }
        }
        self.now = time;
        Ok(())
    }

    fn repeat(&mut self, record: &Record) -> Result<(), ReplayError> {
        let wrong = |expected: &str| differs(record, expected.into());
        let Some(at) = record.p else { return Ok(()) };
        let now = self.now;
        let others = self.members.len();
        let member = self.members.get_mut(at).ok_or_else(|| wrong(&format!("that there are {others} processes")))?;
        match &record.event {
            Event::Timer { name } => {
                if *name != format!("{Period:?}") || member.beats_at != Some(now) {
                    return Err(wrong("that no heartbeat is due"));
                }
                self.beat(at)
            }
            Event::Deliver { msg, from, .. } => {
                let message = self.in_flight.get(msg).ok_or_else(|| wrong("that this message is not in flight"))?;
                if message.to != at || message.sent >= now || member.beats_at.is_none() {
                    return Err(wrong("that the message cannot arrive here now"));
                }
                let watch = member.watches.get_mut(*from).and_then(Option::as_mut);
                let (detector, suspects) = watch.ok_or_else(|| wrong("that no other process has this id"))?;
                detector.beat(now);
                let trusts = std::mem::take(suspects);
                let peer = *from;
                if trusts { self.expect(at, &Event::Trust { peer }) } else { Ok(()) }
            }
            Event::Suspect { peer } => {
                let watch = member.watches.get_mut(*peer).and_then(Option::as_mut);
                let (detector, suspects) = watch.ok_or_else(|| wrong("that no other process has this id"))?;
                if member.beats_at.is_none() || *suspects || !detector.suspects(now) {
                    return Err(wrong("that it is not overdue"));
                }
                *suspects = true;
                Ok(())
            }
            Event::Drop { msg, .. } => {
                self.in_flight.remove(msg);
                Ok(())
            }
            Event::Crash => {
                if member.beats_at.is_none() {
                    return Err(wrong(&format!("that {}", Refused::Down { process: at })));
                }
                (member.beats_at, member.since) = (None, Some(now));
                self.in_flight.retain(|_, message| message.to != at);
                Ok(())
            }
            Event::Recover { .. } => {
                if member.beats_at.is_some() {
                    return Err(wrong(&format!("that {}", Refused::NotDown { process: at })));
                }
                member.since = Some(now);
                self.in_flight.retain(|_, message| message.from != at);
                let watches = member.watches.iter_mut().flatten();
                watches.for_each(|watch| *watch = watched(watch.0.clone(), now));
                self.beat(at)
            }
            _ => Err(wrong("that this did not happen")),
        }
    }

    /// Sends a heartbeat to every other process. The next records must be these messages.
    fn beat(&mut self, at: ProcessId) -> Result<(), ReplayError> {
        for to in (0..self.members.len()).filter(|&to| to != at) {
            let record = self.output(|| format!("that P{at} sends a heartbeat to P{to}"))?;
            match &record.event {
                Event::Send { msg, to: traced, kind, .. }
                    if record.p == Some(at) && *traced == to && kind == Beat.kind() =>
                {
                    let message = InFlight { from: at, to, sent: self.now };
                    // A message to a crashed process is lost.
                    if self.is_up(to) {
                        self.in_flight.insert(*msg, message);
                    }
                }
                _ => return Err(differs(record, format!("that P{at} sends a heartbeat to P{to}"))),
            }
        }
        self.members[at].beats_at = Some(self.now + self.period);
        Ok(())
    }

    fn expect(&mut self, at: ProcessId, event: &Event) -> Result<(), ReplayError> {
        let record = self.output(|| format!("P{at}: {event:?}"))?;
        match record.p == Some(at) && record.event == *event {
            true => Ok(()),
            false => Err(differs(record, format!("P{at}: {event:?}"))),
        }
    }

    fn output(&mut self, expected: impl Fn() -> String) -> Result<&'t Record, ReplayError> {
        let seq = self.next as u64;
        let missing = || ReplayError::Differs { seq, found: "nothing more".into(), expected: expected() };
        let record = self.records.get(self.next).ok_or_else(missing)?;
        self.next += 1;
        Ok(record)
    }

    /// A live process is suspected.
    fn mistake(&self) -> Option<Violation> {
        let (at, peer) = self.pairs().find(|&(at, peer)| self.suspects(at, peer) && self.is_up(peer))?;
        Some(("safety", format!("P{at} suspects P{peer}, which is alive")))
    }

    /// A process has been down for too long, by the tick before now. A process that has been up for as long does not
    /// suspect it.
    fn missed(&self, noticed_after: Ticks) -> Option<Violation> {
        let for_long = |process: ProcessId| {
            let since = self.members[process].since;
            since.is_none_or(|since| self.now > since + noticed_after + 1)
        };
        let missed = |&(at, peer): &(ProcessId, ProcessId)| {
            !self.is_up(peer) && for_long(peer) && for_long(at) && !self.suspects(at, peer)
        };
        let (at, peer) = self.pairs().find(missed)?;
        let detail = format!("P{at} does not suspect P{peer}, which has been dead for more than {noticed_after} ticks");
        Some(("liveness", detail))
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
        self.members[at].watches[peer].as_ref().is_some_and(|(_, suspects)| *suspects)
    }
}
