//! Transcripts: what each algorithm does, input by input, in files that can be read.
//!
//! Every `transcripts/<algorithm>/<topic>.txt` holds commands and their full output. The commands are played against
//! the step functions themselves, with nothing in between, and the file must come out as it was.
//! `UPDATE_EXPECT=1 cargo test -p baton-protocol --test transcripts` writes the outputs anew: read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_protocol::registry;
use expect_test::expect_file;

mod runner;

/// Makes one test of every folder, and a list of the folders so tested.
macro_rules! transcripts_of {
    ($($test:ident $folder:literal;)*) => {
        const TESTED: &[&str] = &[$($folder),*];
        $(
            #[test]
            fn $test() {
                play_folder($folder);
            }
        )*
    };
}

transcripts_of! {
    bully "bully";
    central "central";
    heartbeat "heartbeat";
    phi_accrual "phi-accrual";
    record_append "record-append";
    ricart_agrawala "ricart-agrawala";
    ricart_agrawala_time_only "ricart-agrawala-time-only";
    suzuki_kasami "suzuki-kasami";
    voting "voting";
}

fn play_folder(algorithm: &str) {
    for file in files_in(&root().join(algorithm)) {
        // Shown only if something fails below.
        println!("in {}", file.display());
        let text = fs::read_to_string(&file).unwrap();
        expect_file![&file].assert_eq(&runner::render(&text, algorithm));
    }
}

#[test]
fn every_algorithm_has_transcripts_and_every_folder_is_tested() {
    let registered: BTreeSet<String> = registry::ALGORITHMS.iter().map(|about| about.name.to_string()).collect();
    let tested: BTreeSet<String> = TESTED.iter().map(|folder| folder.to_string()).collect();
    let folders: BTreeSet<String> = files_in(&root()).iter().map(|path| name_of(path)).collect();
    assert_eq!(registered, folders, "each algorithm in the registry, and nothing else, has a folder of transcripts");
    assert_eq!(folders, tested, "each folder is listed in `transcripts_of!`");
}

#[test]
fn every_transcript_is_a_text_file_that_says_what_it_shows_and_runs_a_group() {
    for folder in files_in(&root()) {
        let files = files_in(&folder);
        assert!(!files.is_empty(), "{} holds no transcript", folder.display());
        for file in files {
            assert_eq!(file.extension().and_then(|e| e.to_str()), Some("txt"), "{} is not played", file.display());
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.starts_with("# "), "{} does not say what it shows", file.display());
            assert!(text.lines().any(|line| line.starts_with("> group ")), "{} runs no group", file.display());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// In order of their names.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
