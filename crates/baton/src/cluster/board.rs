//! The table of `baton cluster local`. Pure.

use serde::Serialize;

use super::view::whole;
use crate::crew::State;
use crate::output::{folded_to, narrow_table, shown};
use crate::view::or_dash;

/// What is known of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    pub name: String,
    pub state: State,
    /// Where clients reach it.
    pub address: String,
    /// None until the node has answered.
    #[serde(flatten)]
    pub seen: Option<Seen>,
    /// The entries that it does not have yet; none if no node leads, or it has not answered.
    pub lag: Option<u64>,
    /// Its last message to the operator.
    pub says: Option<String>,
}

/// What a node says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    pub role: String,
    pub term: u64,
    /// Index of the last entry of its log.
    pub last_log: u64,
    /// Index of the last committed entry that it knows.
    pub commit: u64,
    /// Locks that are held, waited for or closed, as far as it has applied the log.
    pub locks: u64,
    /// Why there is no leader, if the node knows none.
    pub no_leader: Option<String>,
}

/// Adds what takes all rows to know.
pub fn complete(mut rows: Vec<Row>) -> Vec<Row> {
    let end = leader(&rows).map(|leader| leader.last_log);
    for row in &mut rows {
        row.lag = row.seen.as_ref().zip(end).map(|(seen, end)| end.saturating_sub(seen.last_log));
    }
    rows
}

