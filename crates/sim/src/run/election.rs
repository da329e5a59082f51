//! A run of an election.

use baton_protocol::election::Election;
use baton_protocol::registry::{About, Survivors};
use baton_protocol::{Group, PerProperty, Protocol, Ticks};
use baton_trace::Event;

use super::{Outcome, Run, RunError, finish_trace};
use crate::app::election::{ElectionTrigger, ElectionUsers, Noticed};
use crate::app::mutex::Load;
use crate::faults::{self, Fault};
use crate::oracle::{Finding, Verdict};
use crate::report::{ElectionReport, Properties, Report};
use crate::time::{in_t, ticks};
use crate::world::Wire;

impl Run<'_> {
    pub(super) fn elections<P: Election>(self, about: &'static About, group: Group<P>) -> Result<Report, RunError> {
        let (options, n) = (self.options, group.clients);
        let notes = faults::notes(&options.faults, group.processes);
        let delay_max = options.params.delay_max;
        let detection = 2 * delay_max + ticks(options.detector_spread);
        let trigger = match (options.faults.iter().map(Fault::over).max(), options.workload.load) {
            (Some(over), _) => ElectionTrigger::Faults { over: over + detection },
            (None, _) if let Some(process) = options.noticed_by => ElectionTrigger::NoLeader(Noticed::By(process)),
            (None, Load::All | Load::Random) => ElectionTrigger::NoLeader(Noticed::ByAll),
            (None, Load::Solo) => ElectionTrigger::NoLeader(Noticed::ByTheLowest),
            (None, Load::SoloRandom) => ElectionTrigger::NoLeader(Noticed::ByOne),
        };
        if let ElectionTrigger::NoLeader(Noticed::By(process)) = trigger
            && process >= n
        {
            return Err(RunError::CannotNotice { process, why: format!("the processes are P0 to P{}", n - 1) });
        }
        // If the crash of the leader is the trigger, only the processes in `noticed` suspect it at once, because they
        // should hold the election. The other processes learn of the crash when an election without a guard is over.
        // They must learn of it: a judge that does not suspect the crashed leader never lets another process take its
        // place.
        let told = if matches!(trigger, ElectionTrigger::Faults { .. }) { 2 * delay_max } else { 4 * delay_max };
        let told = options.reports_after(told);
        // Bully may take until the next announcement. A run of an algorithm without timers ends when no event is left.
        let patience = (100 + 10 * n as Ticks) * delay_max;
        let users = ElectionUsers::new(n, group.elects, trigger, patience, !options.seed);
        let survivors = group.survivors.clone();
        let Outcome { users, mut wire, ended, events_per_s, .. } = self.go(about, group, users, told, false)?;
        if let (ElectionTrigger::NoLeader(Noticed::By(process)), []) = (trigger, users.noticed.as_slice()) {
            return Err(RunError::CannotNotice { process, why: "it leads at first; name another process".into() });
        }
        let (leader, term) = users.leader();
        let survivors = survivors.filter(|_| options.faults.is_empty());
        let liveness = match (leader, survivors.and_then(|survivors| too_few(&survivors, &wire))) {
            (Some(_), _) => Finding::held(),
            (None, _) if options.faults.iter().any(Fault::is_never_over) => {
                Finding::unchecked("a partition never heals, so the live processes cannot all agree")
            }
            (None, Some(why)) => Finding::unchecked(why),
            (None, None) => {
                let why = users.why_no_agreement(&wire).map(|why| format!(": {why}")).unwrap_or_default();
                Finding::violated(format!("the live processes do not all agree on the process that should lead{why}"))
            }
        };
        let none = || Finding::unchecked("does not apply to elections");
        let properties = Properties(PerProperty {
            safety: Finding::from_violation(users.violation.as_ref()).given(about.promises.safety),
            liveness: liveness.given(about.promises.liveness),
            order: none(),
            fence: none(),
        });
        if let (Verdict::Violated, Some(detail)) = (properties.liveness.verdict, properties.liveness.detail.clone()) {
            wire.trace_all(|| Event::Violation { property: "liveness".into(), detail });
        }
        finish_trace(&mut wire, ended)?;
        let last_arrival = wire.last_arrival();
        let rivals = in_t(users.rivals(wire.now()));
        let dead = (0..n).filter(|&process| !wire.is_up(process)).collect();
        let sides = users.sides(&wire);
        let (messages, before) = (wire.messages(), users.messages_before());
        Ok(Report::Election(Box::new(ElectionReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n,
            seed: options.seed,
            leader,
            term,
            sides,
            dead,
            noticed: users.noticed.clone(),
            messages: messages.sent - before.sent,
            messages_by_kind: messages.by_kind_since(&before),
            messages_in_all: messages.sent,
            time: users.time(last_arrival).map(in_t),
            rivals,
            rivals_at_end: users.rivals_now(),
            drawn: None,
            notes,
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }
}

/// Why no process can lead in a run without written faults: the crash that triggers the election leaves too few
/// processes.
fn too_few<P: Protocol, X>(survivors: &Survivors, wire: &Wire<P, X>) -> Option<String> {
    let Survivors { assumes, among, least } = survivors;
    let living = among.clone().filter(|&process| wire.is_up(process)).count();
    (living < *least)
        .then(|| format!("it assumes {assumes}, and the crash of the leader leaves {living} of {}", among.len()))
}
