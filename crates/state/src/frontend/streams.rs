//! The streams. Each stream carries one session.

use std::collections::VecDeque;

use baton_types::frames::{Answer, EndReason, Malformed, Part, Request, ToClient, ToServer};
use baton_types::refusal::{Refusal, RefusalCode};

use super::modules::Modules;
use super::{Closing, ConnectionId, Frontend, Output, StreamId, UnderWay, held_back, words};
use crate::leases::KeepAlive;
use crate::state::{self, Caller, Command, RequestNumber, SessionId, State};

/// How long a client may take to send Open on a new stream.
pub const OPEN_WITHIN_MS: u64 = 10_000;

/// The most requests of one stream that may be on their way to the state. The front end parks further requests of the
/// stream, so that a client that pipelines delays only itself.
pub const WINDOW: usize = 64;

/// The memory that parked requests of one stream may take, approximately. Beyond it the shell reads nothing more from
/// the stream, not even keep-alives.
pub const PARKED_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Stream {
    connection: ConnectionId,
    pub caller: Caller,
    pub phase: Phase,
    /// Number of requests on their way to the state.
    under_way: usize,
    /// Requests that wait for a place in the window, in order; `parked_bytes` is their size in memory.
    pub parked: VecDeque<Request>,
    parked_bytes: usize,
    /// Too many requests are parked: the shell does not read until half of the bytes are gone.
    is_paused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client must send Open by then.
    Silent { until_ms: u64 },
    /// The Open is on its way to the state.
    Opening,
    /// The stream carries this session. The front end accepts frames once Opened was sent (`is_told`).
    Attached { session: SessionId, is_told: bool },
}

/// What this node knows of a session, beside its lease.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// The stream that carries the session.
    pub stream: Option<StreamId>,
    /// The highest attempt of an Open so far.
    pub attempt: u64,
    /// An Open that begins the session was proposed.
    pub is_beginning: bool,
    /// The hash of the secret in an Open that is on its way to the state and may begin the session.
    pub secret_hash: Option<[u8; 32]>,
    /// Requests of the session that are on their way to the state, in order.
    pub under_way: VecDeque<RequestNumber>,
    /// A Close of the session is on its way to the state.
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

    /// The client ended the stream, or its connection broke. The session lives on.
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

    /// The client does not read its frames. It may reconnect and ask again: the state has kept the answers.
    pub fn stream_slow(&mut self, stream: StreamId) {
        self.close(stream, Closing::Slow);
    }

    /// Whether the shell may read from the stream. If not, the shell must wait for [`Output::Listen`].
    pub fn listens(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| match stream.phase {
            Phase::Silent { .. } => true,
            Phase::Opening => false,
            Phase::Attached { is_told, .. } => is_told && !stream.is_paused,
        })
    }

    /// A client sent a frame, or bytes that are no frame.
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
                self.close(stream, protocol("a stream carries one session, so it has only one Open"));
            }
            (Phase::Opening, Ok(_)) => self.close(stream, protocol("a client must wait for the answer to its Open")),
            (Phase::Attached { session, .. }, Ok(ToServer::KeepAlive { number })) => {
                self.keep_alive(now_ms, stream, session, number);
            }
            (Phase::Attached { session, .. }, Ok(ToServer::Request(request))) => {
                self.park(stream, request);
                self.unpark(now_ms, state, stream, session);
            }
            (Phase::Attached { .. }, Err(Malformed { part: Part::Request(number), what })) => {
                self.refuse(stream, number, Refusal::new(RefusalCode::Invalid, what));
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

    /// Proposes parked requests while the window has room.
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
        let number = request.number;
        match words::request(&self.modules, session, request, caller) {
            Ok(request) => self.propose_request(now_ms, state, stream, request),
            Err(invalid) => self.refuse(stream, number, Refusal::new(RefusalCode::Invalid, invalid.to_string())),
        }
    }

    /// Must be called only while this node leads.
    pub(super) fn propose_request(&mut self, now_ms: u64, state: &State, stream: StreamId, request: state::Request) {
        let (session, number) = (request.session, request.number);
        if let Some(refusal) = self.beyond_limits(now_ms, state, &request) {
            return self.refuse(stream, number, refusal);
        }
        let presence = self.sessions.entry(session).or_default();
        presence.is_closing |= request.operation == state::Operation::Close;
        presence.under_way.push_back(number);
        self.modules.proposed(session, &request.operation);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.under_way += 1;
        }
        let under_way = UnderWay::Request { stream, session, number };
        match held_back::may_be_held_back(state, &request) {
            true => {
                self.add_under_way(under_way);
                self.held_back.add(now_ms, Command::Request(request));
            }
            false => self.propose(Command::Request(request), under_way),
        }
    }

    /// A request of this stream was applied. The stream may be gone already.
    pub(super) fn request_done(&mut self, now_ms: u64, state: &State, stream: StreamId, session: SessionId) {
        let Some(on) = self.streams.get_mut(&stream) else { return };
        on.under_way -= 1;
        self.unpark(now_ms, state, stream, session);
    }

    fn refuse(&mut self, stream: StreamId, number: u64, refusal: Refusal) {
        let said = ToClient::Answer { number, answer: Answer::Refused(refusal) };
        self.out.push_back(Output::Say { stream, said });
    }

    /// Sends Ended, and ends the stream.
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

/// Approximate size of a request in memory.
fn bytes(request: &Request) -> usize {
    size_of::<Request>() + Modules::bytes(&request.operation) + request.missing.len() * size_of::<u64>()
}
