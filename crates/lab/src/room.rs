//! Reads the bodies of calls: each up to a length and within a time. All bodies that are read and not answered yet share
//! a number of bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::Refusal;
use crate::limits::BODY_TIME_MAX;

/// The bytes that the bodies of some calls may take together.
#[derive(Clone, Debug)]
pub struct Room {
    bytes: Arc<Semaphore>,
    /// The time limit for a whole body.
    within: Duration,
}

/// A body takes its bytes until this is dropped.
pub type Held = OwnedSemaphorePermit;

impl Room {
    pub fn new(bytes: usize) -> Self {
        Room { bytes: Arc::new(Semaphore::new(bytes)), within: BODY_TIME_MAX }
    }

    /// Reads a whole body of at most this many bytes.
    pub async fn read(&self, body: Body, bytes_max: usize) -> Result<(Vec<u8>, Held), Refusal> {
        let read = timeout(self.within, self.read_all(body, bytes_max)).await;
        read.unwrap_or_else(|_| {
            Err(Refusal::too_slow(format!("the request was not complete within {} s", self.within.as_secs_f64())))
        })
    }

    async fn read_all(&self, body: Body, bytes_max: usize) -> Result<(Vec<u8>, Held), Refusal> {
        let (mut pieces, mut whole, mut held) = (body.into_data_stream(), Vec::new(), self.take(0)?);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Refusal::bad("the request has broken off"))?;
            if whole.len() + piece.len() > bytes_max {
                return Err(Refusal::too_large("the request is too large for this call"));
            }
            held.merge(self.take(piece.len())?);
            whole.extend_from_slice(&piece);
        }
        Ok((whole, held))
    }

    fn take(&self, bytes: usize) -> Result<Held, Refusal> {
        // A piece has far less than 4 GiB.
        let taken = u32::try_from(bytes).ok().and_then(|bytes| self.bytes.clone().try_acquire_many_owned(bytes).ok());
        taken.ok_or_else(|| Refusal::busy("the lab is busy with other large requests; try again in a while"))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::StatusCode;

    use super::*;

    /// A body of these pieces, which ends or does not.
    fn body(pieces: &[usize], is_whole: bool) -> Body {
        let pieces = pieces.iter().map(|bytes| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; *bytes])));
        let pieces = futures::stream::iter(pieces.collect::<Vec<_>>());
        if is_whole { Body::from_stream(pieces) } else { Body::from_stream(pieces.chain(futures::stream::pending())) }
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let room = Room::new(100);
        assert_eq!(room.read(body(&[4, 0, 6], true), 10).await.unwrap().0, [b'x'; 10]);
        let refused = room.read(body(&[4, 7], false), 10).await.unwrap_err();
        assert_eq!(refused, Refusal::too_large("the request is too large for this call"));
        assert_eq!(room.bytes.available_permits(), 100);
    }

    #[tokio::test]
    async fn a_body_that_is_half_sent_is_refused() {
        let room = Room { within: Duration::from_millis(10), ..Room::new(100) };
        for half in [&[][..], &[7]] {
            let refused = room.read(body(half, false), 10).await.unwrap_err();
            assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
            assert_eq!(refused.why, "the request was not complete within 0.01 s");
            assert_eq!(room.bytes.available_permits(), 100);
        }
    }

    #[tokio::test]
    async fn all_bodies_together_are_limited() {
        let room = Room::new(100);
        let (_, held) = room.read(body(&[30, 30], true), 100).await.unwrap();
        let refused = room.read(body(&[30, 30], false), 100).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        drop(held);
        assert_eq!(room.read(body(&[30, 30], true), 100).await.unwrap().0.len(), 60);
    }
}
