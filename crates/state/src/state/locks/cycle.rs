//! A cycle of waiting owners, as a refusal shows it. The state keeps it until the client has seen it, so that its bytes
//! are limited.

use super::limits::{CYCLE_BYTES_MAX, CYCLE_SHOWN_MAX};
use super::{LockName, WaitFor};

/// Stands at the end of a text that was cut.
const ELLIPSIS: &str = "…";

// The equal share of each text has room for the ellipsis and a character of any length.
const _: () = assert!(CYCLE_BYTES_MAX / (2 * CYCLE_SHOWN_MAX) >= ELLIPSIS.len() + 4);

/// The first [`CYCLE_SHOWN_MAX`] steps. The longest labels and names are cut, so that all together have at most
/// [`CYCLE_BYTES_MAX`] bytes. What this function returned stays the same if it is given to it again.
pub(super) fn shown(steps: impl Iterator<Item = WaitFor>) -> Vec<WaitFor> {
    let mut cycle: Vec<WaitFor> = steps.take(CYCLE_SHOWN_MAX).collect();
    let bytes_max = longest(&cycle);
    for WaitFor { label, lock, .. } in &mut cycle {
        if label.len() > bytes_max {
            label.truncate(label.floor_char_boundary(bytes_max - ELLIPSIS.len()));
            label.push_str(ELLIPSIS);
        }
        if lock.as_bytes().len() > bytes_max {
            *lock = cut(lock.as_bytes(), bytes_max - ELLIPSIS.len());
        }
    }
    cycle
}

/// The most bytes that one text may have, so that all texts fit: texts below an equal share leave the rest to the others.
fn longest(cycle: &[WaitFor]) -> usize {
    let mut texts: Vec<usize> = cycle.iter().flat_map(|step| [step.label.len(), step.lock.as_bytes().len()]).collect();
    texts.sort_unstable();
    let mut left = CYCLE_BYTES_MAX;
    for (before, bytes) in texts.iter().enumerate() {
        let share = left / (texts.len() - before);
        if *bytes > share {
            return share;
        }
        left -= bytes;
    }
    usize::MAX
}

/// A name that is UTF-8 stays UTF-8.
fn cut(name: &[u8], bytes: usize) -> LockName {
    let end = str::from_utf8(name).map_or(bytes, |text| text.floor_char_boundary(bytes));
    LockName::from(&[&name[..end], ELLIPSIS.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::OwnerId;
    use proptest::prelude::*;

    fn bytes(cycle: &[WaitFor]) -> usize {
        cycle.iter().map(|step| step.label.len() + step.lock.as_bytes().len()).sum()
    }

    fn step() -> impl Strategy<Value = WaitFor> {
        let name = prop_oneof![".{1,170}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 1..512)];
        let lock = name.prop_map(|name| LockName::from(&name));
        (any::<u64>(), ".{0,85}", lock).prop_map(|(owner, label, lock)| WaitFor { owner: OwnerId(owner), label, lock })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_shown_cycle_fits_and_stays_as_it_is(all in prop::collection::vec(step(), 0..40)) {
            let cycle = shown(all.iter().cloned());
            prop_assert!(bytes(&cycle) <= CYCLE_BYTES_MAX);
            prop_assert_eq!(&shown(cycle.iter().cloned()), &cycle);
            prop_assert_eq!(cycle.len(), all.len().min(CYCLE_SHOWN_MAX));
            if cycle.len() == all.len() && bytes(&all) <= CYCLE_BYTES_MAX {
                prop_assert_eq!(&cycle, &all);
            }
            for (step, full) in cycle.iter().zip(&all) {
                prop_assert_eq!(step.owner, full.owner);
                let is_cut = |short: &[u8], long: &[u8]| {
                    short == long
                        || short.strip_suffix(ELLIPSIS.as_bytes()).is_some_and(|begin| long.starts_with(begin))
                };
                prop_assert!(is_cut(step.label.as_bytes(), full.label.as_bytes()));
                prop_assert!(is_cut(step.lock.as_bytes(), full.lock.as_bytes()));
                let is_text = |name: &LockName| str::from_utf8(name.as_bytes()).is_ok();
                prop_assert!(is_text(&step.lock) || !is_text(&full.lock));
            }
        }
    }
}
