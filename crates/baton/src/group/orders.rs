//! What the user of `baton group up` can do to a member, by key or by line. Pure.

use console::Key;

/// An order about one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// kill -9.
    Kill,
    /// SIGSTOP.
    Stop,
    /// Its links are cut.
    CutOff,
    /// A stopped member goes on, and its links are whole again. A killed member is started again.
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

pub const HELP: &str = "up/down or a digit: choose a member   k kill   s stop   c cut off   b bring back   q quit";

/// What a key does while member `chosen` of `members` is chosen: an order, or another choice.
pub fn pressed(key: &Key, chosen: &mut usize, members: usize) -> Option<Order> {
    match key {
        Key::ArrowUp => *chosen = chosen.checked_sub(1).unwrap_or(members - 1),
        Key::ArrowDown => *chosen = (*chosen + 1) % members,
        Key::Char('q') | Key::Escape | Key::CtrlC => return Some(Order::Quit),
        Key::Char(char) => {
            if let Some(digit) = char.to_digit(10).map(|digit| digit as usize).filter(|&digit| digit < members) {
                *chosen = digit;
            }
            let deed = DEEDS.iter().find(|(key, ..)| key == char)?.2;
            return Some(Order::Do(deed, *chosen));
        }
        _ => {}
    }
    None
}

/// Reads a line such as `kill 2`. An empty line is no order.
pub fn parse(line: &str, members: usize) -> Result<Option<Order>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        ["quit"] => Ok(Some(Order::Quit)),
        [word, member] if let Some(&(.., deed)) = DEEDS.iter().find(|(_, deed, _)| *deed == word) => {
            let known = member.parse().ok().filter(|&member| member < members);
            let member = known.ok_or_else(|| format!("there is no member {member}; there are 0 to {}", members - 1))?;
            Ok(Some(Order::Do(deed, member)))
        }
        _ => Err(format!("`{}` is no order; there are kill N, stop N, cut N, back N and quit", line.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_and_digits_choose_and_letters_act() {
        let mut chosen = 0;
        assert_eq!(pressed(&Key::ArrowUp, &mut chosen, 3), None);
        assert_eq!(chosen, 2);
        assert_eq!(pressed(&Key::ArrowDown, &mut chosen, 3), None);
        assert_eq!(pressed(&Key::Char('1'), &mut chosen, 3), None);
        assert_eq!(pressed(&Key::Char('7'), &mut chosen, 3), None, "there is no such member");
        assert_eq!(pressed(&Key::Char('s'), &mut chosen, 3), Some(Order::Do(Deed::Stop, 1)));
        assert_eq!(pressed(&Key::Char('x'), &mut chosen, 3), None);
        assert_eq!(pressed(&Key::Char('q'), &mut chosen, 3), Some(Order::Quit));
    }

    #[test]
    fn a_line_is_an_order_or_gets_a_sentence() {
        assert_eq!(parse(" cut  2 \n", 3), Ok(Some(Order::Do(Deed::CutOff, 2))));
        assert_eq!(parse("back 0", 3), Ok(Some(Order::Do(Deed::BringBack, 0))));
        assert_eq!(parse("\n", 3), Ok(None));
        assert_eq!(parse("quit", 3), Ok(Some(Order::Quit)));
        assert_eq!(parse("kill 3", 3), Err("there is no member 3; there are 0 to 2".into()));
        assert!(parse("dance", 3).unwrap_err().starts_with("`dance` is no order"));
    }
}
