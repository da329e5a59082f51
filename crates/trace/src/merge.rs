//! Makes one trace of the traces of all members of a peer group.
//!
//! The clocks of two machines differ. So the order is first that of happened-before: the events of a member keep their
//! order, and every delivery comes after its send. Events that no message orders are ordered by time. For that, the
//! clock of a member is corrected if its messages show that it is wrong: no message arrives before it was sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::iter::Peekable;

use serde_json::{Value, json};

use crate::{Event, Header, Network, Record, Trace};

/// The trace of one member.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of the file, for messages to people.
    pub name: String,
    pub trace: Trace,
}

/// The trace of the whole group.
#[derive(Clone, Debug)]
pub struct Merged {
    pub header: Header,
    pub records: Vec<Record>,
    /// What the reader of the trace should know, in sentences: members without a trace or without an end.
    pub warnings: Vec<String>,
}

/// Why traces cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("no trace is given; name the trace of each member")]
    Nothing,
    #[error("{name} is not the trace of one member: its header has no `member` in `network`")]
    NoMember { name: String },
    #[error("{one} and {other} are both traces of member {member}; name one trace for each member")]
    SameMember { one: String, other: String, member: usize },
    #[error("{name} and {first} are not of one run: {what} is {found} in {name} and {expected} in {first}")]
    Differs { name: String, first: String, what: &'static str, found: String, expected: String },
    #[error("{one} (line {line}) and {other} (line {other_line}) both send message {msg}; are they of one run?")]
    SentTwice { msg: u64, one: String, line: usize, other: String, other_line: usize },
    #[error("{name}: in line {line} message {msg} arrives from P{from}, and no file has its send; {remedy}")]
    NoSend { name: String, line: usize, msg: u64, from: usize, remedy: String },
    #[error(
        "the traces contradict each other: {name} (line {line}) needs line {needed_line} of {needed} first, \
         and that comes after it; are they of one run?"
    )]
    Cycle { name: String, line: usize, needed: String, needed_line: usize },
}

/// Merges the traces of the members, in any order.
pub fn merge(mut parts: Vec<Part>) -> Result<Merged, MergeError> {
    let members = check_headers(&parts)?;
    let Some(first) = parts.first().map(|part| part.trace.header.clone()) else { return Err(MergeError::Nothing) };
    let group = Placement::new(&first, &parts, &members);
    let mut warnings: Vec<String> = group.missing().into_iter().collect();
    let reason = reason(&parts);
    for (part, member) in parts.iter_mut().zip(&members) {
        warnings.extend(end_of_killed(part, &group.carried_by(*member, part)));
        part.trace.records.retain(|record| !matches!(record.event, Event::End { .. }));
    }
    let sends = sends(&parts)?;
    let (needs, lost) = needs(&parts, &sends, &group)?;
    for (part, lost) in parts.iter().zip(lost).filter(|(_, lost)| *lost > 0) {
        let what = if lost == 1 { "message arrives that it has" } else { "messages arrive that it has" };
        warnings.push(format!("{}: {lost} {what} no send of, since it was cut off before", part.name));
    }
    let starts = starts(&parts, &sends);
    let header = merged_header(first, &parts, &members);
    let mut records = in_order(parts, &needs, &starts)?;
    let count = |is: fn(&Event) -> bool| records.iter().filter(|record| is(&record.event)).count() as u64;
    let entries = count(|event| matches!(event, Event::Enter { .. }));
    let messages = count(|event| matches!(event, Event::Send { .. }));
    let (seq, t) = (records.len() as u64, records.last().map_or(0.0, |record| record.t));
    records.push(Record { seq, t, p: None, resource: None, event: Event::End { reason, entries, messages } });
    Ok(Merged { header, records, warnings })
}

/// Returns the member of each trace, if the traces can be of one run.
fn check_headers(parts: &[Part]) -> Result<Vec<usize>, MergeError> {
    let Some(first) = parts.first() else { return Err(MergeError::Nothing) };
    let expected = facts(&first.trace.header);
    let mut seen: BTreeMap<usize, &str> = BTreeMap::new();
    let mut members = Vec::new();
    for part in parts {
        let Part { name, trace } = part;
        let member = trace.header.network.member.ok_or_else(|| MergeError::NoMember { name: name.clone() })?;
        for ((what, found), (_, expected)) in facts(&trace.header).into_iter().zip(&expected) {
            if found != *expected {
                let (found, expected) = (shortened(&found), shortened(expected));
                return Err(MergeError::Differs {
                    name: name.clone(),
                    first: first.name.clone(),
                    what,
                    found,
                    expected,
                });
            }
        }
        if let Some(one) = seen.insert(member, name) {
            return Err(MergeError::SameMember { one: one.to_owned(), other: name.clone(), member });
        }
        members.push(member);
    }
    Ok(members)
}

