//! `/api/algorithms/NAME/claims`: what documents say about an algorithm, and what runs show.

use baton_compare::claims::{Claim, of_until};
use serde::Serialize;

use crate::Refusal;
use crate::jobs::Stop;

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub claims: Vec<Claim>,
}

/// Runs everything that decides the claims, unless it is stopped before the end.
pub fn claims(algorithm: &str, stop: &Stop) -> Result<Answer, Refusal> {
    of_until(algorithm, stop).map(|claims| Answer { claims }).map_err(Refusal::fault)
}
