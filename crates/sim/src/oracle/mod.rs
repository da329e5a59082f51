//! The oracles. Each oracle judges one property from the outside, by the events that it sees. Oracles share no state
//! with the protocol.

use std::fmt;

use serde::{Deserialize, Serialize};

pub mod bypass;
pub mod causality;
pub mod fence;
pub mod file;
pub mod leaders;
pub mod mutex;
pub mod order;
pub mod safety;
pub mod store;
pub mod suspicions;

/// The verdict on a property after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub verdict: Verdict,
    /// How the property was violated, or why it was not checked or not tested, or that it held without a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The property held in this run.
    Held,
    /// The property was violated at least once.
    Violated,
    /// No oracle checked the property.
    Unchecked,
    /// The property is not promised, an oracle saw no violation, and this run could not have shown one.
    Untested,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Held => "held",
            Verdict::Violated => "violated",
            Verdict::Unchecked => "unchecked",
            Verdict::Untested => "untested",
        })
    }
}

impl Finding {
    pub fn held() -> Self {
        Finding { verdict: Verdict::Held, detail: None }
    }

    /// The run could have violated the property, and no promise forbids that.
    pub fn held_without_promise() -> Self {
        Finding { verdict: Verdict::Held, detail: Some("not promised".into()) }
    }

    /// If the property held, says whether that was promised.
    #[must_use]
    pub fn given(self, is_promised: bool) -> Self {
        if self == Finding::held() && !is_promised { Finding::held_without_promise() } else { self }
    }

    pub fn violated(detail: String) -> Self {
        Finding { verdict: Verdict::Violated, detail: Some(detail) }
    }

    pub fn unchecked(reason: impl Into<String>) -> Self {
        Finding { verdict: Verdict::Unchecked, detail: Some(reason.into()) }
    }

    pub fn untested(reason: impl Into<String>) -> Self {
        Finding { verdict: Verdict::Untested, detail: Some(reason.into()) }
    }

    /// Violated if there is a violation, with that as the detail; otherwise held.
    pub fn from_violation(first: Option<&String>) -> Self {
        first.cloned().map_or_else(Finding::held, Finding::violated)
    }
}
