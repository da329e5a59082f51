//! The table of changes of views.

use baton_compare::theory::{in_words, number};
use baton_compare::views::Row;
use baton_theory::views;

use crate::output::{COLUMNS, narrow_table, wrapped};

pub fn to_text(rows: &[Row]) -> String {
    let head = ["VIEWS", "N", "MESSAGES", "IN THEORY", "STARTED", "IN THEORY", "FIRST ENTRY", ""];
    let mut cells = vec![head.map(String::from).to_vec()];
    let or_dash = |value: Option<f64>| value.map_or("-".into(), number);
    for row in rows {
        let verdict = match &row.refused {
            Some(reason) => reason.clone(),
            None if row.is_fine() => "exact".into(),
            None => format!("DIFFERS: {}", row.differences.join("; ")),
        };
        cells.push(vec![
            row.algorithm.into(),
            row.n.to_string(),
            or_dash(row.messages),
            in_words(&views::messages(row.n - 1)),
            or_dash(row.started),
            in_words(&views::started(row.n - 1)),
            or_dash(row.first_entry),
            verdict,
        ]);
    }
    let words = "One of n members crashes, and m = n-1 go on in the next view. MESSAGES are VIEW, READY and START. STARTED is \
        the time in T from the decision of the source until the algorithm runs at all members, FIRST ENTRY until a process \
        enters.";
    let verdict = match rows.iter().filter(|row| !row.is_fine()).count() {
        0 => "none differs from theory".to_owned(),
        differ => format!("{differ} differ from theory"),
    };
    let words = format!("{words} {} changes of views: {verdict}.", rows.len());
    format!("{}\n{}\n", narrow_table(&cells), wrapped(&words, COLUMNS).join("\n"))
}
