//! Information structures, after Sanders, "The information structure of distributed mutual exclusion algorithms"
//! (1987). The request set of a process is the processes that it asks before it enters. Its inform set is the processes
//! that it informs when it leaves.
//!
//! A process that i asks and will inform remembers that i may be inside, and grants no other request until i informs
//! it. This keeps two processes i and j apart if one of two conditions holds:
//! 1. Their inform sets meet: a process in both sets grants one after the other.
//! 2. Each asks the other and informs itself: then each defers the other's request while it is inside or comes first.
//!
//! [`check`](InformationStructure::check) tests every pair. In condition 2 it is not enough that i and j ask each
//! other: a process that does not inform itself does not remember that it is inside, and grants the other's request.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::quorum::PROCESSES_MAX;
use crate::registry::{Params, SetupError};
use crate::{ProcessId, ProcessSet};

/// Request and inform sets of all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformationStructure {
    /// Request set of each client.
    pub request: Vec<ProcessSet>,
    /// Inform set of each client, a part of its request set.
    pub inform: Vec<ProcessSet>,
}

impl InformationStructure {
    /// Maekawa: each client asks and informs its quorum.
    pub fn of_quorums(quorums: Vec<ProcessSet>) -> Self {
        InformationStructure { request: quorums.clone(), inform: quorums }
    }

    /// The central server: n clients ask and inform one further process.
    pub fn central(n: usize) -> Self {
        Self::of_quorums(alloc::vec![ProcessSet::of(n + 1, [n]); n])
    }

    /// Ricart and Agrawala: each process asks all processes, and informs only itself.
    pub fn ricart_agrawala(n: usize) -> Self {
        InformationStructure {
            request: alloc::vec![ProcessSet::all(n); n],
            inform: (0..n).map(|i| ProcessSet::of(n, [i])).collect(),
        }
    }

    /// The sets of the variants `request:SETS` and `inform:SETS`, as in `request:0,1|1,2|2,0+inform:0|1|2`: the sets of
    /// P0, P1, .. with `|` between them, each a list of ids with commas. Without `inform` each client informs its
    /// request set. Ids from n on are helpers, which only answer. `None` if the variant gives no sets.
    pub fn given(params: &Params) -> Result<Option<Self>, SetupError> {
        let Some(request) = params.value("request") else {
            return match params.value("inform") {
                None => Ok(None),
                Some(inform) => Err(refuse("inform", inform, "give the request sets with `request:`, too")),
            };
        };
        let (inform_name, inform) = params.value("inform").map_or(("request", request), |inform| ("inform", inform));
        let (request, inform) = (parse(params.n, "request", request)?, parse(params.n, inform_name, inform)?);
        if let Some(i) = request.iter().position(Vec::is_empty) {
            let reason = format!("the request set of P{i} is empty; each client must ask at least one process");
            return Err(refuse("request", "", &reason));
        }
        let named = request.iter().chain(&inform).flatten().map(|last| last + 1);
        let processes = named.max().unwrap_or(0).max(params.n);
        let sets = |members: Vec<Vec<ProcessId>>| {
            members.into_iter().map(|members| ProcessSet::of(processes, members)).collect()
        };
        Ok(Some(InformationStructure { request: sets(request), inform: sets(inform) }))
    }

    /// Number of clients.
    pub fn clients(&self) -> usize {
        self.request.len()
    }

    /// Number of all processes, helpers included.
    pub fn processes(&self) -> usize {
        self.request.first().map_or(0, ProcessSet::capacity)
    }

    /// The status set of `process`: the clients that inform it.
    pub fn status(&self, process: ProcessId) -> ProcessSet {
        let informants = (0..self.clients()).filter(|&client| self.inform[client].contains(process));
        ProcessSet::of(self.processes(), informants)
    }

    /// An error that names two processes, if the sets would let both be inside at once.
    pub fn check(&self) -> Result<(), SetupError> {
        let untold = (0..self.clients()).find(|&i| !self.inform[i].within(&self.request[i]));
        if let Some(i) = untold {
            let reason =
                format!("P{i} informs a process that it does not ask; its request set must contain its inform set");
            return Err(SetupError::Value { what: "an inform set", value: format!("{:?}", self.inform[i]), reason });
        }
        let mut pairs = (0..self.clients()).flat_map(|i| (i + 1..self.clients()).map(move |j| (i, j)));
        pairs.find_map(|(i, j)| self.conflict(i, j)).map_or(Ok(()), Err)
    }

    /// The error about these two processes, if they could be inside at once.
    fn conflict(&self, i: ProcessId, j: ProcessId) -> Option<SetupError> {
        if self.inform[i].meets(&self.inform[j]) {
            return None;
        }
        let silent = [(i, j), (j, i)].into_iter().find(|&(asks, asked)| !self.request[asks].contains(asked));
        let forgetful = [i, j].into_iter().find(|&process| !self.inform[process].contains(process));
        let lacking = match (silent, forgetful) {
            (Some((asks, asked)), _) => format!("P{asks} does not ask P{asked}"),
            (None, Some(process)) => format!("P{process} does not inform itself"),
            (None, None) => return None,
        };
        let reason = format!(
            "P{i} and P{j} could be inside at once, since their inform sets do not meet and {lacking}; \
             let the sets meet, or let the two ask each other and inform themselves"
        );
        let value = format!("{:?} and {:?}", self.inform[i], self.inform[j]);
        Some(SetupError::Value { what: "inform sets", value, reason })
    }
}

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
             sets do not meet and P0 does not ask P2; let the sets meet, or let the two ask each other and inform themselves"
        );
        assert!(refusal(3, "request:0,1,2|0,1,2|0,1,2+inform:0|1|").contains(
            "P0 and P2 could be inside at once, since their inform sets do not meet and P2 does not inform itself"
        ));
        assert_eq!(
            refusal(2, "request:0|0,1+inform:0,1|0"),
            "`{0, 1}` does not work as an inform set: P0 informs a process that it does not ask; \
             its request set must contain its inform set"
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
            "`` does not work as a value of `request`: the request set of P1 is empty; \
             each client must ask at least one process"
        );
        assert_eq!(
            refusal(2, "inform:0|1"),
            "`0|1` does not work as a value of `inform`: give the request sets with `request:`, too"
        );
    }
}