/// The table, and sentences of at most so many columns. `chosen` is marked.
pub fn to_text(title: &str, rows: &[Row], chosen: Option<usize>, columns: usize) -> String {
    let head = ["", "NODE", "STATE", "ROLE", "TERM", "COMMIT", "LAG", "LOCKS", "CLIENTS"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for (number, row) in rows.iter().enumerate() {
        let mark = if chosen == Some(number) { ">" } else { " " };
        let number = |number: fn(&Seen) -> u64| or_dash(row.seen.as_ref().map(|seen| number(seen).to_string()));
        lines.push(vec![
            mark.to_owned(),
            row.name.clone(),
            row.state.text().to_owned(),
            or_dash(row.seen.as_ref().map(|seen| role(row.state, seen))),
            number(|seen| seen.term),
            number(|seen| seen.commit),
            or_dash(row.lag.map(|lag| lag.to_string())),
            number(|seen| seen.locks),
            row.address.clone(),
        ]);
    }
    let mut says: String =
        rows.iter().filter_map(|row| Some(format!("{}: {}\n", row.name, whole(row.says.as_ref()?)))).collect();
    if let Some(why) = no_leader(rows) {
        says = format!("no leader: {}\n{says}", whole(why));
    }
    format!("{}\n{}\n{}", folded_to(title, columns), narrow_table(&lines), folded_to(&says, columns))
}

/// A stopped leader does not answer, and another node may lead by now.
fn role(state: State, seen: &Seen) -> String {
    let is_stopped = matches!(state, State::Stopped | State::StoppedAndCutOff);
    let was = if is_stopped && seen.role == "leader" { "was " } else { "" };
    format!("{was}{}", shown(&seen.role))
}

/// The leader of the highest term. A leader that was cut off may not know yet that there is another one.
fn leader(rows: &[Row]) -> Option<&Seen> {
    let leads = |row: &&Row| row.state == State::Runs || row.state == State::CutOff;
    let seen = rows.iter().filter(leads).filter_map(|row| row.seen.as_ref());
    seen.filter(|seen| seen.role == "leader").max_by_key(|seen| seen.term)
}

/// Why there is no leader. A leader that hears from no majority says so itself.
fn no_leader(rows: &[Row]) -> Option<&str> {
    let anyone = || rows.iter().filter_map(|row| row.seen.as_ref()).find_map(|seen| seen.no_leader.as_deref());
    match leader(rows) {
        Some(leader) => leader.no_leader.as_deref(),
        None => anyone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, role: &str, term: u64, last_log: u64) -> Row {
        let (role, commit) = (role.to_owned(), last_log.saturating_sub(1));
        let seen = Seen { role, term, last_log, commit, locks: 2, no_leader: None };
        let (name, address, state) = (name.to_owned(), "127.0.0.1:7420".to_owned(), State::Runs);
        Row { name, state, address, seen: Some(seen), lag: None, says: None }
    }

    #[test]
    fn the_table_shows_who_leads_who_lags_and_who_is_gone() {
        let gone =
            Row { state: State::Gone, seen: None, says: Some("it ended: signal: 9".into()), ..row("n3", "", 0, 0) };
        // The second one was cut off, and does not know yet that it no longer leads.
        let deposed = Row { state: State::CutOff, ..row("n2", "leader", 3, 90) };
        expect_test::expect![[r#"
            3 nodes

               NODE  STATE    ROLE    TERM  COMMIT  LAG  LOCKS  CLIENTS
               n1    runs     leader  4     99      0    2      127.0.0.1:7420
            >  n2    cut off  leader  3     89      10   2      127.0.0.1:7420
               n3    gone     -       -     -       -    -      127.0.0.1:7420

            n3: it ended: signal: 9
        "#]]
        .assert_eq(&to_text("3 nodes", &complete(vec![row("n1", "leader", 4, 100), deposed, gone]), Some(1), 80));
    }

    #[test]
    fn a_narrow_terminal_shows_whole_sentences_and_a_stopped_leader_leads_no_more() {
        let stopped =
            Row { state: State::Stopped, says: Some("it waits for others".into()), ..row("n1", "leader", 3, 9) };
        expect_test::expect![[r#"
            a cluster of 2 nodes, data in
              /tmp/a

               NODE  STATE    ROLE        TERM  COMMIT  LAG  LOCKS  CLIENTS
               n1    stopped  was leader  3     8       2    2      127.0.0.1:7420
               n2    runs     leader      4     10      0    2      127.0.0.1:7420

            n1: it waits for others
        "#]]
        .assert_eq(&to_text(
            "a cluster of 2 nodes, data in /tmp/a",
            &complete(vec![stopped, row("n2", "leader", 4, 11)]),
            None,
            32,
        ));
    }

    #[test]
    fn a_table_of_stopped_nodes_fits_into_80_columns_and_its_rows_have_the_lag() {
        let (state, address) = (State::StoppedAndCutOff, "127.0.0.1:65400".to_owned());
        let stopped = Row { state, address, ..row("n1", "follower", 3, 999_999) };
        let rows = complete(vec![stopped, row("n2", "leader", 4, 1_000_001)]);
        let text = to_text("2 nodes", &rows, None, 80);
        // The last column of a terminal stays free.
        assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
        assert!(text.contains("127.0.0.1:65400"), "{text}");
        let json = serde_json::to_value(&rows).unwrap();
        assert_eq!((&json[0]["lag"], &json[1]["lag"]), (&2.into(), &0.into()));
        let alone = complete(vec![row("n1", "candidate", 4, 7)]);
        assert_eq!(serde_json::to_value(&alone).unwrap()[0]["lag"], serde_json::Value::Null);
    }

    #[test]
    fn without_a_leader_the_table_says_why() {
        let mut alone = row("n1", "candidate", 4, 7);
        alone.seen.as_mut().unwrap().no_leader = Some("n2 does not answer".into());
        let text = to_text("2 nodes", &[alone, Row { name: "n2".into(), ..Row::default() }], None, 80);
        assert!(text.ends_with("\nno leader: n2 does not answer\n"), "{text}");
        assert!(text.contains("n1    runs    candidate  4     6       -    2      127.0.0.1:7420\n"), "{text}");
        assert!(text.contains("n2    starts  -          -     -       -    -\n"), "{text}");
        let mut deaf = row("n1", "leader", 4, 7);
        deaf.seen.as_mut().unwrap().no_leader = Some("n1 hears from no majority".into());
        let text = to_text("1 node", &[deaf], None, 80);
        assert!(text.ends_with("\nno leader: n1 hears from no majority\n"), "{text}");
    }
}
