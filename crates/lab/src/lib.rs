//! The lab: a page in a browser in which every algorithm can be watched, stepped by hand, broken and compared. The page
//! is in `console/`. This crate serves it and answers its calls.
//!
//! Each call has one module with a pure function from request to answer: [`about`], [`run`], [`hand`] and so on. `http`
//! is the shell around them, with axum.
//!
//! **Architecture invariant: no call depends on an earlier call.** A request holds everything: parameters, seed,
//! actions. So the address of a page holds its run, and two tabs do not disturb each other. The server keeps a few runs
//! in memory only to answer faster.
//!
//! **Architecture invariant: a web page of another origin cannot drive the lab.** [`guard`] refuses foreign hosts and
//! origins before anything else looks at a request.
//!
//! **Architecture invariant: every call ends.** Long work runs in a thread of its own, of which there are only a few. It
//! has limits of size and time, and stops when its connection closes ([`jobs`]). A request that is half sent ends too, and
//! all requests that are not answered yet share a number of bytes (`room`).
//!
//! - The server sends a scene (what is to be drawn, with times and no pixels), made by the code that makes the SVG
//!   diagrams.
//! - The diagram draws what its pixels need (`console/diagram/merge.js`). From far away, messages, bars and marks on
//!   one pixel are one stroke. The coarser copies of a run are made once, when it is laid out.
//! - A group by hand is a `Stage`. Its actions become records of a trace, so diagram, judge and replay work on it.
//! - The checker finds the shortest way to a violation. Its model of elections has a clock, and a stage has none. So
//!   elections by hand have a search of their own (`search.rs`). For the short challenges a test compares the two.

pub mod about;
mod assets;
mod body;
mod cache;
mod calm;
pub mod challenges;
pub mod check;
pub mod claims;
pub mod compare;
pub mod distance;
pub mod guard;
pub mod hand;
mod http;
pub mod jobs;
pub mod limits;
pub mod moment;
pub mod pages;
mod refusal;
mod room;
pub mod run;
mod search;
pub mod structure;
pub mod upload;

pub use http::{Lab, serve};
pub use refusal::Refusal;
