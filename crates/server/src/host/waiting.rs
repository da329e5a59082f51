//! The frames that wait until a client reads them, limited in bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use baton_types::frames::{Answer, Hopeless, Leader, ToClient};
use baton_types::locks::Wait;
use baton_types::refusal::Refusal;
use tokio::sync::{Notify, mpsc};
use tokio_stream::{Stream, StreamExt};

use crate::frontend::Closing;

/// While more bytes of frames wait, as they are in memory, the server reads nothing more from the stream.
pub const UNREAD_BYTES: usize = 64 << 10;

/// The most bytes of frames that may wait. Beyond it the server ends the stream. The client then reconnects and asks
/// again; the state has kept the answers. The answers to all that a stream may have on its way fit, unless they are very
/// long.
pub const WAITING_BYTES_MAX: usize = 256 << 10;

/// A frame, or why the stream ends.
type Item = Result<ToClient, Closing>;

/// A channel to the client of one stream.
pub fn channel() -> (Frames, Heard) {
    let (frames, heard) = mpsc::unbounded_channel();
    let waiting = Arc::<Waiting>::default();
    (Frames { frames, waiting: waiting.clone() }, Heard { frames: heard, waiting })
}

/// How much waits for a client.
#[derive(Default)]
pub struct Waiting {
    bytes: AtomicUsize,
    /// Notified when the client has read so much that the server may read again.
    is_less: Notify,
}

impl Waiting {
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns when at most [`UNREAD_BYTES`] wait. Only one task at a time may wait here.
    pub async fn is_less(&self) {
        while self.bytes() > UNREAD_BYTES {
            self.is_less.notified().await;
        }
    }

    fn less(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before > UNREAD_BYTES && before - bytes <= UNREAD_BYTES {
            self.is_less.notify_one();
        }
    }
}

/// The server's end.
pub struct Frames {
    frames: mpsc::UnboundedSender<Item>,
    waiting: Arc<Waiting>,
}

impl Frames {
    /// Returns false, and drops the frame, if too many bytes wait or the client is gone.
    pub fn say(&self, said: ToClient) -> bool {
        let bytes = bytes(&said);
        // Only this end adds bytes, one frame after the other, so no frame comes between.
        if self.waiting.bytes() + bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_said = self.frames.send(Ok(said)).is_ok();
        if !is_said {
            self.waiting.less(bytes);
        }
        is_said
    }

    /// Ends the stream. The reason has room, however much waits.
    pub fn close(self, why: Closing) {
        // The send fails if the client is gone.
        let _ = self.frames.send(Err(why));
    }

    pub fn waiting(&self) -> Arc<Waiting> {
        self.waiting.clone()
    }
}

/// The frames for the client of a stream; the last item says why the stream ends.
pub struct Heard {
    frames: mpsc::UnboundedReceiver<Item>,
    waiting: Arc<Waiting>,
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
            self.waiting.less(bytes(said));
        }
        Poll::Ready(next)
    }
}

/// The client is gone, so nothing waits for it, and the server may read that the stream has ended.
impl Drop for Heard {
    fn drop(&mut self) {
        self.frames.close();
        while let Ok(item) = self.frames.try_recv() {
            if let Ok(said) = item {
                self.waiting.less(bytes(&said));
            }
        }
    }
}

/// Approximate size of a frame in memory.
fn bytes(said: &ToClient) -> usize {
    let beside = match said {
        ToClient::Answer { answer: Answer::Refused(Refusal { code: _, message, cycle }), .. } => {
            let step = |Wait { owner: _, label, lock }: &Wait| size_of::<Wait>() + label.len() + lock.len();
            message.len() + cycle.iter().map(step).sum::<usize>()
        }
        ToClient::Ended { reason: _, message } => message.len(),
        ToClient::Hopeless { acquire: _, why: Hopeless { process: _, message } } => message.len(),
        ToClient::Leader(Leader { node: _, name, address, cluster: _ }) => name.len() + address.len(),
        ToClient::Opened { .. } | ToClient::Alive { .. } | ToClient::Answer { .. } | ToClient::Revoked { .. } => 0,
        ToClient::OtherCluster { .. } => 0,
    };
    size_of::<Item>() + beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::frames;
    use baton_types::limits::REQUESTS_MAX;
    use baton_types::locks;
    use baton_types::refusal::RefusalCode;
    use futures::FutureExt;

    use crate::frontend::{PARKED_BYTES_MAX, WINDOW};

    fn refused(number: u64, message: String) -> ToClient {
        let refused = Refusal::new(RefusalCode::Invalid, message);
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

    /// The server stops reading the stream in time. Then at most these requests are on their way or parked: they are
    /// refused, while all waiting requests of the session are granted.
    #[test]
    fn what_is_on_its_way_fits_behind_what_is_unread() {
        let (frames, _heard) = channel();
        let parked = PARKED_BYTES_MAX / size_of::<frames::Request>() + 1;
        let refusal = |number| refused(number, "x".repeat(80));
        let granted = |number| ToClient::Answer { number, answer: locks::Answer::Granted { fence: number }.into() };
        while frames.waiting.bytes() <= UNREAD_BYTES {
            assert!(frames.say(refusal(0)));
        }
        assert!((0..(WINDOW + parked) as u64).all(|number| frames.say(refusal(number))));
        assert!((0..REQUESTS_MAX as u64).all(|number| frames.say(granted(number))));
    }

    #[tokio::test]
    async fn the_server_reads_on_when_the_client_has_read_or_is_gone() {
        for is_gone in [false, true] {
            let (frames, mut heard) = channel();
            let waiting = frames.waiting();
            assert!(waiting.is_less().now_or_never().is_some());
            while waiting.bytes() <= UNREAD_BYTES {
                assert!(frames.say(refused(1, "x".repeat(1 << 10))));
            }
            let reads = tokio::spawn(async move { waiting.is_less().await });
            tokio::task::yield_now().await;
            assert!(!reads.is_finished());
            match is_gone {
                false => assert!(heard.recv().await.is_some()),
                true => drop(heard),
            }
            reads.await.expect("it reads on");
        }
    }

    #[test]
    fn nothing_waits_for_a_client_that_is_gone() {
        let (frames, heard) = channel();
        drop(heard);
        assert!(!frames.say(ToClient::Alive { number: 1 }));
    }
}
