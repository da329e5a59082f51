//! The client's side of the lease: how long the client may believe in its session.

use super::Millis;

/// The client takes 1/50 (2 percent) off the time to live, so that its lease ends before the server's although their
/// clocks may run at different rates. Real clocks differ by less than 0.05 percent. The travel time of messages needs
/// no margin: the client counts from the sending of the keep-alive, the server from receiving it.
pub const MARGIN_SHARE: u64 = 50;

/// The client reports a loss this long before the deadline: 1/20 of the time to live, at most 1 s. In this time the
/// holder can stop, while the server grants the lock to no other session.
const NOTICE_SHARE: u64 = 20;
const NOTICE_MS_MAX: u64 = 1_000;

/// However long the lease is: after this much silence the client tries another server.
const PATIENCE_MS_MAX: u64 = 10_000;
/// However short the lease is: a server that works may take this long to answer, for example while its disk is slow.
const PATIENCE_MS_MIN: u64 = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    ttl_ms: u64,
    /// When the last acknowledged keep-alive, or Open, was SENT.
    asked_at: Option<Millis>,
}

impl Lease {
    pub(super) fn new(ttl_ms: u64) -> Self {
        Lease { ttl_ms, asked_at: None }
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// The server says how long its lease is. The shorter of the client's and the server's time to live is safe.
    pub(super) fn limit(&mut self, ttl_ms: u64) {
        self.ttl_ms = self.ttl_ms.min(ttl_ms);
    }

    /// The server acknowledged what the client sent at this time. Acknowledgements may come in any order.
    pub(super) fn confirm(&mut self, sent_at: Millis) {
        self.asked_at = self.asked_at.max(Some(sent_at));
    }

    /// From this moment on the server may end the lease. None before the first acknowledgement.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let margin = (self.ttl_ms / MARGIN_SHARE).max(1);
        self.asked_at.map(|asked_at| asked_at + self.ttl_ms.saturating_sub(margin))
    }

    /// From this moment on the session counts as lost: shortly before the deadline.
    pub(super) fn lost_from(&self) -> Option<Millis> {
        let notice = (self.ttl_ms / NOTICE_SHARE).clamp(1, NOTICE_MS_MAX);
        self.deadline().map(|deadline| deadline.saturating_sub(notice))
    }

    /// From this moment on half of the time to live has passed without an acknowledgement.
    pub(super) fn at_risk_from(&self) -> Option<Millis> {
        self.asked_at.map(|asked_at| asked_at + self.ttl_ms / 2)
    }

    pub(super) fn keep_alive_every(&self) -> u64 {
        (self.ttl_ms / 3).max(1)
    }

    /// If the server leaves an Open or keep-alive unanswered for this long, the client gives up the connection while
    /// there is time to try another server. A third of the lease may have passed before the first unanswered
    /// keep-alive. With a sixth for each server after that, the client reaches the third one before the lease ends.
    pub(super) fn patience(&self, has_alternatives: bool) -> u64 {
        let third = self.keep_alive_every();
        let patience = if has_alternatives { (third / 2).max(PATIENCE_MS_MIN).min(third) } else { third };
        patience.min(PATIENCE_MS_MAX)
    }

    /// The same limit before the session is open. There is nothing to lose yet, so the limit is longer. A later answer
    /// would leave little of the lease.
    pub(super) fn open_patience(&self) -> u64 {
        (self.ttl_ms / 2).clamp(1, PATIENCE_MS_MAX)
    }
}
