//! The conversation of two members: every item arrives exactly once and in order, however often their connection breaks.
//! Pure.
//!
//! Each side numbers its items from 1 and keeps an item until the other side acknowledges it. On a new connection each
//! side first tells how far it has received the other's items ([`Frame::Resume`]). Then each side continues behind that
//! item. So an item that was lost with a connection is sent again, and an item that had arrived is not.
//!
//! A side also has a statement about itself, of which only the newest one counts ([`Frame::Statement`]). It comes before
//! the items of each connection, and again when it changes.

use std::collections::VecDeque;

use tokio_util::bytes::{Buf, BytesMut};

use crate::beginning::Statement;
use crate::frame::{self, Frame, FrameError, Item};

/// A side acknowledges by itself, without a beat, after this many items or bytes.
const ACKNOWLEDGE_AFTER_ITEMS: u64 = 256;
const ACKNOWLEDGE_AFTER_BYTES: usize = 64 * 1024;

/// One side of the conversation.
#[derive(Debug, Default)]
pub struct Session {
    /// The frames of the items that the other side has not acknowledged, and the length of each.
    kept: BytesMut,
    lengths: VecDeque<u32>,
    /// Where in `kept` the frames begin that are not written to the connection, and how many items come before.
    unwritten_at: usize,
    written: usize,
    /// The other side has acknowledged the items up to this number.
    acknowledged: u64,
    /// This side has received the items up to this number, and has acknowledged them up to `told`.
    received: u64,
    told: u64,
    /// Bytes received since `told`.
    untold_bytes: usize,
    scratch: Vec<u8>,
    /// The frame with the newest statement about this side, which comes before all items of a connection, and whether it
    /// is on this connection already.
    statement: Vec<u8>,
    said: bool,
}

/// The other side breaks the rules of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("it sent item {found} where item {expected} is next")]
    Gap { found: u64, expected: u64 },
    #[error("it acknowledged item {found}, but the last item that was sent is {last}")]
    NeverSent { found: u64, last: u64 },
    #[error("it has forgotten items: it had acknowledged item {acknowledged}, and now has only {found}")]
    Forgotten { found: u64, acknowledged: u64 },
}

impl Session {
    /// Adds an item at the end of the conversation.
    pub fn push(&mut self, item: Item<'_>) -> Result<(), FrameError> {
        let number = self.last() + 1;
        self.scratch.clear();
        frame::encode_to(&mut self.scratch, &Frame::Item { number, item })?;
        self.kept.extend_from_slice(&self.scratch);
        self.lengths.push_back(self.scratch.len() as u32);
        Ok(())
    }

    /// This is this side's newest statement. Items that are added later come behind it.
    pub fn say(&mut self, statement: &Statement) -> Result<(), FrameError> {
        self.statement.clear();
        self.said = false;
        frame::encode_to(&mut self.statement, &Frame::Statement(statement.clone()))
    }

    /// A new conversation begins, with another incarnation of the other side. The statement stays.
    pub fn begin_anew(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        *self = Session { statement, ..Session::default() };
    }

    /// Bytes that the other side has not acknowledged.
    pub fn backlog(&self) -> usize {
        self.kept.len()
    }

    /// This side has received the items up to this number.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// A connection begins: the other side has received the items up to `received`.
    pub fn resume(&mut self, received: u64) -> Result<(), SessionError> {
        if received < self.acknowledged {
            return Err(SessionError::Forgotten { found: received, acknowledged: self.acknowledged });
        }
        (self.unwritten_at, self.written, self.said) = (0, 0, false);
        self.acknowledge(received)?;
        self.told = self.received;
        self.untold_bytes = 0;
        Ok(())
    }

    /// The other side has received the items up to this number.
    pub fn acknowledge(&mut self, received: u64) -> Result<(), SessionError> {
        if received > self.last() {
            return Err(SessionError::NeverSent { found: received, last: self.last() });
        }
        while self.acknowledged < received {
            let length = self.lengths.pop_front().expect("an item up to the last has a length") as usize;
            self.kept.advance(length);
            self.acknowledged += 1;
            self.written = self.written.saturating_sub(1);
            self.unwritten_at = self.unwritten_at.saturating_sub(length);
        }
        Ok(())
    }

    /// An item has arrived. Returns false if it is a copy of an item that had arrived before.
    pub fn receive(&mut self, number: u64, bytes: usize) -> Result<bool, SessionError> {
        let expected = self.received + 1;
        if number > expected {
            return Err(SessionError::Gap { found: number, expected });
        }
        if number == expected {
            self.received = number;
            self.untold_bytes += bytes;
        }
        Ok(number == expected)
    }

    /// Moves unwritten frames to the end of `out`, as long as `out` has fewer than `enough` bytes.
    pub fn fill(&mut self, out: &mut BytesMut, enough: usize) {
        if !std::mem::replace(&mut self.said, true) {
            out.extend_from_slice(&self.statement);
        }
        while out.len() < enough
            && let Some(&length) = self.lengths.get(self.written)
        {
            let end = self.unwritten_at + length as usize;
            out.extend_from_slice(&self.kept[self.unwritten_at..end]);
            self.unwritten_at = end;
            self.written += 1;
        }
    }

    /// Whether so much has arrived that the other side should hear of it now, and not at the next beat.
    pub fn owes_acknowledgement(&self) -> bool {
        self.received - self.told >= ACKNOWLEDGE_AFTER_ITEMS || self.untold_bytes >= ACKNOWLEDGE_AFTER_BYTES
    }

