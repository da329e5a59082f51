//! Shared by the tests with real processes.

/// The number in an environment variable, by which an xtask makes a test longer.
pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number")),
        Err(_) => default,
    }
}
