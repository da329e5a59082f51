//! The frames that a client and the service exchange on the stream of a session. Requests are pipelined. Answers carry
//! the number of their request, and come in any order.

use crate::cluster_id::ClusterId;
use crate::limits::SECRET_BYTES;
use crate::refusal::Refusal;

/// Proves that a client may resume the session. Only the client that began the session knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET_BYTES]);

/// Does not show the secret.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer {
    /// The first frame of a stream, and only the first.
    Open(Open),
    /// Asks to extend the lease to its full TTL.
    KeepAlive {
        /// The answer is Alive with this number, or Ended, or none.
        number: u64,
    },
    Request(Request),
}

/// A message of a client that is not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// Which kind of frame it would have been.
    pub part: Part,
    /// What is wrong with it, as a sentence.
    pub what: String,
}

/// The kind of a malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Open,
    /// The request with this number.
    Request(u64),
    Unknown,
}

/// Begins a session, or resumes one after a broken connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Chosen by the client at random, so that a repeated Open is the same session.
    pub session: u64,
    /// Counts the connections of the session, from 1 on. An Open that arrives after one with a higher number is late. 0
    /// if the client does not count.
    pub attempt: u64,
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    /// A description of the session, for people to read.
    pub label: String,
    /// The host of the client, for people to read.
    pub host: String,
    /// The process id of the client, for people to read.
    pub pid: u32,
    /// If true, resumes an existing session, and never begins one.
    pub resume: bool,
    /// None from a client older than 0.2.0.
    pub secret: Option<Secret>,
    /// The cluster that the session is meant for. Another one refuses it. None: whichever is asked.
    pub cluster: Option<ClusterId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// From 1 on, each once. A repeated number is a retry, and is applied once.
    pub number: u64,
    /// The client has seen every answer up to this number, except the missing ones. Below `number`.
    pub seen: u64,
    /// Ascending, each below `number` and not above `seen`.
    pub missing: Vec<u64>,
    pub operation: Operation,
}

/// A frame from the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// The session exists, and its lease has begun.
    Opened {
        session: u64,
        /// How long the session lives after its last keep-alive.
        ttl_ms: u64,
        /// The cluster that the session belongs to. None from an older server.
        cluster: Option<ClusterId>,
        /// How long the cluster grants no lock yet, because it began anew. 0: it grants locks.
        closed_ms: u64,
    },
    /// Acknowledges a keep-alive.
    Alive {
        /// The number of the keep-alive.
        number: u64,
    },
    Answer {
        /// The number of the request.
        number: u64,
        answer: Answer,
    },
    /// An operator forced the release of a lock: the holder must stop its work, and then release the lock.
    Revoked {
        /// The number of the acquire that was granted.
        acquire: u64,
    },
    /// The session has ended. It cannot be resumed.
    Ended {
        reason: EndReason,
        /// One sentence for people.
        message: String,
    },
    /// An acquire waits for a process that is silent. It goes on waiting: the process may come back. Sent at most once a
    /// second, while the process is silent.
    Hopeless {
        /// The number of the acquire that waits.
        acquire: u64,
        why: Hopeless,
    },
    /// The server belongs to this cluster, and the Open is meant for another one. The session is neither begun nor ended.
    OtherCluster { cluster: ClusterId },
    /// The server is a follower, and carries the stream to this leader. Only the first frame of a stream can be this one.
    Leader(Leader),
}

/// The node that leads a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub node: u64,
    pub name: String,
    /// Where clients reach it, host:port.
    pub address: String,
    /// The cluster. None from an older server.
    pub cluster: Option<ClusterId>,
}

/// Why a wait has no hope for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hopeless {
    /// The process of the peer group that is waited for, so that a client can tell a new one from the last one.
    pub process: u64,
    /// For people, such as "waiting for process 3, not heard of for 4.2 s".
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The server received nothing from the session for longer than its lease.
    Expired,
    /// Its client closed it.
    Closed,
    /// There is no such session.
    Unknown,
    /// The Open is invalid.
    Invalid,
    /// The server has too little free space for a new session.
    LowSpace,
    /// The server has reached its limit of sessions.
    TooManySessions,
    /// The session belongs to another client.
    WrongSecret,
}

macro_rules! words {
    ($($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*) => {
        /// What a request asks for. Each module has its own operations.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Operation {
            /// Ends the session and releases all its locks.
            Close,
            $($(#[$on])* $Name(crate::$module::Operation),)*
        }

        /// The answer to a request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Answer {
            /// The session has ended.
            Closed,
            Refused(Refusal),
            $($(#[$on])* $Name(crate::$module::Answer),)*
        }

        $(
            $(#[$on])*
            impl From<crate::$module::Operation> for Operation {
                fn from(operation: crate::$module::Operation) -> Self {
                    Operation::$Name(operation)
                }
            }

            $(#[$on])*
            impl From<crate::$module::Answer> for Answer {
                fn from(answer: crate::$module::Answer) -> Self {
                    Answer::$Name(answer)
                }
            }
        )*
    };
}
crate::modules!(words);
