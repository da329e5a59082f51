//! Handles Open: a stream begins a session or resumes one.
//!
//! - An Open carries the client's secret (the log has its hash) and the number of the connection. The secret keeps
//!   other clients out; the number keeps late Opens out. The state remembers the last 4,096 ended sessions, so that a
//!   late first Open does not begin one of them again.

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{self, EndReason, ToClient};
use baton_types::sentences;

use super::streams::Phase;
use super::{Closing, Frontend, Output, StreamId, UnderWay, limits, words};
use crate::state::sessions::{self, Open};
use crate::state::{SessionId, State};

const WRONG_SECRET: &str = sentences::ended(EndReason::WrongSecret);

/// The decision on an Open.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// `begins` is true if the Open begins a new session.
    Propose { begins: bool },
    /// The client gets Ended: the session does not exist here for it.
    End(EndReason, String),
    /// The client means another cluster than this one.
    OtherCluster { own: ClusterId },
    /// The stream ends, and the client may try again.
    Close(Closing),
}

impl Frontend {
    pub(super) fn open(&mut self, now_ms: u64, state: &State, stream: StreamId, open: frames::Open) {
        let Some(on) = self.streams.get(&stream) else { return };
        let (attempt, cluster) = (open.attempt, open.cluster);
        let open = match words::open(open, on.caller.clone()) {
            Ok(open) => open,
            Err(invalid) => return self.end(stream, EndReason::Invalid, invalid.to_string()),
        };
        if open.ttl_ms > self.limits.ttl_ms_max {
            let [ttl, max] = [open.ttl_ms, self.limits.ttl_ms_max].map(|ms| ms as f64 / 1_000.0);
            let message = format!(
                "the TTL of the session is {ttl} s (--ttl), but this member allows at most {max} s (its --max-ttl)"
            );
            return self.end(stream, EndReason::Invalid, message);
        }
        match self.judge_open(now_ms, state, &open, attempt, cluster) {
            Verdict::End(reason, message) => self.end(stream, reason, message),
            Verdict::OtherCluster { own } => {
                self.out.push_back(Output::Say { stream, said: ToClient::OtherCluster { cluster: own } });
                self.close(stream, Closing::OtherCluster);
            }
            Verdict::Close(why) => self.close(stream, why),
            Verdict::Propose { begins } => {
                // The front end remembers nothing of an unknown session, because any client can name any id.
                if begins || state.session(open.session).is_some() || self.sessions.contains_key(&open.session) {
                    let presence = self.sessions.entry(open.session).or_default();
                    presence.attempt = presence.attempt.max(attempt);
                    presence.secret_hash = presence.secret_hash.or(open.secret_hash);
                    presence.is_beginning |= begins;
                }
                if let Some(on) = self.streams.get_mut(&stream)
                    && let Phase::Silent { until_ms } = std::mem::replace(&mut on.phase, Phase::Opening)
                {
                    self.silent.remove(&(until_ms, stream));
                }
                let secret_hash = open.secret_hash;
                let under_way = UnderWay::Open { stream, session: open.session, attempt, secret_hash, begins };
                self.propose(sessions::Command::Open(open).into(), under_way);
            }
        }
    }

    fn judge_open(
        &mut self,
        now_ms: u64,
        state: &State,
        open: &Open,
        attempt: u64,
        cluster: Option<ClusterId>,
    ) -> Verdict {
        if !self.leads() {
            return Verdict::Close(self.why_not_leading());
        }
        // First: another cluster knows nothing of the session.
        if let (Some(meant), Some(own)) = (cluster, self.cluster)
            && meant != own
        {
            return Verdict::OtherCluster { own };
        }
        if self.is_busy() {
            return Verdict::Close(Closing::Busy);
        }
        let known = state.session(open.session);
        let presence = self.sessions.get(&open.session);
        // If the state does not have the session yet, an Open that is under way may begin it.
        let secret_hash = match known {
            Some(known) => known.session.secret_hash,
            None => presence.and_then(|presence| presence.secret_hash),
        };
        if !is_secret_right(secret_hash, open.secret_hash) {
            return Verdict::End(EndReason::WrongSecret, WRONG_SECRET.to_owned());
        }
        if !open.resume && state.has_ended(open.session) {
            // The client sent the Open before the session ended, but it arrived later.
            return Verdict::End(EndReason::Unknown, "the session has ended, and cannot begin again".to_owned());
        }
        if presence.is_some_and(|presence| is_late(attempt, presence.attempt)) {
            return Verdict::Close(Closing::Replaced);
        }
        if open.resume {
            return Verdict::Propose { begins: false };
        }
        // The end of the session is on its way to the state. If this Open were proposed now, the session would begin
        // again after its end.
        let ends = presence.is_some_and(|presence| presence.is_closing) || self.leases.is_condemned(open.session);
        if ends {
            return Verdict::Close(Closing::Ending);
        }
        let is_beginning = presence.is_some_and(|presence| presence.is_beginning);
        let begins = known.is_none() && !is_beginning;
        if begins && let Err(message) = limits::check_ttl(state, open.ttl_ms) {
            return Verdict::End(EndReason::Invalid, message);
        }
        if begins && self.is_space_low() {
            return Verdict::End(EndReason::LowSpace, self.low_space());
        }
        if begins && self.leases.sessions() + self.opens_under_way >= self.limits.sessions {
            let limit = self.limits.sessions;
            let message = format!("the server has {limit} sessions; it takes no more (--max-sessions)");
            self.tell_limit(now_ms, "--max-sessions", &message, open.caller.from);
            return Verdict::End(EndReason::TooManySessions, message);
        }
        Verdict::Propose { begins }
    }

    /// The Open of this stream was applied, and the session exists. `may_tell` is false if the end of the session is on
    /// its way.
    pub(super) fn opened(
        &mut self,
        state: &State,
        stream: StreamId,
        attempt: u64,
        secret_hash: Option<[u8; 32]>,
        (session, ttl_ms): (SessionId, u64),
        may_tell: bool,
    ) {
        if !self.streams.contains_key(&stream) {
            return;
        }
        // Another client may have begun the session meanwhile.
        if state.session(session).is_some_and(|known| !is_secret_right(known.session.secret_hash, secret_hash)) {
            return self.end(stream, EndReason::WrongSecret, WRONG_SECRET.to_owned());
        }
        let presence = self.sessions.entry(session).or_default();
        if is_late(attempt, presence.attempt) {
            return self.close(stream, Closing::Replaced);
        }
        if let Some(before) = presence.stream.replace(stream) {
            self.close(before, Closing::Replaced);
        }
        if let Some(on) = self.streams.get_mut(&stream) {
            on.phase = Phase::Attached { session, is_told: may_tell };
        }
        if may_tell {
            let (session, cluster) = (session.0, self.cluster);
            let closed_ms = state.cluster().closed_ms().unwrap_or(0);
            self.out.push_back(Output::Say { stream, said: ToClient::Opened { session, ttl_ms, cluster, closed_ms } });
            self.out.push_back(Output::Listen(stream));
        }
    }
}

/// A session of an older client has no secret, so any client can resume it.
fn is_secret_right(kept: Option<[u8; 32]>, shown: Option<[u8; 32]>) -> bool {
    kept.is_none() || kept == shown
}

/// True if the client has made a later connection for the session. Attempt 0 means that the client does not count its
/// connections.
fn is_late(attempt: u64, latest: u64) -> bool {
    attempt != 0 && attempt < latest
}
