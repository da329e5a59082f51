//! The limits of the server. A refusal here leaves no trace in the log, so it must not hit a request that the log has
//! already: the client would believe that it holds nothing, and no client would release the lock.

use std::net::SocketAddr;

use baton_types::refusal::{Refusal, RefusalCode};

use super::modules::Gate;
use super::{Frontend, Note, Output};
use crate::state::{Operation, Request, RequestNumber, SessionId, State};

/// The name of a limit for the operator: the command-line flag that sets it, or a few words if no flag does.
pub(super) type Limit = &'static str;

/// The operator is told of each limit at most once in this time.
pub const LIMIT_AGAIN_MS: u64 = 60_000;

/// Why a request is refused before anything is proposed.
pub(super) struct Denied {
    pub refusal: Refusal,
    /// The limit that the operator is told of, if any.
    pub limit: Option<Limit>,
}

impl Denied {
    pub fn by_flag(code: RefusalCode, flag: Limit, what: &str) -> Denied {
        Denied { refusal: Refusal::new(code, format!("{what} ({flag})")), limit: Some(flag) }
    }
}

impl Frontend {
    /// The refusal, if the log does not have the request, and a limit is reached.
    pub(super) fn beyond_limits(&mut self, now_ms: u64, state: &State, request: &Request) -> Option<Refusal> {
        let low_space = self.is_space_low().then(|| self.low_space());
        let gate = Gate { state, limits: &self.limits, low_space: low_space.as_deref() };
        let denied = self.modules.admits(&gate, request.session, &request.operation).err()?;
        let Denied { refusal, limit } = denied;
        if self.is_under_way(request.session, request.number) || state.request_known(request.session, request.number) {
            return None;
        }
        if let Some(limit) = limit {
            self.tell_limit(now_ms, limit, &refusal.message, request.caller.from);
        }
        Some(refusal)
    }

    fn is_under_way(&self, session: SessionId, number: RequestNumber) -> bool {
        self.sessions.get(&session).is_some_and(|presence| presence.under_way.contains(&number))
    }

    /// The request with this number was applied.
    pub(super) fn no_longer_under_way(&mut self, session: SessionId, number: RequestNumber, operation: &Operation) {
        // An ended session has no presence any more, but its earlier requests may still be applied.
        if let Some(presence) = self.sessions.get_mut(&session)
            && let Some(oldest) = presence.under_way.pop_front()
        {
            assert_eq!(oldest, number, "requests are applied in the order in which they were proposed");
        }
        self.modules.applied(session, operation);
    }

    pub(super) fn low_space(&self) -> String {
        let [free_mib, min_mib] =
            [self.space.free_bytes.unwrap_or(u64::MAX), self.space.min_bytes].map(|bytes| bytes >> 20);
        let who = if self.name.is_empty() { "the server".to_owned() } else { format!("node {}", self.name) };
        format!("{who} has too little free space: {free_mib} MiB, and it needs {min_mib} MiB")
    }

    /// Notes at most one line per minute and limit, so that many refusals do not flood the operator's log.
    pub(super) fn tell_limit(&mut self, now_ms: u64, limit: Limit, message: &str, from: Option<SocketAddr>) {
        let told_ms = self.limits_told.get(limit).copied();
        if told_ms.is_none_or(|told_ms| now_ms >= told_ms + LIMIT_AGAIN_MS) {
            self.limits_told.insert(limit, now_ms);
            self.out.push_back(Output::Note(Note::Limit { limit, message: message.to_owned(), from }));
        }
    }
}

/// Refuses a TTL that is longer than the cluster allows, with a sentence for the client.
pub(super) fn check_ttl(state: &State, ttl_ms: u64) -> Result<(), String> {
    let max_ttl_ms = state.cluster().max_ttl_ms();
    let seconds = |ms: u64| ms as f64 / 1_000.0;
    match ttl_ms > max_ttl_ms {
        true => Err(format!(
            "the session asks for a TTL of {} s, but this cluster allows at most {} s (`baton serve --max-ttl`)",
            seconds(ttl_ms),
            seconds(max_ttl_ms)
        )),
        false => Ok(()),
    }
}
