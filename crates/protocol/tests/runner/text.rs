//! How values look in a transcript.

use std::ops::RangeInclusive;

use baton_protocol::{Message, ProcessId, Ticks};

/// `P0 P1 P2`.
pub fn processes(ids: impl IntoIterator<Item = ProcessId>) -> String {
    ids.into_iter().map(|id| format!("P{id}")).collect::<Vec<_>>().join(" ")
}

/// The kind of a message and what it carries: `REPLY {time: 3, request: 1}`.
pub fn message<M: Message>(message: &M) -> String {
    let debug = format!("{message:?}");
    let fields = fields(&debug).replace("{ ", "{").replace(" }", "}");
    format!("{} {fields}", message.kind()).trim_end().to_string()
}

/// `2`, or `1..=6`.
pub fn range(range: &RangeInclusive<Ticks>) -> String {
    if range.start() == range.end() { range.start().to_string() } else { format!("{range:?}") }
}

/// The debug text of a value without the name of its type, and without the parentheses around a single struct.
fn fields(debug: &str) -> &str {
    let fields = debug.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
    let inner = fields.strip_prefix('(').and_then(|fields| fields.strip_suffix(')'));
    match inner {
        Some(inner) if inner.starts_with(|c: char| c.is_uppercase()) => self::fields(inner),
        _ => fields,
    }
}
