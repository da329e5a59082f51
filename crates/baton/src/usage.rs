//! Parses the command line. An error is one sentence, like all other errors of `baton`; clap would print several lines.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::{Failure, written};

/// An error shows at most this many characters of a value.
const VALUE_CHARS_MAX: usize = 60;

/// Parses the command line. `--help` and `--version` print and end the process.
pub fn parse<P: Parser>() -> Result<P, Failure> {
    P::try_parse().map_err(|error| {
        let asked_for_nothing = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if asked_for_nothing || !error.use_stderr() {
            return match written(error.print()) {
                Ok(_) => std::process::exit(error.exit_code()),
                Err(failure) => failure,
            };
        }
        Failure::bad_input(in_one_sentence(&error, &P::command()))
    })
}

/// Makes one sentence of clap's lines. It keeps the error and the similar name, and names the help for the rest.
fn in_one_sentence(error: &clap::Error, root: &clap::Command) -> String {
    let text = error.render().to_string();
    let text = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !value.is_empty() => text.replace(value, &shortened(value)),
        _ => text,
    };
    // If clap prints no usage, the first arguments are valid subcommands.
    let used = || subcommand_of(root, std::env::args().skip(1));
    let (wrong, usage) =
        text.split_once("Usage: ").map_or_else(|| (&*text, used()), |(wrong, usage)| (wrong, usage.to_owned()));
    // Clap explains how to pass a value that looks like an option. The user hardly ever meant that.
    let (wrong, _) = wrong.split_once("  tip: to pass").unwrap_or((wrong, ""));
    let wrong = wrong.trim().trim_start_matches("error: ").trim_end_matches("For more information, try '--help'.");
    let words: Vec<&str> = wrong.split_whitespace().collect();
    let wrong = possible_values(&words.join(" ").replace(" tip: ", "; "));
    let command: Vec<&str> = usage.split_whitespace().take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    let wrong = number(error).or_else(|| subcommand(error)).unwrap_or_else(|| range(&wrong));
    format!("{wrong}; see `{} --help`", command.join(" "))
}

/// The subcommand that these arguments begin with, such as `baton group init`.
fn subcommand_of(root: &clap::Command, args: impl Iterator<Item = String>) -> String {
    let (mut command, mut words) = (root, vec!["baton"]);
    for arg in args {
        let Some(next) = command.find_subcommand(&arg) else { break };
        words.push(next.get_name());
        command = next;
    }
    words.join(" ")
}

/// Turns the list of possible values into a part of the sentence. The similar value after the list is dropped,
/// because the list contains it.
fn possible_values(wrong: &str) -> String {
    match wrong.split_once(" [possible values: ") {
        Some((wrong, values)) => {
            let (values, _) = values.split_once(']').unwrap_or((values, ""));
            format!("{wrong}; it can be {values}")
        }
        None => wrong.to_owned(),
    }
}

/// The error for an unknown subcommand, with the most similar subcommand.
fn subcommand(error: &clap::Error) -> Option<String> {
    let (wrong, alike) = (error.get(ContextKind::InvalidSubcommand)?, error.get(ContextKind::SuggestedSubcommand)?);
    let nearest = match alike {
        // Clap sorts them by similarity; the most similar one is the last.
        ContextValue::Strings(alike) => alike.last()?,
        ContextValue::String(nearest) => nearest,
        _ => return None,
    };
    Some(format!("unrecognized subcommand '{wrong}'; a similar subcommand exists: '{nearest}'"))
}

/// The error for an invalid number.
fn number(error: &clap::Error) -> Option<String> {
    let source = error.source()?;
    let wrong = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "is too large",
        Some(_) => "is not a whole number from 0 on",
        None => source.downcast_ref::<ParseFloatError>().map(|_| "is not a number")?,
    };
    let (value, option) = (error.get(ContextKind::InvalidValue)?, error.get(ContextKind::InvalidArg)?);
    Some(format!("'{}' {wrong}, for '{option}'", shortened(&value.to_string())))
}

/// Says in words which numbers are allowed. Clap says `300 is not in 0..=255`.
fn range(wrong: &str) -> String {
    let said = wrong.split_once(" is not in ").and_then(|(said, range)| {
        let ((said, _), (from, to)) = (said.rsplit_once(": ")?, range.split_once("..=")?);
        Some(format!("{said}: it must be from {from} to {to}"))
    });
    said.unwrap_or_else(|| wrong.to_owned())
}

/// The value if it is short, else its start: a long value would hide the rest of the error.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_of_a_long_value_is_shown() {
        let long = "é".repeat(VALUE_CHARS_MAX);
        assert_eq!(shortened(&long), long);
        assert_eq!(shortened(&format!("{long}x")), format!("{long}..."));
    }

    #[test]
    fn the_help_of_the_innermost_subcommand_is_named() {
        let root =
            clap::Command::new("baton").subcommand(clap::Command::new("group").subcommand(clap::Command::new("init")));
        let named = |args: &str| subcommand_of(&root, args.split(' ').map(String::from));
        assert_eq!(named("group init --port=x"), "baton group init");
        assert_eq!(named("group --port=x init"), "baton group");
        assert_eq!(named("x group"), "baton");
    }

    #[test]
    fn possible_values_lose_their_brackets_and_nothing_else_does() {
        assert_eq!(possible_values("no 'x' [possible values: a, b]; like 'a'"), "no 'x'; it can be a, b");
        assert_eq!(possible_values("with '[COMMAND]...'"), "with '[COMMAND]...'");
        assert_eq!(possible_values("for '[ID]' [possible values: a]"), "for '[ID]'; it can be a");
    }
}
