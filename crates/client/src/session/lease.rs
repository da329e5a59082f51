//! For how long the client may believe in its session.

use super::Millis;

/// One part in so many of the time to live is given away, so that the client stops before the server does although their
/// clocks differ in rate: up to 2 percent, where real ones differ by less than 0.05 percent. What a message takes needs no
/// margin, since the client counts from when it asked and the server from when it heard.
pub const MARGIN_SHARE: u64 = 50;

/// A loss is told so long before the deadline, so that whoever works under a lock can stop while nobody else can be
/// granted it: one part in so many of the time to live, and no longer than this.
const NOTICE_SHARE: u64 = 20;
const NOTICE_MS_MAX: u64 = 1_000;

/// However long the lease, a server that is silent for so long is worth a change.
const PATIENCE_MS_MAX: u64 = 10_000;

/// The client's side of the lease.
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

    /// The server says for how long it grants. What is not longer than either side says is safe.
    pub(super) fn limit(&mut self, ttl_ms: u64) {
        self.ttl_ms = self.ttl_ms.min(ttl_ms);
    }

    /// What was sent then is acknowledged. Acknowledgements may come in any order.
    pub(super) fn confirm(&mut self, sent_at: Millis) {
        self.asked_at = self.asked_at.max(Some(sent_at));
    }

    /// The lease may be over from this moment on; none yet if nothing was ever acknowledged.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let margin = (self.ttl_ms / MARGIN_SHARE).max(1);
        self.asked_at.map(|asked_at| asked_at + self.ttl_ms.saturating_sub(margin))
    }

    /// From this moment on nothing is believed: a little before the deadline.
    pub(super) fn lost_from(&self) -> Option<Millis> {
        let notice = (self.ttl_ms / NOTICE_SHARE).clamp(1, NOTICE_MS_MAX);
        self.deadline().map(|deadline| deadline.saturating_sub(notice))
    }

    /// From this moment on half of the time has gone by without an acknowledgement.
    pub(super) fn at_risk_from(&self) -> Option<Millis> {
        self.asked_at.map(|asked_at| asked_at + self.ttl_ms / 2)
    }

    pub(super) fn keep_alive_every(&self) -> u64 {
        (self.ttl_ms / 3).max(1)
    }

    /// A connection that leaves a question unanswered for so long is given up, while there is time for another one.
    pub(super) fn patience(&self) -> u64 {
        self.keep_alive_every().min(PATIENCE_MS_MAX)
    }

    /// The same while there is nothing to lose yet; but an answer that comes later than this would leave little of the lease.
    pub(super) fn open_patience(&self) -> u64 {
        (self.ttl_ms / 2).clamp(1, PATIENCE_MS_MAX)
    }
}
