//! The frames that wait until a client reads them, limited in bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use baton_types::frames::{Answer, Hopeless, Leader, Refused, ToClient, Wait};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};

use crate::frontend::Closing;

/// The most bytes of frames that may wait until a client reads them, as they are in memory. Beyond it the server ends
/// the stream. The client then reconnects and asks again; the state has kept the answers. The answers to all requests
/// that a session may have fit.
pub const WAITING_BYTES_MAX: usize = 256 << 10;

/// A frame, or why the stream ends.
type Item = Result<ToClient, Closing>;

/// A channel to the client of one stream.
pub fn channel() -> (Frames, Heard) {
    let (frames, heard) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Frames { frames, waiting: waiting.clone() }, Heard { frames: heard, waiting })
}

/// The server's end.
pub struct Frames {
    frames: mpsc::UnboundedSender<Item>,
    /// Bytes of the frames that wait.
    waiting: Arc<AtomicUsize>,
}

impl Frames {
    /// Returns false, and drops the frame, if too many bytes wait or the client is gone.
    pub fn say(&self, said: ToClient) -> bool {
        let bytes = bytes(&said);
        // Only this end adds bytes, one frame after the other, so no frame comes between.
        if self.waiting.load(Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.frames.send(Ok(said)).is_ok()
    }

    /// Ends the stream. The reason has room, however much waits.
    pub fn close(self, why: Closing) {
        // The send fails if the client is gone.
        let _ = self.frames.send(Err(why));
    }
}

/// The frames for the client of a stream; the last item says why the stream ends.
pub struct Heard {
    frames: mpsc::UnboundedReceiver<Item>,
    waiting: Arc<AtomicUsize>,
}

impl Heard {
    /// The next frame. None after the end of the stream.
    pub async fn recv(&mut self) -> Option<Item> {
        self.next().await
    }
}

impl Stream for Heard {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let next = ready!(self.frames.poll_recv(context));
        if let Some(Ok(said)) = &next {
            self.waiting.fetch_sub(bytes(said), Ordering::Relaxed);
        }
        Poll::Ready(next)
    }
}

/// Approximate size of a frame in memory.
fn bytes(said: &ToClient) -> usize {
    let beside = match said {
        ToClient::Answer { answer: Answer::Refused(Refused { refusal: _, message, cycle }), .. } => {
            let step = |Wait { owner: _, label, lock }: &Wait| size_of::<Wait>() + label.len() + lock.len();
            message.len() + cycle.iter().map(step).sum::<usize>()
        }
        ToClient::Ended { reason: _, message } => message.len(),
        ToClient::Hopeless { acquire: _, why: Hopeless { process: _, message } } => message.len(),
        ToClient::Leader(Leader { node: _, name, address }) => name.len() + address.len(),
        ToClient::Opened { .. } | ToClient::Alive { .. } | ToClient::Answer { .. } | ToClient::Revoked { .. } => 0,
    };
    size_of::<Item>() + beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::frames::Refusal;
    use baton_types::limits::MISSING_MAX;

    fn refused(number: u64, message: String) -> ToClient {
        let refused = Refused { refusal: Refusal::Invalid, message, cycle: Vec::new() };
        ToClient::Answer { number, answer: Answer::Refused(refused) }
    }

    #[tokio::test]
    async fn what_was_read_makes_room_again() {
        let (frames, mut heard) = channel();
        let kibibyte = |number| refused(number, "x".repeat(1 << 10));
        let say_all = |frames: &Frames| (0..).take_while(|number| frames.say(kibibyte(*number))).count() as u64;
        let said = say_all(&frames);
        assert!((200..256).contains(&said), "{said}");
        for number in 0..said {
            assert_eq!(heard.recv().await, Some(Ok(kibibyte(number))));
        }
        assert_eq!(say_all(&frames), said);
        frames.close(Closing::Slow);
        for number in 0..said {
            assert_eq!(heard.recv().await, Some(Ok(kibibyte(number))));
        }
        assert_eq!((heard.recv().await, heard.recv().await), (Some(Err(Closing::Slow)), None));
    }

    /// A client that is stopped for a while may have as many unseen answers as a session can have.
    #[test]
    fn the_answers_to_all_requests_of_a_session_fit() {
        let (frames, _heard) = channel();
        let granted = |number| ToClient::Answer { number, answer: Answer::Granted { fence: number } };
        assert!((0..MISSING_MAX as u64).all(|number| frames.say(granted(number))));
    }

    #[test]
    fn nothing_waits_for_a_client_that_is_gone() {
        let (frames, heard) = channel();
        drop(heard);
        assert!(!frames.say(ToClient::Alive { number: 1 }));
    }
}
