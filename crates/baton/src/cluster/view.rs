//! The members of a cluster as tables.

use baton_types::views::{Cluster, Joining, Member};

use crate::output::{folded, narrow_table, shown};
use crate::view::{duration, or_dash, size};

fn role_of(cluster: &Cluster, member: &Member) -> String {
    or_dash(member.answers().then(|| role(&member.role, cluster.confirms(member.id))))
}

/// How the members are. `*` marks the member with the id `answered`, which is the source of the table.
pub fn states(cluster: &Cluster, answered: u64) -> String {
    if cluster.members.is_empty() {
        return below(cluster);
    }
    let marked = |member: &Member| if member.id == answered { "*" } else { "" }.to_owned();
    let head = ["", "NAME", "VOTES", "ROLE", "TERM", "LAST LOG", "COMMIT", "APPLIED", "LAG"];
    let logs = rows(cluster, &head, |member| {
        let number = |number: u64| or_dash(member.answers().then(|| number.to_string()));
        vec![
            marked(member),
            shown(&member.name),
            votes(member),
            role_of(cluster, member),
            number(member.term),
            number(member.last_log),
            number(member.commit),
            number(member.applied),
            or_dash(member.lag.map(|lag| lag.to_string())),
        ]
    });
    let head = ["", "NAME", "ID", "LAST HEARD", "FREE SPACE", "LONGEST SYNC"];
    let machines = rows(cluster, &head, |member| {
        vec![
            marked(member),
            shown(&member.name),
            member.id.to_string(),
            heard(member, answered),
            or_dash(member.free_bytes.map(size)),
            or_dash(member.sync_ms.map(|ms| format!("{ms} ms"))),
        ]
    });
    format!("{logs}\n{machines}{}", after_gap(&below(cluster)))
}

/// The records of the members.
pub fn records(cluster: &Cluster) -> String {
    let head = ["NAME", "ID", "VOTES", "ROLE", "LAG", "CLIENTS", "OTHER NODES"];
    let row = |member: &Member| {
        vec![
            shown(&member.name),
            member.id.to_string(),
            votes(member),
            role_of(cluster, member),
            or_dash(member.lag.map(|lag| lag.to_string())),
            shown(&member.client_address),
            or_dash(Some(shown(&member.peer_address)).filter(|address| !address.is_empty())),
        ]
    };
    if cluster.members.is_empty() {
        return below(cluster);
    }
    rows(cluster, &head, row) + &after_gap(&below(cluster))
}

fn rows(cluster: &Cluster, head: &[&str], row: impl Fn(&Member) -> Vec<String>) -> String {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    narrow_table(&std::iter::once(head).chain(cluster.members.iter().map(row)).collect::<Vec<_>>())
}

/// What is wrong, and who waits.
fn below(cluster: &Cluster) -> String {
    let Cluster { no_leader, .. } = cluster;
    let mut below = String::new();
    if !no_leader.is_empty() {
        below += &format!("no leader: {}\n", whole(no_leader));
    }
    for member in &cluster.members {
        let Member { error, remark, .. } = member;
        if !error.is_empty() {
            let silent = match cluster.confirms(member.id) {
                // The sentence above has said already who does not answer.
                _ if !no_leader.is_empty() => "",
                true => " leads, as far as the answering node knows, but does not answer",
                false => " does not answer",
            };
            below += &format!("{}{silent}: {}\n", shown(&member.name), whole(error));
        }
        if !remark.is_empty() {
            below += &format!("{} {}\n", shown(&member.name), whole(remark));
        }
    }
    for Joining { id, name, peer_address, .. } in &cluster.joining {
        let (name, address) = (shown(name), shown(peer_address));
        // A wiped node comes back under a new id.
        let is_taken = cluster.members.iter().any(|member| shown(&member.name) == name);
        let first = if is_taken { format!("baton member remove {name}, then ") } else { String::new() };
        below += &format!("{name} (id {id}, {address}) waits to be added: {first}baton member add {name}\n");
    }
    folded(&below)
}

fn after_gap(below: &str) -> String {
    if below.is_empty() { String::new() } else { format!("\n{below}") }
}

