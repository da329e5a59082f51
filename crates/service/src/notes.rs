//! What an operator should know, as structured lines of the log.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tracing::{info, warn};

use crate::frontend::Note;

/// So many notes may wait to be written. Further ones are lost: nobody must wait for a terminal or a pipe that is full.
const WAITING_MAX: usize = 1024;

/// The thread that writes notes.
pub struct Notes(SyncSender<Note>);

impl Notes {
    /// Starts the thread. It ends with this.
    pub fn start() -> io::Result<Self> {
        let (notes, waiting) = sync_channel::<Note>(WAITING_MAX);
        let written = move || waiting.iter().for_each(|note| write(&note));
        thread::Builder::new().name("notes".to_owned()).spawn(written)?;
        Ok(Notes(notes))
    }

    /// Has a note written, if there is room for it. It never waits.
    pub fn tell(&self, note: Note) {
        let _ = self.0.try_send(note);
    }
}

fn write(note: &Note) {
    match note {
        Note::Leads { term, sessions } => info!(term, sessions, "this node leads"),
        Note::LeadsNoMore { term } => info!(term, "this node leads no more"),
        Note::Expired { session, label, host } => info!(%session, label, host, "a session expired"),
        Note::Forced { lock, now, holders, by } => {
            let by = by.map(|by| by.to_string()).unwrap_or_default();
            info!(?lock, now, holders, by, "a release was forced");
        }
        Note::Space { low: true, free_bytes } => {
            warn!(free_bytes, "free space is low: only what gives something back is taken");
        }
        Note::Space { low: false, free_bytes } => info!(free_bytes, "there is enough free space again"),
        Note::Limit(what) => warn!("a limit is reached: {what}"),
    }
}
