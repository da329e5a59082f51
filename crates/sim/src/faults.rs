//! Faults, and the form in which users write them.

use std::fmt;
use std::str::FromStr;

use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event;

use crate::time::{in_t, ticks};

/// A fault and the time at which it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Ticks,
    pub kind: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A process stops for ever, or until it recovers.
    Crash(ProcessId),
    /// A crashed process runs again.
    Recover {
        process: ProcessId,
        /// Whether the process still has the memory from before the crash.
        memory: bool,
    },
    /// A process does nothing for a while, and does not notice.
    Pause { process: ProcessId, lasts: Ticks },
    /// Processes of different groups cannot reach each other. A process in no group stays connected to all.
    Partition {
        groups: Vec<Vec<ProcessId>>,
        /// None: for ever.
        lasts: Option<Ticks>,
    },
    /// Messages from one process to another are lost.
    OneWay {
        from: ProcessId,
        to: ProcessId,
        /// None: for ever.
        lasts: Option<Ticks>,
    },
}

impl Fault {
    /// When the fault ends. A crash or a recovery ends when it strikes, and so does a cut that lasts for ever.
    pub fn over(&self) -> Ticks {
        match self.kind {
            FaultKind::Pause { lasts, .. } => self.at + lasts,
            FaultKind::Partition { lasts, .. } | FaultKind::OneWay { lasts, .. } => self.at + lasts.unwrap_or(0),
            FaultKind::Crash(_) | FaultKind::Recover { .. } => self.at,
        }
    }

    /// Whether the fault cuts links for ever.
    pub fn is_never_over(&self) -> bool {
        matches!(self.kind, FaultKind::Partition { lasts: None, .. } | FaultKind::OneWay { lasts: None, .. })
    }
}

impl FaultKind {
    /// Every process that the fault names.
    pub fn processes(&self) -> Vec<ProcessId> {
        match self {
            FaultKind::Crash(process) | FaultKind::Recover { process, .. } | FaultKind::Pause { process, .. } => {
                vec![*process]
            }
            FaultKind::Partition { groups, .. } => groups.concat(),
            FaultKind::OneWay { from, to, .. } => vec![*from, *to],
        }
    }
}

/// Which processes are on no side of a partition, for each partition that leaves out some of the processes: they bridge
/// the cut, which readers may not expect.
pub fn notes(faults: &[Fault], processes: usize) -> Vec<String> {
    let note = |fault: &Fault| {
        let FaultKind::Partition { groups, .. } = &fault.kind else { return None };
        let named = groups.concat();
        let left: Vec<ProcessId> = (0..processes).filter(|process| !named.contains(process)).collect();
        let (are, reach) = if left.len() == 1 { ("is", "reaches") } else { ("are", "reach") };
        let sides = if groups.len() == 2 { "both" } else { "all" };
        (!left.is_empty()).then(|| format!("{} {are} on no side of `{fault}` and {reach} {sides}", listed(&left)))
    };
    faults.iter().filter_map(note).collect()
}

/// `P1, P2 and P3`.
pub fn listed(processes: &[ProcessId]) -> String {
    let names: Vec<String> = processes.iter().map(|process| format!("P{process}")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Links that are cut, in both directions or in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The links between the groups of a partition, in both directions.
    Groups(Vec<Vec<ProcessId>>),
    /// The link from the first process to the second.
    OneWay(ProcessId, ProcessId),
}

impl Cut {
    /// The event in the trace. A cut in one direction has no groups, because the other direction still works.
    pub fn event(&self) -> Event {
        match self {
            Cut::Groups(groups) => Event::Partition { groups: groups.clone(), oneway: None },
            Cut::OneWay(from, to) => Event::Partition { groups: Vec::new(), oneway: Some((*from, *to)) },
        }
    }

    /// Whether a message from `from` to `to` is lost.
    pub fn separates(&self, from: ProcessId, to: ProcessId) -> bool {
        match self {
            Cut::OneWay(a, b) => (*a, *b) == (from, to),
            Cut::Groups(groups) => {
                let group = |process| groups.iter().position(|group| group.contains(&process));
                matches!((group(from), group(to)), (Some(a), Some(b)) if a != b)
            }
        }
    }
}

const FORMS: &str = "write `crash P @ T`, `recover P @ T [without-memory]`, `pause P @ T for D`, \
                     `partition A,B|C,D @ T [for D]` (a process on no side reaches every side), \
                     `oneway A->B @ T [for D]`, or `random` for some drawn from the seed";

/// The form in which users write the fault.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = in_t(self.at);
        let lasting = |lasts: Option<Ticks>| lasts.map(|lasts| format!(" for {}", in_t(lasts))).unwrap_or_default();
        match &self.kind {
            FaultKind::Crash(process) => write!(f, "crash {process} @ {at}"),
            FaultKind::Recover { process, memory: true } => write!(f, "recover {process} @ {at}"),
            FaultKind::Recover { process, memory: false } => write!(f, "recover {process} @ {at} without-memory"),
            FaultKind::Pause { process, lasts } => write!(f, "pause {process} @ {at} for {}", in_t(*lasts)),
            FaultKind::Partition { groups, lasts } => {
                let side = |group: &Vec<ProcessId>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
                let sides: Vec<String> = groups.iter().map(side).collect();
                write!(f, "partition {} @ {at}{}", sides.join("|"), lasting(*lasts))
            }
            FaultKind::OneWay { from, to, lasts } => write!(f, "oneway {from}->{to} @ {at}{}", lasting(*lasts)),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no fault; {FORMS}");
        let (what, when) = text.split_once('@').ok_or_else(wrong)?;
        let (name, whom) = what.trim().split_once(' ').ok_or_else(wrong)?;
        let whom = whom.trim();
        let when: Vec<&str> = when.split_whitespace().collect();
        let (&at, rest) = when.split_first().ok_or_else(wrong)?;
        let at = time(at).ok_or_else(wrong)?;
        let kind = match (name, rest) {
            ("crash", []) => FaultKind::Crash(process(whom).ok_or_else(wrong)?),
            ("recover", []) => FaultKind::Recover { process: process(whom).ok_or_else(wrong)?, memory: true },
            ("recover", ["without-memory"]) => {
                FaultKind::Recover { process: process(whom).ok_or_else(wrong)?, memory: false }
            }
            ("pause", ["for", lasts]) => {
                FaultKind::Pause { process: process(whom).ok_or_else(wrong)?, lasts: time(lasts).ok_or_else(wrong)? }
            }
            ("partition", rest) => {
                let groups = groups(whom).ok_or_else(wrong)?;
                if let Some(process) = twice(&groups) {
                    return Err(format!("`{text}` names P{process} twice; every process is on one side at most"));
                }
                FaultKind::Partition { groups, lasts: duration(rest).ok_or_else(wrong)? }
            }
            ("oneway", rest) => {
                let (from, to) = whom.split_once("->").ok_or_else(wrong)?;
                let (from, to) = (process(from).ok_or_else(wrong)?, process(to).ok_or_else(wrong)?);
                if from == to {
                    return Err(format!("`{text}` cuts P{from} off from itself; name two processes"));
                }
                FaultKind::OneWay { from, to, lasts: duration(rest).ok_or_else(wrong)? }
            }
            _ => return Err(wrong()),
        };
        Ok(Fault { at, kind })
    }
}

