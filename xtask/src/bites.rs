//! `cargo xtask soak --bite NAME`: puts a known fault into a copy of the code, and looks for a seed that finds it.
//!
//! A bite is a file in `crates/soak/bites`: a sentence, and lines of code with the lines that take their place. The lines must
//! be in exactly one file of `crates`, wherever that file is, so a bite survives when code moves.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::root;

/// A fault that is put into the code.
#[derive(Debug, PartialEq, Eq)]
struct Bite {
    sentence: String,
    changes: Vec<Change>,
}

#[derive(Debug, PartialEq, Eq)]
struct Change {
    instead_of: String,
    put: String,
}

/// Looks for a seed that finds the fault, among so many seeds from the first on.
pub fn run(name: &str, nodes: Option<usize>, first: u64, seeds: u64) -> Result<(), String> {
    let Bite { sentence, changes } = read(name)?;
    let scratch = root().join("target/bites");
    copy_tree(&scratch)?;
    for change in &changes {
        apply(&scratch, change).map_err(|why| format!("the bite {name} no longer fits the code: {why}"))?;
    }
    println!("{name}: {sentence}");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let nodes = nodes.unwrap_or(0);
    let args = [nodes as u64, first, seeds, threads as u64, 1].map(|number| number.to_string());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--profile", "soak", "-p", "baton-soak", "--example", "seeds", "--", "raft"]);
    command.args(&args).current_dir(&scratch);
    let begun = Instant::now();
    let output = command.output().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = said.lines().find(|line| line.starts_with("seed "));
    match (output.status.code(), failed) {
        (Some(1), Some(failed)) => {
            println!("{failed}\nfound after {:.0} s, with the build", begun.elapsed().as_secs_f64());
            Ok(())
        }
        (Some(0), _) => Err(format!("{name} was not found by {seeds} seeds from {first} on")),
        _ => Err(format!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

fn folder() -> PathBuf {
    root().join("crates/soak/bites")
}

/// The names of all bites, in order.
fn names() -> Result<Vec<String>, String> {
    let refused = |error| format!("cannot read {}: {error}", folder().display());
    let files = fs::read_dir(folder()).map_err(refused)?;
    let files: Vec<PathBuf> =
        files.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>().map_err(refused)?;
    let mut names: Vec<String> = files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn read(name: &str) -> Result<Bite, String> {
    let names = names()?;
    if !names.iter().any(|known| known == name) {
        return Err(format!("there is no bite {name:?}; the bites are {}", names.join(", ")));
    }
    let file = folder().join(format!("{name}.txt"));
    let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    parse(&text).ok_or_else(|| format!("{} is no sentence with changes", file.display()))
}

fn parse(text: &str) -> Option<Bite> {
    let (sentence, mut rest) = text.split_once("\n\n=== instead of\n")?;
    let mut changes = Vec::new();
    loop {
        let (instead_of, after) = rest.split_once("=== put\n")?;
        let (put, after) = after.split_once("=== end\n")?;
        changes.push(Change { instead_of: instead_of.to_owned(), put: put.to_owned() });
        match after {
            "" => return Some(Bite { sentence: sentence.to_owned(), changes }),
            more => rest = more.strip_prefix("\n=== instead of\n")?,
        }
    }
}

/// Applies a change to the one file below `crates` that has its lines.
fn apply(tree: &Path, change: &Change) -> Result<(), String> {
    let path = place(tree, change)?;
    let refused = |error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(refused)?;
    fs::write(&path, text.replacen(&change.instead_of, &change.put, 1)).map_err(refused)
}

fn place(tree: &Path, change: &Change) -> Result<PathBuf, String> {
    let mut places = Vec::new();
    for file in tracked()?.into_iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        let path = tree.join(file);
        // A file that was deleted and not committed yet is still tracked.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        places.extend(text.matches(&change.instead_of).map(|_| path.clone()));
    }
    match places.as_slice() {
        [place] => Ok(place.clone()),
        others => Err(format!("these lines are at {} places, not at one:\n{}", others.len(), change.instead_of)),
    }
}

/// The files of the repository, committed or not.
fn tracked() -> Result<BTreeSet<String>, String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let output = command.output().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.success() {
        true => Ok(text.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect()),
        false => Err(format!("{command:?} ended with {}", output.status)),
    }
}

/// Makes the scratch folder a copy of the repository. Files that are right already are left alone, so that cargo builds only
/// what has changed.
fn copy_tree(scratch: &Path) -> Result<(), String> {
    let list = scratch.join("target/files");
    let files = tracked()?;
    // Files of an earlier copy that are gone.
    let before = fs::read_to_string(&list).unwrap_or_default();
    for gone in before.lines().filter(|file| !files.contains(*file)) {
        remove(&scratch.join(gone))?;
    }
    for file in &files {
        let (from, to) = (root().join(file), scratch.join(file));
        let refused = |error| format!("cannot copy {} to {}: {error}", from.display(), to.display());
        let wanted = match fs::read(&from) {
            Ok(wanted) => wanted,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                remove(&to)?;
                continue;
            }
            Err(error) => return Err(refused(error)),
        };
        if fs::read(&to).ok().as_ref() != Some(&wanted) {
            fs::create_dir_all(to.parent().unwrap_or(scratch)).map_err(refused)?;
            fs::write(&to, wanted).map_err(refused)?;
        }
    }
    let text: String = files.iter().map(|file| format!("{file}\n")).collect();
    let written = fs::create_dir_all(scratch.join("target")).and_then(|()| fs::write(&list, text));
    written.map_err(|error| format!("cannot write {}: {error}", list.display()))
}

fn remove(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("cannot remove {}: {error}", file.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nobody notices that a fault can no longer be put back.
    #[test]
    fn every_bite_fits_the_code() {
        let names = names().unwrap();
        assert!(names.len() >= 11, "{names:?}");
        for name in names {
            let Bite { sentence, changes } = read(&name).unwrap();
            assert!(sentence.ends_with('.') && !changes.is_empty(), "{name}");
            for change in changes {
                assert_ne!(change.instead_of, change.put, "{name}");
                place(&root(), &change).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
        }
    }

    #[test]
    fn a_bite_that_does_not_exist_is_named_with_those_that_do() {
        let why = read("typo").unwrap_err();
        assert!(why.starts_with("there is no bite \"typo\"; the bites are ") && why.contains("stale-round"), "{why}");
        assert_eq!(parse("A sentence.\n"), None);
        assert_eq!(parse("A.\n\n=== instead of\na\n=== put\n=== end\nb\n"), None);
    }
}
