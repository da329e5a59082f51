//! The words of the test module: one counter.

/// What a client asks of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add(u64),
    Read,
}

/// The value of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer(pub u64);
