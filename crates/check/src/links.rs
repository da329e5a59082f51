//! The predecessors of all states, in two or three bytes each.
//!
//! States are numbered in order of discovery, and expanded in the same order. So the number of the predecessor never
//! falls from one state to the next, and it is enough to store by how much it grows.

#[derive(Default)]
pub struct Links {
    /// For each state: by how much the number of its predecessor has grown, and which successor of the predecessor it
    /// is.
    bytes: Vec<u8>,
    /// For every [`MARK_EVERY`]th state: its position in `bytes`, and the number of the predecessor before it.
    marks: Vec<(usize, u64)>,
    len: usize,
    latest: u64,
}

/// To find a state, at most this many are read.
const MARK_EVERY: usize = 1 << 10;

impl Links {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a state: successor `nth` of state `parent`, or of the start if there is no parent.
    pub fn push(&mut self, parent: Option<u32>, nth: u32) {
        // Here the start is 0, and each state is one more than its number.
        let from = parent.map_or(0, |parent| u64::from(parent) + 1);
        if self.len.is_multiple_of(MARK_EVERY) {
            self.marks.push((self.bytes.len(), self.latest));
        }
        write(&mut self.bytes, from - self.latest);
        write(&mut self.bytes, nth.into());
        self.latest = from;
        self.len += 1;
    }

    /// The indices of the successors to take, from the start to successor `nth` of state `parent`.
    pub fn path_to(&self, mut parent: Option<u32>, nth: usize) -> Vec<usize> {
        let mut path = vec![nth];
        while let Some(state) = parent {
            let (earlier, nth) = self.get(state);
            path.push(nth);
            parent = earlier;
        }
        path.reverse();
        path
    }

    /// The predecessor of a state, and which successor of it the state is.
    pub fn get(&self, state: u32) -> (Option<u32>, usize) {
        let (mark, more) = (state as usize / MARK_EVERY, state as usize % MARK_EVERY);
        let (mut at, mut from) = self.marks[mark];
        let mut nth = 0;
        for _ in 0..=more {
            from += read(&self.bytes, &mut at);
            nth = read(&self.bytes, &mut at);
        }
        (from.checked_sub(1).map(|parent| parent as u32), nth as usize)
    }
}

/// Seven bits in each byte. The eighth bit says that more bytes follow.
fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_knows_where_it_came_from() {
        let mut links = Links::default();
        let known = |state: u32| (state.checked_sub(1).map(|before| before / 3 * 2), state % 700);
        (0..5_000).for_each(|state| {
            let (parent, nth) = known(state);
            links.push(parent, nth);
        });
        for state in 0..5_000 {
            let (parent, nth) = known(state);
            assert_eq!(links.get(state), (parent, nth as usize));
        }
        assert_eq!(links.path_to(Some(4), 9), [0, 2, 4, 9]);
    }
}
