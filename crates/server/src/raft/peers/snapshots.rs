//! Sends and receives snapshots, in chunks, on connections of their own. Neither side has more than a few chunks in
//! memory.

use std::io;
use std::pin::pin;
use std::time::Duration;

use baton_runtime::{Instant, before_disk, spawn_on_thread, timeout};
use tokio::sync::mpsc;
use tokio_util::bytes::BytesMut;
use tracing::info;

use super::link::{Link, Reader};
use super::peer::Peer;
use super::wire::{self, Installed, LinkError, SnapshotFrame};
use crate::format::record::Vote;
use crate::format::snapshot::SnapshotMeta;
use crate::raft::types::Snapshot;
use crate::store::{Received, Snapshots};

/// The most bytes in one frame. A chunk is seldom larger, except in tests.
const PART_BYTES_MAX: usize = if cfg!(test) { 10_000 } else { 256 << 10 };
const _: () = assert!(PART_BYTES_MAX + 64 < wire::FRAME_BYTES_MAX);

/// A larger chunk is refused: no node makes one.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// Chunks between the disk and the network.
const CHUNKS_AHEAD: usize = 4;

/// The sending node may be busy for this long between two frames.
const PART_MAX: Duration = Duration::from_secs(10);

/// How often the sending node looks whether the other one was started again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sends a snapshot, and returns the vote of the node once the node has installed it, within `install_max`.
pub(super) async fn send(
    peer: &Peer,
    vote: Vote,
    snapshot: Snapshot,
    install_max: Duration,
) -> Result<Vote, LinkError> {
    let unreadable = |error: &dyn std::fmt::Display| LinkError::Failed(format!("a snapshot cannot be read: {error}"));
    let meta = SnapshotMeta::from(&snapshot.meta);
    let index = meta.last.map(|last| last.index);
    let Link { mut reader, mut writer, theirs } = peer.dial_for_snapshot().await?;
    info!(index, "a snapshot is sent to {}", peer.label());
    writer.send(wire::encode(&SnapshotFrame::Begin { vote, meta })).await?;

    let (give, mut chunks) = mpsc::channel::<io::Result<Vec<u8>>>(CHUNKS_AHEAD);
    let reading = spawn_on_thread(async move {
        for chunk in snapshot.snapshot.open()? {
            before_disk().await;
            // The other end is dropped if the node no longer listens.
            if give.send(chunk).await.is_err() {
                break;
            }
        }
        io::Result::Ok(())
    });
    let (mut count, mut crc) = (0, 0);
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.map_err(|error| unreadable(&error))?;
        (count, crc) = (count + 1, crc32c::crc32c_append(crc, &chunk));
        let mut rest = chunk.as_slice();
        loop {
            let (bytes, after) = rest.split_at(rest.len().min(PART_BYTES_MAX));
            let ends_chunk = after.is_empty();
            writer.feed(wire::encode(&SnapshotFrame::Part { bytes, ends_chunk })).await?;
            rest = after;
            if ends_chunk {
                break;
            }
        }
    }
    reading.await.map_err(|error| unreadable(&error))?.map_err(|error| unreadable(&error))?;
    writer.send(wire::encode(&SnapshotFrame::End { chunks: count, crc })).await?;
    let answer = answer(&mut reader, peer, theirs.start, install_max).await?;
    wire::decode::<Installed>(&answer, "an answer to a snapshot")?.map_err(LinkError::Failed)
}

/// Waits until the node has installed the snapshot. After a power cut nobody closes the connection, so this also ends when
/// the node was started again: it then needs another snapshot at once.
async fn answer(reader: &mut Reader, peer: &Peer, start: u64, install_max: Duration) -> Result<BytesMut, LinkError> {
    let end = Instant::now() + install_max;
    let mut answer = pin!(reader.next());
    loop {
        match timeout(LOOK_EVERY, &mut answer).await {
            Ok(answer) => return answer,
            Err(_) if peer.start_number() != start => {
                return Err(LinkError::Failed("the node was started again while it received a snapshot".to_owned()));
            }
            Err(_) if Instant::now() >= end => return Err(LinkError::Silent(install_max)),
            Err(_) => {}
        }
    }
}

