//! The state of the lock service: one test per rule, and random commands compared with a naive model.

mod actions;
mod ancestors;
mod cluster;
mod compare;
mod counts;
mod deadlocks;
mod delays;
mod ended;
mod feed;
mod gate;
mod kept;
mod locks;
mod missing;
mod model;
mod names;
mod random;
mod records;
mod requests;
mod reuse;
mod revisions;
mod script;
mod several;
mod several_ends;
