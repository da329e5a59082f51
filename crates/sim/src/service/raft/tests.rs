//! The rules of Raft that the simulator relies on.
