//! The name of a lock as text. A name is 1 to 512 bytes of any kind, and must be shown, typed and put into JSON.
//!
//! A name that is UTF-8 is shown unchanged. Any other name is shown in the escaped form: `\xNN` is a byte and `\\` is a
//! backslash. The text alone does not tell which form it is, so [`shown`] returns that, too.

use std::ffi::OsStr;
use std::fmt;

/// The longest name of a lock, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// The name as text, and whether the text is the escaped form. Only a name that is not UTF-8 needs the escaped form.
///
/// ```
/// use baton_types::name::{parse_escaped, shown};
///
/// assert_eq!(shown(b"deploy"), ("deploy".to_owned(), false));
/// assert_eq!(shown(b"caf\xe9"), (r"caf\xe9".to_owned(), true));
/// assert_eq!(parse_escaped(r"caf\xe9"), Ok(b"caf\xe9".to_vec()));
/// ```
pub fn shown(name: &[u8]) -> (String, bool) {
    match str::from_utf8(name) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (escaped(name), true),
    }
}

/// The escaped form of any name: every byte that is not UTF-8 as `\xNN`, every backslash doubled.
pub fn escaped(name: &[u8]) -> String {
    escape(name, |_| false)
}

fn escape(name: &[u8], is_escaped_too: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(name.len());
    let byte = |text: &mut String, byte: u8| *text += &format!("\\x{byte:02x}");
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text += r"\\",
                _ if is_escaped_too(char) => {
                    char.encode_utf8(&mut [0; 4]).bytes().for_each(|part| byte(&mut text, part));
                }
                _ => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|invalid| byte(&mut text, *invalid));
    }
    text
}

/// The name with this escaped form.
pub fn parse_escaped(text: &str) -> Result<Vec<u8>, InvalidEscape> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        name.extend_from_slice(plain.as_bytes());
        let invalid = || {
            let at = text.len() - escape.len() - 1;
            let visible = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
            InvalidEscape { at, found: text[at..].chars().take(4).map(visible).collect() }
        };
        rest = if let Some(rest) = escape.strip_prefix('\\') {
            name.push(b'\\');
            rest
        } else {
            let digits = escape.strip_prefix('x').and_then(|digits| digits.get(..2)).ok_or_else(invalid)?;
            let is_byte = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            name.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_byte).ok_or_else(invalid)?);
            &escape[3..]
        };
    }
    name.extend_from_slice(rest.as_bytes());
    Ok(name)
}

/// An error in the escaped form of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(r"`{found}` at byte {at} is no escape; write a byte as \xNN with two hexadecimal digits, a backslash as \\")]
pub struct InvalidEscape {
    /// The position of the backslash, in bytes from 0 on.
    pub at: usize,
    /// The backslash, and up to three characters after it. A control character is replaced by U+FFFD.
    pub found: String,
}

/// The most characters of a user's text that are shown.
const SHOWN_CHARS_MAX: usize = 60;

/// A user's text for a terminal: on one line, without control characters, and shortened so that it does not crowd out
/// the rest.
pub fn short(text: &str) -> String {
    cut(on_one_line(text))
}

/// The name of a file for a terminal: on one line, without control characters, at its whole length.
pub fn path(path: impl AsRef<OsStr>) -> String {
    on_one_line(&path.as_ref().to_string_lossy())
}

