//! Plays every file in `scenarios/`, and compares the results with the expected results.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use baton_sim::scenario::{BUILT_IN, Scenario, find};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// By name. Every file in the folder must be a scenario.
fn scenarios() -> BTreeMap<String, Scenario> {
    let files = fs::read_dir(root().join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            assert_eq!(path.extension().and_then(|name| name.to_str()), Some("toml"), "{}", path.display());
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let scenario = Scenario::parse(&fs::read_to_string(&path).unwrap());
            let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (name, scenario)
        })
        .collect()
}

#[test]
fn what_must_come_out_comes_out() {
    let scenarios = scenarios();
    assert!(!scenarios.is_empty());
    let mut failures = String::new();
    for (name, scenario) in scenarios {
        assert!(!scenario.title.is_empty() && !scenario.story.trim().is_empty(), "{name} tells nothing");
        match scenario.play() {
            Ok(played) if played.differences.is_empty() => {}
            Ok(played) => failures.push_str(&format!("{name}: {}\n", played.differences.join("; "))),
            Err(error) => failures.push_str(&format!("{name}: {error}\n")),
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn every_scenario_is_part_of_the_program() {
    let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, scenarios().keys().map(String::as_str).collect::<Vec<_>>(), "the list in built_in.rs");
    assert!(find("token-lost").unwrap().contains("The token is lost with its holder"));
    assert_eq!(
        find("fencing").unwrap_err().to_string(),
        "there is no scenario `fencing`; similar are fencing-lease-check-after, fencing-lease-check-before, fencing-pause-fenced, \
         fencing-pause-unfenced; `baton sim --scenarios` lists them, and a file is named by its path"
    );
}

#[test]
fn the_page_lists_every_scenario_under_its_title() {
    let page = fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    let rows: Vec<String> = scenarios()
        .iter()
        .map(|(name, scenario)| format!("| [{name}](../scenarios/{name}.toml) | {} |", scenario.title))
        .collect();
    assert_eq!(listed, rows, "the rows of docs/scenarios.md should be\n{}\n", rows.join("\n"));
}