fn process(text: &str) -> Option<ProcessId> {
    let text = text.trim();
    text.strip_prefix(['P', 'p']).unwrap_or(text).parse().ok()
}

fn time(text: &str) -> Option<Ticks> {
    text.parse().ok().filter(|time| (0.0..=1e12).contains(time)).map(ticks)
}

/// Nothing, or `for D`.
fn duration(rest: &[&str]) -> Option<Option<Ticks>> {
    match rest {
        [] => Some(None),
        ["for", lasts] => time(lasts).map(Some),
        _ => None,
    }
}

/// At least two groups.
fn groups(text: &str) -> Option<Vec<Vec<ProcessId>>> {
    let groups: Vec<Vec<ProcessId>> =
        text.split('|').map(|group| group.split(',').map(process).collect()).collect::<Option<_>>()?;
    (groups.len() > 1).then_some(groups)
}

/// A process that is named more than once.
fn twice(groups: &[Vec<ProcessId>]) -> Option<ProcessId> {
    let mut members = groups.concat();
    members.sort_unstable();
    members.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::T;

    #[test]
    fn every_form_is_understood() {
        let kind = |text: &str| text.parse::<Fault>().unwrap().kind;
        assert_eq!("crash 3 @ 2.5".parse(), Ok(Fault { at: 5 * T / 2, kind: FaultKind::Crash(3) }));
        assert_eq!(kind("recover P3 @ 4"), FaultKind::Recover { process: 3, memory: true });
        assert_eq!(kind("recover 3 @ 4 without-memory"), FaultKind::Recover { process: 3, memory: false });
        assert_eq!(kind("pause 0 @ 1 for 2"), FaultKind::Pause { process: 0, lasts: 2 * T });
        let groups = vec![vec![0, 1], vec![2, 3]];
        assert_eq!(kind("partition 0,1|2,3 @ 1"), FaultKind::Partition { groups: groups.clone(), lasts: None });
        assert_eq!(kind("partition 0,1|2,3 @ 1 for 3"), FaultKind::Partition { groups, lasts: Some(3 * T) });
        assert_eq!(kind("oneway 0->1 @ 1 for 3"), FaultKind::OneWay { from: 0, to: 1, lasts: Some(3 * T) });
    }

    #[test]
    fn a_fault_is_shown_as_users_write_it() {
        for text in [
            "crash 3 @ 2.5",
            "recover 3 @ 4",
            "recover 3 @ 4.123457 without-memory",
            "pause 0 @ 1 for 0.000001",
            "partition 0,1|2,3 @ 1",
            "partition 0,1|2|3 @ 1 for 3",
            "oneway 0->1 @ 1",
            "oneway 0->1 @ 123456.5 for 3",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_forms() {
        for text in
            ["", "crash", "crash 3", "crash x @ 1", "crash 1 @ -1", "crash 1 @ nan", "crash 1 @ 1 for 2", "pause 1 @ 1"]
                .into_iter()
                .chain(["partition 0,1 @ 1", "oneway 0,1 @ 1", "dance 1 @ 1", "recover 1 @ 1 with-memory"])
        {
            let refusal = text.parse::<Fault>().unwrap_err();
            assert!(refusal.starts_with(&format!("`{text}` is no fault; write `crash P @ T`")), "{refusal}");
        }
        let refusal = |text: &str| text.parse::<Fault>().unwrap_err();
        assert_eq!(
            refusal("partition 0,1|2,1 @ 1"),
            "`partition 0,1|2,1 @ 1` names P1 twice; every process is on one side at most"
        );
        assert_eq!(refusal("oneway 0->0 @ 1"), "`oneway 0->0 @ 1` cuts P0 off from itself; name two processes");
    }
}
