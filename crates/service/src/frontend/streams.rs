//! The streams: each carries one session.

use std::collections::VecDeque;

use baton_types::frames::{EndReason, Malformed, Operation, Part, Refusal, Request, ToClient, ToServer};

use super::{Closing, ConnectionId, Frontend, Output, StreamId, UnderWay, words};
use crate::leases::KeepAlive;
use crate::state::{Caller, Command, RequestNumber, SessionId, State, locks};

/// How long a stream may take to say whose it is.
pub const OPEN_WITHIN_MS: u64 = 10_000;

/// The most requests of one stream that may be on their way to the state. The front end parks further requests of the stream, so that a
/// client that pipelines delays only itself.
pub const WINDOW: usize = 64;

/// Requests of a stream that wait take so much memory, about. Then nothing more is read from it, keep-alives included.
pub const PARKED_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Stream {
    connection: ConnectionId,
    pub caller: Caller,
    pub phase: Phase,
    /// Requests on their way to the state.
    under_way: usize,
    /// Requests that wait for a place in the window, in order, and what they take.
    pub parked: VecDeque<Request>,
    parked_bytes: usize,
    /// Too much is parked: nothing is read until half of it is gone.
    is_paused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has to say whose it is by then.
    Silent { until_ms: u64 },
    /// Its Open is on the way to the state.
    Opening,
    /// It carries this session. It is heard once the session was told that it is open.
    Attached { session: SessionId, is_told: bool },
}

/// What is known here of a session, beside its lease.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// The stream that carries it.
    pub stream: Option<StreamId>,
    /// The highest attempt of an Open so far.
    pub attempt: u64,
    /// An Open that begins it was proposed.
    pub is_beginning: bool,
    /// The hash of the secret in an Open that may begin it, and is on its way to the state.
    pub secret_hash: Option<[u8; 32]>,
    /// Its requests that are on their way to the state, in order, and how many of them acquire.
    pub under_way: VecDeque<RequestNumber>,
    pub acquires_under_way: usize,
    /// Its Close is on the way.
    pub is_closing: bool,
}

impl Frontend {
    /// A client begins a stream on this connection.
    pub fn stream_opens(&mut self, now_ms: u64, stream: StreamId, connection: ConnectionId, caller: Caller) {
        let streams = self.connections.entry(connection).or_default();
        *streams += 1;
        let is_one_too_many = *streams > self.limits.streams;
        let until_ms = now_ms.saturating_add(OPEN_WITHIN_MS);
        let phase = Phase::Silent { until_ms };
        let (parked, parked_bytes, from) = (VecDeque::new(), 0, caller.from);
        let opens = Stream { connection, caller, phase, under_way: 0, parked, parked_bytes, is_paused: false };
        self.streams.insert(stream, opens);
        self.silent.insert((until_ms, stream));
        if is_one_too_many {
            let why = Closing::TooManyStreams { limit: self.limits.streams };
            self.tell_limit(now_ms, "--max-streams", &why.to_string(), from);
            self.close(stream, why);
        }
    }

    /// The client has ended the stream, or its connection broke. The session lives on.
    pub fn stream_gone(&mut self, stream: StreamId) {
        let Some(gone) = self.streams.remove(&stream) else { return };
        match gone.phase {
            Phase::Silent { until_ms } => drop(self.silent.remove(&(until_ms, stream))),
            Phase::Opening => {}
            Phase::Attached { session, .. } => {
                if let Some(presence) = self.sessions.get_mut(&session)
                    && presence.stream == Some(stream)
                {
                    presence.stream = None;
                }
            }
        }
        if let Some(streams) = self.connections.get_mut(&gone.connection) {
            *streams -= 1;
            if *streams == 0 {
                self.connections.remove(&gone.connection);
            }
        }
    }

    /// The client does not read what it is sent. It may come back and ask again: the service has kept its answers.
    pub fn stream_slow(&mut self, stream: StreamId) {
        self.close(stream, Closing::Slow);
    }

