//! The first start after an older version: what it wrote is written anew in the current format.
//!
//! The newest snapshot comes first, then the segments, oldest first, then FORMAT, which [`super::Journal::open`] writes. Each file
//! is replaced as a whole and says itself which version wrote it. So a start that was interrupted leaves a folder in which
//! some files are of the current version and others are not, and the next start goes on with the others.

use super::disk::Disk;
use super::error::OpenError;
use super::format;
use super::found::Found;
use super::segments::{self, Name};
use super::snapshots::Snapshots;
use super::version::{Upgrade, VERSION};

/// Writes anew whatever an older version wrote. If any of it cannot be read, nothing is changed.
pub(super) fn migrate(
    disk: &dyn Disk,
    names: &[String],
    format: Option<u32>,
    snapshots: &Snapshots,
    upgrade: &dyn Upgrade,
) -> Result<(), OpenError> {
    let mut older = Vec::new();
    for segment in segments::list(names) {
        if segment.version(disk)? < VERSION {
            older.push(segment);
        }
    }
    let snapshot = snapshots.upgraded(upgrade)?;
    if snapshot.is_none() && older.is_empty() {
        return Ok(());
    }
    // Read before and once more below, so that not all of it has to be in memory at a time.
    Found::read(disk, names, format, &mut |version, payload| {
        if version < VERSION {
            upgrade.frame(version, payload)?;
        }
        Ok(None)
    })?;
    // Whoever finds files of the current version in a folder of an older one is told who wrote them.
    format::sign(disk)?;
    if let Some((index, chunks)) = snapshot {
        let written = snapshots.write(index, &mut chunks.into_iter().map(Ok));
        written.map_err(OpenError::io("write", format!("snapshot {index}")))?;
    }
    for segment in &older {
        let Upgraded { payloads, sealed, length } = upgraded(disk, segment, upgrade)?;
        let written = segments::create(disk, segment.first, &payloads, sealed, length);
        written.map_err(OpenError::io("write", &segment.name))?;
    }
    Ok(())
}

/// What a segment of the current version has in common with the older one that it replaces: the number of frames, and so
/// their numbers; whether it is sealed; and its length, unless the payloads take more now.
struct Upgraded {
    payloads: Vec<Vec<u8>>,
    sealed: bool,
    length: usize,
}

fn upgraded(disk: &dyn Disk, name: &Name, upgrade: &dyn Upgrade) -> Result<Upgraded, OpenError> {
    let (bytes, segment) = name.read(disk)?;
    let payloads: Result<_, _> = segment.payloads().map(|payload| upgrade.frame(segment.version, payload)).collect();
    let payloads = payloads.map_err(|why| format::unreadable(disk, &name.name, why))?;
    Ok(Upgraded { payloads, sealed: segment.sealed, length: bytes.len() })
}
