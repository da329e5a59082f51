//! Limits that belong to no module.

/// Every counter of the state is below this, so that it can go on counting. It fits into a signed 64-bit number, like
/// etcd's revisions.
pub(super) const COUNTER_MAX: u64 = i64::MAX as u64;
