//! [`Owner`]: on whose behalf a lock is held.

use std::fmt;

use baton_types::hex::Hex;

use crate::error::{NoRandomness, random};

/// On whose behalf locks are held. A piece of work that takes several locks uses one owner for all of them.
///
/// The service looks for deadlocks among owners. It refuses an acquire if the owner would wait for itself, directly or
/// by way of other owners. An owner can have a parent; the parent counts as waiting until its children are done.
/// Example: a program that holds a lock starts another program and passes its owner's number on. The second program
/// acquires its locks as a child of that owner. If it requests a lock that the first program holds, the service refuses
/// the request as a deadlock, instead of letting it wait for ever.
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
    /// Makes a new owner with a random 64-bit number.
    pub fn new() -> Result<Self, NoRandomness> {
        Ok(Owner { id: random()?, parent: None })
    }

    /// Makes a new owner whose parent is this owner.
    pub fn child(&self) -> Result<Self, NoRandomness> {
        Ok(Owner { id: random()?, parent: Some(self.id) })
    }

    /// Makes the owner with this number, which another program passed on. The number does not say who the owner's
    /// parent is: acquire locks with a [child](Owner::child) of this owner.
    pub fn from_raw(id: u64) -> Self {
        Owner { id, parent: None }
    }

    /// The owner's number, for passing on to another program.
    pub fn to_raw(&self) -> u64 {
        self.id
    }

    /// The number of the owner's parent, if it has one.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }
}

/// With 16 hexadecimal digits, as in `baton locks --json`.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", Hex(self.id))
    }
}
