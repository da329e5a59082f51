//! Every healthy algorithm has claims, and its page in docs/algorithms shows what comes out of them.
//!
//! `UPDATE_EXPECT=1 cargo test -p baton-compare --test claims` writes the tables of the pages.

use std::path::PathBuf;
use std::{env, fs};

use baton_compare::claims::{Claim, of, required};
use baton_protocol::registry::ALGORITHMS;

const BEGIN: &str = "<!-- claims: UPDATE_EXPECT=1 cargo test -p baton-compare --test claims -->\n";
const END: &str = "<!-- end of claims -->\n";

fn page(algorithm: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/algorithms/{algorithm}.md"))
}

/// The part of the page between the two comments.
fn table(claims: &[Claim]) -> String {
    let mut text =
        String::from("| about | what is said | what is measured | verdict | shown by |\n|---|---|---|---|---|\n");
    for Claim { subject, documents, measured, verdict, why, command, .. } in claims {
        let why = if why.is_empty() { String::new() } else { format!(". {why}") };
        // A bar would end the cell.
        let [documents, measured, why, command] =
            [documents, measured.as_str(), &why, command].map(|text| text.replace('|', "\\|"));
        text += &format!("| {subject} | {documents} | {measured} | {}{why} | `{command}` |\n", verdict.name());
    }
    text
}

/// The page with the table in place of the old one, or at the end.
fn updated(page: &str, table: &str) -> String {
    let section = format!("{BEGIN}{table}{END}");
    match (page.split_once(BEGIN), page.split_once(END)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{section}{after}"),
        (Some(_), None) | (None, Some(_)) => panic!("only one of the two comments is in the page:\n{page}"),
        (None, None) => format!("{}\n\n## Said and measured\n\n{section}", page.trim_end()),
    }
}

#[test]
fn every_page_shows_what_is_said_and_what_is_measured() {
    let mut wrong = Vec::new();
    for about in ALGORITHMS {
        let claims =
            of(about.name).unwrap_or_else(|error| panic!("a claim about {} cannot be decided: {error}", about.name));
        let missing =
            required(about.family).iter().filter(|subject| claims.iter().all(|claim| claim.subject != **subject));
        if about.broken.is_none() {
            wrong.extend(missing.map(|subject| {
                format!(
                    "`{}` has no claim about `{subject}`: add what documents or the paper say, and the run that decides it, to \
                     crates/compare/src/claims",
                    about.name
                )
            }));
        }
        if claims.is_empty() {
            continue;
        }
        let path = page(about.name);
        let old = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let new = updated(&old, &table(&claims));
        if old == new {
            continue;
        }
        match env::var_os("UPDATE_EXPECT") {
            Some(_) => fs::write(&path, new).unwrap(),
            None => wrong.push(format!(
                "docs/algorithms/{}.md does not show what its claims give; set UPDATE_EXPECT=1",
                about.name
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_table_replaces_the_old_one_and_nothing_else() {
    let old = format!("# x\n\ntext\n\n{BEGIN}| old |\n{END}\nmore\n");
    assert_eq!(updated(&old, "| new |\n"), format!("# x\n\ntext\n\n{BEGIN}| new |\n{END}\nmore\n"));
    assert_eq!(updated("# x\n", "| new |\n"), format!("# x\n\n## Said and measured\n\n{BEGIN}| new |\n{END}"));
}

/// The verdicts come from runs, so they can be wrong in both ways: some claims must be found true, and some false.
#[test]
fn verdicts_differ() {
    let verdict = |algorithm: &str, said: &str| {
        let claims = of(algorithm).unwrap();
        let claim = claims.iter().find(|claim| claim.documents.starts_with(said));
        claim.unwrap_or_else(|| panic!("nothing is said about {said}")).verdict.name()
    };
    assert_eq!(verdict("maekawa", "3 sqrt(n)"), "false");
    assert_eq!(verdict("maekawa", "3(K-1)"), "true");
    assert_eq!(verdict("bully", "n-2"), "true");
    assert_eq!(verdict("bully", "2 rounds, if the runner-up"), "true");
    assert_eq!(verdict("bully", "2 rounds, if another"), "false");
    assert_eq!(verdict("raymond", "2(n-1)"), "true");
    // The client delay is the first such claim of the ring.
    assert_eq!(verdict("token-ring", "n-1 T in the worst case"), "false");
}
