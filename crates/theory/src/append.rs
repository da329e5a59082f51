//! The cost of record append, which lets clients write without a lock.

use crate::Expectation;

/// Messages of one append to `replicas` replicas, without batching: APPEND and its answer, and for each secondary
/// REPLICATE and its acknowledgement.
pub fn messages_per_append(replicas: usize) -> Expectation {
    Expectation::exact("2 + 2(r-1)", 2.0 + 2.0 * (replicas as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secondary_adds_two() {
        assert_eq!(messages_per_append(1).value, 2.0);
        assert_eq!(messages_per_append(3).value, 6.0);
    }
}
