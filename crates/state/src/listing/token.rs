//! Page tokens: bytes that a client sends back to get the next page.

use serde::{Deserialize, Serialize};

use crate::state::locks::Ticket;
use crate::state::{RequestNumber, SessionId};

/// The last part that a listing has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Token {
    Lock(LockPlace),
    Session(SessionPlace),
}

/// The end of a page of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPlace {
    /// All locks with lower names were shown.
    pub name: Vec<u8>,
    /// What was shown of this lock.
    pub after: AfterInLock,
}

/// The last part of a lock that was shown. The parts come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterInLock {
    /// Everything but holders and waiters.
    Head,
    /// The holder or waiter with this ticket.
    Claim(Ticket),
    /// The whole lock.
    All,
}

/// The end of a page of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlace {
    /// All sessions with lower ids were shown.
    pub id: SessionId,
    /// What was shown of this session.
    pub after: AfterInSession,
}

/// The last part of a session that was shown. The parts come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AfterInSession {
    /// Everything but the names of locks.
    Head,
    /// A lock of a claim.
    Name {
        acquire: RequestNumber,
        /// Which lock of the acquire, from 0 on.
        lock: usize,
    },
    /// The whole session.
    All,
}

/// The bytes are no token of this listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page was not given by this listing; begin again with an empty page")]
pub struct BadPage;

/// A checksum comes last, so that bytes of another origin are refused.
const CHECKSUM_BYTES: usize = 4;

impl Token {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = postcard::to_stdvec(self).expect("numbers and bytes can be written");
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadPage> {
        let (token, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BadPage)?;
        if crc32c::crc32c(token) != u32::from_le_bytes(*checksum) {
            return Err(BadPage);
        }
        match postcard::take_from_bytes(token) {
            Ok((token, [])) => Ok(token),
            _ => Err(BadPage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<Token> {
        let afters = [AfterInLock::Head, AfterInLock::Claim(u64::MAX), AfterInLock::All];
        let lock = |after| Token::Lock(LockPlace { name: vec![0xff; 512], after });
        let session = |after| Token::Session(SessionPlace { id: SessionId(1), after });
        let name = AfterInSession::Name { acquire: 7, lock: 63 };
        let of_sessions = [AfterInSession::Head, name, AfterInSession::All];
        afters.into_iter().map(lock).chain(of_sessions.into_iter().map(session)).collect()
    }

    #[test]
    fn a_token_that_is_handed_back_is_the_same() {
        for token in tokens() {
            assert_eq!(Token::from_bytes(&token.to_bytes()), Ok(token));
        }
    }

    #[test]
    fn bytes_that_are_no_token_are_refused() {
        for length in 0..100 {
            assert_eq!(Token::from_bytes(&vec![length; usize::from(length)]), Err(BadPage));
        }
        for token in tokens() {
            let bytes = token.to_bytes();
            for length in 0..bytes.len() {
                assert_eq!(Token::from_bytes(&bytes[..length]), Err(BadPage));
                let mut flipped = bytes.clone();
                flipped[length] ^= 1;
                assert_eq!(Token::from_bytes(&flipped), Err(BadPage));
            }
            let mut longer = bytes[..bytes.len() - CHECKSUM_BYTES].to_vec();
            longer.push(0);
            longer.extend_from_slice(&crc32c::crc32c(&longer).to_le_bytes());
            assert_eq!(Token::from_bytes(&longer), Err(BadPage), "what comes after a token is none");
        }
    }
}
