//! Finds an algorithm by its name, and suggests a similar name if there is none.

use baton_protocol::registry::{self, ALGORITHMS, About};

use crate::output::Failure;

/// The least similarity of a suggestion, from 0 to 1.
const ALIKE_LEAST: f64 = 0.6;

pub fn find(name: &str) -> Result<&'static About, Failure> {
    registry::find(name).map_err(|_| {
        let meant = nearest(name).map(|nearest| format!("did you mean {nearest}? ")).unwrap_or_default();
        Failure::bad_input(format!("there is no algorithm `{name}`; {meant}`baton algorithms` lists them all"))
    })
}

fn nearest(name: &str) -> Option<&'static str> {
    let alike = ALGORITHMS.iter().map(|about| (strsim::normalized_damerau_levenshtein(name, about.name), about.name));
    let alike = alike.filter(|(alike, _)| *alike >= ALIKE_LEAST);
    alike.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, nearest)| nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_a_name_finds_it_and_what_is_none_finds_nothing() {
        assert_eq!(nearest("centrall"), Some("central"));
        assert_eq!(nearest("ricart-agrawal"), Some("ricart-agrawala"));
        assert_eq!(nearest("nobody"), None);
        assert_eq!(nearest(""), None);
    }
}
