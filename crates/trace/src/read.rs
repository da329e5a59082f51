//! Reads traces. The file may come from anywhere, so every line is checked before another module uses it.

use std::io::{self, BufRead, Read};

use baton_protocol::registry::PROCESSES_MAX;

use crate::{Event, Header, Record, VERSION};

/// The longest line, in bytes. The longest real lines are headers with the quorums of thousands of clients.
pub const LINE_BYTES_MAX: usize = 128 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    #[error("the trace is empty; its first line must be a header")]
    Empty,
    #[error(
        "this is not a trace: its first line is not a header ({0}); name a file that `baton sim --trace` or \
         `baton check --trace` has written"
    )]
    NoTrace(serde_json::Error),
    #[error("line {line} of the trace is not an event: {source}")]
    Malformed {
        /// Counts from 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("line {line} of the trace has more than {LINE_BYTES_MAX} bytes; this is not a trace")]
    TooLong { line: usize },
    #[error("the trace has version {found}; this program reads version {VERSION}")]
    Version { found: u32 },
    #[error("line 1 of the trace has {processes} processes and {clients} clients, which cannot be")]
    Size { processes: usize, clients: usize },
    #[error("line {line} of the trace names P{process}, and the processes are P0 to P{last}")]
    NoProcess { line: usize, process: usize, last: usize },
    #[error("line {line} of the trace has an event of a process, but no `p`")]
    Nobody { line: usize },
}

/// A trace whose last line may be missing, because its writer was killed.
#[derive(Clone, Debug)]
pub struct Trace {
    pub header: Header,
    pub records: Vec<Record>,
    /// Whether the last line was cut off in the middle. It is not in `records`.
    pub is_cut_off: bool,
}

impl Trace {
    /// Reads a trace, and checks that every process in it exists.
    pub fn read(source: impl BufRead) -> Result<Trace, ReadError> {
        let trace = read_lines(source, true)?;
        let Header { processes, clients, .. } = trace.header;
        // A group may have as many coordinators as clients, and a witness.
        if processes == 0 || processes > 2 * PROCESSES_MAX + 1 || clients > processes {
            return Err(ReadError::Size { processes, clients });
        }
        for (line, record) in (2..).zip(&trace.records) {
            if let Some(process) = named(record).into_iter().flatten().find(|process| *process >= processes) {
                return Err(ReadError::NoProcess { line, process, last: processes - 1 });
            }
            if record.p.is_none() && !may_be_of_all(&record.event) {
                return Err(ReadError::Nobody { line });
            }
        }
        Ok(trace)
    }

    /// Whether the last record is `end`: the writer was not killed.
    pub fn is_ended(&self) -> bool {
        matches!(self.records.last(), Some(Record { event: Event::End { .. }, .. }))
    }
}

/// Reads a trace whose lines are all complete.
pub fn read(source: impl BufRead) -> Result<(Header, Vec<Record>), ReadError> {
    read_lines(source, false).map(|trace| (trace.header, trace.records))
}

fn read_lines(mut source: impl BufRead, may_be_cut_off: bool) -> Result<Trace, ReadError> {
    let mut bytes = Vec::new();
    read_line(&mut source, &mut bytes, 1)?.ok_or(ReadError::Empty)?;
    let header: Header = serde_json::from_slice(&bytes).map_err(ReadError::NoTrace)?;
    if header.baton_trace != VERSION {
        return Err(ReadError::Version { found: header.baton_trace });
    }
    let mut trace = Trace { header, records: Vec::new(), is_cut_off: false };
    for line in 2.. {
        let Some(is_whole) = read_line(&mut source, &mut bytes, line)? else { break };
        match serde_json::from_slice(&bytes) {
            Ok(record) => trace.records.push(record),
            Err(_) if may_be_cut_off && !is_whole => trace.is_cut_off = true,
            Err(source) => return Err(ReadError::Malformed { line, source }),
        }
    }
    Ok(trace)
}