fn on_one_line(text: &str) -> String {
    let printable = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(printable).collect()
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A name within a sentence: in quotes, on one line, without control characters. A long name is shortened, except with
/// `{:#}`.
#[derive(Clone, Copy)]
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match str::from_utf8(self.0) {
            Ok(text) => {
                let quoted = format!("{text:?}");
                quoted[1..quoted.len() - 1].to_owned()
            }
            Err(_) => escape(self.0, char::is_control),
        };
        let text = if f.alternate() { text } else { cut(text) };
        write!(f, "\"{text}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_utf8_is_shown_as_it_is() {
        for name in ["deploy", "déploiement", r"a\b", r"a\xff", "tab\tand\nline", ""] {
            assert_eq!(shown(name.as_bytes()), (name.to_owned(), false));
        }
    }

    #[test]
    fn the_name_of_a_file_stays_on_its_line() {
        let told = |name: &str| path(name);
        assert_eq!(told("a b/d\u{e9}p\u{f4}t.backup"), "a b/d\u{e9}p\u{f4}t.backup");
        assert_eq!(told("a\n\x1b[2J"), r"a\n\u{1b}[2J");
        assert_eq!(told(&"x".repeat(200)).len(), 200);
    }

    #[test]
    fn a_name_that_is_not_utf8_is_escaped() {
        let cases: [(&[u8], &str); 5] = [
            (b"\xff", r"\xff"),
            (b"caf\xe9", r"caf\xe9"),
            (b"a\\b\x80", r"a\\b\x80"),
            // The first two bytes of a three-byte character, and then a letter.
            (b"\xe2\x82a", r"\xe2\x82a"),
            (b"\\xff\xff", r"\\xff\xff"),
        ];
        for (name, text) in cases {
            assert_eq!(shown(name), (text.to_owned(), true));
            assert_eq!(parse_escaped(text).as_deref(), Ok(name));
        }
    }

    #[test]
    fn any_byte_can_be_an_escape_with_digits_of_either_case() {
        assert_eq!(parse_escaped(r"\xFf\xfF\x41").unwrap(), b"\xff\xffA");
        assert_eq!(parse_escaped(r"é\x01\x00\xc3\xa9").unwrap(), "é\u{1}\0é".as_bytes());
        assert_eq!(parse_escaped("déploiement").unwrap(), "déploiement".as_bytes());
        assert_eq!(parse_escaped("").unwrap(), b"");
    }

    #[test]
    fn what_is_no_escape_is_told_where_it_is_and_what_is_right() {
        let cases = [
            (r"\", 0, r"\"),
            (r"a\", 1, r"\"),
            (r"a\\\", 3, r"\"),
            (r"a\n", 1, r"\n"),
            (r"\x", 0, r"\x"),
            (r"é\x4", 2, r"\x4"),
            (r"\x4g", 0, r"\x4g"),
            (r"\x+4", 0, r"\x+4"),
            (r"\X41", 0, r"\X41"),
            (r"\xé1", 0, r"\xé1"),
            (r"\x1é", 0, r"\x1é"),
            ("\\\n", 0, "\\\u{fffd}"),
        ];
        for (text, at, found) in cases {
            assert_eq!(parse_escaped(text), Err(InvalidEscape { at, found: found.to_owned() }), "{text}");
        }
        let message = parse_escaped(r"a\n").unwrap_err().to_string();
        let right = r"`\n` at byte 1 is no escape; write a byte as \xNN with two hexadecimal digits, a backslash as \\";
        assert_eq!(message, right);
    }

    /// Bytes that are often nearly UTF-8, with backslashes and what follows them.
    fn random_name(random: &mut fastrand::Rng) -> Vec<u8> {
        let parts: [&[u8]; 10] = [
            b"a",
            b"\\",
            b"\\x",
            b"4",
            b"\xff",
            b"\xe2",
            b"\x82",
            "€".as_bytes(),
            "\u{10ffff}".as_bytes(),
            b"\xf4\x90",
        ];
        let mut name = Vec::new();
        for _ in 0..random.usize(..12) {
            match random.u8(..4) {
                0 => name.push(random.u8(..)),
                _ => name.extend_from_slice(parts[random.usize(..parts.len())]),
            }
        }
        name
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut escaped_names = 0;
        for _ in 0..100_000 {
            let name = random_name(&mut random);
            let (text, is_escaped) = shown(&name);
            assert_eq!(is_escaped, str::from_utf8(&name).is_err(), "{name:?}");
            if is_escaped {
                escaped_names += 1;
                assert_eq!(parse_escaped(&text).as_ref(), Ok(&name), "{text}");
            } else {
                assert_eq!(text.as_bytes(), name);
            }
            assert_eq!(parse_escaped(&escaped(&name)), Ok(name));
        }
        assert!(escaped_names > 10_000, "{escaped_names}");
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..100_000 {
            let text = String::from_utf8_lossy(&random_name(&mut random)).into_owned();
            if let Err(invalid) = parse_escaped(&text) {
                assert!(text[invalid.at..].starts_with('\\'), "{text:?}");
            }
        }
    }

    #[test]
    fn a_name_within_a_sentence_is_quoted_on_one_line() {
        assert_eq!(Quoted(b"a\nb\\").to_string(), r#""a\nb\\""#);
        assert_eq!(Quoted(b"a\n\x1b\\\xff").to_string(), r#""a\x0a\x1b\\\xff""#);
        let quoted = Quoted("\u{85}\u{ff}".as_bytes()).to_string();
        assert_eq!(quoted, r#""\u{85}ÿ""#);
    }

    #[test]
    fn a_long_name_is_shortened_within_a_sentence() {
        assert_eq!(Quoted("é".repeat(60).as_bytes()).to_string(), format!("\"{}\"", "é".repeat(60)));
        assert_eq!(Quoted("é".repeat(61).as_bytes()).to_string(), format!("\"{}…\"", "é".repeat(60)));
        assert_eq!(format!("{:#}", Quoted("é".repeat(61).as_bytes())), format!("\"{}\"", "é".repeat(61)));
        assert_eq!(Quoted(&[0xff; 100]).to_string(), format!("\"{}…\"", r"\xff".repeat(15)));
        assert_eq!(short(&format!("a\u{1b}{}", "b".repeat(99))), format!(r"a\u{{1b}}{}…", "b".repeat(53)));
    }
}
