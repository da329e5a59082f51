//! `/api/algorithms/NAME/claims`: what documents say about an algorithm, and what runs show.

use baton_compare::claims::{Claim, of};
use serde::Serialize;

use crate::Refusal;

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub claims: Vec<Claim>,
}

/// Runs everything that decides the claims.
pub fn claims(algorithm: &str) -> Result<Answer, Refusal> {
    of(algorithm).map(|claims| Answer { claims }).map_err(Refusal::fault)
}