/// Reads the next line without its end. Returns whether the line has an end, and None after the last line.
fn read_line(source: &mut impl BufRead, bytes: &mut Vec<u8>, line: usize) -> Result<Option<bool>, ReadError> {
    bytes.clear();
    let read = source.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', bytes)?;
    let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
    match read {
        0 => Ok(None),
        _ if bytes.len() > LINE_BYTES_MAX => Err(ReadError::TooLong { line }),
        _ => Ok(Some(is_whole)),
    }
}

/// Whether an event may concern no single process.
fn may_be_of_all(event: &Event) -> bool {
    matches!(event, Event::Partition { .. } | Event::Heal | Event::Violation { .. } | Event::End { .. })
}

/// The processes that a record names.
fn named(record: &Record) -> [Option<usize>; 2] {
    let other = match &record.event {
        Event::Send { to, .. } | Event::AppSend { to, .. } => Some(*to),
        Event::Deliver { from, .. } | Event::AppDeliver { from, .. } => Some(*from),
        Event::Suspect { peer } | Event::Trust { peer } => Some(*peer),
        Event::Elected { leader, .. } => *leader,
        _ => None,
    };
    [record.p, other]
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const HEADER: &str = r#"{"baton_trace":1,"algorithm":"central","processes":3,"clients":2,"seed":7,"network":{},"workload":{},"params":{"delay_max":0},"unit":"s"}"#;

    fn refusal(text: &str) -> String {
        Trace::read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn only_the_last_line_may_be_cut_off() {
        let exit = r#"{"seq":0,"t":0.5,"p":1,"event":"exit","req":3}"#;
        let whole = Trace::read(format!("{HEADER}\n{exit}\n").as_bytes()).unwrap();
        assert!(!whole.is_cut_off && !whole.is_ended() && whole.records.len() == 1);
        let unended = Trace::read(format!("{HEADER}\n{exit}").as_bytes()).unwrap();
        assert!(!unended.is_cut_off && unended.records.len() == 1, "only the end of the line is missing");
        for kept in 1..exit.len() {
            let cut = Trace::read(format!("{HEADER}\n{exit}\n{}", &exit[..kept]).as_bytes()).unwrap();
            assert!(cut.is_cut_off && cut.records == whole.records);
        }
        let middle = refusal(&format!("{HEADER}\n{}\n{exit}\n", &exit[..20]));
        assert!(middle.starts_with("line 2 of the trace is not an event: "), "{middle}");
        let last = refusal(&format!("{HEADER}\n{exit}\n{}\n", &exit[..20]));
        assert!(last.starts_with("line 3 of the trace is not an event: "), "a whole line is not cut off: {last}");
    }

    #[test]
    fn bytes_that_are_no_text_are_no_event() {
        let mut bytes = format!("{HEADER}\n").into_bytes();
        bytes.extend(b"\xff\x00\xfe\n");
        assert!(Trace::read(bytes.as_slice()).unwrap_err().to_string().starts_with("line 2 of the trace"));
        assert!(read(&b"\xff\n"[..]).unwrap_err().to_string().starts_with("this is not a trace"));
    }

    #[test]
    fn a_huge_line_is_refused_before_it_fills_the_memory() {
        let endless = BufReader::new(io::repeat(b'x'));
        assert!(matches!(Trace::read(endless), Err(ReadError::TooLong { line: 1 })));
    }

    #[test]
    fn a_process_that_cannot_be_is_refused_with_the_line() {
        let event = r#"{"seq":0,"t":0.5,"p":1,"event":"suspect","peer":3}"#;
        let told = "line 2 of the trace names P3, and the processes are P0 to P2";
        assert_eq!(refusal(&format!("{HEADER}\n{event}\n")), told);
        let event = r#"{"seq":0,"t":0.5,"event":"crash"}"#;
        let told = "line 2 of the trace has an event of a process, but no `p`";
        assert_eq!(refusal(&format!("{HEADER}\n{event}\n")), told);
        for processes in ["0", "1", "9999999999"] {
            let header = HEADER.replace("\"processes\":3", &format!("\"processes\":{processes}"));
            assert!(refusal(&header).starts_with("line 1 of the trace has "), "{header}");
        }
    }
}
