//! The table of `baton group up`: who holds, who wants, who waits. Pure.

use baton_protocol::registry::Family;
use serde::Serialize;

use crate::crew::State;
use crate::output::{folded_to, narrow_table, shown};

/// What is known of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    pub member: usize,
    pub state: State,
    /// Where clients reach it.
    pub clients: Option<String>,
    /// The locks that its clients hold.
    pub holds: Vec<String>,
    /// The locks for which its clients wait.
    pub wants: Vec<String>,
    /// How many of its clients wait.
    pub waiters: usize,
    /// The leader that it believes in.
    pub leader: Option<usize>,
    /// The processes that it suspects.
    pub suspects: Vec<u64>,
    /// The members that it does not hear of.
    pub not_heard: Vec<u64>,
    /// Its last message to the operator.
    pub says: Option<String>,
}

/// The table, and sentences of at most so many columns. `chosen` is marked.
pub fn to_text(title: &str, family: Family, rows: &[Row], chosen: Option<usize>, columns: usize) -> String {
    let head = match family {
        Family::Mutex => ["", "MEMBER", "STATE", "CLIENTS", "HOLDS", "WANTS", "WAITERS", "NOT HEARD OF"].as_slice(),
        Family::Election => ["", "MEMBER", "STATE", "LEADER", "NOT HEARD OF"].as_slice(),
        Family::Detector | Family::Append => ["", "MEMBER", "STATE", "SUSPECTS", "NOT HEARD OF"].as_slice(),
    };
    let mut lines = vec![head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
    for row in rows {
        let mark = if chosen == Some(row.member) { ">" } else { " " };
        let mut cells = vec![mark.to_owned(), row.member.to_string(), row.state.text().to_owned()];
        match family {
            Family::Mutex => {
                cells.push(row.clients.clone().unwrap_or_else(|| "-".into()));
                cells.push(names(&row.holds));
                cells.push(names(&row.wants));
                cells.push(if row.waiters == 0 { "-".into() } else { row.waiters.to_string() });
            }
            Family::Election => cells.push(row.leader.map_or("-".into(), |leader| format!("P{leader}"))),
            Family::Detector | Family::Append => cells.push(processes(&row.suspects)),
        }
        cells.push(processes(&row.not_heard));
        lines.push(cells);
    }
    let says = rows.iter().filter_map(|row| Some(format!("{}: {}\n", row.member, row.says.as_ref()?)));
    let says = says.collect::<String>();
    format!("{}\n{}\n{}", folded_to(title, columns), narrow_table(&lines), folded_to(&says, columns))
}

fn processes(ids: &[u64]) -> String {
    let names: Vec<String> = ids.iter().map(|id| format!("P{id}")).collect();
    if names.is_empty() { "-".into() } else { names.join(" ") }
}

/// A few names, and how many more there are.
fn names(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).map(|name| shown(name)).collect::<Vec<_>>().join(" ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "-".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_who_holds_who_wants_and_who_is_gone() {
        let row =
            |member| Row { member, state: State::Runs, clients: Some(format!("127.0.0.1:{member}")), ..Row::default() };
        let many = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
        let rows = [
            Row { holds: vec!["deploy".into()], ..row(0) },
            Row { wants: many, waiters: 7, not_heard: vec![2], ..row(1) },
            Row { state: State::Gone, says: Some("killed".into()), ..Row { clients: None, ..row(2) } },
        ];
        expect_test::expect![[r#"
            raymond, 3 members

               MEMBER  STATE  CLIENTS      HOLDS   WANTS             WAITERS  NOT HEARD OF
               0       runs   127.0.0.1:0  deploy  -                 -        -
            >  1       runs   127.0.0.1:1  -       a b c and 2 more  7        P2
               2       gone   -            -       -                 -        -

            2: killed
        "#]]
        .assert_eq(&to_text("raymond, 3 members", Family::Mutex, &rows, Some(1), 80));
    }

    #[test]
    fn an_election_shows_the_leaders() {
        let rows = [Row { leader: Some(1), state: State::CutOff, ..Row::default() }];
        expect_test::expect![[r#"
            bully, 1 member

               MEMBER  STATE    LEADER  NOT HEARD OF
               0       cut off  P1      -

        "#]]
        .assert_eq(&to_text("bully, 1 member", Family::Election, &rows, None, 80));
    }
}
