//! When the leader proposes what time brings about.
