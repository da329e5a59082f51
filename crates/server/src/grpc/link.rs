//! The connection to the leader that carries the calls of one client's connection. So the leader counts the streams of
//! each client's connection for itself, as it does for its own clients.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use baton_types::frames::Leader;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::proof::{self, Member};

const CONNECT_MAX: Duration = Duration::from_secs(1);
/// After this much silence the node sends an HTTP/2 ping. The leader has the same time to answer it. So a link to a dead
/// machine ends after about a second.
const PING_EVERY: Duration = Duration::from_millis(500);
/// After a failure the node does not dial again for this long. Otherwise the streams of a client would dial in turn.
const FAILED_FOR: Duration = Duration::from_millis(500);
/// How much the leader may send on a stream, and on all streams of a link, before the client has read it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const LINK_WINDOW_BYTES: u32 = 1 << 20;

/// A link to the leader. It is closed when it is dropped, with the last call on it.
pub struct Link {
    leader: Leader,
    channel: Channel,
    /// Both ends have proved to be members of the cluster.
    is_proved: bool,
    _place: OwnedSemaphorePermit,
}

impl Link {
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A sentence that says that the link broke, and why.
    pub fn broke(&self, error: &dyn std::error::Error) -> String {
        let Leader { name, address, .. } = &self.leader;
        format!("the link to the leader {name} at {address} broke: {}", root_cause(error))
    }
}

/// The place for the link of a client's connection.
#[derive(Debug, Default)]
pub struct Slot(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Empty,
    /// The link is dialled, and goes to this leader.
    To(Leader, Weak<Link>),
    /// The last try failed.
    Failed { leader: Leader, at: Instant, why: Status },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Empty => "no link",
            State::To(..) => "a link",
            State::Failed { .. } => "a failure",
        })
    }
}

impl Slot {
    /// The link to this leader. Dials it, if there is none. If this node knows the secret of the cluster, it proves so.
    pub async fn to(
        &self,
        leader: &Leader,
        member: Option<Member>,
        places: &Arc<Semaphore>,
    ) -> Result<Arc<Link>, Status> {
        let mut state = self.0.lock().await;
        match &*state {
            State::To(to, link) if to == leader => {
                // A link of before the node knew the secret keeps its streams, and gets no more.
                if let Some(link) = link.upgrade().filter(|link| link.is_proved || member.is_none()) {
                    return Ok(link);
                }
            }
            State::Failed { leader: of, at, why } if of == leader && at.elapsed() < FAILED_FOR => {
                return Err(why.clone());
            }
            _ => {}
        }
        match dial(leader, member, places).await {
            Ok(link) => {
                let link = Arc::new(link);
                *state = State::To(leader.clone(), Arc::downgrade(&link));
                Ok(link)
            }
            Err(why) => {
                *state = State::Failed { leader: leader.clone(), at: Instant::now(), why: why.clone() };
                Err(why)
            }
        }
    }
}

async fn dial(leader: &Leader, member: Option<Member>, places: &Arc<Semaphore>) -> Result<Link, Status> {
    let Leader { name, address, .. } = leader;
    let place = places.clone().try_acquire_owned();
    let place = place.map_err(|_| {
        let why = "this node has no connection left for the link to the leader";
        Status::resource_exhausted(format!("{why}; connect to the leader {name} at {address}"))
    })?;
    let failed = |error: &dyn std::error::Error| {
        let cause = root_cause(error);
        Status::unavailable(format!("this node does not reach the leader {name} at {address}: {cause}"))
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| failed(&error))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(LINK_WINDOW_BYTES);
    let channel = match tokio::time::timeout(CONNECT_MAX, endpoint.connect()).await {
        Ok(connected) => connected.map_err(|error| failed(&error))?,
        Err(elapsed) => return Err(failed(&elapsed)),
    };
    if let Some(member) = &member {
        proof::prove(channel.clone(), member, leader).await?;
    }
    Ok(Link { leader: leader.clone(), channel, is_proved: member.is_some(), _place: place })
}

/// The deepest cause. The outer errors say only "transport error".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
