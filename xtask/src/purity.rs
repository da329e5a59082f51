//! Proves that some crates do no I/O and have no clock, no threads and no random order.
//!
//! `crates/protocol` is `no_std`: the compiler gives it only `core` and `alloc`, which have no files, sockets, clocks,
//! threads or hash maps. `crates/state`, and `crates/types` below it, may name the parts of `std` on a list. Two things
//! remain to check: the dependencies, as they are built for the crate, must be pure too, and the source must not include
//! files that this check does not read (`path`, `include`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::{cargo, output, root};

struct Pure {
    /// The crate, and the crates of ours below it.
    crates: &'static [&'static str],
    std: Std,
    /// Dependencies that a person has reviewed: data structures, encodings, checksums and derive macros.
    dependencies: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq)]
enum Std {
    /// The crate is `no_std`. Its dependencies are built without their `std` feature.
    Never,
    /// The crate names only [`PARTS_OF_STD`].
    Parts,
}

const PURE: [Pure; 2] = [
    Pure {
        crates: &["protocol"],
        std: Std::Never,
        dependencies: &["fixedbitset", "libm", "serde", "serde_core", "thiserror"],
    },
    Pure {
        crates: &["state", "types"],
        std: Std::Parts,
        dependencies: &[
            // Persistent maps; their random numbers have a fixed seed.
            "archery",
            "bytemuck",
            "equivalent",
            "imbl",
            "imbl-sized-chunks",
            "rand_core",
            "rand_xoshiro",
            "safe_arch",
            "wide",
            // Encodings and checksums.
            "block-buffer",
            "cfg-if",
            "cobs",
            "cpufeatures",
            "crc32c",
            "crypto-common",
            "digest",
            "generic-array",
            "postcard",
            "sha2",
            "typenum",
            "serde",
            "serde_core",
            "smallvec",
            "thiserror",
        ],
    },
];

/// The parts of `std` that a pure crate may name. A path must begin with one of them.
const PARTS_OF_STD: [&str; 20] = [
    "borrow",
    "cmp",
    "collections::BTreeMap",
    "collections::BTreeSet",
    "collections::VecDeque",
    "collections::btree_map",
    "error",
    "ffi::OsStr",
    "fmt",
    "iter",
    "mem",
    "net::IpAddr",
    "net::SocketAddr",
    "num",
    "ops",
    "str",
    "string",
    "sync::Arc",
    "time::Duration",
    "vec",
];

/// The error lists everything that is wrong.
pub fn check() -> Result<(), String> {
    PURE.iter().try_for_each(check_crate)
}

fn check_crate(pure: &Pure) -> Result<(), String> {
    let name = pure.crates[0];
    let tree = output(&mut cargo(&[
        "tree",
        &format!("--package=baton-{name}"),
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}|{f}",
    ]))?;
    let mut wrong = impure_dependencies(pure, &tree);
    for folder in pure.crates {
        let source = root().join("crates").join(folder).join("src");
        for path in rust_files(&source)? {
            let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let name = path.strip_prefix(&source).unwrap_or(&path).display().to_string();
            wrong.extend(impure_source(pure.std, &name, &text));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("crates/{name} is not pure:\n  {}", wrong.join("\n  "))) }
}

/// The faults of the dependencies. The input has one `name version|features` a line.
fn impure_dependencies(pure: &Pure, tree: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split(' ').next().unwrap_or_default();
        let is_ours = name.strip_prefix("baton-").is_some_and(|name| pure.crates.contains(&name));
        if !is_ours && !pure.dependencies.contains(&name) {
            wrong.push(format!("it depends on {name}, which is not on the list of pure crates"));
        }
        let has_std = features.trim_end_matches(" (*)").split(',').any(|feature| feature == "std");
        if pure.std == Std::Never && has_std {
            wrong.push(format!("{name} is built with its `std` feature"));
        }
    }
    wrong
}