/// A sentence of a server, without control characters.
pub fn whole(sentence: &str) -> String {
    sentence.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// A leader that no majority confirms leads nobody, and does not know whether another one leads.
pub fn role(role: &str, is_confirmed: bool) -> String {
    let unconfirmed = if role == "leader" && !is_confirmed { ", not confirmed" } else { "" };
    format!("{}{unconfirmed}", shown(role))
}

fn votes(member: &Member) -> String {
    if member.is_voter { "yes" } else { "no, learns" }.to_owned()
}

fn heard(member: &Member, answered: u64) -> String {
    match member.heard_ms_ago {
        Some(ms) => format!("{} ago", duration(ms)),
        None if member.id == answered => "-".to_owned(),
        None => "never".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        let member = |id, name: &str, role: &str, lag, heard_ms_ago| Member {
            id,
            name: name.to_owned(),
            peer_address: format!("10.0.0.{id}:7520"),
            client_address: format!("10.0.0.{id}:7420"),
            is_voter: id < 4,
            role: role.to_owned(),
            term: 3,
            last_log: 20,
            commit: 19,
            applied: 18,
            lag,
            heard_ms_ago,
            sync_ms: (!role.is_empty()).then_some(12),
            free_bytes: (!role.is_empty()).then_some(id << 30),
            ..Member::default()
        };
        let silent = Member { error: "connection refused".into(), ..member(3, "c", "", None, Some(64_000)) };
        let members = vec![
            member(1, "a", "leader", Some(0), None),
            member(2, "b", "follower", Some(2), Some(40)),
            silent,
            member(4, "d", "learner", Some(900), None),
        ];
        let (name, peer_address, client_address) = ("e".to_owned(), "10.0.0.5:7520".to_owned(), String::new());
        let joining = vec![Joining { id: 5, name, peer_address, client_address }];
        Cluster { id: 0xab, leader: Some(1), no_leader: String::new(), members, joining }
    }

    #[test]
    fn the_tables_show_every_member_and_what_is_wrong() {
        expect_test::expect![[r#"
               NAME  VOTES       ROLE      TERM  LAST LOG  COMMIT  APPLIED  LAG
            *  a     yes         leader    3     20        19      18       0
               b     yes         follower  3     20        19      18       2
               c     yes         -         -     -         -       -        -
               d     no, learns  learner   3     20        19      18       900

               NAME  ID  LAST HEARD     FREE SPACE  LONGEST SYNC
            *  a     1   -              1.0 GiB     12 ms
               b     2   0.0 s ago      2.0 GiB     12 ms
               c     3   1 min 4 s ago  -           -
               d     4   never          4.0 GiB     12 ms

            c does not answer: connection refused
            e (id 5, 10.0.0.5:7520) waits to be added: baton member add e
        "#]]
        .assert_eq(&states(&cluster(), 1));
        let (no_leader, joining) = ("2 of 3 voters are needed; no answer from c".to_owned(), Vec::new());
        let leaderless = Cluster { leader: None, no_leader, joining, ..cluster() };
        expect_test::expect![[r#"
            NAME  ID  VOTES       ROLE                   LAG  CLIENTS        OTHER NODES
            a     1   yes         leader, not confirmed  0    10.0.0.1:7420  10.0.0.1:7520
            b     2   yes         follower               2    10.0.0.2:7420  10.0.0.2:7520
            c     3   yes         -                      -    10.0.0.3:7420  10.0.0.3:7520
            d     4   no, learns  learner                900  10.0.0.4:7420  10.0.0.4:7520

            no leader: 2 of 3 voters are needed; no answer from c
            c: connection refused
        "#]]
        .assert_eq(&records(&leaderless));
    }

    #[test]
    fn a_leader_that_does_not_answer_is_told_as_the_leader() {
        let text = states(&Cluster { leader: Some(3), ..cluster() }, 2);
        let told = "\nc leads, as far as the answering node knows, but does not answer: connection refused\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_wiped_node_that_waits_and_one_that_was_set_back_are_told_with_what_to_do() {
        let mut seen = cluster();
        seen.joining[0].name = "c".into();
        seen.members[1].remark = "no longer has entries".into();
        let text = records(&seen);
        let told = "c (id 5, 10.0.0.5:7520) waits to be added: baton member remove c, then baton member add c\n";
        assert!(text.ends_with(told), "{text}");
        assert!(text.contains("\nb no longer has entries\n"), "{text}");
    }

    #[test]
    fn a_node_that_waits_for_a_cluster_shows_no_empty_table() {
        let no_leader = "this node is no member of a cluster yet; it waits for b".to_owned();
        let waits = Cluster { no_leader: no_leader.clone(), ..Cluster::default() };
        assert_eq!(states(&waits, 1), format!("no leader: {no_leader}\n"));
        assert_eq!(records(&waits), format!("no leader: {no_leader}\n"));
    }

    #[test]
    fn a_cluster_has_exactly_the_promised_fields() {
        let mut cluster = cluster();
        cluster.members.drain(1..2);
        cluster.members.truncate(2);
        expect_test::expect![[r#"{"id":"00000000000000ab","leader":1,"no_leader":null,"members":[{"id":1,"name":"a","voter":true,"address":"10.0.0.1:7420","peer_address":"10.0.0.1:7520","role":"leader","term":3,"last_log":20,"commit":19,"applied":18,"leader":null,"voted_for":null,"lag":0,"heard_ms_ago":null,"error":null,"remark":null,"sync_ms":12,"free_bytes":1073741824,"low_space":false},{"id":3,"name":"c","voter":true,"address":"10.0.0.3:7420","peer_address":"10.0.0.3:7520","lag":null,"heard_ms_ago":64000,"error":"connection refused","remark":null,"sync_ms":null,"free_bytes":null,"low_space":false}],"joining":[{"id":5,"name":"e","address":"","peer_address":"10.0.0.5:7520"}]}"#]]
        .assert_eq(&serde_json::to_string(&cluster).unwrap());
    }
}
