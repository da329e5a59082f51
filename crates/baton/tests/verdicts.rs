//! Every command in docs/verdicts.md does what the page says: its exit status, and what its output contains.
//!
//! A command is a line that begins with four spaces and `baton`, the next one begins with `    # `, the exit status and
//! fragments of the output, with `...` between them. What takes long says `long` after the status and is not run here.

use std::path::PathBuf;
use std::process::Command;

struct Claim {
    command: String,
    status: i32,
    fragments: Vec<String>,
    long: bool,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn claims(page: &str) -> Vec<Claim> {
    // A command may go on in the next line.
    let page = page.replace("\\\n", " ");
    let lines: Vec<&str> = page.lines().collect();
    let commands = lines.iter().enumerate().filter(|(_, line)| line.starts_with("    baton "));
    commands
        .map(|(index, command)| {
            let said = lines.get(index + 1).and_then(|line| line.strip_prefix("    # "));
            let said = said.unwrap_or_else(|| panic!("nothing is said of `{command}`"));
            let (status, fragments) = said.split_once(": ").unwrap_or((said, ""));
            let (status, long) = status.strip_suffix(" long").map_or((status, false), |status| (status, true));
            Claim {
                command: command.trim().to_owned(),
                status: status.parse().unwrap_or_else(|_| panic!("`{said}` does not begin with an exit status")),
                fragments: fragments.split("...").map(|part| part.trim().to_owned()).collect(),
                long,
            }
        })
        .collect()
}

/// As a shell would; only single quotes are used.
fn arguments(command: &str) -> Vec<String> {
    let quoted = command.split('\'').enumerate();
    let words = quoted.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.skip(1).collect()
}

/// With one space for many, so that columns may move.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    let page = std::fs::read_to_string(root().join("docs/verdicts.md")).unwrap();
    let claims = claims(&page);
    assert!(claims.len() > 20, "only {} commands were found", claims.len());
    let mut wrong = String::new();
    for claim in claims.iter().filter(|claim| !claim.long) {
        let output = Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(arguments(&claim.command))
            .current_dir(root())
            .output()
            .expect("the binary starts");
        let text = squeezed(
            &(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)),
        );
        let missing: Vec<_> = claim.fragments.iter().filter(|fragment| !text.contains(*fragment)).collect();
        if output.status.code() != Some(claim.status) || !missing.is_empty() {
            let status = output.status;
            wrong.push_str(&format!("{}\n  {status}, without {missing:?}, in\n  {text}\n", claim.command));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
