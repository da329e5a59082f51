//! States in as few bytes as possible, because millions of them wait in the queue.

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Several states, one after the other.
#[derive(Default)]
pub struct Packed {
    bytes: Vec<u8>,
    /// Where each state ends.
    ends: Vec<usize>,
}

impl Packed {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a state. Returns its bytes: equal states have equal bytes, and different states have different bytes.
    pub fn push(&mut self, state: &impl Serialize) -> &[u8] {
        let begin = self.bytes.len();
        postcard::serialize_with_flavor(state, Append(&mut self.bytes)).expect("a state is plain data");
        self.ends.push(self.bytes.len());
        &self.bytes[begin..]
    }

    /// Adds a state that is packed already.
    pub fn push_packed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The bytes of a state.
    pub fn get(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[number]]
    }

    pub fn unpack<S: DeserializeOwned>(&self, number: usize) -> S {
        postcard::from_bytes(self.get(number)).expect("what was packed can be unpacked")
    }

    pub fn append(&mut self, more: &Packed) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&more.bytes);
        self.ends.extend(more.ends.iter().map(|end| before + end));
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// Waiting states, in blocks, so that the memory of a finished block can be freed.
#[derive(Default)]
pub struct Queue {
    /// All blocks are full, except the last.
    blocks: Vec<Packed>,
}

/// Number of states in a block.
pub const BLOCK: usize = 1 << 12;

impl Queue {
    pub fn push(&mut self, state: &[u8]) {
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK => block.push_packed(state),
            full => {
                full.into_iter().for_each(Packed::shrink);
                let mut block = Packed::default();
                block.push_packed(state);
                self.blocks.push(block);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Takes all waiting states, block by block.
    pub fn take(&mut self) -> impl Iterator<Item = Packed> + use<> {
        std::mem::take(&mut self.blocks).into_iter()
    }
}

/// A postcard flavor that appends to a buffer.
struct Append<'b>(&'b mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out_in_order() {
        let states = [(1_u32, vec![7_u32]), (300, vec![]), (0, vec![1 << 20, 2])];
        let (mut one, mut rest, mut all) = (Packed::default(), Packed::default(), Packed::default());
        one.push(&states[0]);
        states[1..].iter().for_each(|state| _ = rest.push(state));
        one.append(&rest);
        (0..3).for_each(|number| all.push_packed(one.get(number)));
        assert_eq!(all.len(), 3);
        assert_eq!([0, 1, 2].map(|number| all.unpack::<(u32, Vec<u32>)>(number)), states);
    }

    #[test]
    fn a_queue_keeps_its_order_and_comes_out_in_full_blocks() {
        let mut queue = Queue::default();
        (0..BLOCK as u32 + 3).for_each(|state| queue.push(&state.to_le_bytes()));
        let blocks: Vec<Packed> = queue.take().collect();
        assert_eq!(blocks.iter().map(Packed::len).collect::<Vec<_>>(), [BLOCK, 3]);
        assert_eq!(blocks[1].get(2), (BLOCK as u32 + 2).to_le_bytes());
        assert!(queue.is_empty());
    }
}
