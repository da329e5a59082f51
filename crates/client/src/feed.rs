//! Follows the feed of changes.

use baton_api::convert::{told_from_wire, watch_to_wire};
use baton_api::v1;
use baton_api::v1::feed_client::FeedClient;
use baton_types::events::{Event, Kind, Kinds, Listing, Position, Start, Told, Watch};
use tonic::{Code, Status, Streaming};

use crate::client::Client;
use crate::error::{CallError, CallRefusal, ConnectError, call_refused};
use crate::servers::{BACKOFF_MAX, pause};

/// How to follow the changes: which, and from where on.
///
/// ```no_run
/// # async fn example(client: &baton_client::Client) -> Result<(), baton_client::CallError> {
/// use baton_client::Heard;
///
/// let mut changes = client.changes().prefix("reports/").follow().await?;
/// while let Some(heard) = changes.next().await? {
///     if let Heard::Event(event) = heard {
///         println!("{} {}", event.position, event.kind);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "the changes are followed by `follow`"]
#[derive(Clone, Debug)]
pub struct FollowChanges {
    client: Client,
    watch: Watch,
}

impl FollowChanges {
    pub(crate) fn new(client: Client) -> Self {
        FollowChanges { client, watch: Watch::default() }
    }

    /// Only changes of these kinds. Without any: all kinds.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = Kind>) -> Self {
        self.watch.kinds = Kinds::of(kinds);
        self
    }

    /// Only changes that name a lock whose name begins with this prefix.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.watch.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Where to begin. Default: with what changes from now on.
    pub fn start(mut self, start: Start) -> Self {
        self.watch.start = start;
        self
    }

    /// Whether the changes end after what the server has at the beginning. Default: false.
    pub fn end_at_the_end(mut self, is_over_at_end: bool) -> Self {
        self.watch.is_over_at_end = is_over_at_end;
        self
    }

    /// Begins.
    pub async fn follow(self) -> Result<Changes, CallError> {
        let mut changes = Changes {
            client: self.client,
            watch: self.watch,
            stream: None,
            heard: Vec::new(),
            listing: Listing::default(),
            is_over: false,
            failures: 0,
        };
        changes.stream = Some(changes.open().await?);
        Ok(changes)
    }
}

/// What comes from the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Event(Box<Event>),
    /// What is there, at one moment. The changes after it follow.
    Listing(Box<Listing>),
    /// The position to begin at is not kept any more, or is of another cluster. A listing follows.
    Gone {
        oldest: Position,
    },
    /// The reader was too slow. It goes on by itself; if changes are lost to it, it hears that they are gone.
    TooSlow,
    /// The server is lost, for this reason. The reader looks for one by itself.
    Lost {
        why: String,
    },
    /// The reader goes on, at this server.
    Back {
        server: String,
    },
}

/// The changes. When a connection breaks, they go on where they were, at any server. Each change comes once, in order.
#[derive(Debug)]
pub struct Changes {
    client: Client,
    /// With the position to go on from.
    watch: Watch,
    stream: Option<Streaming<v1::WatchResponse>>,
    /// What is heard already, the last one first.
    heard: Vec<Heard>,
    /// The parts of a listing so far.
    listing: Listing,
    is_over: bool,
    /// Attempts to go on since the server last told something.
    failures: u32,
}

impl Changes {
    /// What comes next. None at the end, if one was asked for.
    pub async fn next(&mut self) -> Result<Option<Heard>, CallError> {
        loop {
            if let Some(heard) = self.heard.pop() {
                return Ok(Some(heard));
            }
            if self.is_over {
                return Ok(None);
            }
            let Some(stream) = &mut self.stream else {
                self.go_on().await?;
                continue;
            };
            match stream.message().await {
                Ok(Some(response)) => self.hear(response),
                Ok(None) if self.watch.is_over_at_end => self.is_over = true,
                Ok(None) => self.lose("the server has ended the reading".to_owned()).await,
                // It has told before where to go on.
                Err(status) if status.code() == Code::ResourceExhausted => self.stream = None,
                Err(status) => self.lose(reason(&status)).await,
            }
        }
    }

