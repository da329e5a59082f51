//! Carries the streams and the calls of clients to the leader, if this node does not lead. It passes the bytes on as they
//! are: it neither decodes a frame nor keeps one, so a client and a leader of another version understand each other.
//! HTTP/2 slows down a sender whose receiver does not read, on both connections.
//!
//! A carried stream ends when the leader ends it, when the link to the leader breaks, and when this node learns that
//! another node leads. The client then connects again.
//!
//! - **Invariant: a follower does not read what it carries.** It passes the bytes of a stream or call on, and those
//!   of the answer back, so clients and leaders of other versions understand each other. Of a stream it keeps nothing
//!   but the windows of HTTP/2; a call it reads whole before it carries it. Only the first frame of a stream is its
//!   own: it says where the leader is. Each connection of a client has its own link to the leader.
//! - **Invariant: only a connection that has proved to come from a member says for which client a call is**
//!   (`grpc/proof.rs`). Both ends prove, by a MAC over fresh nonces, that they know the secret in the replicated
//!   state, once on each link. A follower carries nothing to a server that does not prove it. The proof belongs to
//!   the connection and not to each call, because a connection cannot be stolen as a token can, and because a call
//!   then costs nothing. A node without the secret (the cluster has none yet, or the node lacks that entry) carries
//!   without a proof, as a client. A removed node still knows the secret.
//! - A carried stream ends with its link, and as soon as the follower knows of another leader. A carried stream or
//!   call is never carried again. A change whose link breaks is answered with ABORTED: only the leader knows whether
//!   it was made.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use baton_api::convert::to_client;
use baton_api::v1;
use baton_api::v1::{locks_server, members_server};
use baton_runtime::Instant;
use baton_types::frames::{Leader, ToClient};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::metadata::MetadataMap;
use tower_layer::Layer;
use tower_service::Service;
use tracing::field::display;
use tracing::warn;

use super::bodies::{CarriedBody, Held, Until};
use super::calls::Peer;
use super::meant;
use super::requests::HEADER_BYTES;
use crate::host::Host;
use crate::limiter::Limiter;
use crate::replica::{Leadership, Replica};

/// The most streams and calls that a node carries at a time.
pub const CARRIED_MAX: usize = 4096;

/// Marks a carried stream or call. It is never carried again, whoever says so: the mark gives no right.
const CARRIED: &str = "baton-carried";
/// The address of the client, for the operator's log of the leader. Only a connection that has proved to come from a member
/// is believed.
const FROM: &str = "baton-from";

/// Whether a call is the stream of a session.
pub fn is_session(path: &str) -> bool {
    kind(path) == Kind::Session
}

/// Whether a call is answered with a page of a listing.
pub fn is_listing(path: &str) -> bool {
    matches!(kind(path), Kind::Reading(_))
}

/// Where a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By the node that is asked.
    Own,
    /// By the leader: the stream of a session.
    Session,
    /// By the leader, unless the caller wants a local reading.
    Reading(Listing),
    /// By the leader, with a stream.
    Backup,
    /// By the leader. If the link to the leader breaks, nobody knows whether the call had its effect.
    Change,
}

/// A call that can ask for a local reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Locks,
    Lock,
    Sessions,
}

impl Listing {
    /// Whether the message asks for a local reading. The leader refuses a message that has no meaning.
    fn is_local(self, message: &[u8]) -> bool {
        match self {
            Listing::Locks => v1::ListLocksRequest::decode(message).is_ok_and(|request| request.local),
            Listing::Lock => v1::GetLockRequest::decode(message).is_ok_and(|request| request.local),
            Listing::Sessions => v1::ListSessionsRequest::decode(message).is_ok_and(|request| request.local),
        }
    }
}

