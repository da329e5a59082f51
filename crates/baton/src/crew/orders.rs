//! What the user can do to a process, by key or by line. Pure.

use console::Key;

/// An order about one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// kill -9.
    Kill,
    /// SIGSTOP.
    Stop,
    /// Its links are cut.
    CutOff,
    /// A stopped process goes on, and its links are whole again. A killed process is started again.
    BringBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Do(Deed, usize),
    Quit,
}

/// The keys, and the word of each as a line.
const DEEDS: [(char, &str, Deed); 4] =
    [('k', "kill", Deed::Kill), ('s', "stop", Deed::Stop), ('c', "cut", Deed::CutOff), ('b', "back", Deed::BringBack)];

/// What the keys do. `one` is the word for a process.
pub fn help(one: &str) -> String {
    format!("up/down/digit: choose a {one}; k kill, s stop, c cut off, b bring back, q quit")
}

/// What a key does while process `chosen` is chosen: an order, or another choice.
pub fn pressed(key: &Key, chosen: &mut usize, names: &[String]) -> Option<Order> {
    match key {
        Key::ArrowUp => *chosen = chosen.checked_sub(1).unwrap_or(names.len() - 1),
        Key::ArrowDown => *chosen = (*chosen + 1) % names.len(),
        Key::Char('q') | Key::Escape | Key::CtrlC => return Some(Order::Quit),
        Key::Char(char) => {
            if let Some(process) = find(&char.to_string(), names).filter(|_| char.is_ascii_digit()) {
                *chosen = process;
            }
            let deed = DEEDS.iter().find(|(key, ..)| key == char)?.2;
            return Some(Order::Do(deed, *chosen));
        }
        _ => {}
    }
    None
}

/// A name is a number, or a letter and a number. The number alone is enough.
fn find(text: &str, names: &[String]) -> Option<usize> {
    names.iter().position(|name| name == text || name.trim_start_matches(|char: char| !char.is_ascii_digit()) == text)
}

/// Reads a line such as `kill 2`. An empty line is no order. `one` is the word for a process.
pub fn parse(line: &str, one: &str, names: &[String]) -> Result<Option<Order>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        ["quit"] => Ok(Some(Order::Quit)),
        [word, name] if let Some(&(.., deed)) = DEEDS.iter().find(|(_, deed, _)| *deed == word) => {
            let (first, last) = (&names[0], &names[names.len() - 1]);
            let unknown = || format!("there is no {one} {name}; there are {first} to {last}");
            Ok(Some(Order::Do(deed, find(name, names).ok_or_else(unknown)?)))
        }
        _ => Err(format!("`{}` is no order; there are kill N, stop N, cut N, back N and quit", line.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<String> {
        ["0", "1", "2"].map(String::from).to_vec()
    }

    #[test]
    fn arrows_and_digits_choose_and_letters_act() {
        let (mut chosen, members) = (0, members());
        assert_eq!(pressed(&Key::ArrowUp, &mut chosen, &members), None);
        assert_eq!(chosen, 2);
        assert_eq!(pressed(&Key::ArrowDown, &mut chosen, &members), None);
        assert_eq!(pressed(&Key::Char('1'), &mut chosen, &members), None);
        assert_eq!(pressed(&Key::Char('7'), &mut chosen, &members), None, "there is no such member");
        assert_eq!(pressed(&Key::Char('s'), &mut chosen, &members), Some(Order::Do(Deed::Stop, 1)));
        assert_eq!(pressed(&Key::Char('x'), &mut chosen, &members), None);
        assert_eq!(pressed(&Key::Char('q'), &mut chosen, &members), Some(Order::Quit));
        let nodes = ["n1", "n2"].map(String::from);
        assert_eq!(pressed(&Key::Char('2'), &mut chosen, &nodes), None);
        assert_eq!(pressed(&Key::Char('k'), &mut chosen, &nodes), Some(Order::Do(Deed::Kill, 1)));
        assert_eq!(pressed(&Key::Char('n'), &mut chosen, &nodes), None);
    }

    #[test]
    fn a_line_is_an_order_or_gets_a_sentence() {
        let parse = |line: &str| parse(line, "member", &members());
        assert_eq!(parse(" cut  2 \n"), Ok(Some(Order::Do(Deed::CutOff, 2))));
        assert_eq!(parse("back 0"), Ok(Some(Order::Do(Deed::BringBack, 0))));
        assert_eq!(parse("\n"), Ok(None));
        assert_eq!(parse("quit"), Ok(Some(Order::Quit)));
        assert_eq!(parse("kill 3"), Err("there is no member 3; there are 0 to 2".into()));
        assert!(parse("dance").unwrap_err().starts_with("`dance` is no order"));
        let nodes = ["n1", "n2"].map(String::from);
        for named in ["stop n2", "stop 2"] {
            assert_eq!(super::parse(named, "node", &nodes), Ok(Some(Order::Do(Deed::Stop, 1))));
        }
        assert_eq!(super::parse("stop b", "node", &nodes), Err("there is no node b; there are n1 to n2".into()));
    }
}
