//! What the story of a scenario tells, as assertions on the trace of its run.
//!
//! An assertion is a short sentence, such as `P2 crashes inside at 3.5`. The assertions of a scenario hold one after the
//! other: each one is looked for after the record that fulfilled the one before. `never P1 enters` forbids such a record
//! between the assertions before and after it, or from there to the end.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use baton_protocol::ProcessId;
use baton_trace::{Event, Record};
use serde::Deserialize;

/// One assertion.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Tell {
    text: String,
    never: bool,
    /// None: any process, or the network.
    process: Option<ProcessId>,
    happening: Happening,
    /// Only while the process is in the critical section.
    inside: bool,
    /// How often it happens.
    times: usize,
    at: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Happening {
    Requests,
    Enters,
    Leaves,
    Loses,
    Crashes,
    Recovers,
    Pauses,
    WakesUp,
    Sends { kind: String, to: Option<ProcessId> },
    Gets { kind: String, from: Option<ProcessId> },
    Suspects(ProcessId),
    Trusts(ProcessId),
    Leads,
    Follows(ProcessId),
    HasNoLeader,
    Writes,
    IsRefused,
    IsCut,
    Heals,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no assertion; write for example `P2 crashes inside at 3.5`, `P1 sends INQUIRE to P2`, `P3 leads`, `network \
     heals` or `never any enters`"
)]
pub struct NotUnderstood(String);

impl TryFrom<String> for Tell {
    type Error = NotUnderstood;

    fn try_from(text: String) -> Result<Self, NotUnderstood> {
        text.parse()
    }
}

