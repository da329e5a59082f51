//! Reads the JSON body of a call. A body that is wrong is refused in one sentence: the field, its value, and what would be
//! right.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

use crate::Refusal;

/// A value or a name that is longer is cut.
const SHOWN_CHARS_MAX: usize = 60;

pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        match error.classify() {
            Category::Data => Refusal::bad(sentence(bytes, &error)),
            Category::Eof if bytes.is_empty() => Refusal::bad("the request is empty; it must be a JSON object"),
            Category::Eof => Refusal::bad(format!("the request is no JSON: it breaks off at {place}")),
            Category::Syntax | Category::Io => {
                let text = error.to_string();
                let why = text.split(" at line ").next().unwrap_or_default();
                Refusal::bad(format!("the request is no JSON: {why} at {place}"))
            }
        }
    })
}

/// The sentence for a body that is JSON, but not what the call takes.
fn sentence(bytes: &[u8], error: &serde_json::Error) -> String {
    let mut path = path_at(before(bytes, error));
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let (what, right) = text.split_once(", expected ").unwrap_or((text, ""));
    if let Some(field) = quoted(what, "missing field `") {
        // The object is complete, or its last field is.
        if !before(bytes, error).trim_ascii_end().ends_with(b"}") {
            path.pop();
        }
        path.push(Step::Field(field));
        return format!("{} is missing", name(&path));
    }
    if let Some(field) = quoted(what, "duplicate field `") {
        return format!("{} is there twice", name_of(&path, &field));
    }
    if let Some(field) = quoted(what, "unknown field `") {
        let known = right.replace('`', "").replace("one of ", "").replace(" or ", ", ");
        return format!("{} is unknown; the known fields are {known}", name_of(&path, &field));
    }
    if let Some(variant) = quoted(what, "unknown variant `") {
        // In `{"variant": ...}` the variant is a step of the path, too.
        if path.last() == Some(&Step::Field(variant.clone())) {
            path.pop();
        }
        return format!("{} is {}; it must be {right}", name(&path), shown(&format!("{variant:?}")));
    }
    let value = value_at(bytes, &path).map(|value| shown(&value.to_string()));
    match value {
        Some(value) if !right.is_empty() => format!("{} is {value}; it must be {}", name(&path), in_words(right)),
        Some(value) => format!("{} is {value}: {text}", name(&path)),
        None => format!("{}: {text}", name(&path)),
    }
}

/// What serde expects, for people.
fn in_words(expected: &str) -> String {
    let max = match expected {
        "u8" => Some(u64::from(u8::MAX)),
        "u32" => Some(u64::from(u32::MAX)),
        _ => None,
    };
    match (max, expected) {
        (Some(max), _) => format!("a whole number from 0 to {max}"),
        (None, "u64" | "usize") => "a whole number, 0 or larger".into(),
        (None, "f32" | "f64") => "a number".into(),
        (None, "a string") => "a text".into(),
        (None, "a boolean") => "true or false".into(),
        (None, "a sequence") => "a list".into(),
        (None, "string or map") => "a text or an object".into(),
        (None, other) if other.starts_with("struct ") => "an object".into(),
        (None, other) => other.into(),
    }
}

/// The part of the body that was read when the error was found.
fn before<'b>(bytes: &'b [u8], error: &serde_json::Error) -> &'b [u8] {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let start: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    &bytes[..bytes.len().min(start + error.column())]
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

/// The path to the last field or item that begins in this first part of a JSON text. The text may be hostile, but it is
/// JSON, because the parser has read it.
fn path_at(text: &[u8]) -> Vec<Step> {
    // None: an object whose next field has no name yet.
    let mut path: Vec<Option<Step>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' => path.push(None),
            b'[' => path.push(Some(Step::Item(0))),
            b'}' | b']' => {
                path.pop();
            }
            b',' => match path.last_mut() {
                Some(Some(Step::Item(index))) => *index += 1,
                Some(field) => *field = None,
                None => {}
            },
            b'"' => {
                let length = string_length(&text[at..]);
                if let Some(field @ None) = path.last_mut() {
                    let name = serde_json::from_slice(&text[at..at + length]);
                    *field = name.ok().map(Step::Field);
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    path.into_iter().flatten().collect()
}

/// The number of bytes of the string at the start of a text, with its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn value_at(bytes: &[u8], path: &[Step]) -> Option<Value> {
    let whole: Value = serde_json::from_slice(bytes).ok()?;
    let found = path.iter().try_fold(&whole, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Item(index) => value.get(index),
    });
    found.cloned()
}

/// `spec.n`, `actions[3].deliver`, or "the request".
fn name(path: &[Step]) -> String {
    let mut name = String::new();
    for step in path {
        match step {
            Step::Field(field) if name.is_empty() => name.push_str(field),
            Step::Field(field) => name = format!("{name}.{field}"),
            Step::Item(index) => name = format!("{name}[{index}]"),
        }
    }
    if name.is_empty() { "the request".into() } else { format!("`{}`", shown(&name)) }
}

/// The name of a field of which serde tells the name. The path leads to it, or to the object that has it.
fn name_of(path: &[Step], field: &str) -> String {
    let step = Step::Field(field.to_owned());
    if path.last() == Some(&step) { name(path) } else { name(&[path, &[step]].concat()) }
}