/// What all members of one group have in common.
fn facts(header: &Header) -> [(&'static str, String); 8] {
    let text = |value: Value| value.to_string();
    [
        ("the algorithm", header.algorithm.clone()),
        ("the variant", header.variant.clone().unwrap_or_else(|| "the default".to_owned())),
        ("the number of processes", header.processes.to_string()),
        ("the number of clients", header.clients.to_string()),
        ("the list of parameters", text(json!(header.params))),
        ("the list of quorums", text(json!(header.quorums))),
        ("the tree", text(json!(header.tree))),
        ("the unit of time", text(json!(header.unit))),
    ]
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Which member carries which process.
struct Placement {
    clients: usize,
    /// The number of the trace for each member.
    parts: BTreeMap<usize, usize>,
    /// The number of the trace with events of each process.
    seen: BTreeMap<usize, usize>,
}

impl Placement {
    fn new(header: &Header, parts: &[Part], members: &[usize]) -> Self {
        let clients = if header.clients == 0 { header.processes } else { header.clients };
        let mut seen = BTreeMap::new();
        for (number, part) in parts.iter().enumerate() {
            seen.extend(part.trace.records.iter().filter_map(|record| record.p).map(|p| (p, number)));
        }
        let parts = members.iter().enumerate().map(|(number, member)| (*member, number)).collect();
        Placement { clients, parts, seen }
    }

    /// Client p is on member p. Helpers are placed on the members in turn.
    fn member(&self, process: usize) -> usize {
        process % self.clients
    }

    /// The trace of the member that carries the process, if there is one.
    fn part(&self, process: usize) -> Option<usize> {
        self.seen.get(&process).or_else(|| self.parts.get(&self.member(process))).copied()
    }

    fn carried_by(&self, member: usize, part: &Part) -> Vec<usize> {
        let number = self.parts.get(&member).copied();
        (0..part.trace.header.processes).filter(|process| self.part(*process) == number).collect()
    }

    /// Tells which members have no trace. Their events may be missing without any other sign.
    fn missing(&self) -> Option<String> {
        let missing: Vec<usize> = (0..self.clients).filter(|member| !self.parts.contains_key(member)).collect();
        let names: Vec<String> = missing.iter().take(10).map(usize::to_string).collect();
        let more = if missing.len() > 10 { ", ..." } else { "" };
        let noun = if missing.len() == 1 { "member" } else { "members" };
        let text = || format!("no file is the trace of {noun} {}{more}; its events are missing", names.join(", "));
        (!missing.is_empty()).then(text)
    }
}

/// The reason in the last record: the reasons of all members. A member without a last record was killed.
fn reason(parts: &[Part]) -> String {
    let reasons = parts.iter().map(|part| match part.trace.records.last().map(|record| &record.event) {
        Some(Event::End { reason, .. }) => reason.as_str(),
        _ => "killed",
    });
    reasons.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// If the trace has no end, its processes crash after its last record. Returns the sentence that says so.
fn end_of_killed(part: &mut Part, processes: &[usize]) -> Option<String> {
    if part.trace.is_ended() {
        return None;
    }
    let Trace { records, is_cut_off, .. } = &mut part.trace;
    let line = records.len() + 1;
    let t = records.last().map_or(0.0, |record| record.t);
    let crash = |p: &usize| Record { seq: 0, t, p: Some(*p), resource: None, event: Event::Crash };
    records.extend(processes.iter().map(crash));
    let names: Vec<String> = processes.iter().map(|process| format!("P{process}")).collect();
    let cut = if *is_cut_off { ", which is cut off," } else { "" };
    let after = line + usize::from(*is_cut_off);
    Some(format!(
        "{} has no `end`: its member was killed, or still runs; taken as a crash of {} after line {after}{cut} at {t} s",
        part.name,
        names.join(", ")
    ))
}

/// The place of a record: the number of its trace, and its number there.
type Place = (usize, usize);

/// The line of a record in its file.
fn line(number: usize) -> usize {
    number + 2
}

/// The place of each send.
fn sends(parts: &[Part]) -> Result<HashMap<u64, Place>, MergeError> {
    let mut sends = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        for (index, record) in part.trace.records.iter().enumerate() {
            let (Event::Send { msg, .. } | Event::AppSend { msg, .. }) = &record.event else { continue };
            if let Some((one, at)) = sends.insert(*msg, (number, index)) {
                let (one, other): (&Part, _) = (&parts[one], part.name.clone());
                let (line, other_line) = (line(at), line(index));
                return Err(MergeError::SentTwice { msg: *msg, one: one.name.clone(), line, other, other_line });
            }
        }
    }
    Ok(sends)
}

/// A record that must come before another.
#[derive(Clone, Copy)]
struct Need {
    place: Place,
    /// A guess, which is dropped if it contradicts the messages.
    is_guess: bool,
}

/// For each record of each trace: the record that must come before it.
type Needs = Vec<Vec<Option<Need>>>;

/// Also returns, for each trace, how many of its messages arrive although it has no send of them.
fn needs(parts: &[Part], sends: &HashMap<u64, Place>, group: &Placement) -> Result<(Needs, Vec<usize>), MergeError> {
    let mut lost = vec![0; parts.len()];
    let mut all = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let mut needs = Vec::with_capacity(part.trace.records.len());
        for (index, record) in part.trace.records.iter().enumerate() {
            let place = match &record.event {
                Event::Drop { msg, .. } => sends.get(msg).copied(),
                Event::Deliver { msg, from, .. } | Event::AppDeliver { msg, from } => match sends.get(msg) {
                    Some(place) => Some(*place),
                    None => {
                        let (sender, place) = lost_send(parts, group, (number, index), *msg, *from)?;
                        lost[sender] += 1;
                        Some(place)
                    }
                },
                _ => None,
            };
            needs.push(place.map(|place| Need { place, is_guess: false }));
        }
        all.push(needs);
    }
    guess_suspicions(parts, &mut all);
    Ok((all, lost))
}

/// No message orders a crash and the suspicion of it. If the suspicion is the last word of its process about a process
/// that stays dead, it probably came after the crash.
fn guess_suspicions(parts: &[Part], needs: &mut Needs) {
    let mut crashes: HashMap<usize, Place> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        for (index, record) in part.trace.records.iter().enumerate() {
            match (&record.event, record.p) {
                (Event::Crash, Some(p)) => _ = crashes.insert(p, (number, index)),
                (Event::Recover { .. }, Some(p)) => _ = crashes.remove(&p),
                _ => {}
            }
        }
    }
    for (number, part) in parts.iter().enumerate() {
        // Pairs of processes, the first of which hears of the second later in the trace.
        let mut heard = HashSet::new();
        for (index, record) in part.trace.records.iter().enumerate().rev() {
            let Some(p) = record.p else { continue };
            let mut is_last = |peer: &usize| heard.insert((record.resource.as_deref(), p, *peer));
            match &record.event {
                Event::Suspect { peer } if is_last(peer) => {
                    needs[number][index] = crashes.get(peer).map(|place| Need { place: *place, is_guess: true });
                }
                Event::Trust { peer: other } | Event::Deliver { from: other, .. } => _ = is_last(other),
                _ => {}
            }
        }
    }
}

