//! Finds another process with the id of this node: one of the two data folders is a copy of the other.
//!
//! Two such processes would be one voter twice. Of the two, the one ends that does not run at the address in the
//! membership: a node asks there who answers, every few seconds, and when it meets another process with its id. If nobody is
//! there, the process ends that has found the other at a member's or listed address, or that another member refuses.
//!
//! A process that answers at its address never ends, even if a member refuses it: that member may know an earlier address.
//! And no process ends while it cannot know who is at its address.

use std::time::Duration;

use baton_runtime::{Instant, timeout};
use tokio::sync::watch;

use super::node::Node;
use super::peers::{LinkError, Peers, Purpose, Refusal};

/// The pause between two questions at the own address.
const EVERY: Duration = Duration::from_secs(2);
/// The least time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The time that the own address has to answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_millis(500);

/// How a node has met another process with its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The other answers at this address.
    At(String),
    /// The other has called this node, or votes for it are known elsewhere.
    Heard,
    /// A member refuses this process, and knows where the other is.
    Refused(Refusal),
}

/// The process that answers at the address of this node in the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
enum There {
    /// This process.
    Own,
    Another(String),
    /// Another node, or none; or the membership has no address.
    Nobody,
    /// It did not answer in time, or did not say who it is.
    Unknown,
}

/// Why this process must end, as a sentence. None: it goes on.
fn decide(node: u64, met: Option<&Meeting>, there: &There) -> Option<String> {
    let address = match (met, there) {
        (_, There::Own | There::Unknown) => return None,
        (_, There::Another(address)) => format!("{address}, the address of this node in the cluster"),
        (Some(Meeting::At(address)), There::Nobody) => address.clone(),
        (Some(Meeting::Refused(refusal)), There::Nobody) => {
            return Some(format!("another member refuses this process, and says about it: {refusal}"));
        }
        (Some(Meeting::Heard) | None, There::Nobody) => return None,
    };
    Some(format!(
        "another process with the id of this node ({node}) answers at {address}: the data folder of one is a copy of the \
         other's, and both would vote as one node; this process ends; if it is the copy, empty its folder and add it to the \
         cluster as a new node; otherwise stop the other process before you start this one again"
    ))
}

async fn there(peers: &Peers) -> There {
    let node = peers.identity().node;
    let Some(address) = peers.recorded(node) else { return There::Nobody };
    let ours = peers.hello(0, Purpose::Introduction, false);
    match timeout(ANSWER_MAX, peers.introduce(&address, &ours)).await {
        Ok(Ok(theirs)) if theirs.node == node && theirs.start == ours.start => There::Own,
        Ok(Ok(theirs)) if theirs.node == node => There::Another(address),
        Ok(Ok(_) | Err(LinkError::Unreachable { .. })) => There::Nobody,
        Ok(Err(_)) | Err(_) => There::Unknown,
    }
}

/// Why this process must not go on, if another one answers at the address of this node in the membership.
pub(super) async fn answers_at_home(peers: &Peers) -> Option<String> {
    decide(peers.identity().node, None, &there(peers).await)
}

/// Tells why this process must end, once it must.
pub(super) async fn watch(peers: Peers, tell: watch::Sender<Option<String>>) {
    let mut meetings = peers.meetings();
    let (mut met, mut warned) = (None, None::<Instant>);
    loop {
        if let Some(sentence) = decide(peers.identity().node, met.as_ref(), &there(&peers).await) {
            tell.send_replace(Some(sentence));
            return;
        }
        let is_quiet = warned.is_some_and(|warned| warned.elapsed() < WARN_EVERY);
        if let Some(met) = met.take().filter(|_| !is_quiet) {
            let at = if let Meeting::At(address) = met { format!(" at {address}") } else { String::new() };
            peers.warn(&format!(
                "another process with the id of this node runs{at}: its data folder is a copy; stop it, and empty its folder"
            ));
            warned = Some(Instant::now());
        }
        // A time-out means that it is time to ask again. `peers` has the sender, so the channel stays open.
        met = timeout(EVERY, meetings.recv()).await.ok().flatten();
    }
}

impl Node {
    /// Resolves when this process must end, because another one has its id. Returns why, and what to do.
    pub async fn copied(&self) -> String {
        let mut copied = self.copied.clone();
        loop {
            if let Some(sentence) = copied.borrow_and_update().clone() {
                return sentence;
            }
            if copied.changed().await.is_err() {
                // The node has stopped, or has no other nodes.
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_is_not_at_the_recorded_address_ends() {
        let ends = |met: Option<Meeting>, there: There| decide(7, met.as_ref(), &there);
        let (at, heard) = (Some(Meeting::At("b:1".to_owned())), Some(Meeting::Heard));
        let refused = Some(Meeting::Refused(Refusal::Busy));
        for met in [None, at.clone(), heard.clone()] {
            assert_eq!(ends(met.clone(), There::Own), None);
            let sentence = ends(met, There::Another("a:1".to_owned())).unwrap();
            assert!(
                sentence.contains("the id of this node (7) answers at a:1, the address of this node"),
                "{sentence}"
            );
        }
        assert_eq!((ends(None, There::Nobody), ends(heard, There::Nobody)), (None, None));
        assert!(ends(at.clone(), There::Nobody).unwrap().contains("answers at b:1: "));
        assert!(ends(refused.clone(), There::Nobody).unwrap().starts_with("another member refuses this process"));
        assert_eq!(ends(refused.clone(), There::Own), None, "the member may know an earlier address");
        assert_eq!((ends(refused, There::Unknown), ends(at, There::Unknown)), (None, None), "its own address is slow");
    }
}
