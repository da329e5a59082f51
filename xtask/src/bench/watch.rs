//! The report of a watched client (`load SERVER watch`): how long each of its pairs took.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// A time span, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    from_us: u64,
    to_us: u64,
}

impl Span {
    /// From `before` before now to `after` after now.
    pub fn around_now(before: Duration, after: Duration) -> Span {
        // With a clock before 1970 the span meets no other.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Span { from_us: us(now.saturating_sub(before)), to_us: us(now + after) }
    }

    /// Whether the two spans have a moment in common.
    pub fn meets(self, other: Span) -> bool {
        self.from_us <= other.to_us && other.from_us <= self.to_us
    }

    /// Merges spans that meet. The spans must be ordered by their starts.
    pub fn joined(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
        let mut joined: Vec<Span> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                Some(last) if last.meets(span) => last.to_us = last.to_us.max(span.to_us),
                _ => joined.push(span),
            }
        }
        joined
    }
}

/// All acquire-release pairs of a client. Each pair begins when the pair before it is done.
pub struct Watch {
    pairs: Vec<Span>,
}

impl Watch {
    pub fn parse(report: &Value) -> Result<Watch, String> {
        let from_us = report["from_us"].as_u64().ok_or("the watched client does not say when it began")?;
        let done_us = report["done_us"].as_array().ok_or("the watched client does not say when its pairs were done")?;
        let moments: Vec<u64> = done_us.iter().filter_map(Value::as_u64).map(|us| from_us + us).collect();
        let pairs: Vec<Span> = moments.windows(2).map(|pair| Span { from_us: pair[0], to_us: pair[1] }).collect();
        if pairs.is_empty() { Err("the watched client was granted nothing".to_owned()) } else { Ok(Watch { pairs }) }
    }

    pub fn longest_ms(&self) -> f64 {
        self.longest_ms_where(|_| true)
    }

    /// How long the longest of these pairs took. 0 if there is none.
    pub fn longest_ms_where(&self, is_one: impl Fn(Span) -> bool) -> f64 {
        let pairs = self.pairs.iter().filter(|pair| is_one(**pair));
        pairs.map(|pair| pair.to_us - pair.from_us).max().unwrap_or(0) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_us: u64, to_us: u64) -> Span {
        Span { from_us, to_us }
    }

    #[test]
    fn spans_that_meet_are_one() {
        assert!(span(1, 5).meets(span(5, 9)) && span(5, 9).meets(span(1, 5)) && span(1, 9).meets(span(3, 4)));
        assert!(!span(1, 5).meets(span(6, 9)));
        assert_eq!(Span::joined([span(1, 5), span(3, 7), span(8, 9)]), [span(1, 7), span(8, 9)]);
    }

    #[test]
    fn the_longest_pair_is_found_inside_and_outside_of_a_span() {
        let report = serde_json::json!({ "from_us": 1_000_000, "done_us": [0, 1000, 3000, 10_000, 12_500] });
        let watch = Watch::parse(&report).unwrap();
        assert_eq!(watch.longest_ms(), 7.0);
        let snapshot = span(1_004_000, 1_005_000);
        assert_eq!(watch.longest_ms_where(|pair| snapshot.meets(pair)), 7.0);
        assert_eq!(watch.longest_ms_where(|pair| !snapshot.meets(pair)), 2.5);
    }

    #[test]
    fn a_client_that_was_granted_nothing_is_no_measurement() {
        for report in [serde_json::json!({}), serde_json::json!({ "from_us": 1, "done_us": [0] })] {
            assert!(Watch::parse(&report).is_err());
        }
    }
}
