//! Release builds of this checkout and of another one. Cargo's messages say where the binaries are.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::{cargo, output, root};

pub fn ours() -> Result<PathBuf, String> {
    build(&root(), None, ["--package=baton", "--bin=baton"], "baton")
}

pub fn load() -> Result<PathBuf, String> {
    build(&root(), None, ["--package=baton-client", "--example=load"], "load")
}

pub fn failover() -> Result<PathBuf, String> {
    build(&root(), None, ["--package=baton", "--example=failover"], "failover")
}

pub fn peer_load() -> Result<PathBuf, String> {
    build(&root(), None, ["--package=baton-peer", "--example=peer_load"], "peer_load")
}

/// Builds the server of another checkout. Uses its own target folder if cargo would use one folder for both.
pub fn theirs(folder: &Path) -> Result<PathBuf, String> {
    let target = target_directory(folder)?;
    if folder == here() {
        return Err(format!("{} is this checkout itself: there is nothing to compare", folder.display()));
    }
    let target = (target == target_directory(&here())?).then(|| folder.join("target"));
    build(folder, target.as_deref(), ["--package=baton", "--bin=baton"], "baton")
}

/// The folder of this checkout, without symbolic links.
fn here() -> PathBuf {
    root().canonicalize().unwrap_or_else(|_| root())
}

/// Cargo's target folder for this checkout. `folder` must have no symbolic links.
fn target_directory(folder: &Path) -> Result<PathBuf, String> {
    let refuse = |why: &str| Err(format!("{} is not a checkout of this project: {why}", folder.display()));
    if !folder.join("Cargo.toml").is_file() {
        return refuse("it has no Cargo.toml");
    }
    let mut command = cargo(&["metadata", "--no-deps", "--format-version=1"]);
    let Ok(said) = output(command.current_dir(folder)) else { return refuse("cargo cannot read its Cargo.toml") };
    let metadata: Value = serde_json::from_str(&said).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    if !packages.any(|package| package["name"] == "baton") {
        return refuse("it has no package baton");
    }
    match (metadata["workspace_root"].as_str(), metadata["target_directory"].as_str()) {
        (Some(workspace), Some(target)) if Path::new(workspace) == folder => Ok(PathBuf::from(target)),
        _ => refuse("it is a folder inside a checkout"),
    }
}

fn build(folder: &Path, target: Option<&Path>, what: [&str; 2], name: &str) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--release", "--quiet", "--message-format=json-render-diagnostics"]);
    command.current_dir(folder).args(what);
    if let Some(target) = target {
        command.arg("--target-dir").arg(target);
    }
    // Show the compiler's messages to the user at once.
    let built = command.stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if !built.status.success() {
        return Err(format!("{} does not build: cargo ended with {}", folder.display(), built.status));
    }
    let said = String::from_utf8_lossy(&built.stdout);
    executable(&said, name).ok_or_else(|| format!("{}: cargo built no {name}", folder.display()))
}

/// The path of the executable with this name, from cargo's messages (one JSON object a line).
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = messages.filter(|message| message["target"]["name"] == name);
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_where_the_executable_is() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"name":"baton","kind":["lib"]},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"other","kind":["bin"]},"executable":"/t/release/other"}
            {"reason":"compiler-artifact","target":{"name":"baton","kind":["bin"]},"executable":"/t/release/baton"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "baton"), Some(PathBuf::from("/t/release/baton")));
        assert_eq!(executable(messages, "load"), None);
        assert_eq!(executable("no JSON", "baton"), None);
    }

    #[test]
    fn a_folder_without_a_manifest_is_no_checkout() {
        let refusal = target_directory(&here().join("docs")).unwrap_err();
        assert!(refusal.ends_with("is not a checkout of this project: it has no Cargo.toml"), "{refusal}");
        let refusal = target_directory(&here().join("crates/theory")).unwrap_err();
        assert!(refusal.ends_with("it is a folder inside a checkout"), "{refusal}");
        assert!(target_directory(&here()).is_ok());
    }
}
