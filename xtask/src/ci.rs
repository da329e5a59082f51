//! `cargo xtask ci`: everything that must pass before a change lands.

use std::time::Instant;

use crate::{cargo, purity, succeed};

/// Runs all checks, the quick ones first, and stops at the first that fails.
pub fn run() -> Result<(), String> {
    let start = Instant::now();
    step("formatting", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("purity of the protocols", purity::check)?;
    step("lints", || {
        let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
        succeed(&mut cargo(&args))
    })?;
    step("tests", || succeed(&mut cargo(&["test", "--workspace", "--locked"])))?;
    step("documentation", || {
        let args = ["doc", "--workspace", "--no-deps", "--locked"];
        succeed(cargo(&args).env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    println!("\nxtask: all passed in {} s", start.elapsed().as_secs());
    Ok(())
}

fn step(name: &str, check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("\nxtask: {name}");
    check()
}
