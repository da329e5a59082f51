//! Backups of a node that does not run, and data folders that are made of a backup.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use baton_types::cluster_id::ClusterId;
use baton_types::name;

use super::anew::{Anew, Replayed};
use super::log::Head;
use super::node::{NAME, Parts};
use super::options::Options;
use crate::backup::{About, Backup};
use crate::clock;
use crate::format::FromOlder;
use crate::format::record::{LogId, Membership, NodeRecord, Vote};
use crate::format::snapshot::{self, SnapshotMeta};
use crate::state::{Command, Outcome, State};
use crate::store::{self, Disk, Folder, Journal, OpenError, SEGMENT_BYTES, Store};

/// A node that does not run, as its folder says.
#[derive(Debug)]
pub struct Stopped {
    pub about: About,
    pub state: State,
    /// The names of the members of its cluster, in order.
    pub members: Vec<String>,
}

/// Reads the data folder of a node that does not run. All entries of the log count, also those that no majority has
/// confirmed.
pub async fn read_stopped(path: &Path) -> Result<Stopped, OpenError> {
    if !store::is_folder_of_ours(path) {
        return Err(OpenError::Missing { what: "it has no data of a server".to_owned() });
    }
    let folder = Folder::open(path)?;
    store::refuse_older(&folder)?;
    read(Arc::new(folder)).await
}

async fn read(disk: Arc<dyn Disk>) -> Result<Stopped, OpenError> {
    let mut parts = Parts::open(disk, Options::default())?;
    let Replayed { state, membership, last } = Replayed::of(&mut parts).await?;
    let LogId { term, index } = last.unwrap_or(LogId { term: 0, index: 0 });
    let cluster = ClusterId::new(parts.identity.cluster).unwrap_or(ClusterId::MIN);
    let mut members: Vec<String> = membership.nodes.into_values().map(|record| record.name).collect();
    members.sort_unstable();
    Ok(Stopped { about: About { cluster, term, index, made_ms: clock::wall_ms() }, state, members })
}

/// The cluster of a folder that was made of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub cluster: ClusterId,
    pub node: u64,
    /// The first fence that it will give.
    pub fence_from: u64,
    /// For how long it will grant nothing, from its first leadership on.
    pub closed_ms: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),
    #[error("{0}; remove the folder, and restore again")]
    Failed(#[from] OpenError),
}

/// Makes a data folder of a backup, for a new cluster with one node. Nothing is changed if the folder is not empty.
pub fn restore(path: &Path, backup: &Backup, anew: Anew) -> Result<Restored, RestoreError> {
    let refused = RestoreError::Refused;
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let told = name::path(path);
            return Err(refused(format!("{told} is no folder; name an empty folder, or one that does not exist")));
        }
        Err(error) => return Err(refused(format!("cannot read {}: {error}", name::path(path)))),
    };
    if !is_empty {
        return Err(refused(format!(
            "{} is not empty; name an empty folder, or one that does not exist",
            name::path(path)
        )));
    }
    let now_ms = clock::wall_ms();
    let state = begun_anew(backup, anew, now_ms).map_err(refused)?;
    let cannot = |error| refused(format!("cannot make the folder {}: {error}", name::path(path)));
    fs::create_dir_all(path).map_err(cannot)?;
    Ok(write(Arc::new(Folder::open(path)?), backup.about, &state)?)
}

pub(super) fn begun_anew(backup: &Backup, anew: Anew, now_ms: u64) -> Result<State, String> {
    let mut state = backup.state.clone();
    let command = Command::from(anew.command(&state, backup.about.made_ms, now_ms)?);
    state.apply(backup.about.index, now_ms, &command, &mut Outcome::default());
    Ok(state)
}

/// Until all of it is durable, the server refuses the folder: it must not take it for an empty one, whose fences begin at 1.
pub(super) fn write(disk: Arc<dyn Disk>, about: About, state: &State) -> Result<Restored, OpenError> {
    store::begin_restore(&*disk)?;
    let store = Store::open(disk.clone(), &FromOlder)?;
    let (identity, snapshots) = (store.identity(), store.snapshots());
    let mut journal = Journal::open(&store, SEGMENT_BYTES, |_| Ok(None))?;
    let node = identity.node;
    let last = LogId { term: about.term.max(state.term()), index: about.index };
    let vote = Vote { term: last.term, node, committed: false };
    let head = Head { vote: Some(vote), committed: None, purged: Some(last) };
    journal.append(&head.encode(), None, Vec::new).map_err(OpenError::io("write", "the log"))?;
    let record = NodeRecord { name: NAME.to_owned(), ..NodeRecord::default() };
    let membership = Membership { configs: vec![[node].into()], nodes: [(node, record)].into() };
    let meta = SnapshotMeta { last: Some(last), membership, membership_at: Some(last) };
    let chunks = std::iter::once(meta.encode()).chain(snapshot::chunks(state));
    snapshots.save(last.index, &mut chunks.map(Ok)).map_err(OpenError::io("write", "the snapshot"))?;
    store::end_restore(&*disk)?;
    Ok(Restored {
        cluster: ClusterId::new(identity.cluster).unwrap_or(ClusterId::MIN),
        node,
        fence_from: state.last_fence() + 1,
        closed_ms: state.cluster().closed_ms().unwrap_or(0),
    })
}
