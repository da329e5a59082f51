//! Options of one member, which the other members do not have to share, and the warnings of a member.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::data::Data;
use crate::group::MemberId;
use crate::handshake::LinkError;
use crate::joining::Awaited;

pub struct Options {
    /// Listen here instead of at the member's address in the group file.
    pub listener: Option<TcpListener>,
    /// How long to wait until all other members are connected. Default: 60 s.
    pub start_within: Duration,
    /// How many bytes may be unacknowledged by one other member. From half of it on new acquires are refused. At the
    /// limit the member stops. Default: 16 MiB.
    pub backlog_max: usize,
    /// How many resources the callers of this member may be the first to use. A member forgets no resource. Default:
    /// 65,536.
    pub resources_max: usize,
    /// The file of this member. Without it, the member knows nothing of earlier starts of its group: fences may be given
    /// again, and clients must have no leases. Default: none.
    pub data: Option<Data>,
    /// Where to write the trace of this member. Writes should be quick: wrap a file in a `BufWriter`. The member flushes
    /// it after every event.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Where to say what the member waits for until the group begins. Default: none.
    pub awaited: Option<watch::Sender<Awaited>>,
    /// Where to send warnings. If the channel is full, the member drops the warning.
    pub warnings: Option<mpsc::Sender<Warning>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listener: None,
            start_within: Duration::from_secs(60),
            backlog_max: 16 << 20,
            resources_max: 1 << 16,
            data: None,
            trace: None,
            awaited: None,
            warnings: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listener", &self.listener)
            .field("start_within", &self.start_within)
            .field("backlog_max", &self.backlog_max)
            .field("resources_max", &self.resources_max)
            .field("data", &self.data)
            .field("trace", &self.trace.is_some())
            .field("awaited", &self.awaited.is_some())
            .field("warnings", &self.warnings.is_some())
            .finish()
    }
}

/// A problem that does not stop the member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("the connection from {from} failed: {error}")]
    Refused { from: SocketAddr, error: LinkError },
    /// The member opens the connection again.
    #[error("the connection with process {peer} is broken: {error}")]
    Broken { peer: MemberId, error: LinkError },
    #[error("process {peer} is connected again")]
    Back { peer: MemberId },
    #[error("process {peer} was not heard of for {:.1} s", silence.as_secs_f64())]
    Silent { peer: MemberId, silence: Duration },
    /// The system accepts no connection, for example for want of file descriptors. The member tries again.
    #[error("cannot accept connections for now: {0}")]
    CannotAccept(String),
    /// Told once, until the file can be written.
    #[error("{0}; no client gets a lock until this file can be written")]
    Unwritable(String),
    #[error("{0}; so the next start of the group will wait for leases, although no client has one")]
    NotMarked(String),
    /// The trace ends here.
    #[error("cannot write the trace, which ends here: {0}")]
    TraceFailed(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Warnings(pub(crate) Option<mpsc::Sender<Warning>>);

impl Warnings {
    pub(crate) fn tell(&self, warning: Warning) {
        if let Some(channel) = &self.0 {
            // If the receiver is gone or slow, drop the warning: the member must not wait.
            let _ = channel.try_send(warning);
        }
    }
}
