//! The list of servers, and how the client connects to one of them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use baton_types::cluster_id::ClusterId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::error::ConnectError;
use crate::failures::{Failure, Failures};
use crate::known::Known;
use crate::pin::Pin;

const CONNECT_MAX: Duration = Duration::from_secs(3);
/// After this much silence on a connection the client sends an HTTP/2 ping. The server has the same time to answer it.
const PING_EVERY: Duration = Duration::from_secs(5);

const BACKOFF_MIN: Duration = Duration::from_millis(20);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long a server may take to send its first bytes, which show its protocol.
const FOREIGN_MAX: Duration = Duration::from_secs(1);
/// Upper limit for a time given by the user: a year is practically for ever, and `Instant` can still count that far.
const WITHIN_MAX: Duration = Duration::from_secs(365 * 86_400);

/// How often the client tries all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    One,
    /// Until the time limit, with growing pauses.
    Until,
}

/// All servers of one service. All sessions of a client share them, and what was learnt about them.
#[derive(Debug)]
pub(crate) struct Servers {
    known: Mutex<Known>,
    /// Whether the servers that the user named were asked for their clusters: see [`one_cluster`](crate::one_cluster).
    is_list_checked: AtomicBool,
}

impl Servers {
    pub(crate) fn parse<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let address = |address: I::Item| endpoint(address.as_ref()).map(|_| address.as_ref().to_owned());
        let addresses: Vec<String> = addresses.into_iter().map(address).collect::<Result<_, _>>()?;
        let known = Mutex::new(Known::new(addresses));
        if lock(&known).count() == 0 {
            Err(ConnectError::NoServers)
        } else {
            Ok(Servers { known, is_list_checked: AtomicBool::new(false) })
        }
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.known).count()
    }

    /// How many servers the user named. They come first.
    pub(crate) fn named(&self) -> usize {
        lock(&self.known).named()
    }

    pub(crate) fn is_list_checked(&self) -> bool {
        self.is_list_checked.load(Ordering::Relaxed)
    }

    pub(crate) fn list_is_checked(&self) {
        self.is_list_checked.store(true, Ordering::Relaxed);
    }

    /// The cluster to which all servers must belong, if that is known.
    pub(crate) fn pin(&self) -> Option<Pin> {
        lock(&self.known).pin().cloned()
    }

    pub(crate) fn pin_by_user(&self, cluster: ClusterId) {
        lock(&self.known).pin_by_user(cluster);
    }

    /// The server of this turn says that it belongs to this cluster. Fails if it must belong to another one: to that of
    /// the sessions before, or to that of the follower which has `named` it.
    pub(crate) fn belongs(&self, turn: usize, named: Option<&Pin>, cluster: Option<ClusterId>) -> Result<(), Failure> {
        lock(&self.known).belongs(turn, named, cluster, Instant::now()).map_err(Failure::Final)
    }

    /// Like [`belongs`](Servers::belongs), when the server opens a session.
    pub(crate) fn opened(&self, turn: usize, named: Option<&Pin>, cluster: Option<ClusterId>) -> Result<(), Failure> {
        lock(&self.known).opened(turn, named, cluster, Instant::now()).map_err(Failure::Final)
    }

    /// Records that the server of this turn failed. Returns the server to try next.
    pub(crate) fn after_failure(&self, turn: usize) -> usize {
        let (mut known, now) = (lock(&self.known), Instant::now());
        known.failed(turn, now);
        known.next(turn, now)
    }

    /// Where a new session should begin: at the leader, if the client has reached one.
    pub(crate) fn first(&self, turn: usize) -> usize {
        let known = lock(&self.known);
        known.leader().unwrap_or(known.server(turn))
    }

    /// Connects to the leader that a follower, the server of this turn, has named. Returns the connection and the
    /// number of the server. Returns none if the client is there already, cannot reach it, or could not lately.
    pub(crate) async fn connect_leader(
        &self,
        turn: usize,
        address: &str,
        within: Duration,
    ) -> Option<(Channel, usize)> {
        endpoint(address).ok()?;
        let server = lock(&self.known).learn(turn, address, Instant::now())?;
        match self.connect(server, within).await {
            Ok(channel) => {
                lock(&self.known).leads(server);
                Some((channel, server))
            }
            Err(_) => {
                lock(&self.known).unreachable(server, Instant::now());
                None
            }
        }
    }

    /// Connects to the server of this turn, modulo the number of servers.
    ///
    /// Each call resolves the server's name again, so that a server that moved is found: `Endpoint::connect` makes a
    /// new `HttpConnector`, which calls `getaddrinfo` before each connection and keeps no answer. For the same reason
    /// `Servers` must keep only the name: no `Channel` and no resolved address.
    pub(crate) async fn connect(&self, turn: usize, within: Duration) -> Result<Channel, Failure> {
        let within = within.min(CONNECT_MAX);
        let address = self.address(turn);
        let Ok(endpoint) = endpoint(&address) else {
            // The client checks each address before it puts the address into the list.
            return Err(Failure::Final(format!("{address} is not an address")));
        };
        match tokio::time::timeout(within, endpoint.connect()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) if !is_time_out(&error) => {
                let reason = format!("{address}: {}", root_cause(&error));
                Err(if never_works(&error) { Failure::Final(reason) } else { Failure::Passing(reason) })
            }
            Ok(Err(_)) | Err(_) => Err(Failure::Silent { accepts: false, within }),
        }
    }

    pub(crate) async fn explain(&self, turn: usize, status: &Status) -> Failure {
        match self.no_baton(turn, status).await {
            // A proxy answers like this while the server behind it is down.
            Some(reason) if is_http(status) && status.code() == Code::Unavailable => Failure::Passing(reason),
            Some(reason) => Failure::Final(reason),
            None if is_answer(status) => Failure::Passing(format!("{}: {}", self.address(turn), status.message())),
            None => Failure::Passing(format!("the connection to {} was closed", self.address(turn))),
        }
    }

    /// Why the server of this turn is not a Baton server, if the failed call or the server's first bytes show that.
    pub(crate) async fn no_baton(&self, turn: usize, status: &Status) -> Option<String> {
        let address = self.address(turn);
        if is_http(status) || is_broken(status) && self.is_foreign(turn).await {
            return Some(format!("{address} does not speak Baton's protocol (gRPC over HTTP/2)"));
        }
        let unknown = "does not know this call; it is another gRPC service, or another version of Baton";
        (status.code() == Code::Unimplemented).then(|| format!("{address} {unknown}"))
    }

    /// Whether the server of this turn speaks another protocol than HTTP/2. An HTTP/2 server begins with a SETTINGS
    /// frame. The failed call itself does not show the protocol, because it may have ended before the client read the
    /// first bytes.
    async fn is_foreign(&self, turn: usize) -> bool {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        const SETTINGS: u8 = 4;
        let first_bytes = async {
            let mut stream = TcpStream::connect(self.address(turn)).await?;
            stream.write_all(PREFACE).await?;
            // Length (3 bytes), kind, flags and stream of the first frame.
            let mut head = Vec::new();
            let read = stream.take(9).read_to_end(&mut head).await;
            // If the server closes the connection, the bytes before the end decide.
            read.or_else(|error| if head.is_empty() { Err(error) } else { Ok(head.len()) })?;
            io::Result::Ok(head)
        };
        match tokio::time::timeout(FOREIGN_MAX, first_bytes).await {
            Ok(Ok(head)) => !head.is_empty() && head.get(3) != Some(&SETTINGS),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// The address of the server of this turn, as the user or a follower wrote it.
    pub(crate) fn address(&self, turn: usize) -> String {
        lock(&self.known).address(turn).to_owned()
    }

    /// Connects to the first server that answers, starting with this turn. Returns the connection and the turn of its
    /// server. In each round every server gets an equal share of the remaining time. Adds each failure to `failures`.
    pub(crate) async fn connect_any(
        &self,
        turn: usize,
        rounds: Rounds,
        within: Duration,
        failures: &mut Failures,
    ) -> Result<(Channel, usize), ConnectError> {
        let until = Instant::now() + within.min(WITHIN_MAX);
        for round in 1.. {
            let count = self.count();
            let share = left(until) / u32::try_from(count).unwrap_or(u32::MAX);
            for turn in turn..turn + count {
                match self.connect(turn, share).await {
                    Ok(channel) => return Ok((channel, turn)),
                    Err(failure) => failures.note(self, turn, failure),
                }
            }
            let left = left(until);
            if failures.is_hopeless(self, rounds) || left < BACKOFF_MIN {
                break;
            }
            // Sleep at most half of the remaining time, so that one more attempt follows before the end.
            tokio::time::sleep(pause(round, BACKOFF_MAX).min(left / 2)).await;
        }
        Err(ConnectError::NoServer { reasons: failures.reasons(self) })
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    // No code panics while it holds this lock. If it ever did, the list would still be usable.
    known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The pause after this many failures in a row. The pause doubles up to `longest` and is random (50 to 100 percent), so
/// that many clients do not connect at the same moment.
pub(crate) fn pause(failures: u32, longest: Duration) -> Duration {
    let pause = (BACKOFF_MIN * (1 << failures.saturating_sub(1).min(10))).min(longest).max(BACKOFF_MIN);
    pause.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}

/// Whether another attempt would fail for the same reason: the name does not exist, or the address cannot be used.
fn never_works(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{AddrNotAvailable, InvalidInput, PermissionDenied, Unsupported};
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let Some(error) = causes.find_map(|error| error.downcast_ref::<io::Error>()) else { return false };
    let message = error.to_string();
    // The C library reports this when no name server answered. A later attempt may succeed.
    let passes = message.contains("Temporary failure") || message.contains("Try again");
    let is_unknown = message.starts_with("failed to lookup address") && !passes;
    is_unknown || matches!(error.kind(), AddrNotAvailable | InvalidInput | PermissionDenied | Unsupported)
}

fn endpoint(address: &str) -> Result<Endpoint, ConnectError> {
    let invalid = || ConnectError::InvalidAddress { address: address.to_owned() };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| invalid())?;
    let uri = endpoint.uri();
    // Accept only a host and a port. The client would ignore any other part of an address.
    let is_plain = uri.authority().is_some_and(|authority| authority.as_str() == address)
        && uri.port_u16().is_some_and(|port| port > 0);
    if !is_plain || uri.host().is_none_or(str::is_empty) || address.contains('@') {
        return Err(invalid());
    }
    let endpoint = endpoint.connect_timeout(CONNECT_MAX).tcp_nodelay(true);
    Ok(endpoint.http2_keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_EVERY).keep_alive_while_idle(true))
}

/// Whether a Baton server sent this status.
pub(crate) fn is_answer(status: &Status) -> bool {
    !is_broken(status) && !is_http(status) && status.code() != Code::Unimplemented
}

/// Whether the connection broke. Only a status that the gRPC library makes itself has a source.
fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// Whether the answer was HTTP but not gRPC. The text is the gRPC library's.
fn is_http(status: &Status) -> bool {
    status.message().starts_with("grpc-status header missing")
}

fn is_time_out(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|error| error.is::<tokio::time::error::Elapsed>())
}