/// The faults of one source file.
fn impure_source(std: Std, name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if std == Std::Never && name == "lib.rs" && !text.lines().any(|line| line == "#![no_std]") {
        wrong.push("lib.rs: `#![no_std]` is missing".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let at = format!("{name}:{}", number + 1);
        match std {
            Std::Never if words(code).any(|word| word == "std") => wrong.push(format!("{at}: names `std`")),
            Std::Never => {}
            Std::Parts => wrong.extend(impure_std(code).map(|path| format!("{at}: names `{path}`"))),
        }
        if ["#[path", "include!", "include_str!", "include_bytes!"].iter().any(|hidden| code.contains(hidden)) {
            wrong.push(format!("{at}: includes a file that this check does not read"));
        }
    }
    wrong
}

/// The first thing in a line of code that no pure crate may name: a path of `std` that is not on the list, or a macro that
/// prints.
fn impure_std(code: &str) -> Option<String> {
    const PRINTS: [&str; 5] = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];
    let printed = PRINTS.iter().find(|name| code.match_indices(*name).any(|(at, _)| begins_word(code, at)));
    let named = code.match_indices("std").filter(|(at, _)| begins_word(code, *at)).find_map(|(at, _)| {
        let rest = &code[at + "std".len()..];
        match rest.strip_prefix("::") {
            Some(path) => paths(path).into_iter().find(|path| !is_part(path)).map(|path| format!("std::{path}")),
            None => (!rest.starts_with(is_of_word)).then(|| "std".to_owned()),
        }
    });
    printed.map(|name| (*name).to_owned()).or(named)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn begins_word(code: &str, at: usize) -> bool {
    !code[..at].ends_with(is_of_word)
}

/// The paths at the beginning of this code. A list in braces gives one path for each of its parts.
fn paths(code: &str) -> Vec<String> {
    let end = code.find(|c| !is_of_word(c) && c != ':').unwrap_or(code.len());
    let (path, rest) = code.split_at(end);
    match rest.strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) {
        Some(list) => {
            let list = list.split('}').next().unwrap_or_default();
            list.split(',').map(|part| format!("{path}{}", part.trim())).collect()
        }
        None => vec![path.to_owned()],
    }
}

fn is_part(path: &str) -> bool {
    PARTS_OF_STD.iter().filter_map(|part| path.strip_prefix(part)).any(|rest| rest.is_empty() || rest.starts_with("::"))
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
    fn the_crates_as_they_are_pass() {
        check().unwrap();
    }

    #[test]
    fn a_clock_a_socket_or_a_random_map_is_found() {
        for line in ["use std::time::Instant;", "extern crate std;", "let map = std::collections::HashMap::new();"] {
            let wrong = impure_source(Std::Never, "mutex/central.rs", line);
            assert_eq!(wrong, ["mutex/central.rs:1: names `std`"], "{line}");
        }
        let hidden = "#[path = \"../tests/hidden.rs\"] mod hidden;";
        assert_eq!(
            impure_source(Std::Never, "lib.rs", &format!("#![no_std]\n{hidden}")),
            ["lib.rs:2: includes a file that this check does not read"]
        );
        assert_eq!(impure_source(Std::Never, "lib.rs", ""), ["lib.rs: `#![no_std]` is missing"]);
        assert!(
            impure_source(Std::Never, "lib.rs", "#![no_std]\n// std is for others\nlet standard = no_std;").is_empty()
        );
    }

    #[test]
    fn a_part_of_std_that_is_not_on_the_list_is_found() {
        for (line, named) in [
            ("use std::time::{Duration, Instant};", "std::time::Instant"),
            ("use std::{fs, mem};", "std::fs"),
            ("let map = std::collections::HashMap::new();", "std::collections::HashMap::new"),
            ("use std::net::{SocketAddr, TcpStream};", "std::net::TcpStream"),
            ("let a = std::mem::take(b) + std::process::id();", "std::process::id"),
            ("use std as pure;", "std"),
            ("use std::*;", "std::"),
            ("use std::sync::Mutex;", "std::sync::Mutex"),
            ("use std::path::Path;", "std::path::Path"),
            ("use std::{", "std::"),
            ("    println!(\"hello\")", "println!"),
        ] {
            let wrong = impure_source(Std::Parts, "lib.rs", line);
            assert_eq!(wrong, [format!("lib.rs:1: names `{named}`")], "{line}");
        }
        for line in [
            "use std::collections::{BTreeMap, BTreeSet, btree_map};",
            "fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {",
            "use std::time::Duration; // std::fs",
            "use crate::stdlib;",
        ] {
            assert!(impure_source(Std::Parts, "lib.rs", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_dependency_that_is_not_pure_is_found() {
        let [protocol, state] = &PURE;
        for pure in [protocol, state] {
            assert_eq!(
                impure_dependencies(pure, "tokio v1.0.0|net"),
                ["it depends on tokio, which is not on the list of pure crates"]
            );
        }
        let serde = "serde v1.0.0|alloc,std (*)";
        assert_eq!(impure_dependencies(protocol, serde), ["serde is built with its `std` feature"]);
        assert!(impure_dependencies(state, serde).is_empty());
        assert!(impure_dependencies(protocol, "serde v1.0.0|alloc,derive\n\nthiserror v2.0.0|").is_empty());
    }
}