impl FromStr for Tell {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        parse(text).ok_or_else(|| NotUnderstood(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Tell> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let never = words.first() == Some(&"never");
    if never {
        words.remove(0);
    }
    let mut at = None;
    if let [.., "at", time] = words.as_slice() {
        at = Some(time.parse().ok()?);
        words.truncate(words.len() - 2);
    }
    let mut times = 1;
    if let [.., count, "times"] = words.as_slice() {
        times = count.parse().ok().filter(|&count| count > 0)?;
        words.truncate(words.len() - 2);
    }
    let inside = words.last() == Some(&"inside");
    if inside {
        words.pop();
    }
    let (subject, rest) = words.split_first()?;
    let process = match *subject {
        "any" | "network" => None,
        name => Some(process(name)?),
    };
    let happening = happening(rest)?;
    let is_of_network = matches!(happening, Happening::IsCut | Happening::Heals);
    let is_sound = (*subject == "network") == is_of_network && !(inside && process.is_none());
    is_sound.then(|| Tell { text: text.to_owned(), never, process, happening, inside, times, at })
}

fn process(name: &str) -> Option<ProcessId> {
    name.strip_prefix('P')?.parse().ok()
}

fn happening(words: &[&str]) -> Option<Happening> {
    Some(match words {
        ["requests"] => Happening::Requests,
        ["enters"] => Happening::Enters,
        ["leaves"] => Happening::Leaves,
        ["loses", "it"] => Happening::Loses,
        ["crashes"] => Happening::Crashes,
        ["recovers"] => Happening::Recovers,
        ["pauses"] => Happening::Pauses,
        ["wakes", "up"] => Happening::WakesUp,
        ["sends", kind] => Happening::Sends { kind: (*kind).into(), to: None },
        ["sends", kind, "to", to] => Happening::Sends { kind: (*kind).into(), to: Some(process(to)?) },
        ["gets", kind] => Happening::Gets { kind: (*kind).into(), from: None },
        ["gets", kind, "from", from] => Happening::Gets { kind: (*kind).into(), from: Some(process(from)?) },
        ["suspects", peer] => Happening::Suspects(process(peer)?),
        ["trusts", peer] => Happening::Trusts(process(peer)?),
        ["leads"] => Happening::Leads,
        ["follows", leader] => Happening::Follows(process(leader)?),
        ["has", "no", "leader"] => Happening::HasNoLeader,
        ["writes"] => Happening::Writes,
        ["is", "refused"] => Happening::IsRefused,
        ["is", "cut"] => Happening::IsCut,
        ["heals"] => Happening::Heals,
        _ => return None,
    })
}

impl Happening {
    /// Whether the event of process `p` is one.
    fn is(&self, p: Option<ProcessId>, event: &Event) -> bool {
        match (self, event) {
            (Happening::Requests, Event::Request { .. })
            | (Happening::Enters, Event::Enter { .. })
            | (Happening::Leaves, Event::Exit { .. })
            | (Happening::Loses, Event::Lost { .. })
            | (Happening::Crashes, Event::Crash)
            | (Happening::Recovers, Event::Recover { .. })
            | (Happening::Pauses, Event::Pause)
            | (Happening::WakesUp, Event::Resume)
            | (Happening::Writes, Event::StoreWrite { accepted: true, .. })
            | (Happening::IsRefused, Event::StoreWrite { accepted: false, .. })
            | (Happening::IsCut, Event::Partition { .. })
            | (Happening::Heals, Event::Heal)
            | (Happening::HasNoLeader, Event::Elected { leader: None, .. }) => true,
            (Happening::Sends { kind, to }, Event::Send { kind: sent, to: receiver, .. }) => {
                kind == sent && to.is_none_or(|to| to == *receiver)
            }
            (Happening::Gets { kind, from }, Event::Deliver { kind: got, from: sender, .. }) => {
                kind == got && from.is_none_or(|from| from == *sender)
            }
            (Happening::Suspects(peer), Event::Suspect { peer: suspected }) => peer == suspected,
            (Happening::Trusts(peer), Event::Trust { peer: trusted }) => peer == trusted,
            (Happening::Leads, Event::Elected { leader: Some(leader), .. }) => p == Some(*leader),
            (Happening::Follows(other), Event::Elected { leader: Some(leader), .. }) => {
                leader == other && p != Some(*leader)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first assertion that the trace does not fulfil.
pub fn untrue<'t>(tells: &'t [Tell], records: &[Record]) -> Option<&'t Tell> {
    let mut inside = BTreeSet::new();
    // Each record, and whether its process was inside just before it.
    let records: Vec<(&Record, bool)> =
        records.iter().map(|record| (record, was_inside(&mut inside, record))).collect();
    let mut rest = records.as_slice();
    let mut forbidden = Vec::new();
    for tell in tells {
        if tell.never {
            forbidden.push(tell);
            continue;
        }
        let Some(place) = tell.place(rest) else { return Some(tell) };
        let (before, after) = rest.split_at(place + 1);
        if let Some(wrong) = forbidden.iter().find(|tell| tell.place(&before[..place]).is_some()) {
            return Some(wrong);
        }
        forbidden.clear();
        rest = after;
    }
    forbidden.into_iter().find(|tell| tell.place(rest).is_some())
}

fn was_inside(inside: &mut BTreeSet<ProcessId>, Record { p, event, .. }: &Record) -> bool {
    let Some(p) = *p else { return false };
    let was = inside.contains(&p);
    match event {
        Event::Enter { .. } => {
            inside.insert(p);
        }
        Event::Exit { .. } | Event::Lost { .. } | Event::Crash => {
            inside.remove(&p);
        }
        _ => {}
    }
    was
}

impl Tell {
    /// The first record by which it has happened often enough.
    fn place(&self, records: &[(&Record, bool)]) -> Option<usize> {
        let is_one = |&(_, &(record, was_inside)): &(usize, &(&Record, bool))| self.is(record, was_inside);
        records.iter().enumerate().filter(is_one).nth(self.times - 1).map(|(place, _)| place)
    }

    fn is(&self, record: &Record, was_inside: bool) -> bool {
        let is_its = self.process.is_none() || self.process == record.p;
        let is_then = self.at.is_none_or(|at| (record.t - at).abs() < 1e-6);
        is_its && is_then && (was_inside || !self.inside) && self.happening.is(record.p, &record.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tells(texts: &[&str]) -> Vec<Tell> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn assertions_hold_in_the_order_of_the_trace() {
        let events = [
            (0.0, Some(1), Event::Enter { req: 0, fence: 1 }),
            (1.0, Some(0), Event::Send { msg: 0, to: 2, kind: "TOKEN".into(), bytes: 1, body: None }),
            (2.5, Some(1), Event::Crash),
            (3.0, None, Event::Heal),
            (4.0, Some(2), Event::Elected { leader: Some(2), term: None }),
        ];
        let record = |(seq, (t, p, event))| Record { seq: seq as u64, t, p, resource: None, event };
        let records: Vec<Record> = events.into_iter().enumerate().map(record).collect();
        let first_untrue = |texts: &[&str]| untrue(&tells(texts), &records).map(ToString::to_string);
        let all = ["P1 enters", "P0 sends TOKEN to P2", "P1 crashes inside at 2.5", "network heals", "P2 leads"];
        assert_eq!(first_untrue(&all), None);
        assert_eq!(first_untrue(&["P1 crashes", "never any enters", "P2 leads", "never any crashes"]), None);
        assert_eq!(
            first_untrue(&["P1 enters", "never P2 leads", "network heals"]),
            None,
            "only until the network heals"
        );
        for wrong in [
            &["P1 crashes", "P1 enters"][..],
            &["P1 crashes inside at 2.4"],
            &["P0 sends TOKEN", "never P1 crashes"],
            &["P1 enters 2 times"],
            &["P0 sends TOKEN to P1"],
            &["P1 leads"],
            &["P2 follows P2"],
        ] {
            assert_eq!(first_untrue(wrong).as_ref(), wrong.last().map(|text| (*text).to_owned()).as_ref());
        }
    }

    #[test]
    fn what_is_no_assertion_is_refused() {
        for text in [
            "",
            "P1 enters 0 times",
            "P1",
            "P1 dances",
            "never",
            "network enters",
            "any crashes inside",
            "P1 heals",
            "P1 enters at x",
        ] {
            assert!(text.parse::<Tell>().is_err(), "{text}");
        }
        assert!("P1 dances".parse::<Tell>().unwrap_err().to_string().starts_with("`P1 dances` is no assertion; write"));
    }
}
