//! For whom locks are acquired.

use std::fmt;

use crate::error::{NoRandomness, random};

/// For whom locks are acquired: a piece of work that takes several locks names itself as the owner of all of them.
///
/// Deadlocks are cycles of owners. The service refuses an acquire whose owner would wait for itself, directly or by way of
/// other owners. An owner can act for another one, its parent: the parent waits until its children are done. So a
/// program that holds a lock and starts another program hands its owner down, the other program acquires its locks as a
/// child of it, and a lock that its own parent holds is refused as a deadlock instead of waited for in vain.
///
/// ```no_run
/// use baton_client::Owner;
///
/// # async fn example(session: baton_client::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let transfer = Owner::new()?;
/// let from = session.lock("account/7").owner(&transfer).acquire().await?;
/// let to = session.lock("account/9").owner(&transfer).acquire().await?;
/// # drop((from, to));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    id: u64,
    parent: Option<u64>,
}

impl Owner {
    /// An owner that nobody else is, by 64 random bits.
    pub fn new() -> Result<Self, NoRandomness> {
        Ok(Owner { id: random()?, parent: None })
    }

    /// A new owner that acts for this one.
    pub fn child(&self) -> Result<Self, NoRandomness> {
        Ok(Owner { id: random()?, parent: Some(self.id) })
    }

    /// The owner of this number, which another program handed down. The number does not tell its parent: locks are acquired as a
    /// [child](Owner::child) of it.
    pub fn from_raw(id: u64) -> Self {
        Owner { id, parent: None }
    }

    /// Its number, to be handed down to another program.
    pub fn to_raw(&self) -> u64 {
        self.id
    }

    /// The number of the owner that it acts for, if any.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }
}

/// By 16 hexadecimal digits, as `baton locks --json` shows owners.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:016x})", self.id)
    }
}
