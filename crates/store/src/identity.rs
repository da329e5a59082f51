//! The file IDENTITY: the ids of the node and its cluster.
//!
//! It contains one line twice, so that a damaged byte is healed. It is written before the first segment of a new
//! folder.

use super::disk::{self, Disk};
use super::error::OpenError;
use super::files::Files;
use super::line;
use super::remarks::Remarks;

pub(super) const FILE: &str = "IDENTITY";
/// Both lines have this length for all ids, so that each is found without the other.
const LINE_BYTES: usize = "baton cluster 0123456789abcdef node 0123456789abcdef 01234567\n".len();
/// The largest integer that JSON can represent exactly, because its numbers are floating-point.
const NODE_MAX: u64 = (1 << 53) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Random, not 0. The id of a cluster is that of the node which begins it.
    pub cluster: u64,
    /// Random, chosen when the folder is made, from 1 to 2^53 - 1.
    pub node: u64,
}

impl Identity {
    fn random() -> Identity {
        Identity { cluster: baton_runtime::random(0).max(1), node: baton_runtime::random(1) % NODE_MAX + 1 }
    }

    /// The same node, with the id of a cluster that has not begun yet.
    pub fn of_no_cluster(self) -> Identity {
        Identity { cluster: Identity::random().cluster, ..self }
    }

    fn encode(self) -> String {
        line::encode(&format!("baton cluster {:016x} node {:016}", self.cluster, self.node))
    }

    fn decode(bytes: &[u8]) -> Option<Identity> {
        let (cluster, node) = line::decode(bytes)?.strip_prefix("baton cluster ")?.split_once(" node ")?;
        let identity = Identity { cluster: u64::from_str_radix(cluster, 16).ok()?, node: node.parse().ok()? };
        let sound = identity.cluster != 0 && (1..=NODE_MAX).contains(&identity.node);
        (sound && identity.encode().as_bytes() == bytes).then_some(identity)
    }
}

/// Reads the identity of a folder of this format. Creates the file in a new folder.
pub(super) fn open(
    disk: &dyn Disk,
    format: Option<u32>,
    names: &[String],
    files: &Files,
    remarks: &Remarks,
) -> Result<Identity, OpenError> {
    let (identity, found) = match names.iter().any(|name| name == FILE) {
        true => read(disk).map(|(identity, bytes)| (identity, Some(bytes)))?,
        false if format.is_some() => {
            return Err(OpenError::Missing { what: "the file IDENTITY of the data folder is missing".into() });
        }
        false => (Identity::random(), None),
    };
    let text = identity.encode().repeat(2);
    if found.as_deref() != Some(text.as_bytes()) {
        disk::replace(disk, FILE, &[text.as_bytes()]).map_err(OpenError::io("write", FILE))?;
    }
    if let Some(found) = found.filter(|found| found != text.as_bytes()) {
        let equal = text.bytes().zip(&found).take_while(|(right, found)| right == *found).count();
        remarks.repaired(FILE, equal as u64);
    }
    files.insert(FILE, text.len() as u64);
    Ok(identity)
}

/// Writes the identity of a folder without any data: it becomes part of another cluster, or of none. The node keeps its
/// id.
pub fn adopt(disk: &dyn Disk, files: &Files, identity: Identity) -> std::io::Result<()> {
    // Out of the set while the file is replaced.
    files.remove(FILE);
    let text = identity.encode().repeat(2);
    let replaced = disk::replace(disk, FILE, &[text.as_bytes()]);
    files.insert(FILE, text.len() as u64);
    replaced
}

/// Returns the identity, and the whole file.
fn read(disk: &dyn Disk) -> Result<(Identity, Vec<u8>), OpenError> {
    let bytes = disk.read(FILE).map_err(OpenError::io("read", FILE))?;
    let copy = |at: usize| bytes.get(at..at + LINE_BYTES).and_then(Identity::decode);
    match (copy(0), copy(LINE_BYTES)) {
        (Some(one), Some(two)) if one == two => Ok((one, bytes)),
        (Some(one), None) | (None, Some(one)) => Ok((one, bytes)),
        _ => {
            let what = "it does not say which node of which cluster the folder belongs to".to_owned();
            Err(OpenError::Damaged { file: FILE.to_owned(), offset: 0, what })
        }
    }
}