    /// The position to go on from; none before the server has told one.
    pub fn position(&self) -> Option<Position> {
        match self.watch.start {
            Start::Position(position) => Some(position),
            Start::Now | Start::Listing | Start::Oldest => None,
        }
    }

    /// The server that tells the changes.
    pub fn server(&self) -> String {
        self.client.current_server()
    }

    async fn open(&self) -> Result<Streaming<v1::WatchResponse>, CallError> {
        let request = watch_to_wire(&self.watch);
        let call = |channel| {
            let request = request.clone();
            async move { FeedClient::new(channel).watch(request).await }
        };
        self.client.look(call).await
    }

    /// Opens the reading again, at any server.
    async fn go_on(&mut self) -> Result<(), CallError> {
        if self.failures > 0 {
            tokio::time::sleep(pause(self.failures, BACKOFF_MAX)).await;
        }
        self.failures = self.failures.saturating_add(1);
        match self.open().await {
            Ok(stream) => {
                self.stream = Some(stream);
                // A listing begins anew.
                self.listing = Listing::default();
                self.heard.push(Heard::Back { server: self.client.current_server() });
                Ok(())
            }
            // The server may not have applied yet what another one has told.
            Err(CallError::Refused { kind: CallRefusal::NotYet, message }) => {
                match self.failures {
                    1 => self.lose(message).await,
                    _ => self.client.forget_channel().await,
                }
                Ok(())
            }
            Err(
                CallError::Connect(ConnectError::NoServer { .. })
                | CallError::Refused { kind: CallRefusal::Unavailable, .. },
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn lose(&mut self, why: String) {
        self.stream = None;
        let server = self.client.current_server();
        self.client.forget_channel().await;
        self.heard.push(Heard::Lost { why: format!("{server}: {why}") });
    }

    fn hear(&mut self, response: v1::WatchResponse) {
        self.failures = 0;
        match told_from_wire(response) {
            Some(Told::Events { events, next }) => {
                self.watch.start = Start::Position(next);
                self.heard.extend(events.into_iter().rev().map(|event| Heard::Event(Box::new(event))));
            }
            Some(Told::Listing(part)) => {
                if let Some(next) = self.add(part) {
                    self.watch.start = Start::Position(next);
                    self.heard.push(Heard::Listing(Box::new(std::mem::take(&mut self.listing))));
                }
            }
            Some(Told::Gone { oldest }) => {
                // If the connection breaks now, the reader needs a listing all the same.
                self.watch.start = Start::Listing;
                self.heard.push(Heard::Gone { oldest });
            }
            Some(Told::TooSlow { next }) => {
                self.watch.start = Start::Position(next);
                self.stream = None;
                self.heard.push(Heard::TooSlow);
            }
            None => {}
        }
    }

    /// Adds a part to the listing. Returns where to go on, with the last part.
    fn add(&mut self, part: Listing) -> Option<Position> {
        let whole = &mut self.listing;
        for lock in part.locks {
            match whole.locks.last_mut().filter(|last| last.name == lock.name) {
                Some(last) => {
                    last.holders.extend(lock.holders);
                    last.waiters.extend(lock.waiters);
                }
                None => whole.locks.push(lock),
            }
        }
        for session in part.sessions {
            match whole.sessions.last_mut().filter(|last| last.id == session.id) {
                Some(last) => {
                    last.holds.extend(session.holds);
                    last.waits.extend(session.waits);
                }
                None => whole.sessions.push(session),
            }
        }
        whole.members.extend(part.members);
        whole.leader = part.leader.or(whole.leader.take());
        whole.next = part.next;
        part.next
    }
}

fn reason(status: &Status) -> String {
    match call_refused(status) {
        CallError::Refused { message, .. } if std::error::Error::source(status).is_none() => message,
        _ => "the connection broke".to_owned(),
    }
}
