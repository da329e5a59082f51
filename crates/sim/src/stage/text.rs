//! Effects and messages as text.

use std::fmt;
use std::ops::RangeInclusive;

use baton_protocol::{Message, Protocol, Ticks};

use super::{Effect, Envelope, Payload};
use crate::time::{T, in_t};

impl<P: Protocol> fmt::Display for Effect<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Chose { process, choice } => write!(f, "P{process} chooses {} out of {}", choice.chosen, choice.of),
            Effect::Sent { message, lost: false } => write!(f, "{message}"),
            Effect::Sent { message, lost: true } | Effect::Lost(message) => write!(f, "{message} is lost"),
            Effect::Delivered(Envelope { from, to, payload, .. }) => write!(f, "P{to} gets {payload} from P{from}"),
            Effect::Copied(copy) => write!(f, "{copy} again"),
            Effect::TimerSet { process, timer, after } => write!(f, "P{process} sets {timer:?} to {}", range(after)),
            Effect::TimerCancelled { process, timer } => write!(f, "P{process} cancels {timer:?}"),
            Effect::Granted { process, fence, asked: true } => write!(f, "P{process} granted, fence {fence}"),
            Effect::Revoked { process } => write!(f, "P{process} is no longer inside"),
            Effect::Granted { process, fence, asked: false } => write!(f, "P{process} granted, fence {fence}, unasked"),
            Effect::Elected { process, leader, term } => {
                let leader = leader.map_or("none".to_string(), |leader| format!("P{leader}"));
                let term = term.map_or(String::new(), |term| format!(", term {term}"));
                write!(f, "P{process} leader: {leader}{term}")
            }
            Effect::Appended { process, offset, asked: true } => write!(f, "P{process} appended at {offset}"),
            Effect::Appended { process, offset, asked: false } => write!(f, "P{process} appended at {offset}, unasked"),
            Effect::Suspected { process, peer } => write!(f, "P{process} suspects P{peer}"),
            Effect::Trusted { process, peer } => write!(f, "P{process} trusts P{peer} again"),
            Effect::Crashed { process } => write!(f, "P{process} is down"),
            Effect::Recovered { process } => write!(f, "P{process} is up again"),
            Effect::Ready { process } => write!(f, "P{process} is ready"),
            Effect::Violated { property, detail } => write!(f, "VIOLATES {property}: {detail}"),
        }
    }
}

/// `P0 -> P1 REPLY {time: 3, request: 1}`.
impl<M: Message> fmt::Display for Envelope<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{} -> P{} {}", self.from, self.to, self.payload)
    }
}

impl<M: Message> fmt::Display for Payload<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Protocol(message) => f.write_str(&describe(message)),
            Payload::App(Some(stamp)) => write!(f, "app {{clock: {stamp}}}"),
            Payload::App(None) => f.write_str("app"),
        }
    }
}

/// The kind and the fields of a message: `REPLY {time: 3, request: 1}`.
fn describe<M: Message>(message: &M) -> String {
    let debug = format!("{message:?}");
    let fields = fields(&debug).replace("{ ", "{").replace(" }", "}");
    format!("{} {fields}", message.kind()).trim_end().to_string()
}

/// Durations from this on are told in T. In transcripts and by hand processes believe in delays of 1 tick, so their timers
/// are far shorter.
const TOLD_IN_T: Ticks = T / 1000;

/// The time that a timer is set to: `20 T`, or `1 to 6 T`. In ticks if that is next to nothing: `20`, or `1..=6`.
pub fn range(range: &RangeInclusive<Ticks>) -> String {
    let (least, most) = (*range.start(), *range.end());
    match (most >= TOLD_IN_T, least == most) {
        (true, true) => format!("{} T", in_t(most)),
        (true, false) => format!("{} to {} T", in_t(least), in_t(most)),
        (false, true) => most.to_string(),
        (false, false) => format!("{range:?}"),
    }
}

/// The `Debug` text of a value without the name of its type, and without the parentheses around a single struct.
fn fields(debug: &str) -> &str {
    let fields = debug.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
    let inner = fields.strip_prefix('(').and_then(|fields| fields.strip_suffix(')'));
    match inner {
        Some(inner) if inner.starts_with(|c: char| c.is_uppercase()) => self::fields(inner),
        _ => fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_t_unless_they_are_a_few_ticks() {
        assert_eq!(range(&(20 * T..=20 * T)), "20 T");
        assert_eq!(range(&(T / 2..=4 * T)), "0.5 to 4 T");
        assert_eq!(range(&(2_500_000..=2_500_000)), "2.5 T");
        assert_eq!(range(&(20..=20)), "20");
        assert_eq!(range(&(1..=6)), "1..=6");
    }
}
