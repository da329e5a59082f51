//! Bounds of what belongs to no module.

/// No counter comes this far: whatever counts can go on from here. A signed 64-bit number holds it, as etcd's revisions want.
pub(super) const COUNTER_MAX: u64 = i64::MAX as u64;