    /// A beat, which acknowledges everything that has arrived.
    pub fn beat(&mut self) -> Frame<'static> {
        self.told = self.received;
        self.untold_bytes = 0;
        Frame::Beat { received: self.received }
    }

    fn last(&self) -> u64 {
        self.acknowledged + self.lengths.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Cutter, decode_exactly};

    /// Two sides, the bytes on their way in each direction, and what has arrived.
    #[derive(Default)]
    struct Pair {
        sides: [Session; 2],
        wires: [BytesMut; 2],
        arrived: [Vec<u64>; 2],
        sent: [u64; 2],
        /// Cuts in the middle of a frame, and cuts while an item that had arrived was not acknowledged.
        cuts: [u64; 2],
    }

    impl Pair {
        fn send(&mut self, side: usize) {
            self.sent[side] += 1;
            self.sides[side].push(Item::Open { name: &self.sent[side].to_le_bytes() }).unwrap();
            self.sides[side].fill(&mut self.wires[side], usize::MAX);
        }

        /// `bytes` of what this side has written arrive.
        fn arrive(&mut self, side: usize, bytes: usize) {
            let wire = &mut self.wires[side];
            let mut buffer = wire.split_to(bytes.min(wire.len()));
            let (mut cutter, other) = (Cutter::new(), 1 - side);
            let mut rest = buffer.clone();
            while let Some(frame) = cutter.cut(&mut buffer).unwrap() {
                rest = buffer.clone();
                match decode_exactly(&frame, "a frame").unwrap() {
                    Frame::Item { number, item: Item::Open { name } } => {
                        if self.sides[other].receive(number, frame.len()).unwrap() {
                            self.arrived[other].push(u64::from_le_bytes(name.try_into().unwrap()));
                        }
                    }
                    Frame::Beat { received } => self.sides[other].acknowledge(received).unwrap(),
                    other => panic!("{other:?}"),
                }
            }
            // A frame of which only a part has arrived stays on its way.
            rest.extend_from_slice(&self.wires[side]);
            self.wires[side] = rest;
        }

        fn beat(&mut self, side: usize) {
            let beat = self.sides[side].beat();
            let mut bytes = Vec::new();
            frame::encode_to(&mut bytes, &beat).unwrap();
            self.wires[side].extend_from_slice(&bytes);
        }

        /// The connection breaks, and a new one begins.
        fn cut(&mut self, part: usize) {
            for side in [0, 1] {
                // Some bytes arrive before the cut, and end in the middle of a frame or not.
                let before = self.wires[side].len();
                self.arrive(side, part);
                self.cuts[0] += u64::from(before > 0 && !self.wires[side].is_empty());
                self.wires[side].clear();
            }
            for side in [0, 1] {
                self.cuts[1] += u64::from(self.sides[1 - side].received() > self.sides[side].acknowledged);
            }
            let received = [self.sides[0].received(), self.sides[1].received()];
            for side in [0, 1] {
                self.sides[side].resume(received[1 - side]).unwrap();
                self.sides[side].fill(&mut self.wires[side], usize::MAX);
            }
        }
    }

    /// Random sends, arrivals, acknowledgements and cuts; thousands of cuts in all.
    #[test]
    fn every_item_arrives_once_and_in_order_however_often_the_connection_breaks() {
        let mut cuts = [0, 0];
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut pair = Pair::default();
            for _ in 0..300 {
                let side = random.usize(..2);
                match random.u8(..10) {
                    0..4 => pair.send(side),
                    4..7 => pair.arrive(side, random.usize(..40)),
                    7 => pair.beat(side),
                    _ => pair.cut(random.usize(..40)),
                }
            }
            pair.cut(0);
            for side in [0, 1] {
                pair.arrive(side, usize::MAX);
                pair.beat(1 - side);
            }
            for side in [0, 1] {
                pair.arrive(side, usize::MAX);
                assert!(pair.arrived[1 - side].iter().copied().eq(1..=pair.sent[side]), "seed {seed}");
                assert_eq!(pair.sides[side].backlog(), 0, "seed {seed}: everything was acknowledged");
            }
            cuts = [cuts[0] + pair.cuts[0], cuts[1] + pair.cuts[1]];
        }
        assert!(cuts.iter().all(|&cuts| cuts > 2000), "cut in the middle, and before an acknowledgement: {cuts:?}");
    }

    #[test]
    fn a_side_that_breaks_the_rules_is_noticed() {
        let mut session = Session::default();
        session.push(Item::Open { name: b"a" }).unwrap();
        assert_eq!(session.acknowledge(2), Err(SessionError::NeverSent { found: 2, last: 1 }));
        assert_eq!(session.receive(2, 1), Err(SessionError::Gap { found: 2, expected: 1 }));
        session.acknowledge(1).unwrap();
        assert_eq!(session.resume(0), Err(SessionError::Forgotten { found: 0, acknowledged: 1 }));
    }

    #[test]
    fn much_is_acknowledged_before_the_next_beat() {
        let mut session = Session::default();
        for number in 1..ACKNOWLEDGE_AFTER_ITEMS {
            assert!(session.receive(number, 0).unwrap() && !session.owes_acknowledgement());
        }
        session.receive(ACKNOWLEDGE_AFTER_ITEMS, 0).unwrap();
        assert!(session.owes_acknowledgement());
        assert_eq!(session.beat(), Frame::Beat { received: ACKNOWLEDGE_AFTER_ITEMS });
        assert!(!session.owes_acknowledgement());
        session.receive(ACKNOWLEDGE_AFTER_ITEMS + 1, ACKNOWLEDGE_AFTER_BYTES).unwrap();
        assert!(session.owes_acknowledgement());
    }
}
