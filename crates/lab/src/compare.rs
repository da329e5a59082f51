//! `/api/compare`: the costs of several algorithms, measured and in theory.

use baton_compare::mutex::{self, Contestant, contestants};
use baton_compare::{Caller, election};
use baton_protocol::registry::{self, Family};
use baton_sim::app::mutex::Load;
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::jobs::{Progress, Stop};
use crate::limits::{COMPARE_PROCESSES_MAX, COMPARE_SIZES_MAX};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Names, or names with a variant: `maekawa (yield-at-once)`. None: all that are not broken on purpose.
    #[serde(default)]
    pub algorithms: Option<Vec<String>>,
    pub loads: Vec<Load>,
    pub n: Vec<usize>,
}

#[derive(Serialize)]
pub struct Answer {
    pub rows: Vec<mutex::Row>,
    /// Elections know no loads. Empty if no election is asked for.
    pub elections: Vec<election::Row>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Told {
    /// From 0 to 1.
    part: f64,
}

pub fn compare(request: &Request, stop: &Stop, progress: &Progress) -> Result<Answer, Refusal> {
    let Asked { contestants, elections, loads, sizes } = asked(request)?;
    let tell = |part: f64| {
        progress.tell(&Told { part });
    };
    let caller = Caller { progress: &tell, cancel: stop };
    let rows = mutex::compare(&contestants, &sizes, &loads, caller).map_err(Refusal::bad)?;
    let measured =
        if elections.is_empty() { Vec::new() } else { election::compare(&sizes, caller).map_err(Refusal::bad)? };
    let elections = measured.into_iter().filter(|row| elections.contains(&row.algorithm)).collect();
    Ok(Answer { rows, elections })
}

/// A request whose names and numbers make sense.
struct Asked {
    contestants: Vec<Contestant>,
    elections: Vec<&'static str>,
    loads: Vec<Load>,
    sizes: Vec<usize>,
}

fn asked(request: &Request) -> Result<Asked, Refusal> {
    let mut sizes = request.n.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() || sizes.len() > COMPARE_SIZES_MAX {
        return Err(Refusal::bad(format!("give from 1 to {COMPARE_SIZES_MAX} numbers of processes")));
    }
    if let Some(n) = sizes.iter().find(|n| !(2..=COMPARE_PROCESSES_MAX).contains(*n)) {
        return Err(Refusal::bad(format!("{n} processes cannot be compared; give from 2 to {COMPARE_PROCESSES_MAX}")));
    }
    let every = [Load::Solo, Load::SoloRandom, Load::All, Load::Random];
    let loads: Vec<Load> = every.into_iter().filter(|load| request.loads.contains(load)).collect();
    if loads.is_empty() {
        return Err(Refusal::bad("give at least one load: solo, solo-random, all or random"));
    }
    let healthy = registry::ALGORITHMS.iter().filter(|about| about.broken.is_none());
    let elections = healthy.filter(|about| about.family == Family::Election).map(|about| about.name);
    let Some(names) = &request.algorithms else {
        return Ok(Asked { contestants: contestants(), elections: elections.collect(), loads, sizes });
    };
    let known = contestants();
    let elections: Vec<&'static str> = elections.filter(|name| names.iter().any(|asked| asked == name)).collect();
    let is_asked = |contestant: &&Contestant, name: &String| contestant.name() == *name;
    let unknown = |name: &&String| {
        !elections.contains(&name.as_str()) && !known.iter().any(|contestant| is_asked(&contestant, name))
    };
    if let Some(name) = names.iter().find(unknown) {
        return Err(Refusal::bad(format!("`{name}` cannot be compared; leave it out")));
    }
    let contestants = known.iter().filter(|contestant| names.iter().any(|name| is_asked(contestant, name)));
    Ok(Asked { contestants: contestants.copied().collect(), elections, loads, sizes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(json: &str) -> Result<Asked, Refusal> {
        asked(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_request_is_sorted_and_known() {
        let asked = request(
            r#"{"algorithms":["bully","maekawa (yield-at-once)","central"],"loads":["all","solo","all"],"n":[9,4,9]}"#,
        );
        let asked = asked.unwrap();
        let names: Vec<String> = asked.contestants.iter().map(Contestant::name).collect();
        assert_eq!(names, ["central", "maekawa (yield-at-once)"]);
        assert_eq!(
            (asked.elections, asked.sizes, asked.loads),
            (vec!["bully"], vec![4, 9], vec![Load::Solo, Load::All])
        );
        let all = request(r#"{"loads":["all"],"n":[4]}"#).unwrap();
        assert!(all.contestants.len() > 13 && all.elections.len() >= 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refusal = |json: &str| request(json).err().unwrap().why;
        assert!(refusal(r#"{"loads":["all"],"n":[]}"#).starts_with("give from 1 to 8"));
        assert!(
            refusal(r#"{"loads":["all"],"n":[1000000000]}"#).starts_with("1000000000 processes cannot be compared")
        );
        assert!(refusal(r#"{"loads":["all"],"n":[1]}"#).starts_with("1 processes cannot"));
        assert!(refusal(r#"{"loads":[],"n":[4]}"#).starts_with("give at least one load"));
        let name = refusal(r#"{"algorithms":["<img>"],"loads":["all"],"n":[4]}"#);
        assert_eq!(name, "`<img>` cannot be compared; leave it out");
    }
}
