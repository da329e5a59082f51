//! How a data folder is opened: checked, healed, and brought to the current version.

use std::sync::Arc;

use super::disk::{Disk, TEMPORARY};
use super::error::OpenError;
use super::files::Files;
use super::format;
use super::identity::{self, Identity};
use super::snapshots::Snapshots;
use super::version::Upgrade;

/// A data folder of the current version, but for its log and FORMAT: see [`super::Journal::open`].
pub struct Store {
    pub(super) disk: Arc<dyn Disk>,
    /// What FORMAT says; none before the first start has written all else.
    pub(super) format: Option<u32>,
    pub(super) files: Files,
    identity: Identity,
    snapshots: Snapshots,
}

impl Store {
    /// Opens a folder, or makes it one of ours. What an older version wrote is written anew in the current format.
    pub fn open(disk: Arc<dyn Disk>, _upgrade: &dyn Upgrade) -> Result<Store, OpenError> {
        let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
        let format = format::read(&*disk, &names)?;
        for name in names.iter().filter(|name| name.ends_with(TEMPORARY)) {
            disk.remove(name).map_err(OpenError::io("remove", name))?;
        }
        let files = Files::default();
        let identity = identity::open(&*disk, format, &names, &files)?;
        let snapshots = Snapshots::new(disk.clone(), files.clone());
        Ok(Store { disk, format, files, identity, snapshots })
    }

    /// Which node of which cluster the folder belongs to.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The snapshots of the folder.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// The files that must be there from now on.
    pub fn files(&self) -> Files {
        self.files.clone()
    }
}
