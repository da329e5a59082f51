//! Opens a data folder: checks it, heals it, and migrates it to the current version.

use std::sync::Arc;

use super::disk::{Disk, TEMPORARY};
use super::error::OpenError;
use super::files::Files;
use super::identity::{self, Identity};
use super::remarks::{Remarks, Tell};
use super::snapshots::{self, Snapshots};
use super::version::{Upgrade, VERSION};
use super::{format, migrate, segments, synced};

/// A data folder whose files all have the current layout.
///
/// The folder is complete once [`super::Journal::open`] has opened its log. That call creates the first segment of a
/// new folder, and writes FORMAT last.
pub struct Store {
    pub(super) disk: Arc<dyn Disk>,
    /// The version in FORMAT; none if the first start was not completed.
    pub(super) format: Option<u32>,
    pub(super) files: Files,
    identity: Identity,
    snapshots: Snapshots,
    pub(super) remarks: Remarks,
}

impl Store {
    /// Opens or creates a data folder. Rewrites files of older versions if the upgrade says so.
    pub fn open(disk: Arc<dyn Disk>, upgrade: &dyn Upgrade) -> Result<Store, OpenError> {
        let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
        let format = format::read(&*disk, &names)?;
        if format.is_none() {
            holds_nothing(&*disk, &names)?;
        }
        for name in names.iter().filter(|name| name.ends_with(TEMPORARY)) {
            disk.remove(name).map_err(OpenError::io("remove", name))?;
        }
        let remarks = remarks(&*disk, format, &names)?;
        let files = Files::default();
        let snapshots = Snapshots::new(disk.clone(), files.clone(), remarks.clone());
        migrate::migrate(&*disk, &names, format, &snapshots, upgrade)?;
        snapshots.expect_newest()?;
        let identity = identity::open(&*disk, format, &names, &files, &remarks)?;
        Ok(Store { disk, format, files, identity, snapshots, remarks })
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// True if this start makes the folder.
    pub fn is_new(&self) -> bool {
        self.format.is_none()
    }

    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// Tells the sentences for the operator, to be called once the snapshots and the journal are open. Later ones come when
    /// a file is read again.
    pub fn tell_remarks(&self, tell: Tell) {
        self.remarks.tell_to(tell);
    }

    #[cfg(test)]
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.untold()
    }

    /// The files that must exist from now on.
    pub fn files(&self) -> Files {
        self.files.clone()
    }
}

fn remarks(disk: &dyn Disk, format: Option<u32>, names: &[String]) -> Result<Remarks, OpenError> {
    let remarks = Remarks::default();
    match format {
        Some(older) if older < VERSION => remarks.add(format!(
            "the data folder had data format {older} and now has {VERSION}: the version that wrote it cannot open it any more"
        )),
        Some(_) if synced::read(disk, names)?.is_none() => remarks.add(format!(
            "{} was missing or unreadable in the data folder: a loss of the last entries would not have been noticed",
            synced::FILE
        )),
        _ => {}
    }
    Ok(remarks)
}

/// FORMAT is written last. So a folder without it must contain only what a first start writes before it.
fn holds_nothing(disk: &dyn Disk, names: &[String]) -> Result<(), OpenError> {
    let segments = segments::list(names);
    let mut payloads = 0;
    for segment in &segments {
        payloads += segment.read(disk)?.1.payloads().len();
    }
    if segments.len() > 1 || payloads > 1 || snapshots::newest(disk)?.is_some() {
        let what = "the data folder holds data, but its file FORMAT is missing".to_owned();
        return Err(OpenError::Missing { what });
    }
    Ok(())
}
