//! Writes a trace as a log for ShiViz, a web page that draws communication graphs from vector clocks.
//!
//! The first line of the log is the regular expression with which ShiViz reads the rest. The second line would separate
//! several runs, and is empty. Each event has two lines: the process with its vector clock and time, and the event in
//! words. The clock of a process begins with 1 and grows by 1 with each of its events, as ShiViz demands.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::{DropReason, Event, Record};

/// Each process has a clock with a number for each process.
pub const PROCESSES_MAX: usize = 4_096;

const PARSER: &str = r"(?<host>\S+) (?<clock>\{.*\}) (?<t>\S+)\n(?<event>.*)";

/// Writes the events of all processes, of which there are at most [`PROCESSES_MAX`]. Records without a process have no place in the log.
pub fn write(processes: usize, records: &[Record], mut sink: impl Write) -> io::Result<()> {
    writeln!(sink, "{PARSER}\n")?;
    let mut clocks = vec![vec![0_u64; processes]; processes];
    // The clock of each message that will still be delivered, and how often. Other clocks would only fill the memory.
    let mut arrivals: HashMap<u64, u32> = HashMap::new();
    for msg in records.iter().filter_map(|record| delivered(&record.event)) {
        *arrivals.entry(msg).or_default() += 1;
    }
    let mut carried: HashMap<u64, (Vec<u64>, u32)> = HashMap::new();
    for record in records {
        let (Some(p), Some(words)) = (record.p, words(&record.event)) else { continue };
        let clock = &mut clocks[p];
        if let Some(msg) = delivered(&record.event)
            && let Some((sent, left)) = carried.get_mut(&msg)
        {
            clock.iter_mut().zip(sent.iter()).for_each(|(own, sent)| *own = (*own).max(*sent));
            *left -= 1;
            if *left == 0 {
                carried.remove(&msg);
            }
        }
        clock[p] += 1;
        if let Event::Send { msg, .. } | Event::AppSend { msg, .. } = &record.event
            && let Some(&times) = arrivals.get(msg)
        {
            carried.insert(*msg, (clock.clone(), times));
        }
        writeln!(sink, "P{p} {} {}\n{words}", shown(clock), record.t)?;
    }
    sink.flush()
}

fn delivered(event: &Event) -> Option<u64> {
    match event {
        Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => Some(*msg),
        _ => None,
    }
}

/// The clock as JSON, without the processes of which nothing is known.
fn shown(clock: &[u64]) -> String {
    let mut text = String::from("{");
    for (process, events) in clock.iter().enumerate().filter(|(_, events)| **events > 0) {
        let comma = if text.len() > 1 { ", " } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}\"P{process}\":{events}");
    }
    text + "}"
}

/// The event in words, on one line. None for events that are no steps of the process.
fn words(event: &Event) -> Option<String> {
    let words = match event {
        Event::Request { req, .. } => format!("request {req}"),
        Event::Enter { req, fence } => format!("enter, request {req}, fence {fence}"),
        Event::Exit { req } => format!("exit, request {req}"),
        Event::Lost { req } => format!("lost, request {req}"),
        Event::Cancel { req } => format!("cancel, request {req}"),
        Event::Append { req } => format!("append, request {req}"),
        Event::Appended { req, offset } => format!("appended, request {req}, offset {offset}"),
        Event::Send { msg, to, kind, .. } => format!("send {kind} to P{to}, message {msg}"),
        Event::Deliver { msg, from, kind } => format!("deliver {kind} from P{from}, message {msg}"),
        Event::Drop { msg, reason } => format!("drop message {msg}, {}", cause(*reason)),
        Event::AppSend { msg, to } => format!("send to the application at P{to}, message {msg}"),
        Event::AppDeliver { msg, from } => format!("deliver from the application at P{from}, message {msg}"),
        Event::Timer { name } => format!("timer {name}"),
        Event::Suspect { peer } => format!("suspect P{peer}"),
        Event::Trust { peer } => format!("trust P{peer}"),
        Event::Crash => "crash".to_owned(),
        Event::Recover { memory: true } => "recover".to_owned(),
        Event::Recover { memory: false } => "recover, memory lost".to_owned(),
        Event::Pause => "pause".to_owned(),
        Event::Resume => "resume".to_owned(),
        Event::Elected { leader: None, .. } => "no leader".to_owned(),
        Event::Elected { leader: Some(leader), term: None } => format!("leader P{leader}"),
        Event::Elected { leader: Some(leader), term: Some(term) } => format!("leader P{leader}, term {term}"),
        Event::View { epoch, members } => format!("view {epoch}, members {members:?}"),
        Event::StoreWrite { fence, accepted: true, .. } => format!("write, fence {fence}, accepted"),
        Event::StoreWrite { fence, accepted: false, .. } => format!("write, fence {fence}, refused"),
        Event::Violation { property, detail } => format!("violation of {property}: {detail}"),
        Event::Choice { .. } | Event::Partition { .. } | Event::Heal | Event::End { .. } => return None,
    };
    Some(words.replace(char::is_control, " "))
}

fn cause(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Loss => "lost",
        DropReason::Partition => "the link is cut",
        DropReason::Crashed => "the receiver is not running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_knows_what_its_sender_knew() {
        let send = |msg, to| Event::Send { msg, to, kind: "A\nB".into(), bytes: 1, body: None };
        let deliver = |msg, from| Event::Deliver { msg, from, kind: "AB".into() };
        let events = [
            (Some(0), Event::Request { req: 4, lamport: 1 }),
            (Some(0), Event::Choice { of: 2, chosen: 1 }),
            (Some(0), send(7, 2)),
            (None, Event::Heal),
            (Some(1), Event::Crash),
            (Some(2), deliver(7, 0)),
            (Some(2), deliver(7, 0)),
            (Some(2), send(8, 1)),
            (Some(1), deliver(9, 0)),
        ];
        let record = |(seq, (p, event))| Record { seq, t: seq as f64 / 2.0, p, resource: None, event };
        let records: Vec<Record> = (0..).zip(events).map(record).collect();
        let mut log = Vec::new();
        write(3, &records, &mut log).unwrap();
        let told = r#"(?<host>\S+) (?<clock>\{.*\}) (?<t>\S+)\n(?<event>.*)

P0 {"P0":1} 0
request 4
P0 {"P0":2} 1
send A B to P2, message 7
P1 {"P1":1} 2
crash
P2 {"P0":2, "P2":1} 2.5
deliver AB from P0, message 7
P2 {"P0":2, "P2":2} 3
deliver AB from P0, message 7
P2 {"P0":2, "P2":3} 3.5
send A B to P1, message 8
P1 {"P1":2} 4
deliver AB from P0, message 9
"#;
        assert_eq!(String::from_utf8(log).unwrap(), told);
    }
}
