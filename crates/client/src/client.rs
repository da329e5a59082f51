//! [`Client`]: opens sessions, lists locks and sessions, and forces releases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_types::cluster_id::{CLUSTER_HEADER, ClusterId};
use baton_types::limits::OPEN_MAX;
use baton_types::views;
use tokio::sync::Mutex;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::acquire::Acquire;
use crate::error::{CallError, CloseError, ConnectError, call_refused, check_name};
use crate::failures::{Failure, Failures};
use crate::feed::FollowChanges;
use crate::handle::{SessionBuilder, SessionKey, close_session};
use crate::listing::{Age, ListLocks, Local, join};
use crate::one_cluster;
use crate::servers::{BACKOFF_MAX, Rounds, Servers, is_answer, left, pause};

const CALL_MAX: Duration = Duration::from_secs(10);
/// How long the client repeats a call that every server answers with "not now".
pub(crate) const UNAVAILABLE_MAX: Duration = Duration::from_secs(5);
/// Size limit for one answer. The largest answer lists the holders of a lock with a million permits after a forced
/// release. (A page of a listing stays below tonic's default of 4 MiB.)
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// A client of the lock service, made from the addresses of its servers. Clones share the connection for calls;
/// each session has its own connection.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Arc<Servers>,
    /// The connection to the server that answered last, and the turn of that server.
    channel: Arc<Mutex<Option<(Channel, usize)>>>,
    /// The turn of the connected server; after a server failed, the turn of the next one.
    turn: Arc<AtomicUsize>,
}