fn kind(path: &str) -> Kind {
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next().unwrap_or(""), parts.next().unwrap_or("")) {
        (locks_server::SERVICE_NAME, "Session") => Kind::Session,
        (locks_server::SERVICE_NAME, "ListLocks") => Kind::Reading(Listing::Locks),
        (locks_server::SERVICE_NAME, "GetLock") => Kind::Reading(Listing::Lock),
        (locks_server::SERVICE_NAME, "ListSessions") => Kind::Reading(Listing::Sessions),
        (members_server::SERVICE_NAME, "Backup") => Kind::Backup,
        (locks_server::SERVICE_NAME, "ForceRelease") => Kind::Change,
        (members_server::SERVICE_NAME, "Add" | "Promote" | "Remove" | "Update" | "Transfer") => Kind::Change,
        _ => Kind::Own,
    }
}

impl Kind {
    /// The status of a carried call that the leader did not answer.
    fn broken(self, why: &str) -> Status {
        match self {
            Kind::Change => Status::aborted(format!("{why}; the change may or may not have been made")),
            _ => Status::unavailable(why),
        }
    }
}

/// Carries what this node cannot answer itself.
pub struct Carrier<R: Replica> {
    host: Arc<Host<R>>,
    /// Places for carried streams and calls, and the number of all.
    carried: Arc<Semaphore>,
    carried_max: usize,
    /// Places for connections; each link to the leader takes one, too.
    connections: Arc<Semaphore>,
    stopping: CancellationToken,
    limiter: Mutex<Limiter>,
}

impl<R: Replica> Carrier<R> {
    pub fn new(
        host: Arc<Host<R>>,
        carried_max: usize,
        connections: Arc<Semaphore>,
        stopping: CancellationToken,
    ) -> Self {
        let (carried, limiter) = (Arc::new(Semaphore::new(carried_max)), Mutex::default());
        Carrier { host, carried, carried_max, connections, stopping, limiter }
    }

    /// If a connection has not proved to come from a member, its calls do not say for which client they are.
    fn distrust(&self, request: &mut Request<Body>) {
        let peer = request.extensions().get::<Peer>();
        if !is_carried(request.headers()) || peer.is_some_and(|peer| peer.proved.is_member()) {
            return;
        }
        let from = peer.and_then(|peer| peer.address).map(display);
        request.headers_mut().remove(FROM);
        // While the cluster has no secret, its nodes carry without a proof.
        if self.host.member().is_some()
            && let Some(quiet) =
                self.limiter.lock().unwrap_or_else(PoisonError::into_inner).say("unproved", Instant::now())
        {
            warn!(
                from,
                quiet,
                "a call says that a member of the cluster carried it here, but its connection has not proved to come from \
                 a member; it counts as a call of a client"
            );
        }
    }

    /// Whether this node answers, for a call that only a leader can answer.
    fn answers_itself(&self) -> bool {
        // A server that stops says so itself.
        self.stopping.is_cancelled() || matches!(*self.host.leadership().borrow(), Leadership::Leads { .. })
    }

    /// The leader that the call goes to; none if this node leads meanwhile.
    async fn leader(&self) -> Result<Option<Leader>, Status> {
        let mut leadership = self.host.leadership();
        loop {
            leadership.mark_unchanged();
            if self.answers_itself() {
                return Ok(None);
            }
            if let Some(leader) = self.host.leader() {
                return Ok(Some(leader));
            }
            // Perhaps an election is going on, and ends soon.
            tokio::select! {
                why = self.host.why_no_leader() => return Err(Status::unavailable(why)),
                changed = leadership.changed() => {
                    changed.map_err(|_| Status::unavailable("the server is stopping"))?;
                }
            }
        }
    }

