//! The terminal: the table, the keys, and lines where there is no terminal.

use std::io::{BufRead, IsTerminal, Write};

use console::{Key, Term};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use serde::Serialize;

use crate::output::{COLUMNS, Failure, print, print_json, written};

/// The settings of the terminal, which come back at the end: the thread that reads keys changes them.
pub struct Sane(Option<Termios>);

impl Sane {
    pub fn new() -> Self {
        // Without a terminal there is nothing to keep.
        Sane(tcgetattr(std::io::stdin()).ok())
    }
}

impl Drop for Sane {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // An error leaves the terminal as it is, and the program ends anyway.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, settings);
        }
    }
}

/// What the user typed.
pub enum Typed {
    Key(Key),
    Line(String),
}

/// Reads keys of a terminal, or lines, until `tell` returns false. A thread waits for them, because reading cannot be
/// interrupted.
pub fn listen(interactive: bool, tell: impl Fn(Typed) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        if interactive {
            let term = Term::stdout();
            while let Ok(key) = term.read_key() {
                if !tell(Typed::Key(key)) {
                    return;
                }
            }
            return;
        }
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !tell(Typed::Line(line)) {
                return;
            }
        }
    });
}

/// Where the table is shown.
pub struct Screen<Row> {
    pub interactive: bool,
    json: bool,
    /// The text on the terminal.
    drawn: String,
    last: Option<Vec<Row>>,
}

impl<Row: PartialEq + Serialize> Screen<Row> {
    pub fn new(json: bool) -> Self {
        let interactive = !json && Term::stdout().features().is_attended() && std::io::stdin().is_terminal();
        Screen { interactive, json, drawn: String::new(), last: None }
    }

    /// Shows the rows if they have changed. `to_text` makes the table, for so many columns.
    pub fn draw(&mut self, rows: Vec<Row>, to_text: impl FnOnce(&[Row], usize) -> String) -> Result<(), Failure> {
        if self.interactive {
            // One write for all: otherwise the table flickers.
            let mut term = Term::buffered_stdout();
            let (height, width) = term.size();
            let width = usize::from(width).saturating_sub(1);
            let text = clipped(&to_text(&rows, width), usize::from(height).saturating_sub(1), width);
            if text == self.drawn {
                return Ok(());
            }
            let old = self.drawn.lines().count();
            let shown = term.clear_last_lines(old).and_then(|()| term.write_all(text.as_bytes()));
            self.drawn = text;
            return written(shown.and_then(|()| term.flush())).map(drop);
        }
        if self.last.as_ref() == Some(&rows) {
            return Ok(());
        }
        match self.json {
            true => print_json(&rows)?,
            false => print(&to_text(&rows, COLUMNS))?,
        }
        self.last = Some(rows);
        Ok(())
    }
}

/// The part of a text that fits.
fn clipped(text: &str, rows: usize, columns: usize) -> String {
    let lines = text.lines().take(rows);
    lines.map(|line| line.chars().take(columns).chain(['\n']).collect::<String>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_terminal_gets_what_fits() {
        assert_eq!(clipped("abcd\nefgh\nijkl\n", 2, 3), "abc\nefg\n");
        assert_eq!(clipped("ab\n", 24, 80), "ab\n");
    }
}
