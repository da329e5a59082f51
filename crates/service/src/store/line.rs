//! A line of text with its own checksum: what small files hold.

/// The line that says so.
pub(super) fn encode(says: &str) -> String {
    format!("{says} {:08x}\n", crc32c::crc32c(says.as_bytes()))
}

/// What a line says, if it is exactly as it was written.
pub(super) fn decode(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (says, _) = text.rsplit_once(' ')?;
    (encode(says) == text).then_some(says)
}
