//! Clusters of real processes, and the commands for them.

mod bad_input;
mod feed;
mod identity;
mod local;
mod majority;
mod members;
mod nodes;
mod trouble;