/// The text in backquotes after `start`.
fn quoted(text: &str, start: &str) -> Option<String> {
    let rest = text.strip_prefix(start)?;
    Some(rest.strip_suffix('`').unwrap_or(rest).to_owned())
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, hand};

    fn refusal<T: DeserializeOwned>(body: &str) -> String {
        match read::<T>(body.as_bytes()) {
            Ok(_) => panic!("{body} is read"),
            Err(refusal) => refusal.why,
        }
    }

    #[test]
    fn a_wrong_value_is_named_and_the_right_one_too() {
        let cases = [
            (r#"{"spec":{"n":-1,"algorithm":"central"}}"#, "`spec.n` is -1; it must be a whole number, 0 or larger"),
            (r#"{"spec":{"algorithm":"central","n":1.5}}"#, "`spec.n` is 1.5; it must be a whole number, 0 or larger"),
            (
                r#"{"spec":{"algorithm":"central","n":{"a":1}}}"#,
                "`spec.n` is {\"a\":1}; it must be a whole number, 0 or larger",
            ),
            (r#"{"spec":{"algorithm":7}}"#, "`spec.algorithm` is 7; it must be a text"),
            ("{\n \"spec\": {\"algorithm\": null},\n \"rules\": {}}", "`spec.algorithm` is null; it must be a text"),
            (r#"{"spec":{"algorithm":"central","faults":"crash"}}"#, "`spec.faults` is \"crash\"; it must be a list"),
            (r#"{"spec":{"algorithm":"central","faults":["a",2]}}"#, "`spec.faults[1]` is 2; it must be a text"),
            (r#"{"spec":{"algorithm":"central","loss":"x"}}"#, "`spec.loss` is \"x\"; it must be a number"),
            (
                r#"{"spec":{"algorithm":"central","network":"slow"}}"#,
                "`spec.network` is \"slow\"; it must be `sync` or `async`",
            ),
            (r#"{"spec":{"algorithm":"central"},"rules":{"fifo":1}}"#, "`rules.fifo` is 1; it must be true or false"),
            (r#"{"spec":"central"}"#, "`spec` is \"central\"; it must be an object"),
            (
                r#"{"spec":{"algorithm":"central"},"actions":[{"deliver":{"message":0}},{"deliver":{"message":"x"}}]}"#,
                "`actions[1].deliver.message` is \"x\"; it must be a whole number, 0 or larger",
            ),
            (
                r#"{"spec":{"algorithm":"central"},"actions":[{"crash":{"process":[]}}]}"#,
                "`actions[0].crash.process` is []; it must be a whole number, 0 or larger",
            ),
            ("null", "the request is null; it must be an object"),
        ];
        for (body, expected) in cases {
            assert_eq!(refusal::<hand::Request>(body), expected, "{body}");
        }
        let small = refusal::<check::Request>(r#"{"spec":{"algorithm":"central"},"options":{"crash":300}}"#);
        assert_eq!(small, "`options.crash` is 300; it must be a whole number from 0 to 255");
    }

    #[test]
    fn missing_unknown_and_doubled_fields_are_named() {
        let cases = [
            (r#"{"spec":{}}"#, "`spec.algorithm` is missing"),
            (r#"{"spec":{"n":3}}"#, "`spec.algorithm` is missing"),
            ("{\"spec\":{\"n\":3}\n }", "`spec.algorithm` is missing"),
            ("{}", "`spec` is missing"),
            (r#"{"rules":{}}"#, "`spec` is missing"),
            (
                r#"{"spec":{"algorithm":"central"},"actions":[{"deliver":{}}]}"#,
                "`actions[0].deliver.message` is missing",
            ),
            (
                r#"{"spec":{"algorithm":"central"},"more":1}"#,
                "`more` is unknown; the known fields are spec, rules, actions",
            ),
            (r#"{"spec":{"n":1,"n":2}}"#, "`spec.n` is there twice"),
        ];
        for (body, expected) in cases {
            assert_eq!(refusal::<hand::Request>(body), expected, "{body}");
        }
        let unknown = refusal::<hand::Request>(r#"{"spec":{"algorithm":"central","N":1}}"#);
        assert!(unknown.starts_with("`spec.N` is unknown; the known fields are algorithm, n, variant,"), "{unknown}");
        let action = refusal::<hand::Request>(r#"{"spec":{"algorithm":"central"},"actions":[{"fly":{}}]}"#);
        assert!(action.starts_with("`actions[0]` is \"fly\"; it must be one of `user`, `deliver`,"), "{action}");
    }

    #[test]
    fn what_is_no_json_says_where() {
        let refusal = refusal::<hand::Request>;
        assert_eq!(refusal(""), "the request is empty; it must be a JSON object");
        assert_eq!(refusal("{\"spec\":"), "the request is no JSON: it breaks off at line 1, column 8");
        assert_eq!(refusal("{\n x"), "the request is no JSON: key must be a string at line 2, column 2");
        assert_eq!(
            refusal(r#"{"spec":{"algorithm":"a","n":1e400}}"#),
            "the request is no JSON: number out of range at line 1, column 34"
        );
    }

    #[test]
    fn hostile_and_long_names_are_cut() {
        let long = format!(r#"{{"spec":{{"{}":1}}}}"#, "\u{202e}<b>".repeat(50));
        assert!(refusal::<hand::Request>(&long).chars().count() < 500);
        let value = format!(r#"{{"spec":{{"algorithm":"a","n":"{}"}}}}"#, "x".repeat(9_000));
        assert!(refusal::<hand::Request>(&value).len() < 200);
        for cut in 0..value.len().min(60) {
            path_at(&value.as_bytes()[..cut]);
        }
        for text in ["}}]],,", "\"\\", "[\"a\\\"b\",", "{\"a\\u00e4\":[1,{\"b\":"] {
            path_at(text.as_bytes());
        }
        assert_eq!(name(&path_at(b"{\"a\\u00e4\":[1,{\"b\":")), "`aä[1].b`");
    }
}