    /// Whether the shell may read from the stream. If not, wait for [`Output::Listen`].
    pub fn listens(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| match stream.phase {
            Phase::Silent { .. } => true,
            Phase::Opening => false,
            Phase::Attached { is_told, .. } => is_told && !stream.is_paused,
        })
    }

    /// A client says something, or something that means nothing.
    pub fn hears(&mut self, now_ms: u64, state: &State, stream: StreamId, said: Result<ToServer, Malformed>) {
        let Some(phase) = self.streams.get(&stream).map(|stream| stream.phase) else { return };
        let protocol = |what: &str| Closing::Protocol(what.to_owned());
        match (phase, said) {
            (Phase::Silent { .. }, Ok(ToServer::Open(open))) => self.open(now_ms, state, stream, open),
            (Phase::Silent { .. }, Ok(_)) => self.close(stream, protocol("the first frame of a stream must be Open")),
            (Phase::Silent { .. }, Err(Malformed { part: Part::Open, what })) => {
                self.end(stream, EndReason::Invalid, what);
            }
            (_, Ok(ToServer::Open(_))) => {
                self.close(stream, protocol("a stream carries one session: Open comes once"));
            }
            (Phase::Opening, Ok(_)) => self.close(stream, protocol("a stream speaks after its Open was answered")),
            (Phase::Attached { session, .. }, Ok(ToServer::KeepAlive { number })) => {
                self.keep_alive(now_ms, stream, session, number);
            }
            (Phase::Attached { session, .. }, Ok(ToServer::Request(request))) => {
                self.park(stream, request);
                self.unpark(now_ms, state, stream, session);
            }
            (Phase::Attached { .. }, Err(Malformed { part: Part::Request(number), what })) => {
                self.refuse(stream, number, Refusal::Invalid, what);
            }
            (_, Err(malformed)) => self.close(stream, Closing::Protocol(malformed.what)),
        }
    }

    fn keep_alive(&mut self, now_ms: u64, stream: StreamId, session: SessionId, number: u64) {
        match self.leases.keep_alive(session, now_ms) {
            KeepAlive::Extended => {
                self.rounds.keep_alive(session, number);
                self.begin_rounds(now_ms);
            }
            KeepAlive::Condemned => {}
            KeepAlive::Unknown => self.close(stream, Closing::NoLease),
            KeepAlive::NotLeading => self.close(stream, self.why_not_leading()),
        }
    }

    fn park(&mut self, stream: StreamId, request: Request) {
        let Some(on) = self.streams.get_mut(&stream) else { return };
        on.parked_bytes += bytes(&request);
        on.is_paused |= on.parked_bytes >= PARKED_BYTES_MAX;
        on.parked.push_back(request);
    }

    /// Proposes what is parked, as far as there is room in the window.
    fn unpark(&mut self, now_ms: u64, state: &State, stream: StreamId, session: SessionId) {
        while let Some(on) = self.streams.get_mut(&stream).filter(|on| on.under_way < WINDOW)
            && let Some(request) = on.parked.pop_front()
        {
            on.parked_bytes -= bytes(&request);
            if on.is_paused && on.parked_bytes <= PARKED_BYTES_MAX / 2 {
                on.is_paused = false;
                self.out.push_back(Output::Listen(stream));
            }
            self.request(now_ms, state, stream, session, request);
        }
    }

    fn request(&mut self, now_ms: u64, state: &State, stream: StreamId, session: SessionId, request: Request) {
        let Some(caller) = self.streams.get(&stream).map(|stream| stream.caller.clone()) else { return };
        if !self.leads() || self.is_busy() {
            return self.close(stream, if self.leads() { Closing::Busy } else { self.why_not_leading() });
        }
        let (number, closes) = (request.number, request.operation == Operation::Close);
        let request = match words::request(session, request, caller) {
            Ok(request) => request,
            Err(invalid) => return self.refuse(stream, number, Refusal::Invalid, invalid.to_string()),
        };
        if let Some((refusal, message)) = self.beyond_limits(now_ms, state, &request) {
            return self.refuse(stream, number, refusal, message);
        }
        let acquires = match &request.operation {
            crate::state::Operation::Locks(locks::Operation::Acquire(acquire)) => {
                acquire.wants.first().map(|want| want.lock.clone())
            }
            _ => None,
        };
        let presence = self.sessions.entry(session).or_default();
        presence.is_closing |= closes;
        presence.under_way.push_back(number);
        presence.acquires_under_way += usize::from(acquires.is_some());
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.under_way += 1;
        }
        self.propose(Command::Request(request), UnderWay::Request { stream, session, number, acquires });
    }

    /// A request of this stream, or one that it had before it was gone, has been applied.
    pub(super) fn request_done(&mut self, now_ms: u64, state: &State, stream: StreamId, session: SessionId) {
        let Some(on) = self.streams.get_mut(&stream) else { return };
        on.under_way -= 1;
        self.unpark(now_ms, state, stream, session);
    }

    fn refuse(&mut self, stream: StreamId, number: u64, refusal: Refusal, message: String) {
        let said = ToClient::Answer { number, answer: words::refuse(refusal, message) };
        self.out.push_back(Output::Say { stream, said });
    }

    /// Says that the session is no more, and ends the stream.
    pub(super) fn end(&mut self, stream: StreamId, reason: EndReason, message: String) {
        self.out.push_back(Output::Say { stream, said: ToClient::Ended { reason, message } });
        self.close(stream, Closing::Ended);
    }

    /// Ends a stream. The session lives on.
    pub(super) fn close(&mut self, stream: StreamId, why: Closing) {
        if self.streams.contains_key(&stream) {
            self.stream_gone(stream);
            self.out.push_back(Output::Close { stream, why });
        }
    }
}

/// What a request takes in memory, about.
fn bytes(request: &Request) -> usize {
    let name = if let Operation::Acquire(acquire) = &request.operation { acquire.name.len() } else { 0 };
    size_of::<Request>() + name + request.missing.len() * size_of::<u64>()
}
