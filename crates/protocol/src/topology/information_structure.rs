//! Information structures, after Sanders, "The information structure of distributed mutual exclusion algorithms" (1987):
//! whom each process asks before it enters (its request set) and whom it tells that it has left (its inform set).
//!
//! Whoever is asked by i and will be told by it remembers that i may be inside, and lets nobody else in until told.
//! That keeps any two processes i and j apart if
//! 1. their inform sets meet: who is in both lets in one after the other; or
//! 2. each asks the other and tells itself: then each holds the other up while it is inside or goes first.
//!
//! [`check`](InformationStructure::check) demands it of every pair. To ask each other is not enough for the second
//! rule: who does not tell itself does not remember that it is inside, and lets the other in.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::quorum::PROCESSES_MAX;
use crate::registry::{Params, SetupError};
use crate::{ProcessId, ProcessSet};

/// Whom each client asks and tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformationStructure {
    /// Whom it asks, by client.
    pub request: Vec<ProcessSet>,
    /// Whom it tells, by client.
    pub inform: Vec<ProcessSet>,
}

impl InformationStructure {
    /// Maekawa: each client asks and tells its quorum.
    pub fn of_quorums(quorums: Vec<ProcessSet>) -> Self {
        InformationStructure { request: quorums.clone(), inform: quorums }
    }

    /// The central server: n clients ask and tell one more process.
    pub fn central(n: usize) -> Self {
        Self::of_quorums(alloc::vec![ProcessSet::of(n + 1, [n]); n])
    }

    /// Ricart and Agrawala: everybody asks everybody, and tells itself only.
    pub fn ricart_agrawala(n: usize) -> Self {
        InformationStructure {
            request: alloc::vec![ProcessSet::all(n); n],
            inform: (0..n).map(|i| ProcessSet::of(n, [i])).collect(),
        }
    }

    /// The sets that the variants `request:SETS` and `inform:SETS` give, as in `request:0,1|1,2|2,0+inform:0|1|2`: the
    /// sets of P0, P1, .. with `|` between them, each a list of ids with commas. Without `inform` everybody tells those
    /// whom it asks. Ids from n on are further processes, which only answer. None if the variant gives no sets.
    pub fn given(params: &Params) -> Result<Option<Self>, SetupError> {
        let Some(request) = params.value("request") else {
            return match params.value("inform") {
                None => Ok(None),
                Some(inform) => Err(refuse("inform", inform, "say with `request:` whom to ask, too")),
            };
        };
        let (inform_name, inform) = params.value("inform").map_or(("request", request), |inform| ("inform", inform));
        let (request, inform) = (parse(params.n, "request", request)?, parse(params.n, inform_name, inform)?);
        if let Some(i) = request.iter().position(Vec::is_empty) {
            let reason = format!("P{i} would ask nobody; whoever wants to enter must ask at least one process");
            return Err(refuse("request", "", &reason));
        }
        let named = request.iter().chain(&inform).flatten().map(|last| last + 1);
        let processes = named.max().unwrap_or(0).max(params.n);
        let sets = |members: Vec<Vec<ProcessId>>| {
            members.into_iter().map(|members| ProcessSet::of(processes, members)).collect()
        };
        Ok(Some(InformationStructure { request: sets(request), inform: sets(inform) }))
    }

    /// How many may ask.
    pub fn clients(&self) -> usize {
        self.request.len()
    }

    /// How many processes there are in all.
    pub fn processes(&self) -> usize {
        self.request.first().map_or(0, ProcessSet::capacity)
    }

    /// By whom `process` is told: its status set.
    pub fn status(&self, process: ProcessId) -> ProcessSet {
        let informants = (0..self.clients()).filter(|&client| self.inform[client].contains(process));
        ProcessSet::of(self.processes(), informants)
    }

    /// Refuses sets that would let two processes in at once, and says which two.
    pub fn check(&self) -> Result<(), SetupError> {
        let untold = (0..self.clients()).find(|&i| !self.inform[i].within(&self.request[i]));
        if let Some(i) = untold {
            let reason = format!("P{i} tells some whom it does not ask; whom it tells must be among those it asks");
            return Err(SetupError::Value { what: "an inform set", value: format!("{:?}", self.inform[i]), reason });
        }
        let mut pairs = (0..self.clients()).flat_map(|i| (i + 1..self.clients()).map(move |j| (i, j)));
        pairs.find_map(|(i, j)| self.conflict(i, j)).map_or(Ok(()), Err)
    }

    /// What is wrong with the sets of these two, if something is.
    fn conflict(&self, i: ProcessId, j: ProcessId) -> Option<SetupError> {
        if self.inform[i].meets(&self.inform[j]) {
            return None;
        }
        let silent = [(i, j), (j, i)].into_iter().find(|&(asks, asked)| !self.request[asks].contains(asked));
        let forgetful = [i, j].into_iter().find(|&process| !self.inform[process].contains(process));
        let lacking = match (silent, forgetful) {
            (Some((asks, asked)), _) => format!("P{asks} does not ask P{asked}"),
            (None, Some(process)) => format!("P{process} does not tell itself"),
            (None, None) => return None,
        };
        let reason = format!(
            "P{i} and P{j} could be inside at once, since their inform sets do not meet and {lacking}; \
             let the sets meet, or let the two ask each other and tell themselves"
        );
        let value = format!("{:?} and {:?}", self.inform[i], self.inform[j]);
        Some(SetupError::Value { what: "inform sets", value, reason })
    }
}

