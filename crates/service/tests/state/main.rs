//! The state of the lock service: what it does, sentence by sentence; what it does under random commands, beside a
//! naive model of it.

mod actions;
mod ancestors;
mod compare;
mod counts;
mod deadlocks;
mod delays;
mod ended;
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
