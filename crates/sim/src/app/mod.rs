//! The users of protocols, one kind for each family: what they do, what they measure and how they judge.

pub mod append;
pub mod detector;
pub mod election;
pub mod mutex;
