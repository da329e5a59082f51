//! The limits of the lab. Pages read them from `/api/about`.

use std::time::Duration;

use baton_sim::spec::Spec;
use serde::Serialize;

use crate::Refusal;

/// The largest JSON body.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// The largest trace.
pub const TRACE_BYTES_MAX: usize = 64 << 20;
/// The largest request that names a trace by its text. In JSON a text may be twice as long.
pub const MOMENT_BYTES_MAX: usize = 2 * TRACE_BYTES_MAX;
/// The bytes of all requests with a trace that are not answered yet.
pub const TRACES_BYTES_MAX: usize = JOBS_MAX * MOMENT_BYTES_MAX;
/// The bytes of all other requests that are not answered yet.
pub const BODIES_BYTES_MAX: usize = 64 << 20;
/// How long a request may take to arrive.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// The most records that an answer shows.
pub const RECORDS_MAX: usize = 200_000;
/// The most clients of a run, and the most coordinators.
pub const PROCESSES_MAX: usize = 500;
pub const ENTRIES_MAX: u64 = 1_000_000;
pub const FAULTS_MAX: usize = 500;
/// The longest text in a spec: a variant with the sets of all processes is the longest that makes sense.
pub const TEXT_BYTES_MAX: usize = 20_000;
/// The most clients of a group that is driven by hand, and the most coordinators.
pub const HAND_PROCESSES_MAX: usize = 16;
pub const HAND_ACTIONS_MAX: usize = 2_000;
pub const RUN_TIME_MAX: Duration = Duration::from_secs(20);
pub const DISTANCE_TIME_MAX: Duration = Duration::from_secs(10);
pub const CHECK_TIME_MAX: Duration = Duration::from_secs(120);
pub const COMPARE_TIME_MAX: Duration = Duration::from_secs(300);
/// The most processes in a comparison: the whole comparison takes some seconds then.
pub const COMPARE_PROCESSES_MAX: usize = 100;
/// The most different numbers of processes in one comparison.
pub const COMPARE_SIZES_MAX: usize = 8;
/// Memory of the whole process at which a check gives up.
pub const CHECK_BYTES_MAX: usize = 2 << 30;
/// Jobs that run at the same time.
pub const JOBS_MAX: usize = 4;
/// How long a call waits for another job to end.
pub const JOB_WAIT_MAX: Duration = Duration::from_secs(3);

/// The limits that pages show.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    pub run_processes: usize,
    pub run_entries: u64,
    pub run_records: usize,
    pub run_seconds: u64,
    pub hand_processes: usize,
    pub hand_actions: usize,
    pub distance_seconds: u64,
    pub check_seconds: u64,
    pub check_bytes: usize,
    pub compare_processes: usize,
    pub compare_sizes: usize,
    pub trace_bytes: usize,
    pub jobs: usize,
}

pub const LIMITS: Limits = Limits {
    run_processes: PROCESSES_MAX,
    run_entries: ENTRIES_MAX,
    run_records: RECORDS_MAX,
    run_seconds: RUN_TIME_MAX.as_secs(),
    hand_processes: HAND_PROCESSES_MAX,
    hand_actions: HAND_ACTIONS_MAX,
    distance_seconds: DISTANCE_TIME_MAX.as_secs(),
    check_seconds: CHECK_TIME_MAX.as_secs(),
    check_bytes: CHECK_BYTES_MAX,
    compare_processes: COMPARE_PROCESSES_MAX,
    compare_sizes: COMPARE_SIZES_MAX,
    trace_bytes: TRACE_BYTES_MAX,
    jobs: JOBS_MAX,
};

/// Refuses a spec that is too large for the lab. The simulator refuses everything else that is wrong with it.
pub fn check_run(spec: &Spec) -> Result<(), Refusal> {
    check_size(spec, PROCESSES_MAX)?;
    if let Some(entries) = spec.entries.filter(|entries| *entries > ENTRIES_MAX) {
        return Err(Refusal::bad(format!("{entries} entries are too many; the lab takes at most {ENTRIES_MAX}")));
    }
    Ok(())
}

/// Refuses a group with more than `most` clients or coordinators, and texts that are too long.
pub fn check_size(spec: &Spec, most: usize) -> Result<(), Refusal> {
    if let Some(n) = [spec.n, spec.coordinators, spec.votes].into_iter().flatten().find(|n| *n > most) {
        return Err(Refusal::bad(format!("{n} processes are too many; the lab takes at most {most} here")));
    }
    if spec.faults.len() > FAULTS_MAX {
        let given = spec.faults.len();
        return Err(Refusal::bad(format!("{given} faults are too many; the lab takes at most {FAULTS_MAX}")));
    }
    let texts = [Some(&spec.algorithm), spec.variant.as_ref(), spec.delay.as_ref()];
    if let Some(long) = texts.into_iter().flatten().chain(&spec.faults).find(|text| text.len() > TEXT_BYTES_MAX) {
        let bytes = long.len();
        return Err(Refusal::bad(format!("a text of {bytes} bytes is too long; at most {TEXT_BYTES_MAX} make sense")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Spec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn absurd_sizes_are_refused_in_a_sentence() {
        let refusal = |json: &str| check_run(&spec(json)).unwrap_err().why;
        let n = refusal(r#"{"algorithm":"central","n":1000000000}"#);
        assert_eq!(n, "1000000000 processes are too many; the lab takes at most 500 here");
        let votes = refusal(r#"{"algorithm":"voting","coordinators":501}"#);
        assert!(votes.starts_with("501 processes are too many"), "{votes}");
        let entries = refusal(r#"{"algorithm":"central","entries":1000000000000000000}"#);
        assert!(entries.starts_with("1000000000000000000 entries are too many"), "{entries}");
        let long = format!(r#"{{"algorithm":"central","variant":"{}"}}"#, "x".repeat(TEXT_BYTES_MAX + 1));
        assert!(refusal(&long).starts_with("a text of 20001 bytes is too long"));
        let faults = format!(r#"{{"algorithm":"central","faults":[{}"random"]}}"#, "\"random\",".repeat(500));
        assert!(refusal(&faults).starts_with("501 faults are too many"));
        assert_eq!(check_run(&spec(r#"{"algorithm":"central","n":500,"entries":1000000}"#)), Ok(()));
    }
}