impl Client {
    /// Connects to the first server that answers. Each address is `host:port`. A session may use any of the servers.
    ///
    /// While no server answers, the client tries all of them again for 10 seconds, because a server may be about to
    /// start. The pauses between the rounds grow from 20 ms to 1 s. Returns an error at once if no address can ever
    /// work, for example if the host names do not exist.
    pub async fn connect<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Client::connect_within(addresses, OPEN_MAX).await
    }

    /// Like [`connect`](Client::connect), but with this time limit.
    pub async fn connect_within<I>(addresses: I, within: Duration) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Client::connect_to(Servers::parse(addresses)?, Rounds::Until, within).await
    }

    /// Tries each server once. Each server has an equal share of this time, at most 3 seconds.
    pub async fn connect_once<I>(addresses: I, within: Duration) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Client::connect_to(Servers::parse(addresses)?, Rounds::One, within).await
    }

    async fn connect_to(servers: Servers, rounds: Rounds, within: Duration) -> Result<Self, ConnectError> {
        let servers = Arc::new(servers);
        let (channel, turn) = servers.connect_any(0, rounds, within, &mut Failures::default()).await?;
        let (channel, turn) = (Arc::new(Mutex::new(Some((channel, turn)))), Arc::new(AtomicUsize::new(turn)));
        Ok(Client { servers, channel, turn })
    }

    /// Makes a client without connecting. Each session connects by itself, and the first call (such as
    /// [`status`](Client::status)) connects for all calls. Returns an error if the list is empty or an address is not
    /// host:port.
    pub fn lazy<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Ok(Client { servers: Arc::new(Servers::parse(addresses)?), channel: Arc::default(), turn: Arc::default() })
    }

    /// The servers must belong to this cluster. The client refuses any other server, also one that it reaches for the
    /// first time. Without this call it takes the cluster of the first server that opens a session, and stays there.
    pub fn of_cluster(self, cluster: ClusterId) -> Self {
        self.servers.pin_by_user(cluster);
        self
    }

    /// The cluster that this client talks to. None before a session was open, and if the server is older than such ids.
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.servers.pin().map(|pin| pin.cluster)
    }

    /// Returns a builder for a session. The session tries this client's current server first.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(Arc::clone(&self.servers), self.turn.load(Ordering::Relaxed))
    }

    /// Closes a session that no [`Session`](crate::Session) keeps alive any more: it is lost, or its process is gone. The
    /// server then releases its locks and takes its requests out of the queues, although its lease has not ended. Tries
    /// until a server confirms the end, however long that takes; drop the future to stop. Returns an error if a server
    /// refuses.
    pub async fn close_session(&self, key: &SessionKey) -> Result<(), CloseError> {
        close_session(Arc::clone(&self.servers), self.turn.load(Ordering::Relaxed), key).await
    }

    /// Returns a builder for a lock in a session of its own, for a program that needs a single lock. The session is
    /// closed when the guard is released or dropped. For several locks open one [session](Client::session): it costs
    /// the server no more than the session of one lock.
    ///
    /// ```no_run
    /// # async fn example(client: baton_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = client.lock("nightly").label("nightly report").acquire().await?;
    /// guard.run(async { /* ... */ }).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Acquire<SessionBuilder> {
        Acquire::new(self.session(), name.as_ref())
    }

    /// Returns a builder for a listing of locks: with a prefix, with or without history, all at once or page by page.
    pub fn locks(&self) -> ListLocks {
        ListLocks::new(self.clone())
    }

    /// Returns a builder for the feed of changes: what happens from now on, or from an earlier position on.
    pub fn changes(&self) -> FollowChanges {
        FollowChanges::new(self.clone())
    }

    /// The address of the server that answers the calls.
    pub(crate) fn current_server(&self) -> String {
        self.servers.address(self.turn.load(Ordering::Relaxed))
    }

    /// Lists all locks with their history: held, waited for, closed, and free ones that the service still remembers.
    pub async fn list_locks(&self) -> Result<Vec<views::Lock>, CallError> {
        self.locks().history(true).all(true).collect().await
    }

    pub(crate) async fn locks_page(&self, request: &v1::ListLocksRequest) -> Result<v1::ListLocksResponse, CallError> {
        let call = |channel| {
            let request = timely(request.clone());
            async move { calls(channel).list_locks(request).await }
        };
        self.look(call).await
    }

    /// Returns one lock with its history. Returns `None` if no session holds the lock or waits for it, and the service
    /// remembers no holder.
    pub async fn get_lock(&self, name: impl AsRef<[u8]>) -> Result<Option<views::Lock>, CallError> {
        Ok(self.read_lock(name.as_ref(), false).await?.value)
    }

    /// Like [`get_lock`](Client::get_lock), but shows what the answering server has applied, without asking the others
    /// whether that is current. Works without a leader, too.
    pub async fn get_lock_locally(&self, name: impl AsRef<[u8]>) -> Result<Local<Option<views::Lock>>, CallError> {
        self.read_lock(name.as_ref(), true).await
    }

    async fn read_lock(&self, name: &[u8], local: bool) -> Result<Local<Option<views::Lock>>, CallError> {
        check_name(name)?;
        let mut request = v1::GetLockRequest { name: name.to_vec(), page: Vec::new(), local };
        let (mut whole, mut age) = (Vec::new(), Age::default());
        loop {
            let call = |channel| {
                let request = timely(request.clone());
                async move { calls(channel).get_lock(request).await }
            };
            let v1::GetLockResponse { lock, next_page, age_ms } = self.look(call).await?;
            join(&mut whole, lock);
            age.add(age_ms);
            if next_page.is_empty() {
                return Ok(Local { value: whole.pop().map(views::Lock::from), age: age.get() });
            }
            request.page = next_page;
        }
    }

    /// Lists all sessions.
    pub async fn list_sessions(&self) -> Result<Vec<views::Session>, CallError> {
        Ok(self.read_sessions(false).await?.value)
    }

    /// Like [`list_sessions`](Client::list_sessions), but shows what the answering server has applied, without asking
    /// the others whether that is current. Works without a leader, too.
    pub async fn list_sessions_locally(&self) -> Result<Local<Vec<views::Session>>, CallError> {
        self.read_sessions(true).await
    }

    async fn read_sessions(&self, local: bool) -> Result<Local<Vec<views::Session>>, CallError> {
        let mut request = v1::ListSessionsRequest { page: Vec::new(), local };
        let (mut whole, mut age) = (Vec::new(), Age::default());
        loop {
            let call = |channel| {
                let request = timely(request.clone());
                async move { calls(channel).list_sessions(request).await }
            };
            let v1::ListSessionsResponse { sessions, next_page, age_ms } = self.look(call).await?;
            join(&mut whole, sessions);
            age.add(age_ms);
            if next_page.is_empty() {
                let value = whole.into_iter().map(views::Session::from).collect();
                return Ok(Local { value, age: age.get() });
            }
            request.page = next_page;
        }
    }

    /// Returns the state of the server that answers.
    pub async fn status(&self) -> Result<views::Status, CallError> {
        let call =
            |channel| async move { calls(channel).get_status(timely(v1::GetStatusRequest { own: false })).await };
        Ok(self.look(call).await?.into())
    }

    /// Forces the release of a lock. Without `now` the server tells the holders to stop and to release the lock. With
    /// `now` the server takes the lock from the holders at once, although they may still be working. Returns the
    /// holders.
    ///
    /// The client never repeats this call by itself: a second call could hit the next holders. If the answer is lost,
    /// the error is [`CallError::Unanswered`].
    pub async fn force_release(&self, name: impl AsRef<[u8]>, now: bool) -> Result<Vec<views::Holder>, CallError> {
        check_name(name.as_ref())?;
        let request = v1::ForceReleaseRequest { name: name.as_ref().to_vec(), now };
        let call = |channel| {
            let request = timely(request.clone());
            async move { calls(channel).force_release(request).await }
        };
        match self.change(Duration::ZERO, call).await {
            Ok(response) => Ok(response.holders.into_iter().map(views::Holder::from).collect()),
            Err(CallError::Unsettled { .. }) => Err(CallError::Unanswered),
            Err(error) => Err(error),
        }
    }

    /// Makes a call that changes something. The client repeats it only if a server answers that it cannot do it now:
    /// then nothing was changed. `patience` limits these repetitions.
    pub(crate) async fn change<T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        patience: Duration,
        call: impl Fn(Calls) -> F,
    ) -> Result<T, CallError> {
        let until = Instant::now() + patience;
        let mut failures = Failures::default();
        for round in 1.. {
            let (channel, turn) = self.channel(&mut failures).await?;
            let one_cluster = one_cluster::check(&self.servers, turn, &channel, CALL_MAX).await;
            one_cluster.map_err(|reasons| ConnectError::NoServer { reasons })?;
            let status = match call(self.meant(channel)).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => status,
            };
            // Another cluster has changed nothing. Another server may be one of the right cluster.
            if let Some(failure) = self.other_cluster(turn, &status) {
                failures.note(&self.servers, turn, failure);
                self.forget_channel().await;
                if failures.is_hopeless(&self.servers, Rounds::One) {
                    return Err(ConnectError::NoServer { reasons: failures.reasons(&self.servers) }.into());
                }
                continue;
            }
            // The server itself does not know whether the change was made.
            if is_answer(&status) && status.code() == Code::Aborted {
                return Err(CallError::Unsettled { message: status.message().to_owned() });
            }
            if is_answer(&status) && !is_unavailable(&status) {
                return Err(call_refused(&status));
            }
            self.forget_channel().await;
            if let Some(reasons) = self.servers.no_baton(turn, &status).await {
                return Err(ConnectError::NoServer { reasons }.into());
            }
            if !is_answer(&status) || status.code() != Code::Unavailable {
                // The time limit is the client's own, or the connection broke. In both cases the server may have
                // received the call.
                return Err(CallError::Unanswered);
            }
            if left(until).is_zero() {
                return Err(call_refused(&status));
            }
            self.pause(round, until).await;
        }
        Err(CallError::Unanswered)
    }

    /// A pause after so many servers have answered that they cannot do it now. It is shorter if it would end after
    /// `until`.
    async fn pause(&self, round: u32, until: Instant) {
        let rounds = round.div_ceil(u32::try_from(self.servers.count()).unwrap_or(u32::MAX));
        tokio::time::sleep(pause(rounds, BACKOFF_MAX).min(left(until))).await;
    }

    // A plain function, not an async closure: the future of a call could not be sent to another thread.
    /// Makes a call that changes nothing and is therefore safe to repeat. There is one attempt more than servers. If a
    /// server answers that it cannot do it now, the client goes on trying for [`UNAVAILABLE_MAX`]: a cluster may be
    /// about to elect a leader.
    pub(crate) async fn look<T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        call: impl Fn(Calls) -> F,
    ) -> Result<T, CallError> {
        let tries = u32::try_from(self.servers.count()).unwrap_or(u32::MAX).saturating_add(1);
        let (patience, until) = (CALL_MAX / tries, Instant::now() + UNAVAILABLE_MAX);
        let (mut failures, mut refused) = (Failures::default(), None);
        for round in 1.. {
            let (channel, turn) = self.channel(&mut failures).await?;
            match tokio::time::timeout(patience, call(self.meant(channel))).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) if let Some(failure) = self.other_cluster(turn, &status) => {
                    failures.note(&self.servers, turn, failure);
                }
                Ok(Err(status)) if !is_answer(&status) => {
                    failures.note(&self.servers, turn, self.servers.explain(turn, &status).await);
                }
                Ok(Err(status)) if !is_unavailable(&status) => return Err(call_refused(&status)),
                Ok(Err(status)) if status.code() == Code::Unavailable => refused = Some(call_refused(&status)),
                Ok(Err(_)) | Err(_) => {
                    failures.note(&self.servers, turn, Failure::Silent { accepts: true, within: patience });
                }
            }
            self.forget_channel().await;
            if round >= tries {
                if refused.is_none() || left(until).is_zero() {
                    break;
                }
                self.pause(round - tries + 1, until).await;
            }
        }
        let reasons = failures.reasons(&self.servers);
        Err(refused.unwrap_or(CallError::Connect(ConnectError::NoServer { reasons })))
    }

    /// Names the cluster of this client in each call on the connection.
    fn meant(&self, channel: Channel) -> Calls {
        InterceptedService::new(channel, Meant(self.cluster_id()))
    }

    /// The failure of the server of this turn, if it refused a call because it belongs to another cluster.
    fn other_cluster(&self, turn: usize, status: &Status) -> Option<Failure> {
        let own = status.metadata().get(CLUSTER_HEADER)?.to_str().ok()?.parse().ok();
        let refused = status.code() == Code::FailedPrecondition;
        refused.then(|| self.servers.belongs(turn, None, own).err()).flatten()
    }

    async fn channel(&self, failures: &mut Failures) -> Result<(Channel, usize), ConnectError> {
        let mut channel = self.channel.lock().await;
        if let Some(channel) = &*channel {
            return Ok(channel.clone());
        }
        let turn = self.turn.load(Ordering::Relaxed);
        let connected = self.servers.connect_any(turn, Rounds::One, CALL_MAX, failures).await?;
        self.turn.store(connected.1, Ordering::Relaxed);
        Ok(channel.insert(connected).clone())
    }

    pub(crate) async fn forget_channel(&self) {
        *self.channel.lock().await = None;
        self.turn.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection for calls, each of which names the cluster of the client.
pub(crate) type Calls = InterceptedService<Channel, Meant>;

/// The cluster that a call is meant for, if the client knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meant(Option<ClusterId>);

impl Interceptor for Meant {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(text) = self.0.and_then(|cluster| cluster.to_string().parse().ok()) {
            request.metadata_mut().insert(CLUSTER_HEADER, text);
        }
        Ok(request)
    }
}

fn calls(channel: Calls) -> LocksClient<Calls> {
    LocksClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}

fn is_unavailable(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}

fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_MAX);
    request
}