/// What arrives for the writing thread.
enum Piece {
    Chunk(Vec<u8>),
    /// All chunks have arrived. Without it the file is not complete.
    End,
}

/// Receives the beginning of a snapshot: the leader's vote, and what the snapshot has.
pub(super) async fn begin(reader: &mut Reader) -> Result<(Vote, SnapshotMeta), LinkError> {
    let frame = next(reader).await?;
    match decode(&frame)? {
        SnapshotFrame::Begin { vote, meta } => Ok((vote, meta)),
        _ => Err(LinkError::Malformed { bytes: frame.len(), expected: "the beginning of a snapshot" }),
    }
}

/// Receives the rest of a snapshot into a temporary file. `alive` lives as long as the folder is used.
pub(super) async fn receive(
    reader: &mut Reader,
    snapshots: Snapshots,
    alive: mpsc::Sender<()>,
) -> Result<Received, LinkError> {
    let (give, mut pieces) = mpsc::channel(CHUNKS_AHEAD);
    let writing = spawn_on_thread(async move {
        let received = write(&mut pieces, &snapshots).await;
        // The folder is in use until here.
        drop((snapshots, alive));
        received
    });
    let arrived = collect(reader, give).await;
    let written = writing.await.map_err(|error| LinkError::Failed(error.to_string()))?;
    match (arrived, written) {
        (Ok(()), Ok(received)) => Ok(received),
        // If the disk fails, the writing thread ends, and only then collecting does.
        (_, Err(error)) if error.kind() != io::ErrorKind::Other => {
            Err(LinkError::Failed(format!("the snapshot cannot be written: {error}")))
        }
        (Err(error), _) => Err(error),
        (Ok(()), Err(error)) => Err(LinkError::Failed(format!("the snapshot cannot be written: {error}"))),
    }
}

async fn write(pieces: &mut mpsc::Receiver<Piece>, snapshots: &Snapshots) -> io::Result<Received> {
    let mut receiving = snapshots.receive()?;
    while let Some(piece) = pieces.recv().await {
        before_disk().await;
        match piece {
            Piece::Chunk(chunk) => receiving.add(chunk)?,
            Piece::End => return receiving.end(),
        }
    }
    Err(io::Error::other("the sender is gone"))
}

async fn collect(reader: &mut Reader, give: mpsc::Sender<Piece>) -> Result<(), LinkError> {
    let (mut chunk, mut count, mut crc) = (Vec::new(), 0_u64, 0);
    loop {
        let frame = next(reader).await?;
        let piece = match decode(&frame)? {
            SnapshotFrame::Part { bytes, .. } if chunk.len() + bytes.len() > CHUNK_BYTES_MAX => {
                return Err(LinkError::Malformed {
                    bytes: chunk.len() + bytes.len(),
                    expected: "a chunk of a snapshot",
                });
            }
            SnapshotFrame::Part { bytes, ends_chunk } => {
                chunk.extend_from_slice(bytes);
                if !ends_chunk {
                    continue;
                }
                (count, crc) = (count + 1, crc32c::crc32c_append(crc, &chunk));
                Piece::Chunk(std::mem::take(&mut chunk))
            }
            SnapshotFrame::End { chunks, crc: expected } => {
                if !chunk.is_empty() || (chunks, expected) != (count, crc) {
                    return Err(LinkError::Malformed { bytes: frame.len(), expected: "the end of this snapshot" });
                }
                Piece::End
            }
            SnapshotFrame::Begin { .. } => {
                return Err(LinkError::Malformed { bytes: frame.len(), expected: "a part of a snapshot" });
            }
        };
        let is_end = matches!(piece, Piece::End);
        // The writing thread has ended early: it says why.
        if give.send(piece).await.is_err() || is_end {
            return Ok(());
        }
    }
}

async fn next(reader: &mut Reader) -> Result<BytesMut, LinkError> {
    timeout(PART_MAX, reader.next()).await.unwrap_or(Err(LinkError::Silent(PART_MAX)))
}

fn decode(frame: &[u8]) -> Result<SnapshotFrame<'_>, LinkError> {
    wire::decode(frame, "a part of a snapshot")
}
