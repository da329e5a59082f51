//! What one member may want that is none of the group's business, and what it hears of.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use baton_protocol::ProcessId;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::handshake::LinkError;

/// How one member runs.
pub struct Options {
    /// Listen here instead of at the member's address in the group file.
    pub listener: Option<TcpListener>,
    /// How long to wait for the others to start.
    pub start_within: Duration,
    /// Write the trace of this member here. Writes should be quick: wrap a file in a `BufWriter`.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Tell of what goes wrong here. What does not fit into the channel is dropped.
    pub warnings: Option<mpsc::Sender<Warning>>,
}

impl Default for Options {
    fn default() -> Self {
        Options { listener: None, start_within: Duration::from_secs(60), trace: None, warnings: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listener", &self.listener)
            .field("start_within", &self.start_within)
            .field("trace", &self.trace.is_some())
            .field("warnings", &self.warnings.is_some())
            .finish()
    }
}

/// Something that went wrong and that the member lives with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Somebody called and was sent away.
    #[error("a call from {from} came to nothing: {error}")]
    Refused {
        /// Whence.
        from: SocketAddr,
        /// Why.
        error: LinkError,
    },
    /// A member is gone.
    #[error("lost process {peer}: {error}")]
    Lost {
        /// Which.
        peer: ProcessId,
        /// How.
        error: LinkError,
    },
    /// The system would not let anybody call; the member tries again.
    #[error("cannot take calls for now: {0}")]
    CannotAccept(String),
    /// Some member granted what was not asked for.
    #[error("a grant with fence {fence} came without a request, and is ignored")]
    UnexpectedGrant {
        /// Of the grant.
        fence: u64,
    },
    /// There is no more trace from here on.
    #[error("cannot write the trace, which ends here: {0}")]
    TraceFailed(String),
}

/// Where warnings go, if anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Warnings(pub(crate) Option<mpsc::Sender<Warning>>);

impl Warnings {
    pub(crate) fn tell(&self, warning: Warning) {
        if let Some(channel) = &self.0 {
            // Nobody listens, or too slowly: the member has better things to do than to wait.
            let _ = channel.try_send(warning);
        }
    }
}
