//! Answers the connections that other members make.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::handshake::{Hello, LinkError, Side, check_caller, hang_up, shake_hands};
use crate::link::Owner;
use crate::options::{Warning, Warnings};

/// The pause after the system failed to accept a connection, e.g. for want of file descriptors.
const ACCEPT_AFTER: Duration = Duration::from_millis(100);

/// How many handshakes may run at once. Further connections wait.
const HANDSHAKES_MAX: usize = 512;

/// The state for answering connections.
pub(crate) struct Reception<O> {
    pub owner: Arc<O>,
    /// To the link of each member.
    pub accepted: Vec<mpsc::Sender<(TcpStream, Hello)>>,
    pub warnings: Warnings,
}

/// Answers connections as long as the member runs.
pub(crate) async fn listen(listener: TcpListener, reception: Reception<impl Owner>) {
    let reception = Arc::new(reception);
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES_MAX => match accepted {
                Ok((stream, from)) => {
                    let reception = reception.clone();
                    handshakes.spawn(async move { reception.answer(stream, from).await });
                }
                Err(error) => {
                    reception.warnings.tell(Warning::CannotAccept(error.to_string()));
                    sleep(ACCEPT_AFTER).await;
                }
            },
            Some(_) = handshakes.join_next() => {}
        }
    }
}

impl<O: Owner> Reception<O> {
    async fn answer(&self, mut stream: TcpStream, from: SocketAddr) {
        // The handshake tells who calls.
        let ours = self.owner.hello(usize::MAX);
        let mut caller = None;
        let judge = |theirs: &Hello| {
            check_caller(&ours, theirs)?;
            caller = Some(theirs.from);
            self.owner.judge(theirs)
        };
        let shaken = match stream.set_nodelay(true) {
            Ok(()) => shake_hands(&mut stream, Side::Called, &ours, judge).await,
            Err(error) => Err(error.into()),
        };
        match shaken {
            Ok(theirs) => {
                // The receiver is gone only if the member stops.
                let _ = self.accepted[theirs.from].send((stream, theirs)).await;
            }
            Err(error) => {
                // A member that refuses this one tells so when it calls, too.
                if let Some(peer) = caller
                    && (matches!(error, LinkError::RefusedByPeer(_)) || error.ends_membership())
                {
                    self.owner.broken(peer, &error);
                }
                let restarted = caller.filter(|_| error.refuses_restart());
                self.warnings.tell(Warning::Refused { from, error });
                hang_up(&mut stream).await;
                if let Some(peer) = restarted {
                    self.owner.refused_restart(peer);
                }
            }
        }
    }
}
