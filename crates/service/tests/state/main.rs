//! The state of the lock service: what it does, sentence by sentence; what it does under random commands, beside a naive model of it.

mod deadlocks;
mod delays;
mod locks;
mod missing;
// mod model;
// mod random;
mod requests;
mod script;
mod several;
