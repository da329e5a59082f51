//! The cost of a change of views, for a view of m members on a network on which every message takes T.

use crate::Expectation;

/// VIEW to each member, READY to the lowest member, START from it.
pub fn messages(members: usize) -> Expectation {
    Expectation::exact("3m-2", 3.0 * members as f64 - 2.0)
}

/// The time from the decision of the source until the algorithm runs at all members, in T: VIEW, READY and START, one after
/// the other. A member alone needs only VIEW.
pub fn started(members: usize) -> Expectation {
    if members == 1 { Expectation::exact("T", 1.0) } else { Expectation::exact("3T", 3.0) }
}

/// The time from the decision of the source until the first entry in the new view, in T, while all members want to enter
/// and each stays for T. The lowest member starts after 2T, and may enter at once. The others start after 3T. A member that
/// is still inside leaves after T, and FREE takes T. No algorithm needs more than two messages to each member for an entry.
pub fn first_entry(members: usize) -> Expectation {
    if members == 1 {
        return Expectation::between("T .. 2T", 1.0, 2.0);
    }
    let m = members as f64;
    Expectation::between("2T .. (2m+5)T", 2.0, 2.0 * m + 5.0)
}
