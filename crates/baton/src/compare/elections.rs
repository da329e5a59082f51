//! The elections of `baton compare`, as a table for people.

use baton_compare::election::{Row, Spread};
use baton_compare::theory::{in_words, number};
use baton_compare::verdict;
use baton_theory::Expectation;

use crate::output::{COLUMNS, narrow_table, wrapped};

pub const HEAD: [&str; 8] = ["election", "starts", "n", "runs", "messages", "in theory", "time", ""];

pub fn to_text(rows: &[Row]) -> String {
    let mut cells = vec![HEAD.map(str::to_uppercase).to_vec()];
    cells.extend(rows.iter().map(|row| self::cells(row).to_vec()));
    format!("{}\n{}\n", narrow_table(&cells), wrapped(&summary(rows), COLUMNS).join("\n"))
}

/// The cells of one row, in the order of [`HEAD`].
pub fn cells(row: &Row) -> [String; 8] {
    let or_dash = |spread: &Option<Spread<f64>>| spread.as_ref().map_or("-".into(), in_numbers);
    [
        row.name(),
        row.starts.name().into(),
        row.n.to_string(),
        row.runs.to_string(),
        or_dash(&row.messages),
        formulas(&row.expected_messages).unwrap_or("-".into()),
        or_dash(&row.time),
        row.verdict(),
    ]
}

/// One number if all are equal, otherwise the least, the mean and the largest.
fn in_numbers(spread: &Spread<f64>) -> String {
    match spread.best == spread.worst {
        true => number(spread.mean),
        false => format!("{} .. {}, mean {}", number(spread.best), number(spread.worst), number(spread.mean)),
    }
}

/// The formulas in the order of the numbers.
fn formulas(expected: &Spread<Option<Expectation>>) -> Option<String> {
    match (&expected.best, &expected.worst, &expected.mean) {
        (Some(best), Some(worst), Some(mean)) if best.formula != worst.formula => {
            Some(format!("{} .. {}, mean {}", best.formula, worst.formula, mean.formula))
        }
        (_, _, mean) => mean.as_ref().map(in_words),
    }
}

pub fn summary(rows: &[Row]) -> String {
    let count = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    let verdict = verdict::of_all(count(|row| !row.agrees), count(|row| !row.broken_promises.is_empty()));
    let runs: usize = rows.iter().map(|row| row.runs).sum();
    format!(
        "Starts: \"one\" is one election for each process that may begin it alone; \"all\": all processes begin at once; \"random \
         rings\": the order of the ids on the ring is random. Messages and time (in T) are those of one election: the least, the \
         largest and the mean of all runs. {runs} elections: {verdict}."
    )
}