/// Reads the sets of n clients.
fn parse(n: usize, name: &'static str, text: &str) -> Result<Vec<Vec<ProcessId>>, SetupError> {
    let sets = text.split('|').map(|set| {
        let members = set.split(',').map(str::trim).filter(|member| !member.is_empty());
        members.map(|member| parse_member(name, member)).collect()
    });
    let sets: Vec<Vec<ProcessId>> = sets.collect::<Result<_, _>>()?;
    if sets.len() == n {
        return Ok(sets);
    }
    let reason = format!("{n} clients need {n} sets with `|` between them, and there are {}", sets.len());
    Err(refuse(name, text, &reason))
}

fn parse_member(name: &'static str, member: &str) -> Result<ProcessId, SetupError> {
    let id = member.parse().ok().filter(|&id: &ProcessId| id < PROCESSES_MAX);
    id.ok_or_else(|| {
        let reason = format!("ids are numbers below {PROCESSES_MAX}, as in 0,1|1,2|2,0");
        refuse(name, member, &reason)
    })
}

fn refuse(name: &'static str, value: &str, reason: &str) -> SetupError {
    let what = if name == "request" { "a value of `request`" } else { "a value of `inform`" };
    SetupError::Value { what, value: String::from(value), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::quorum::Construction;

    fn given(n: usize, variant: &str) -> Result<Option<InformationStructure>, SetupError> {
        InformationStructure::given(&Params { variant: Some(variant.into()), ..Params::new(n, 1) })
    }

    fn refusal(n: usize, variant: &str) -> String {
        given(n, variant).map(|sets| sets.unwrap().check()).unwrap_or_else(Err).unwrap_err().to_string()
    }

    #[test]
    fn central_ricart_agrawala_and_every_quorum_pass() {
        for n in 2..=40 {
            InformationStructure::central(n).check().unwrap();
            InformationStructure::ricart_agrawala(n).check().unwrap();
            for (_, construction) in Construction::NAMED {
                let Ok(quorums) = construction.quorums(n) else { continue };
                InformationStructure::of_quorums(quorums).check().unwrap();
            }
        }
    }

    #[test]
    fn sets_are_read_as_they_are_written() {
        let sets = given(3, "request:0,1|1,2|2,0+inform:0|1|2").unwrap().unwrap();
        assert_eq!(format!("{:?}", sets.request), "[{0, 1}, {1, 2}, {0, 2}]");
        assert_eq!(format!("{:?}", sets.inform), "[{0}, {1}, {2}]");
        assert_eq!(format!("{:?}", sets.status(1)), "{1}");
        let sets = given(2, "yield-at-once+request: 3 , 0|3").unwrap().unwrap();
        assert_eq!((sets.clients(), sets.processes()), (2, 4));
        assert_eq!(sets.request, sets.inform);
        assert_eq!(format!("{:?}", sets.status(3)), "{0, 1}");
        assert_eq!(given(2, "yield-at-once"), Ok(None));
        assert!(given(2, "request:0,1|0,1+inform:|0").unwrap().unwrap().inform[0].is_empty());
    }

    #[test]
    fn sets_that_break_the_condition_are_refused_with_the_pair() {
        assert_eq!(
            refusal(4, "request:0,1|1,2|2,3|3,0"),
            "`{0, 1} and {2, 3}` does not work as inform sets: P0 and P2 could be inside at once, since their inform \
             sets do not meet and P0 does not ask P2; let the sets meet, or let the two ask each other and tell themselves"
        );
        assert!(refusal(3, "request:0,1,2|0,1,2|0,1,2+inform:0|1|").contains(
            "P0 and P2 could be inside at once, since their inform sets do not meet and P2 does not tell itself"
        ));
        assert_eq!(
            refusal(2, "request:0|0,1+inform:0,1|0"),
            "`{0, 1}` does not work as an inform set: P0 tells some whom it does not ask; \
             whom it tells must be among those it asks"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert_eq!(
            refusal(3, "request:0,1|1"),
            "`0,1|1` does not work as a value of `request`: 3 clients need 3 sets with `|` between them, and there are 2"
        );
        assert_eq!(
            refusal(2, "request:0,x|1"),
            "`x` does not work as a value of `request`: ids are numbers below 4096, as in 0,1|1,2|2,0"
        );
        assert!(refusal(2, "request:0|1+inform:0|9999").starts_with("`9999` does not work as a value of `inform`"));
        assert_eq!(
            refusal(2, "request:0|"),
            "`` does not work as a value of `request`: P1 would ask nobody; \
             whoever wants to enter must ask at least one process"
        );
        assert_eq!(
            refusal(2, "inform:0|1"),
            "`0|1` does not work as a value of `inform`: say with `request:` whom to ask, too"
        );
    }
}
