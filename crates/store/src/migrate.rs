//! The first start after an upgrade: rewrites the files of older versions in the current format.
//!
//! The newest snapshot comes first, then the segments, oldest first, then FORMAT, which [`super::Journal::open`]
//! writes. Each file is replaced as a whole, and says which version wrote it. So an interrupted start leaves files of
//! both versions, and the next start goes on with the older ones.

use super::disk::Disk;
use super::error::OpenError;
use super::format;
use super::found::Found;
use super::segments::{self, Name};
use super::snapshots::{self, Snapshots};
use super::version::Upgrade;

/// Rewrites all files of versions before [`Upgrade::rewrites_before`]. If any of them cannot be read, changes nothing.
pub(super) fn migrate(
    disk: &dyn Disk,
    names: &[String],
    format: Option<u32>,
    snapshots: &Snapshots,
    upgrade: &dyn Upgrade,
) -> Result<(), OpenError> {
    let since = upgrade.rewrites_before();
    let mut older = Vec::new();
    for segment in segments::list(names) {
        if segment.version(disk)? < since {
            older.push(segment);
        }
    }
    let snapshot = snapshots.upgraded(upgrade)?;
    if snapshot.is_none() && older.is_empty() {
        return Ok(());
    }
    // Every payload is upgraded here as a test, and once more below. So only one segment at a time is in memory.
    Found::read(disk, names, format, |version, payload| {
        if version < since {
            upgrade.frame(version, payload)?;
        }
        Ok(None)
    })?;
    // If this start is interrupted, an older release finds files that it does not know. WRITER then tells that release
    // which version wrote them.
    format::sign(disk)?;
    if let Some((index, chunks)) = snapshot {
        let written = snapshots.write(index, &mut chunks.into_iter().map(Ok));
        written.map_err(OpenError::io("write", snapshots::name(index)))?;
    }
    for segment in &older {
        let Upgraded { payloads, sealed, length } = upgraded(disk, segment, upgrade)?;
        let written = segments::create(disk, segment.first, &payloads, sealed, length);
        written.map_err(OpenError::io("write", &segment.name))?;
    }
    Ok(())
}

/// A rewritten segment keeps the number of its frames, and so their sequence numbers; whether it is sealed; and its
/// length, unless the new payloads need more.
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
