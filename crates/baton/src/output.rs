//! How the subcommands fail and print: exit statuses, messages, JSON and tables.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use baton_types::name;
pub use baton_types::name::short as shown;
use serde::Serialize;

/// Everything that the command checks held.
pub const HELD: u8 = 0;
/// A promise was broken.
pub const VIOLATED: u8 = 1;
/// The options or a file are wrong; the user has to change them.
pub const BAD_INPUT: u8 = 2;
/// The output cannot be written (EX_IOERR).
pub const OUTPUT_FAILED: u8 = 74;

/// The error of a command.
pub struct Failure {
    /// One sentence for people.
    pub message: String,
    pub status: ExitCode,
}

impl Failure {
    pub fn bad_input(reason: impl Display) -> Self {
        Failure { message: reason.to_string(), status: ExitCode::from(BAD_INPUT) }
    }
}

pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::bad_input(format!("cannot read {}: {error}", name::path(path)))
}

/// The message names the error and a remedy that fits it.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let right = match error.kind() {
        io::ErrorKind::NotFound => "name a file in a folder that exists",
        io::ErrorKind::PermissionDenied => "name a file that you may write to",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::StorageFull => "free some space, or name a file on another disk",
        _ => "name another file",
    };
    Failure::bad_input(format!("cannot write {}: {error}; {right}", name::path(path)))
}

/// A file that the command may write at its end. Opening it early reports an unwritable file before the long work.
pub struct Target<'a> {
    path: &'a Path,
    is_new: bool,
}

impl<'a> Target<'a> {
    pub fn open(path: &'a Path) -> Result<Self, Failure> {
        let is_new = !path.exists();
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map(|_| Target { path, is_new }).map_err(|error| unwritable(path, &error))
    }

    /// Removes the file if `open` created it.
    pub fn leave_as_it_was(self) {
        if self.is_new {
            // The file is empty, so it does no harm if it cannot be removed.
            _ = fs::remove_file(self.path);
        }
    }
}

/// The exit status of a command that ran, or its error.
pub type Outcome = Result<ExitCode, Failure>;

/// Prints text. It is not an error if the reader has closed the pipe (`| head`).
pub fn print(text: &str) -> Result<(), Failure> {
    print_while_read(text).map(|_| ())
}

/// Like [`print()`], and returns false if the reader has closed the pipe.
pub fn print_while_read(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Judges the result of a write to standard output: true if it was written, false if the reader has closed the pipe.
pub fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let message = format!("cannot write to standard output: {error}");
            Err(Failure { message, status: ExitCode::from(OUTPUT_FAILED) })
        }
    }
}

/// Writes a message to standard error. If that fails, the exit status still tells the result.
pub fn warn(message: impl Display) {
    let _ = writeln!(io::stderr(), "baton: {message}");
}

/// A number with its noun: "1 run", "2 runs".
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints one JSON object on one line.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(Failure::bad_input)?;
    print(&(text + "\n"))
}

/// The width of tables and texts for people. A longer word makes a text wider.
pub const COLUMNS: usize = 100;
/// The least width of a wrapped column.
const NARROW_MIN: usize = 16;

/// Columns padded to the widest cell. The first row is the head.
pub fn table(rows: &[Vec<String>]) -> String {
    let widths = widths(rows);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| cell.clone() + &" ".repeat(width.saturating_sub(columns_of(cell))))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Like [`table`], but wraps cells so that the table has at most [`COLUMNS`] characters a line. The widest column is the