/// A killed member may have lost its last records. Then the delivery comes after all that is left of the sender's trace.
fn lost_send(
    parts: &[Part],
    group: &Placement,
    (number, index): Place,
    msg: u64,
    from: usize,
) -> Result<(usize, Place), MergeError> {
    let member = group.member(from);
    let remedy = match group.part(from) {
        Some(sender)
            if sender != number
                && matches!(parts[sender].trace.records.last(), Some(record) if record.event == Event::Crash) =>
        {
            return Ok((sender, (sender, parts[sender].trace.records.len() - 1)));
        }
        Some(sender) => {
            let sender = &parts[sender].name;
            format!("{sender} has the events of P{from}, but not this one: is it of the same run, and complete?")
        }
        None => format!("the trace of member {member}, which carries P{from}, is missing: name its file, too"),
    };
    Err(MergeError::NoSend { name: parts[number].name.clone(), line: line(index), msg, from, remedy })
}

/// When each trace began, in seconds after the first one, corrected so that no message arrives before it was sent.
fn starts(parts: &[Part], sends: &HashMap<u64, Place>) -> Vec<f64> {
    let began: Vec<f64> = parts.iter().map(|part| started(&part.trace.header).unwrap_or_default()).collect();
    let earliest = began.iter().copied().fold(f64::INFINITY, f64::min);
    let mut starts: Vec<f64> = began.iter().map(|began| began - earliest).collect();
    // For each pair (sender, receiver): by how much its messages arrive too early, at most. Negative if none does.
    let mut early: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (to, part) in parts.iter().enumerate() {
        for record in &part.trace.records {
            let (Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. }) = &record.event else { continue };
            let Some(&(from, index)) = sends.get(msg).filter(|(from, _)| *from != to) else { continue };
            let by = parts[from].trace.records[index].t - record.t;
            let most = early.entry((from, to)).or_insert(by);
            *most = most.max(by);
        }
    }
    // Longest paths. If the clocks run at different speeds there may be no solution, so the number of rounds is limited.
    for _ in 0..parts.len() {
        for (&(from, to), by) in &early {
            starts[to] = starts[to].max(starts[from] + by);
        }
    }
    let earliest = starts.iter().copied().fold(f64::INFINITY, f64::min);
    starts.iter().map(|start| start - earliest).collect()
}

