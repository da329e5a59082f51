//! A line of text with its own checksum, for small files.

pub fn encode(says: &str) -> String {
    format!("{says} {:08x}\n", crc32c::crc32c(says.as_bytes()))
}

/// The text of a line, if the line is exactly as it was written.
pub fn decode(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (says, _) = text.rsplit_once(' ')?;
    (encode(says) == text).then_some(says)
}