/// first to become narrower. A table with too many columns stays wider, because no column goes below [`NARROW_MIN`].
pub fn narrow_table(rows: &[Vec<String>]) -> String {
    let natural = widths(rows);
    let narrow = fitting(natural.clone());
    if narrow == natural {
        return table(rows);
    }
    let mut lines = Vec::new();
    for row in rows {
        let cells: Vec<Vec<String>> = row.iter().zip(&narrow).map(|(cell, width)| cell_lines(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        lines.extend((0..height).map(|line| {
            let part = |cell: &Vec<String>| cell.get(line).cloned().unwrap_or_default();
            cells.iter().map(part).collect()
        }));
    }
    table(&lines)
}

/// Takes single characters from the widest column until the columns fit.
fn fitting(mut widths: Vec<usize>) -> Vec<usize> {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > COLUMNS
        && let Some(widest) = widths.iter_mut().max().filter(|width| **width > NARROW_MIN)
    {
        *widest -= 1;
    }
    widths
}

/// The lines of a cell in a column of this width. A longer word is broken, after a hyphen if it has one there.
fn cell_lines(cell: &str, width: usize) -> Vec<String> {
    if columns_of(cell) <= width {
        return vec![cell.to_owned()];
    }
    let broken = |line: String| -> Vec<String> {
        let (mut parts, mut rest) = (Vec::new(), line);
        while columns_of(&rest) > width {
            let fits = fitting_bytes(&rest, width);
            if fits == rest.len() {
                break;
            }
            let hyphen = rest[..fits].rfind('-').filter(|at| *at > 0);
            let after = rest.split_off(hyphen.map_or(fits, |at| at + 1));
            parts.push(std::mem::replace(&mut rest, after));
        }
        parts.push(rest);
        parts
    };
    wrapped(cell, width).into_iter().flat_map(broken).collect()
}

/// Number of columns that a text takes on a terminal. Chinese characters take two each.
fn columns_of(text: &str) -> usize {
    console::measure_text_width(text)
}

/// Number of bytes at the start of the text that fit into this many columns; at least one character.
fn fitting_bytes(text: &str, width: usize) -> usize {
    let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
    let first = ends.clone().next().unwrap_or_default();
    ends.take_while(|end| columns_of(&text[..*end]) <= width).last().unwrap_or(first)
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(cell)).max();
    (0..columns).map(|column| width(column).unwrap_or_default()).collect()
}

/// Breaks the text into lines of whole words. A word longer than `width` gets a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if columns_of(line) + 1 + columns_of(word) <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Wraps the long lines of a text. A line may begin with spaces and a number; it continues two columns to the right of
/// the first word after them.
pub fn folded(text: &str) -> String {
    folded_to(text, COLUMNS)
}

/// Like [`folded`], for a terminal with so many columns.
pub fn folded_to(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        if columns_of(line) <= columns {
            return line.to_owned() + "\n";
        }
        let words = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
        let (head, _) = line.split_at(line.len() - words.len());
        let lines = wrapped(words, columns.saturating_sub(head.len() + 2));
        head.to_owned() + &lines.join(&format!("\n{}", " ".repeat(head.len() + 2))) + "\n"
    };
    text.lines().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_column_of_a_wide_table_is_wrapped() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let long = "word ".repeat(30);
        let text = narrow_table(&[row(["A", "B", "C"]), row(["1", long.trim(), "3"]), row(["4", "5", "6"])]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(lines[1].starts_with("1  word word") && lines[1].ends_with(" 3"), "{text}");
        assert!(lines[2].starts_with("   word") && lines[2].ends_with("word"), "{text}");
        assert_eq!(text.matches("word").count(), 30);
        assert_eq!(narrow_table(&[row(["a", "b", "c"])]), "a  b  c\n");
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        assert_eq!(table(&[row(["A", "B"]), row(["漢字", "1"]), row(["é", "2"])]), "A     B\n漢字  1\né     2\n");
        assert_eq!(cell_lines("漢字漢字漢", 4), ["漢字", "漢字", "漢"]);
        assert_eq!(cell_lines("漢字漢", 3), ["漢", "字", "漢"]);
        assert_eq!(cell_lines("漢", 1), ["漢"], "it cannot be broken");
        assert_eq!(wrapped("漢字 漢字 a", 9), ["漢字 漢字", "a"]);
    }

    #[test]
    fn several_columns_of_a_wide_table_become_narrow_together() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let (name, label) = ("n".repeat(90), "l".repeat(80));
        let text = narrow_table(&[row(["NAME", "LABEL", "FENCE"]), row([&name, &label, "7"]), row(["a", "b", "8"])]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!((text.matches('n').count(), text.matches('l').count()), (90, 80), "nothing is cut off: {text}");
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].ends_with("l  7") && lines[2].ends_with('l') && lines[3].ends_with("  8"), "{text}");
    }

    #[test]
    fn no_column_becomes_too_narrow_to_read() {
        assert_eq!(fitting(vec![200; 9]), [NARROW_MIN; 9]);
        assert_eq!(fitting(vec![5, 200, 40]), [5, 51, 40]);
        assert_eq!(fitting(vec![60, 38]), [60, 38], "it fits");
        assert_eq!(fitting(Vec::new()), Vec::<usize>::new());
    }

    #[test]
    fn a_word_that_is_too_long_is_broken_in_a_cell_and_whole_in_a_text() {
        assert_eq!(cell_lines("ab abcdefgh c", 4), ["ab", "abcd", "efgh", "c"]);
        assert_eq!(cell_lines("äöüß", 4), ["äöüß"]);
        assert_eq!(cell_lines("carvalho-roucairol", 16), ["carvalho-", "roucairol"]);
        assert_eq!(cell_lines("-abcdefgh", 4), ["-abc", "defg", "h"]);
        assert_eq!(cell_lines("", 4), [""]);
        assert_eq!(wrapped("abcdefgh ab c", 4), ["abcdefgh", "ab c"]);
    }

    #[test]
    fn only_long_lines_are_folded() {
        let short = "a  b\n\n  c\n";
        assert_eq!(folded(short), short);
        let long = format!("x\n  5   {}\n", "word ".repeat(30).trim());
        let text = folded(&long);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with("  5   word") && lines[2].starts_with("        word"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.matches("word").count(), 30);
    }
}
