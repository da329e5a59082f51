//! Plays transcripts: text files with commands and their output.
//!
//! A line that begins with `> ` is a command, and the indented lines below it are its output. Lines that begin with
//! `#` are comments. `> group <algorithm> <n> [variant=..] [coordinators=..] [votes=..] [delay_max=..]` makes a new
//! group of processes. [`Command`](command::Command) and [`detector::run`] list the other commands.

use std::fmt::Write;

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Visitor};
use baton_protocol::{Group, Protocol};
use baton_sim::stage::Stage;

mod command;
mod detector;
mod scene;

use scene::Scene;

/// Plays the transcript `text` and returns it with the actual outputs of its commands.
///
/// # Panics
/// If a line cannot be understood, or if a group does not run `algorithm`.
pub fn render(text: &str, algorithm: &str) -> String {
    let lines: Vec<Line> = text.lines().enumerate().filter_map(|(index, text)| Line::read(index + 1, text)).collect();
    let mut rendered = String::new();
    let mut rest = &lines[..];
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        writeln!(rendered, "{}", line.text).unwrap();
        if let Some(group) = line.command().and_then(|command| command.strip_prefix("group ")) {
            let (name, params) = command::parse_group(group).unwrap_or_else(|| line.misunderstood());
            assert_eq!(name, algorithm, "line {}: this folder is for another algorithm", line.number);
            let (scene, next) = rest.split_at(rest.iter().position(Line::makes_a_group).unwrap_or(rest.len()));
            match registry::visit(name, &params, Play { scene }) {
                Ok(played) => {
                    rendered.push_str(&played);
                    rest = next;
                }
                Err(error) => writeln!(rendered, "  refused: {error}").unwrap(),
            }
        } else if line.command().is_some() {
            panic!("line {}: `{}` without a group", line.number, line.text);
        }
    }
    rendered
}

/// A line of a transcript that is not output: a comment, a command or an empty line. `render` writes the outputs anew.
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn read(number: usize, text: &'a str) -> Option<Self> {
        let line = Line { number, text };
        match text.chars().next() {
            None | Some('#' | '>') => Some(line),
            Some(' ') => None,
            Some(_) => line.misunderstood(),
        }
    }

    fn command(&self) -> Option<&'a str> {
        self.text.strip_prefix("> ")
    }

    fn makes_a_group(&self) -> bool {
        self.text.starts_with("> group ")
    }

    fn misunderstood(&self) -> ! {
        panic!("line {}: `{}` is neither a command, nor an output, nor a comment", self.number, self.text)
    }
}

/// Plays one scene, that is, all commands for one group.
struct Play<'a> {
    scene: &'a [Line<'a>],
}

impl Visitor for Play<'_> {
    type Output = String;

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> String {
        self.play(Stage::mutex(group))
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> String {
        self.play(Stage::election(group))
    }

    fn append<P: Append>(self, _: &'static About, group: Group<P>) -> String {
        self.play(Stage::append(group))
    }

    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) -> String {
        let mut detector = (group.make)(0);
        let mut rendered = format!("  beats every {}\n", detector.period());
        for line in self.scene {
            writeln!(rendered, "{}", line.text).unwrap();
            if let Some(text) = line.command() {
                let told = detector::run(&mut detector, text).unwrap_or_else(|| line.misunderstood());
                write_indented(&mut rendered, vec![told]);
            }
        }
        rendered
    }
}

impl Play<'_> {
    fn play<P: Protocol>(self, stage: Stage<P>) -> String {
        let mut scene = Scene::new(stage);
        let mut rendered = String::new();
        write_indented(&mut rendered, scene.start());
        for line in self.scene {
            writeln!(rendered, "{}", line.text).unwrap();
            if let Some(text) = line.command() {
                let command = command::parse(text).unwrap_or_else(|| line.misunderstood());
                write_indented(&mut rendered, scene.run(command));
            }
        }
        rendered
    }
}

fn write_indented(rendered: &mut String, lines: Vec<String>) {
    for line in lines {
        writeln!(rendered, "  {line}").unwrap();
    }
}
