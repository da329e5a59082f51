//! Why a data folder cannot be opened.

use std::io;

use super::version::{OLDEST_READ, VERSION};

/// Why a data folder cannot be opened. The caller adds the name of the folder. The content of the folder is unchanged,
/// and nothing is served from it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("it is in use by another process; stop that one, or name another folder")]
    InUse,
    #[error("it is not a folder")]
    NotAFolder,
    /// The system refuses access to the folder.
    #[error("{0}")]
    Folder(io::Error),
    #[error(
        "it has data format {found}, written by {}; this is baton {}, which reads formats {OLDEST_READ} to {VERSION}: start it with {} \
         or a newer version, or restore a backup that this version wrote",
        writer.as_deref().unwrap_or("a newer version"), env!("CARGO_PKG_VERSION"),
        writer.as_deref().unwrap_or("the version that wrote it")
    )]
    Newer {
        /// The format of the folder, or of a file in it.
        found: u32,
        /// The release that wrote it, if the folder says so.
        writer: Option<String>,
    },
    #[error(
        "it has data format {found}; this is baton {}, which reads formats {OLDEST_READ} to {VERSION}",
        env!("CARGO_PKG_VERSION")
    )]
    TooOld {
        /// The format of the folder.
        found: u32,
    },
    /// The checksums do not match, or the content is invalid.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file's name, within the folder.
        file: String,
        offset: u64,
        what: String,
    },
    /// A file or a part of the log is missing.
    #[error("{what}")]
    Missing {
        /// What is missing, and how we know.
        what: String,
    },
    #[error("cannot {doing} {file}: {source}")]
    Io {
        /// The verb for the message, such as "read".
        doing: &'static str,
        /// The file's name, within the folder.
        file: String,
        source: io::Error,
    },
    /// The options do not fit the folder.
    #[error("{why}")]
    Refused { why: String },
    #[error(
        "it has data format {found}, and this is baton {}, which writes format {VERSION}: start the server once with this \
         version, or use the version that wrote it",
        env!("CARGO_PKG_VERSION")
    )]
    Older { found: u32 },
    #[error(
        "it belongs to cluster {ours:016x}, but the node at {address} belongs to cluster {theirs:016x}; to join that cluster, \
         start this node with an empty data folder; to go on in its own cluster, start it without `--cluster` and `--join`"
    )]
    OtherCluster { ours: u64, address: String, theirs: u64 },
    /// openraft refuses to start from the data.
    #[error("the group cannot be started from it: {0}")]
    Raft(String),
}

impl OpenError {
    /// True if data is damaged or missing, so that the folder is of no use any more.
    pub fn is_loss(&self) -> bool {
        matches!(self, OpenError::Damaged { .. } | OpenError::Missing { .. })
    }

    pub fn io(doing: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        let file = file.into();
        move |source| OpenError::Io { doing, file, source }
    }
}