/// The deepest cause. The outer error says only "transport error", which does not help the user.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7420", "[::1]:7420", "locks.example:1"] {
            assert_eq!(Servers::parse([good]).unwrap().address(0), good);
        }
        for bad in
            ["", "localhost", ":7420", "host:port", "host:99999", "host:0", "http://host:1", "host:1/path", "a@host:1"]
        {
            let error = Servers::parse([bad]).unwrap_err();
            assert_eq!(error, ConnectError::InvalidAddress { address: bad.to_owned() });
        }
        let told = |address| Servers::parse([address]).unwrap_err().to_string();
        assert!(told("::1:25581").ends_with("an IPv6 address stands in brackets, such as [::1]:7420"));
        assert!(told("localhost").ends_with("it must be host:port, such as 127.0.0.1:7420"));
        assert_eq!(Servers::parse(Vec::<String>::new()).unwrap_err(), ConnectError::NoServers);
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_server_that_comes_later_is_found_while_there_is_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let servers = Servers::parse([address.to_string()]).unwrap();
        let refused = servers.connect_any(0, Rounds::One, LONG, &mut Failures::default()).await.unwrap_err();
        assert!(matches!(&refused, ConnectError::NoServer { reasons } if reasons.contains("refused")), "{refused}");
        let refused = servers.connect_any(0, Rounds::Until, SHORT, &mut Failures::default()).await.unwrap_err();
        assert!(matches!(&refused, ConnectError::NoServer { reasons } if reasons.contains("refused")), "{refused}");
        let connects =
            tokio::spawn(async move { servers.connect_any(0, Rounds::Until, LONG, &mut Failures::default()).await });
        let _listener = tokio::net::TcpListener::bind(address).await.unwrap();
        connects.await.unwrap().unwrap();
    }

    #[test]
    fn an_address_that_can_never_work_is_told_from_a_server_that_is_away() {
        let lookup = |detail: &str| io::Error::other(format!("failed to lookup address information: {detail}"));
        assert!(never_works(&lookup("Name or service not known")));
        assert!(!never_works(&lookup("Temporary failure in name resolution")));
        assert!(never_works(&io::Error::from(io::ErrorKind::AddrNotAvailable)));
        let away = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NetworkUnreachable, io::ErrorKind::TimedOut];
        assert!(away.into_iter().all(|kind| !never_works(&io::Error::from(kind))));
    }

    #[test]
    fn pauses_grow_and_differ() {
        let longest = |failures| (0..100).map(|_| pause(failures, BACKOFF_MAX)).max().unwrap();
        assert!(longest(1) <= Duration::from_millis(20) && longest(5) > longest(1) && longest(99) <= BACKOFF_MAX);
        assert!((0..100).any(|_| pause(9, BACKOFF_MAX) != pause(9, BACKOFF_MAX)));
    }
}