fn started(header: &Header) -> Option<f64> {
    header.network.notes.get("started_unix_s").and_then(Value::as_f64)
}

fn merged_header(first: Header, parts: &[Part], members: &[usize]) -> Header {
    let mut notes = first.network.notes.clone();
    let started = parts.iter().filter_map(|part| started(&part.trace.header)).min_by(f64::total_cmp);
    notes.extend(started.map(|started| ("started_unix_s".to_owned(), json!(started))));
    let members: BTreeSet<usize> = members.iter().copied().collect();
    notes.insert("members".to_owned(), json!(members));
    Header { network: Network { notes, member: None, ..first.network }, ..first }
}

/// Merges the records. Of the records that may come next, the earliest does.
fn in_order(parts: Vec<Part>, needs: &Needs, starts: &[f64]) -> Result<Vec<Record>, MergeError> {
    let mut names = Vec::new();
    let mut queues: Vec<Peekable<std::vec::IntoIter<Record>>> = Vec::new();
    for part in parts {
        names.push(part.name);
        queues.push(part.trace.records.into_iter().peekable());
    }
    let mut taken = vec![0; queues.len()];
    let mut merged: Vec<Record> = Vec::with_capacity(needs.iter().map(Vec::len).sum());
    loop {
        // The earliest record that may come next, and the earliest that only a guess holds back.
        let mut next: [Option<(f64, usize)>; 2] = [None, None];
        for (number, queue) in queues.iter_mut().enumerate() {
            let Some(record) = queue.peek() else { continue };
            let need = needs[number][taken[number]].filter(|need| need.place.1 >= taken[need.place.0]);
            let t = starts[number] + record.t;
            let rank = need.map_or(Some(0), |need| need.is_guess.then_some(1));
            if let Some(rank) = rank
                && next[rank].is_none_or(|(earliest, _)| t < earliest)
            {
                next[rank] = Some((t, number));
            }
        }
        let Some((t, number)) = next[0].or(next[1]) else { break };
        let Some(record) = queues[number].next() else { break };
        taken[number] += 1;
        // Times never fall, since the order of the records counts more than the clocks. No clock knows less than a
        // nanosecond.
        let t = (t * 1e9).round() / 1e9;
        let t = merged.last().map_or(t, |last| last.t.max(t));
        merged.push(Record { seq: merged.len() as u64, t, ..record });
    }
    let stuck = (0..queues.len()).find_map(|number| {
        let (needed, index) = needs[number].get(taken[number]).copied().flatten()?.place;
        Some(MergeError::Cycle {
            name: names[number].clone(),
            line: line(taken[number]),
            needed: names[needed].clone(),
            needed_line: line(index),
        })
    });
    stuck.map_or(Ok(merged), Err)
}

#[cfg(test)]
mod tests;
