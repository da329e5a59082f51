//! Compares docs/ with the real output: the exit status and output of every command in docs/verdicts.md and
//! docs/documents.md, the transcripts of the other pages, and the numbers of states on all pages.
//!
//! In these two pages, a command is a line that begins with four spaces and `baton`. The next line begins with `    #
//! `, and has the exit status and fragments of the output, with `...` between them. Commands with `long` after the
//! status are not run here. A transcript begins with four spaces and `$ baton`. The output must contain each of its
//! other lines.

use std::fs;
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
    // A backslash continues a command in the next line.
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

/// Splits a command like a shell. Quotes cannot be nested.
fn arguments(command: &str) -> Vec<String> {
    let quoted = command.split(['\'', '"']).enumerate();
    let words = quoted.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.skip(1).collect()
}

/// Replaces each run of spaces by one space, so that the width of columns may change.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The exit status and the output of a command.
fn run(command: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(arguments(command))
        .current_dir(root())
        .output()
        .expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), squeezed(&text))
}

/// The pages of `docs/` and `docs/algorithms/`, with continued lines joined.
fn pages() -> Vec<(String, String)> {
    let files = ["docs", "docs/algorithms"].into_iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut pages: Vec<(String, String)> = files
        .map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap().replace("\\\n", " ")))
        .collect();
    pages.sort();
    pages
}

/// Checks with more states take too long for a test.
const STATES_MAX: u64 = 50_000;

/// Commands, and the texts that their output must contain.
fn transcripts(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut in_one = false;
    for line in page.lines() {
        if let Some(command) = line.strip_prefix("    $ ").filter(|command| known(command)) {
            found.push((command.to_owned(), Vec::new()));
            in_one = true;
        } else if let (true, Some(said)) = (in_one, line.strip_prefix("    ")) {
            let (_, parts) = found.last_mut().expect("a transcript begins with its command");
            parts.push(squeezed(said));
        } else {
            in_one = false;
        }
    }
    found
}

/// Whether the test runs this command. Commands of the lock service would need a server.
fn known(command: &str) -> bool {
    ["baton sim ", "baton check "].iter().any(|begins| command.starts_with(begins))
}

/// Commands with their number of states: `baton check ...  # holds in all of 13,538 states`.
fn counts(page: &str) -> Vec<(String, Vec<String>)> {
    let count = |line: &str| {
        let (command, said) = line.strip_prefix("    ")?.split_once(" # ")?;
        let (said, _) = said.split_once(" states")?;
        let states = said.rsplit(' ').next()?.replace(',', "");
        let small = states.parse::<u64>().is_ok_and(|states| states <= STATES_MAX);
        (known(command) && small).then(|| (command.trim().to_owned(), vec![format!(" {states} states, ")]))
    };
    page.lines().filter_map(count).collect()
}

#[test]
fn every_transcript_and_every_count_of_a_page_is_what_comes_out() {
    let mut wrong = String::new();
    let (mut transcribed, mut counted) = (0, 0);
    for (name, page) in pages() {
        let (transcripts, counts) = (transcripts(&page), counts(&page));
        transcribed += transcripts.len();
        counted += counts.len();
        for (command, parts) in transcripts.iter().chain(&counts) {
            let (_, text) = run(command);
            let missing: Vec<_> = parts.iter().filter(|part| !text.contains(*part)).collect();
            if !missing.is_empty() {
                wrong.push_str(&format!("{name}: {command}\n  without {missing:?}, in\n  {text}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(transcribed > 15 && counted > 3, "only {transcribed} transcripts and {counted} counts were found");
}

#[test]
fn every_command_of_the_verdicts_does_what_it_says() {
    every_command_holds("verdicts.md");
}

#[test]
fn every_command_of_the_documents_does_what_it_says() {
    every_command_holds("documents.md");
}

fn every_command_holds(page: &str) {
    let page = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let claims = claims(&page);
    assert!(claims.len() > 20, "only {} commands were found", claims.len());
    let mut wrong = String::new();
    for claim in claims.iter().filter(|claim| !claim.long) {
        let (status, text) = run(&claim.command);
        let missing: Vec<_> = claim.fragments.iter().filter(|fragment| !text.contains(*fragment)).collect();
        if status != Some(claim.status) || !missing.is_empty() {
            wrong.push_str(&format!("{}\n  {status:?}, without {missing:?}, in\n  {text}\n", claim.command));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
