//! Writes the front end's notes to the log, for the operator.

use baton_runtime::Instant;
use tracing::{error, info, warn};

use crate::frontend::{Note, locks};
use crate::limiter::Limiter;

/// A client can cause many of each kind, also changes of the leader (`baton member transfer`). So the first of each minute
/// are written, and then how many more there were.
pub fn write(note: &Note, limiter: &mut Limiter) {
    let kind = match note {
        Note::Leads { .. } => "leads",
        Note::LeadsNoMore { .. } => "leads no more",
        Note::OutOfOrder { .. } => "out of order",
        Note::Expired { .. } => "expired",
        Note::Locks(locks::Note::Forced { .. }) => "forced",
        Note::Space { low: true, .. } => "low space",
        Note::Space { low: false, .. } => "enough space",
        // The front end limits them.
        Note::Limit { .. } => return write_line(note, None),
        #[allow(unreachable_patterns, reason = "the module of tests has no notes")]
        _ => return,
    };
    if let Some(left_out) = limiter.event(kind, Instant::now()) {
        write_line(note, left_out);
    }
}

/// `left_out`: lines of the same kind that were not written in the minute before.
fn write_line(note: &Note, left_out: Option<u64>) {
    match note {
        Note::Leads { term, sessions } => info!(term, sessions, left_out, "this node leads"),
        Note::LeadsNoMore { term } => info!(term, left_out, "this node leads no more"),
        Note::OutOfOrder { term } => {
            error!(
                term,
                left_out, "the log does not have the proposals of this node in their order; this node begins anew"
            );
        }
        Note::Expired { session, label, host } => info!(%session, label, host, left_out, "a session expired"),
        Note::Locks(locks::Note::Forced { lock, now, holders, by }) => {
            info!(?lock, now, holders, by = by.map(tracing::field::display), left_out, "a release was forced");
        }
        Note::Space { low: true, free_bytes } => {
            warn!(
                free_bytes,
                left_out, "free space is low: while this server leads, it refuses new sessions and acquires"
            );
        }
        Note::Space { low: false, free_bytes } => info!(free_bytes, left_out, "there is enough free space again"),
        Note::Limit { limit, message, from } => {
            warn!(limit, from = from.map(tracing::field::display), "a limit was reached: {message}");
        }
        #[allow(unreachable_patterns, reason = "the module of tests has no notes")]
        _ => {}
    }
}
