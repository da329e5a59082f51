//! A node that does not lead carries streams and calls to the leader. The leader here is a fake that echoes bytes, and the
//! node follows whomever the test says, so each test decides what happens when.

mod bytes;
mod calls;
mod follower;
mod health;
mod leader;
mod limits;
mod streams;
