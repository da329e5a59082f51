//! Release builds of this checkout. Cargo says where the binaries are, whatever its settings.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::{cargo, root};

/// Builds the server of this checkout.
pub fn ours() -> Result<PathBuf, String> {
    build(&root(), ["--package=baton", "--bin=baton"], "baton")
}

/// Builds the load generator of this checkout.
pub fn load() -> Result<PathBuf, String> {
    build(&root(), ["--package=baton-client", "--example=load"], "load")
}

fn build(folder: &Path, what: [&str; 2], name: &str) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--release", "--quiet", "--message-format=json-render-diagnostics"]);
    command.current_dir(folder).args(what);
    // What the compiler has to complain of is for people, at once.
    let built = command.stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if !built.status.success() {
        return Err(format!("{} does not build: cargo ended with {}", folder.display(), built.status));
    }
    let said = String::from_utf8_lossy(&built.stdout);
    executable(&said, name).ok_or_else(|| format!("{}: cargo built no {name}", folder.display()))
}

/// The executable of this name, as cargo's messages tell, one JSON object a line.
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
}
