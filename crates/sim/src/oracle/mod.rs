//! The oracles: each judges one property from outside, by what it sees happen, and shares no state with the protocol.

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

/// What is known of a property after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it held.
    pub verdict: Verdict,
    /// How it was violated, or why it was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether a property held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In this run.
    Held,
    /// At least once.
    Violated,
    /// It was not watched.
    Unchecked,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Held => "held",
            Verdict::Violated => "violated",
            Verdict::Unchecked => "unchecked",
        })
    }
}

impl Finding {
    /// It held.
    pub fn held() -> Self {
        Finding { verdict: Verdict::Held, detail: None }
    }

    /// It did not.
    pub fn violated(detail: String) -> Self {
        Finding { verdict: Verdict::Violated, detail: Some(detail) }
    }

    /// Nobody looked.
    pub fn unchecked(reason: impl Into<String>) -> Self {
        Finding { verdict: Verdict::Unchecked, detail: Some(reason.into()) }
    }

    /// Violated with the first violation's detail, if there is one.
    pub fn from_violation(first: Option<&String>) -> Self {
        first.cloned().map_or_else(Finding::held, Finding::violated)
    }
}