    async fn carry(&self, request: Request<Body>, kind: Kind, leader: Leader) -> Result<Response<Body>, Status> {
        let peer = Peer::of(request.extensions())?;
        let place = self.carried.clone().try_acquire_owned().map_err(|_| {
            let Leader { name, address, .. } = &leader;
            Status::resource_exhausted(format!(
                "this node carries {} streams and calls to the leader, and takes no more; connect to the leader {name} at \
                 {address}",
                self.carried_max
            ))
        })?;
        let mut over = Box::pin(until_over(kind, leader.node, self.host.leadership(), self.stopping.clone()));
        let ended = CancellationToken::new();
        let answered = async {
            let link = peer.link.to(&leader, self.host.member(), &self.connections).await?;
            let mut channel = link.channel();
            let broken = |error: tonic::transport::Error| kind.broken(&link.broke(&error));
            poll_fn(|cx| channel.poll_ready(cx)).await.map_err(broken)?;
            let request = carried(request, peer.address, &leader, &ended);
            let response = channel.call(request).await.map_err(broken)?;
            Ok::<_, Status>((response, link))
        };
        let guard = ended.clone().drop_guard();
        let (response, link) = tokio::select! {
            answered = answered => answered?,
            why = &mut over => return Err(kind.broken(why)),
        };
        // A leader that refuses the stream at once sends its status in the headers, and no frame.
        let is_refused = response.headers().contains_key("grpc-status");
        let names_leader = kind == Kind::Session && !is_refused && self.host.sends_clients_to(leader.node);
        let first = names_leader.then(|| first_frame(leader));
        let broken = move |why: &str| kind.broken(why);
        let held = Held::new(link, place, guard);
        Ok(response.map(|body| Body::new(CarriedBody::new(first, body, over, broken, held))))
    }
}

/// Resolves when a call must end that was carried to this leader. Returns why.
async fn until_over(
    kind: Kind,
    leader: u64,
    mut leadership: watch::Receiver<Leadership>,
    stopping: CancellationToken,
) -> &'static str {
    let is_other = |now: &Leadership| *now != Leadership::DoesNotLead { leader: Some(leader) };
    tokio::select! {
        // A change may itself change the leader. Then the old one answers.
        _ = leadership.wait_for(is_other), if kind != Kind::Change => "the leader of the cluster has changed",
        () = stopping.cancelled() => "the server is stopping",
    }
}

/// The same request for the leader. Its body ends with an error once `ended` is cancelled: only that resets the stream
/// at the leader if the client does not end it.
fn carried(
    request: Request<Body>,
    from: Option<SocketAddr>,
    leader: &Leader,
    ended: &CancellationToken,
) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    head.extensions.clear();
    head.headers.insert(CARRIED, HeaderValue::from_static("1"));
    meant::address(&mut head.headers, leader.cluster, leader.node);
    if let Some(from) = from.and_then(|from| HeaderValue::from_str(&from.to_string()).ok()) {
        head.headers.insert(FROM, from);
    }
    Request::from_parts(head, Body::new(Until::new(body, ended.clone())))
}

fn is_carried(headers: &HeaderMap) -> bool {
    headers.contains_key(CARRIED)
}

/// The address of the client, which another node may have carried here.
pub fn client_address(metadata: &MetadataMap, peer: &Peer) -> Option<SocketAddr> {
    let carried = metadata.get(CARRIED).and_then(|_| metadata.get(FROM)?.to_str().ok()?.parse().ok());
    carried.or(peer.address)
}

/// The frame that tells the client where the leader is, as a gRPC message.
fn first_frame(leader: Leader) -> Vec<u8> {
    let message = to_client(ToClient::Leader(leader)).encode_to_vec();
    let length = u32::try_from(message.len()).expect("a name and an address are short");
    [&[0], &length.to_be_bytes()[..], &message].concat()
}

/// Returns a call with whether it asks for a local reading. The call was read whole before.
async fn look(request: Request<Body>, listing: Listing) -> Result<(Request<Body>, bool), Status> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let is_local = bytes.get(HEADER_BYTES..).is_some_and(|message| listing.is_local(message));
    Ok((Request::from_parts(head, Body::new(Full::new(bytes))), is_local))
}

/// The layer that carries calls for the services below it.
pub struct Carry<R: Replica>(pub Arc<Carrier<R>>);

impl<R: Replica> Clone for Carry<R> {
    fn clone(&self) -> Self {
        Carry(self.0.clone())
    }
}

impl<R: Replica, S> Layer<S> for Carry<R> {
    type Service = Carrying<R, S>;

    fn layer(&self, inner: S) -> Carrying<R, S> {
        Carrying { carrier: self.0.clone(), inner }
    }
}

/// The service that [`Carry`] makes.
pub struct Carrying<R: Replica, S> {
    carrier: Arc<Carrier<R>>,
    inner: S,
}

