//! The words for what came out of a comparison, the same for locks and elections.

/// The verdict on one row. `fine`: what to say if nothing is wrong.
pub(crate) fn of_row(refused: Option<&str>, broken: &[&str], differences: &[String], fine: &str) -> String {
    match refused {
        Some(reason) => format!("cannot: {reason}"),
        None if !broken.is_empty() => format!("BROKEN: {}", broken.join(", ")),
        None if !differences.is_empty() => format!("DIFFERS: {}", differences.join("; ")),
        None => fine.to_owned(),
    }
}

/// The verdict on all rows, as the end of a sentence: how many of them differ from theory, and how many break a promise.
pub fn of_all(differ: usize, broken: usize) -> String {
    match (differ, broken) {
        (0, 0) => "none differs from theory, and every promise held".to_owned(),
        _ => format!("{differ} differ from theory, and in {broken} a promise was broken"),
    }
}
