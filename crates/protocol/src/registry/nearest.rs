//! Finds the name that a mistyped name probably means.

use alloc::vec::Vec;

/// The known name that differs least from `name`, if at least 60% of the characters stay as they are.
pub fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let distances = known.map(|known| (distance(name, known), known));
    let alike = distances.filter(|(distance, known)| distance * 5 <= name.chars().count().max(known.len()) * 2);
    alike.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The least number of characters to insert, delete or replace in order to turn one text into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (index, char) in one.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], index + 1);
        for (column, other) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(char != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_insertions_deletions_and_replacements() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn what_is_nearly_a_name_finds_it_and_what_is_none_finds_nothing() {
        let nearest = |name| nearest(name, ["central", "central-elected", "ricart-agrawala", "bully"].into_iter());
        assert_eq!(nearest("centrall"), Some("central"));
        assert_eq!(nearest("ricart-agrawal"), Some("ricart-agrawala"));
        assert_eq!(nearest("nobody"), None);
        assert_eq!(nearest(""), None);
    }
}
