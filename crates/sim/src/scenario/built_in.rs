//! The scenarios of the folder `scenarios/`, which are part of the program.

use baton_protocol::registry::word_begins;

use super::ScenarioError;

/// The name of each scenario, and the text of its file.
pub static BUILT_IN: &[(&str, &str)] = built_in![
    "bully-asynchronous",
    "bully-drift",
    "bully-reused-id",
    "bully-tight-deadline",
    "central-order",
    "coordinator-crash",
    "coordinator-crash-elected",
    "fencing-pause-fenced",
    "fencing-pause-unfenced",
    "heartbeat-asynchronous",
    "heartbeat-drift",
    "heartbeat-drift-allowed",
    "lamport-fifo",
    "lamport-unordered",
    "maekawa-1985",
    "maekawa-no-inquire",
    "maekawa-order",
    "maekawa-repaired",
    "maekawa-yield-unseen",
    "permission-ring",
    "permission-ring-original",
    "phi-accrual-asynchronous",
    "raymond-greedy",
    "raymond-greedy-bounded",
    "ricart-agrawala-no-detector",
    "ricart-agrawala-order",
    "ricart-agrawala-time-only",
    "singhal-1989",
    "singhal-repaired",
    "split-brain-bully",
    "split-brain-bully-quorum",
    "split-brain-bully-shared-witness",
    "split-brain-bully-witness",
    "split-brain-chang-roberts",
    "split-brain-chang-roberts-quorum",
    "split-brain-chang-roberts-shared-witness",
    "split-brain-chang-roberts-witness",
    "split-brain-ring-list",
    "split-brain-ring-list-quorum",
    "split-brain-ring-list-shared-witness",
    "split-brain-ring-list-witness",
    "suzuki-kasami-stranded",
    "token-lost",
    "token-regenerated",
    "voting-forgetful",
    "voting-stored-fence",
    "voting-with-memory",
];

/// The text of the scenario with this name.
pub fn find(name: &str) -> Result<&'static str, ScenarioError> {
    let known = BUILT_IN.iter().find(|(known, _)| *known == name);
    known.map(|(_, text)| *text).ok_or_else(|| {
        let names = BUILT_IN.iter().map(|(known, _)| *known);
        let similar = names.filter(|known| !name.is_empty() && word_begins(known, name)).collect();
        ScenarioError::Unknown { name: name.to_owned(), similar }
    })
}

macro_rules! built_in {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),*]
    };
}
use built_in;
