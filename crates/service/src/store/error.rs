//! Why a data folder cannot be opened.

use std::io;

use super::version::VERSION;

/// Why a data folder cannot be opened; whoever tells it also names the folder. What it holds is as it was, and nothing is
/// served from it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("it is in use by another process; stop that one, or name another folder")]
    InUse,
    /// It is a file.
    #[error("it is not a folder")]
    NotAFolder,
    /// The system does not let us.
    #[error("{0}")]
    Folder(io::Error),
    /// It was written by a newer version.
    #[error(
        "it has data format {found}, written by {}; this is baton {}, which reads formats 1 and {VERSION}: start it with {} \
         or a newer version, or restore a copy that this version wrote",
        writer.as_deref().unwrap_or("a newer version"), env!("CARGO_PKG_VERSION"),
        writer.as_deref().unwrap_or("the version that wrote it")
    )]
    Newer {
        /// The format of the folder, or of something in it.
        found: u32,
        /// The release that wrote it, if the folder says so.
        writer: Option<String>,
    },
    /// Bytes are not as they were written.
    #[error("{file} is damaged at byte {offset}: {what}; restore the data folder from a copy")]
    Damaged {
        /// The file's name, within the folder.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong with the file.
        what: String,
    },
    /// Something that was there is gone.
    #[error("{what}; restore the data folder from a copy")]
    Missing {
        /// What is missing, and how we know.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {doing} {file}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file's name, within the folder.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The consensus engine does not start from what was read.
    #[error("the group cannot be started from it: {0}")]
    Raft(String),
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        let file = file.into();
        move |source| OpenError::Io { doing, file, source }
    }
}
