//! Transcripts: text files that show what each algorithm does, input by input.
//!
//! Every `transcripts/<algorithm>/<topic>.txt` holds commands and their full output. The test plays the commands on a
//! [`Stage`](baton_sim::stage::Stage) and compares the output with the file.
//! `UPDATE_EXPECT=1 cargo test -p baton-sim --test transcripts` writes the outputs anew: read the difference.
//! `TRANSCRIPTS=raymond` limits the test to one algorithm, `TRANSCRIPTS=raymond/order-fails` to one file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_protocol::registry;
use expect_test::expect_file;

mod runner;

#[test]
fn every_algorithm_does_what_its_transcripts_say() {
    let only = std::env::var("TRANSCRIPTS").ok();
    let mut played = 0;
    for folder in files_in(&root()) {
        let algorithm = name_of(&folder);
        for file in files_in(&folder) {
            let topic = format!("{algorithm}/{}", name_of(&file).trim_end_matches(".txt"));
            if only.as_ref().is_some_and(|only| *only != algorithm && *only != topic) {
                continue;
            }
            // The test runner shows this only if the test fails.
            println!("in {}", file.display());
            let text = fs::read_to_string(&file).unwrap();
            well_formed(&file, &text);
            expect_file![&file].assert_eq(&runner::render(&text, &algorithm));
            played += 1;
        }
    }
    assert!(played > 0, "there are no transcripts of {only:?}");
}

fn well_formed(file: &Path, text: &str) {
    assert_eq!(file.extension().and_then(|e| e.to_str()), Some("txt"), "{} is not played", file.display());
    assert!(text.starts_with("# "), "{} does not say what it shows", file.display());
    assert!(text.lines().any(|line| line.starts_with("> group ")), "{} runs no group", file.display());
}

#[test]
fn every_algorithm_has_transcripts_and_a_page() {
    let registered: BTreeSet<String> = registry::ALGORITHMS.iter().map(|about| about.name.to_string()).collect();
    let folders: BTreeSet<String> = files_in(&root()).iter().map(|path| name_of(path)).collect();
    assert_same(&registered, &folders, "a folder of transcripts");
    for folder in files_in(&root()) {
        assert!(!files_in(&folder).is_empty(), "{} holds no transcript", folder.display());
    }
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/algorithms");
    let pages: BTreeSet<String> = files_in(&pages).iter().map(|page| name_of(page).replace(".md", "")).collect();
    assert_same(&registered, &pages, "a page in docs/algorithms");
}

/// Compares the algorithms of the registry with the algorithms that have `what`.
fn assert_same(registered: &BTreeSet<String>, found: &BTreeSet<String>, what: &str) {
    let (missing, unknown): (Vec<_>, Vec<_>) =
        (registered.difference(found).collect(), found.difference(registered).collect());
    assert!(missing.is_empty(), "without {what}: {missing:?}");
    assert!(unknown.is_empty(), "with {what}, but not in the registry: {unknown:?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// Sorted by name.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
