//! Clusters of real processes, and the commands for them.

mod bad_input;
mod local;
mod members;
mod nodes;
mod trouble;
