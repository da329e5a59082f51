//! Random numbers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;

use crate::simulation;

/// A random number that nobody can guess.
pub fn random_u64() -> io::Result<u64> {
    match simulation::running(|world| world.random()) {
        Some(number) => Ok(number),
        None => getrandom::u64().map_err(io::Error::from),
    }
}

/// 32 random bytes that nobody can guess.
pub fn random_bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random_u64()?.to_le_bytes());
    }
    Ok(bytes)
}

/// A random number that cannot fail, for nonces and names. An attacker may be able to guess it.
pub fn random(salt: u64) -> u64 {
    simulation::running(|world| world.random()).unwrap_or_else(|| RandomState::new().hash_one(salt))
}
