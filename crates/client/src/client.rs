//! The way to the service: sessions, and calls that look at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_types::limits::OPEN_MAX;
use baton_types::views;
use tokio::sync::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::acquire::Acquire;
use crate::error::{CallError, ConnectError, call_refused, check_name};
use crate::failures::{Failure, Failures};
use crate::handle::SessionBuilder;
use crate::listing::{ListLocks, join};
use crate::servers::{Rounds, Servers, is_answer};

/// How long a call may take.
const CALL_MAX: Duration = Duration::from_secs(10);
/// How large an answer may be: the holders of a lock with a million permits, from whom it is taken. (tonic's own limit is
/// 4 MiB, which a page of a listing never reaches.)
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Somebody who knows the servers.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Arc<Servers>,
    /// To the server that answered last, and whose turn that was.
    channel: Arc<Mutex<Option<(Channel, usize)>>>,
    /// The turn of the connected server; after a server failed, the turn of the next one.
    turn: Arc<AtomicUsize>,
}

impl Client {
    /// Connects to the first of these servers that answers, each named `host:port`. Sessions use any of them.
    ///
    /// While no server answers, all of them are tried again, for 10 seconds: a server may be about to start. The pauses grow
    /// from 20 ms to 1 s. An address that can never work, such as a host that does not exist, is an error at once.
    pub async fn connect<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Client::connect_within(addresses, OPEN_MAX).await
    }

    /// Like [`connect`](Client::connect), but tries for this long.
    pub async fn connect_within<I>(addresses: I, within: Duration) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Client::connect_to(Servers::parse(addresses)?, Rounds::Until, within).await
    }

    /// Tries each server once. Each has an equal share of this time, at most 3 seconds.
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

    /// Connects to nothing yet: each session does that by itself, and the first call does it for the others. The only
    /// errors are an empty list and an address that is not host:port.
    pub fn lazy<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Ok(Client { servers: Arc::new(Servers::parse(addresses)?), channel: Arc::default(), turn: Arc::default() })
    }

    /// A session, to be opened. The first server that it asks is the one that this client is connected to.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(Arc::clone(&self.servers), self.turn.load(Ordering::Relaxed))
    }

    /// A lock, to be acquired in a session of its own: for a program that needs one lock and nothing else. The session is
    /// closed when the guard is released or dropped. Who needs several locks opens a [session](Client::session) for all
    /// of them, which costs the server as much as one.
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

    /// A listing of locks, to be asked for: by prefix, with or without history, at once or page by page.
    pub fn locks(&self) -> ListLocks {
        ListLocks::new(self.clone())
    }

    /// All locks that are held, waited for, closed or remembered, with their history.
    pub async fn list_locks(&self) -> Result<Vec<views::Lock>, CallError> {
        self.locks().history(true).all(true).collect().await
    }

    pub(crate) async fn locks_page(&self, request: &v1::ListLocksRequest) -> Result<v1::ListLocksResponse, CallError> {
        self.look(async |mut locks: LocksClient<Channel>| locks.list_locks(timely(request.clone())).await).await
    }

    /// One lock, with its history; none if nobody holds it, waits for it, or is remembered to have held it.
    pub async fn get_lock(&self, name: impl AsRef<[u8]>) -> Result<Option<views::Lock>, CallError> {
        check_name(name.as_ref())?;
        let mut request = v1::GetLockRequest { name: name.as_ref().to_vec(), page: Vec::new() };
        let mut whole = Vec::new();
        loop {
            let call = async |mut locks: LocksClient<Channel>| locks.get_lock(timely(request.clone())).await;
            let v1::GetLockResponse { lock, next_page } = self.look(call).await?;
            join(&mut whole, lock);
            if next_page.is_empty() {
                return Ok(whole.pop().map(views::Lock::from));
            }
            request.page = next_page;
        }
    }

    /// All sessions.
    pub async fn list_sessions(&self) -> Result<Vec<views::Session>, CallError> {
        let mut request = v1::ListSessionsRequest::default();
        let mut whole = Vec::new();
        loop {
            let call = async |mut locks: LocksClient<Channel>| locks.list_sessions(timely(request.clone())).await;
            let v1::ListSessionsResponse { sessions, next_page } = self.look(call).await?;
            join(&mut whole, sessions);
            if next_page.is_empty() {
                return Ok(whole.into_iter().map(views::Session::from).collect());
            }
            request.page = next_page;
        }
    }

    /// How the server is.
    pub async fn status(&self) -> Result<views::Status, CallError> {
        let call = async |mut locks: LocksClient<Channel>| locks.get_status(timely(v1::GetStatusRequest {})).await;
        Ok(self.look(call).await?.into())
    }

    /// Tells the holders of a lock to stop and give it back; with `now` it is taken from them at once, although they may still
    /// be at work. Says who was told.
    ///
    /// It is never repeated by itself: a second one could hit those who come after.
    pub async fn force_release(&self, name: impl AsRef<[u8]>, now: bool) -> Result<Vec<views::Holder>, CallError> {
        check_name(name.as_ref())?;
        let request = v1::ForceReleaseRequest { name: name.as_ref().to_vec(), now };
        let (channel, turn) = self.channel(&mut Failures::default()).await?;
        match calls(channel).force_release(timely(request)).await {
            Ok(response) => Ok(response.into_inner().holders.into_iter().map(views::Holder::from).collect()),
            Err(status) => {
                // The server does not know what became of it.
                if is_answer(&status) && status.code() == Code::Aborted {
                    return Err(CallError::Unanswered);
                }
                if is_answer(&status) && !is_unavailable(&status) {
                    return Err(call_refused(&status));
                }
                self.forget_channel().await;
                match self.servers.no_baton(turn, &status).await {
                    Some(reasons) => Err(ConnectError::NoServer { reasons }.into()),
                    None if is_answer(&status) && status.code() == Code::Unavailable => Err(call_refused(&status)),
                    // The deadline is our own; and the server may have heard it before the connection broke.
                    None => Err(CallError::Unanswered),
                }
            }
        }
    }

    /// A call that changes nothing, and is therefore repeated: with each server in turn, and once more.
    async fn look<T>(
        &self,
        call: impl AsyncFn(LocksClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let tries = self.servers.count() + 1;
        let patience = CALL_MAX / u32::try_from(tries).unwrap_or(u32::MAX);
        let (mut failures, mut refused) = (Failures::default(), None);
        for _ in 0..tries {
            let (channel, turn) = self.channel(&mut failures).await?;
            refused = None;
            match tokio::time::timeout(patience, call(calls(channel))).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
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
        }
        let reasons = failures.reasons(&self.servers);
        Err(refused.unwrap_or(CallError::Connect(ConnectError::NoServer { reasons })))
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

    async fn forget_channel(&self) {
        *self.channel.lock().await = None;
        self.turn.fetch_add(1, Ordering::Relaxed);
    }
}

fn calls(channel: Channel) -> LocksClient<Channel> {
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
