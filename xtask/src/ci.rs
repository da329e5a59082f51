//! `cargo xtask ci`: all checks that must pass before a change lands.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use crate::{browser, cargo, output, purity, root, succeed};

/// Runs all checks, the quick ones first, and stops at the first failure.
pub fn run() -> Result<(), String> {
    let start = Instant::now();
    step("a browser", browser::provide)?;
    check_source()?;
    step("tests", || succeed(&mut cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])))?;
    step("documentation", || {
        let args = ["doc", "--workspace", "--no-deps", "--locked"];
        succeed(cargo(&args).env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    println!("\nxtask: all passed in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Runs the checks for after every small change. They prove less than [`run`].
pub fn run_quick() -> Result<(), String> {
    let start = Instant::now();
    check_source()?;
    let changed = changed_crates(&output(&mut git(&["status", "--porcelain", "--untracked-files=all"]))?);
    for name in &changed {
        step(&format!("unit tests of {name}"), || {
            let manifest = format!("{name}/Cargo.toml");
            succeed(&mut cargo(&["test", "--locked", "--lib", "--bins", "--manifest-path", &manifest]))
        })?;
    }
    let tested = if changed.is_empty() { "; no crate differs from the last commit" } else { "" };
    println!("\nxtask: the quick checks passed in {} s{tested}", start.elapsed().as_secs());
    Ok(())
}

/// Formatting, purity and lints.
fn check_source() -> Result<(), String> {
    step("formatting", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("purity of the protocols and of the state", purity::check)?;
    step("lints", || {
        let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
        succeed(&mut cargo(&args))
    })
}

fn git(args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root()).args(args);
    command
}

/// The folders of the crates with a file in this output of `git status --porcelain`.
fn changed_crates(status: &str) -> BTreeSet<String> {
    // A line is two letters, a space and the path. For a renamed file the new path follows an arrow.
    let paths = status.lines().filter_map(|line| line.get(3..)?.rsplit(" -> ").next());
    let folder = |path: &str| match path.trim_matches('"').split('/').collect::<Vec<_>>()[..] {
        ["crates", name, _, ..] => Some(format!("crates/{name}")),
        ["xtask", _, ..] => Some("xtask".to_owned()),
        _ => None,
    };
    paths.filter_map(folder).collect()
}

fn step(name: &str, check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("\nxtask: {name}");
    check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_changed_if_one_of_its_files_has() {
        let status = " M crates/sim/src/lib.rs\nR  docs/a.md -> crates/peer/b.rs\n?? xtask/src/ci.rs\n M README.md\n";
        assert_eq!(changed_crates(status), ["crates/peer", "crates/sim", "xtask"].map(String::from).into());
        assert_eq!(changed_crates(""), BTreeSet::new());
    }
}
