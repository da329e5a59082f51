//! The part of joining a group that is the same for all algorithms.

use baton_protocol::registry::Family;
use baton_protocol::{Group, ProcessId, Protocol};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::driver::{Driver, PeerError, Stats};
use crate::group::PeerGroup;
use crate::journal::Journal;
use crate::link::{Assembled, JoinError, assemble};
use crate::options::{Options, Warnings};

/// A member that is connected to all others and has not made its first step.
pub(crate) struct Joined {
    id: ProcessId,
    assembled: Assembled,
    journal: Journal,
}

/// Listens at the member's address and waits until all other members are connected.
pub(crate) async fn join(
    group: &PeerGroup,
    id: ProcessId,
    needed: Family,
    options: Options,
) -> Result<Joined, JoinError> {
    let (about, address) = (group.about(), group.address(id)?);
    if about.family != needed {
        let (found, needed) = (family_name(about.family), family_name(needed));
        return Err(JoinError::Family { algorithm: about.name, found, needed });
    }
    let listener = match options.listener {
        Some(listener) => listener,
        None => TcpListener::bind(address)
            .await
            .map_err(|source| JoinError::Listen { address: address.to_string(), source })?,
    };
    let warnings = Warnings(options.warnings);
    let assembled = assemble(group, id, listener, options.start_within, &warnings).await?;
    Ok(Joined { id, assembled, journal: Journal::new(group, id, options.trace, warnings) })
}

impl Joined {
    pub fn drive<P: Protocol>(self, group: &Group<P>) -> Driver<P> {
        Driver::new(self.id, group.processes, (group.make)(self.id), self.assembled, self.journal)
    }
}

/// The result of a driver that was told to stop. If the driver panicked, the panic continues here, because it is a bug.
pub(crate) async fn outcome(driver: JoinHandle<Result<Stats, PeerError>>) -> Result<Stats, PeerError> {
    match driver.await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(PeerError::RuntimeGone),
    }
}

pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::Mutex => "mutual exclusion",
        Family::Election => "leader election",
        Family::Detector => "failure detection",
        Family::Append => "record append",
    }
}