impl<R: Replica, S: Clone> Clone for Carrying<R, S> {
    fn clone(&self) -> Self {
        Carrying { carrier: self.carrier.clone(), inner: self.inner.clone() }
    }
}

impl<R, S> Service<Request<Body>> for Carrying<R, S>
where
    R: Replica,
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        self.carrier.distrust(&mut request);
        let host = &self.carrier.host;
        if let Err(refused) = meant::check(request.headers(), || (host.cluster_id(), host.node_id())) {
            return Box::pin(async { Ok(refused.into_http()) });
        }
        let kind = kind(request.uri().path());
        // A carried call is not carried again: this node refuses it, if it does not lead.
        if kind == Kind::Own || is_carried(request.headers()) || self.carrier.answers_itself() {
            return Box::pin(self.inner.call(request));
        }
        let clone = self.inner.clone();
        // The service that was polled must be the one that is called.
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let carrier = self.carrier.clone();
        Box::pin(async move {
            let (request, is_local) = match kind {
                Kind::Reading(listing) => match look(request, listing).await {
                    Ok(looked) => looked,
                    Err(status) => return Ok(status.into_http()),
                },
                _ => (request, false),
            };
            if is_local {
                return inner.call(request).await;
            }
            match carrier.leader().await {
                Ok(None) => inner.call(request).await,
                Ok(Some(leader)) => Ok(carrier.carry(request, kind, leader).await.unwrap_or_else(Status::into_http)),
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_leader_must_answer_is_carried() {
        assert_eq!(kind("/baton.v1.Locks/Session"), Kind::Session);
        assert_eq!(kind("/baton.v1.Locks/ForceRelease"), Kind::Change);
        for change in ["Add", "Promote", "Remove", "Update", "Transfer"] {
            assert_eq!(kind(&format!("/baton.v1.Members/{change}")), Kind::Change);
        }
        assert_eq!(kind("/baton.v1.Members/Backup"), Kind::Backup);
        assert_eq!(kind("/baton.v1.Locks/ListLocks"), Kind::Reading(Listing::Locks));
        assert_eq!(kind("/baton.v1.Locks/GetLock"), Kind::Reading(Listing::Lock));
        assert_eq!(kind("/baton.v1.Locks/ListSessions"), Kind::Reading(Listing::Sessions));
        for own in ["/baton.v1.Locks/GetStatus", "/baton.v1.Members/List", "/grpc.health.v1.Health/Check", "/", ""] {
            assert_eq!(kind(own), Kind::Own, "{own}");
        }
    }

    #[tokio::test]
    async fn a_reading_says_whether_it_is_local() {
        for local in [false, true] {
            let message = v1::ListLocksRequest { prefix: b"a".to_vec(), local, ..Default::default() }.encode_to_vec();
            let bytes = [&[0, 0, 0, 0, message.len() as u8], &message[..]].concat();
            let request = Request::new(Body::new(Full::from(bytes.clone())));
            let (request, found) = look(request, Listing::Locks).await.unwrap();
            assert_eq!(found, local);
            assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), bytes, "the call is as it was");
        }
    }

    #[test]
    fn a_node_says_for_which_client_it_carries() {
        let from = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (connection, calls) = (crate::frontend::ConnectionId(1), Arc::default());
        let address = Some(from("10.0.0.1:1"));
        let (link, proved) = (Arc::default(), Arc::default());
        let peer = Peer { connection, address, calls, link, proved, turned_away: None };
        let mut metadata = MetadataMap::new();
        assert_eq!(client_address(&metadata, &peer), Some(from("10.0.0.1:1")));
        metadata.insert(FROM, "10.0.0.2:2".parse().unwrap());
        assert_eq!(client_address(&metadata, &peer), Some(from("10.0.0.1:1")), "only for a carried call");
        metadata.insert(CARRIED, "1".parse().unwrap());
        assert_eq!(client_address(&metadata, &peer), Some(from("10.0.0.2:2")));
        metadata.insert(FROM, "nowhere".parse().unwrap());
        assert_eq!(client_address(&metadata, &peer), Some(from("10.0.0.1:1")));
    }
}
