//! Proves that `crates/protocol` does no I/O and has no clock, no threads and no random order.
//!
//! A `no_std` crate that never names `std` has none of these: the compiler gives it only `core` and `alloc`, which have
//! no files, sockets, clocks, threads or hash maps. Two things remain to check: the dependencies, as they are built for
//! the crate, must be pure too, and the source must not include files that this check does not read (`path`,
//! `include`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::{cargo, output, root};

/// Dependencies that a person has reviewed: pure data structures and derive macros, without their `std` feature.
const PURE: [&str; 6] = ["baton-protocol", "fixedbitset", "libm", "serde", "serde_core", "thiserror"];

/// The error lists everything that is wrong.
pub fn check() -> Result<(), String> {
    let tree = output(&mut cargo(&[
        "tree",
        "--package=baton-protocol",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}|{f}",
    ]))?;
    let mut wrong = impure_dependencies(&tree);
    let source = root().join("crates/protocol/src");
    for path in rust_files(&source)? {
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name = path.strip_prefix(&source).unwrap_or(&path).display().to_string();
        wrong.extend(impure_source(&name, &text));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("crates/protocol is not pure:\n  {}", wrong.join("\n  "))) }
}

/// The faults of the dependencies. The input has one `name version|features` a line.
fn impure_dependencies(tree: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split(' ').next().unwrap_or_default();
        if !PURE.contains(&name) {
            wrong.push(format!("it depends on {name}, which is not on the list of pure crates"));
        }
        if features.trim_end_matches(" (*)").split(',').any(|feature| feature == "std") {
            wrong.push(format!("{name} is built with its `std` feature"));
        }
    }
    wrong
}

/// The faults of one source file.
fn impure_source(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name == "lib.rs" && !text.lines().any(|line| line == "#![no_std]") {
        wrong.push("lib.rs: `#![no_std]` is missing".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if words(code).any(|word| word == "std") {
            wrong.push(format!("{name}:{}: names `std`", number + 1));
        }
        if ["#[path", "include!", "include_str!", "include_bytes!"].iter().any(|hidden| code.contains(hidden)) {
            wrong.push(format!("{name}:{}: includes a file that this check does not read", number + 1));
        }
    }
    wrong
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_as_it_is_passes() {
        check().unwrap();
    }

    #[test]
    fn a_clock_a_socket_or_a_random_map_is_found() {
        for line in ["use std::time::Instant;", "extern crate std;", "let map = std::collections::HashMap::new();"] {
            assert_eq!(impure_source("mutex/central.rs", line), ["mutex/central.rs:1: names `std`"], "{line}");
        }
        let hidden = "#[path = \"../tests/hidden.rs\"] mod hidden;";
        assert_eq!(
            impure_source("lib.rs", &format!("#![no_std]\n{hidden}")),
            ["lib.rs:2: includes a file that this check does not read"]
        );
        assert_eq!(impure_source("lib.rs", ""), ["lib.rs: `#![no_std]` is missing"]);
        assert!(impure_source("lib.rs", "#![no_std]\n// std is for others\nlet standard = no_std;").is_empty());
    }

    #[test]
    fn a_dependency_that_is_not_pure_is_found() {
        assert_eq!(
            impure_dependencies("tokio v1.0.0|net"),
            ["it depends on tokio, which is not on the list of pure crates"]
        );
        assert_eq!(impure_dependencies("serde v1.0.0|alloc,std (*)"), ["serde is built with its `std` feature"]);
        assert!(impure_dependencies("serde v1.0.0|alloc,derive\n\nthiserror v2.0.0|").is_empty());
    }
}
