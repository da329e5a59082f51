//! Writes the front end's notes to the log, for the operator.

use tracing::{error, info, warn};

use crate::frontend::Note;

pub fn write(note: &Note) {
    match note {
        Note::Leads { term, sessions } => info!(term, sessions, "this node leads"),
        Note::LeadsNoMore { term } => info!(term, "this node leads no more"),
        Note::OutOfOrder { term } => {
            error!(term, "the log does not have the proposals of this node in their order; this node begins anew");
        }
        Note::Expired { session, label, host } => info!(%session, label, host, "a session expired"),
        Note::Forced { lock, now, holders, by } => {
            info!(?lock, now, holders, by = by.map(tracing::field::display), "a release was forced");
        }
        Note::Space { low: true, free_bytes } => {
            warn!(free_bytes, "free space is low: while this server leads, it refuses new sessions and acquires");
        }
        Note::Space { low: false, free_bytes } => info!(free_bytes, "there is enough free space again"),
        Note::Limit { flag, message, from } => {
            warn!(flag, from = from.map(tracing::field::display), "a limit was reached: {message}");
        }
    }
}
