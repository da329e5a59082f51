//! The members of a cluster, as JSON and as tables.

use baton_types::views;
use serde::Serialize;

use crate::output::{folded, narrow_table, shown};
use crate::view::{duration, id, or_dash, size};

/// A cluster, as one of its nodes sees it.
#[derive(Serialize)]
pub struct Cluster {
    pub id: String,
    /// The id of the leader, if the answering node knows one.
    pub leader: Option<u64>,
    /// Why there is no leader; none if there is one.
    pub no_leader: Option<String>,
    /// In order of name.
    pub members: Vec<Member>,
    /// The nodes that wait to be added.
    pub joining: Vec<Joining>,
}

#[derive(Serialize)]
pub struct Member {
    pub id: u64,
    pub name: String,
    pub voter: bool,
    /// Where clients reach it.
    pub address: String,
    /// Where the other nodes reach it; empty for a node without a port for others.
    pub peer_address: String,
    /// Its own words; none if it does not answer.
    #[serde(flatten)]
    pub says: Option<Says>,
    /// The entries that it does not have yet, if anyone knows.
    pub lag: Option<u64>,
    /// How long ago the answering node last heard of it; none for the answering node itself.
    pub heard_ms_ago: Option<u64>,
    /// Why it does not answer; none if it does.
    pub error: Option<String>,
    /// Why it gets no entries although it answers; none if it gets them.
    pub remark: Option<String>,
    /// The longest sync of its log lately, and the free bytes for its data folder; none if it does not say.
    pub sync_ms: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Whether that is too little for new sessions and acquires.
    pub low_space: bool,
}

#[derive(Serialize)]
pub struct Says {
    pub role: String,
    pub term: u64,
    pub last_log: u64,
    pub commit: u64,
    pub applied: u64,
    /// The node that it follows, and the node that it voted for in its term.
    pub leader: Option<u64>,
    pub voted_for: Option<u64>,
}

#[derive(Serialize)]
pub struct Joining {
    pub id: u64,
    pub name: String,
    pub address: String,
    pub peer_address: String,
}

fn unless_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl From<views::Cluster> for Cluster {
    fn from(cluster: views::Cluster) -> Self {
        let views::Cluster { id, leader, no_leader, members, joining } = cluster;
        let joining = joining.into_iter().map(|views::Joining { id, name, peer_address, client_address }| Joining {
            id,
            name,
            address: client_address,
            peer_address,
        });
        Cluster {
            id: self::id(id),
            leader,
            no_leader: unless_empty(no_leader),
            members: members.into_iter().map(Member::from).collect(),
            joining: joining.collect(),
        }
    }
}

impl From<views::Member> for Member {
    fn from(member: views::Member) -> Self {
        let views::Member { id, name, peer_address, client_address, is_voter, .. } = member;
        let views::Member { role, term, last_log, commit, applied, leader, voted_for, .. } = member;
        let answers = !role.is_empty();
        Member {
            id,
            name,
            voter: is_voter,
            address: client_address,
            peer_address,
            says: answers.then_some(Says { role, term, last_log, commit, applied, leader, voted_for }),
            lag: member.lag,
            heard_ms_ago: member.heard_ms_ago,
            error: unless_empty(member.error),
            remark: unless_empty(member.remark),
            sync_ms: member.sync_ms,
            free_bytes: member.free_bytes,
            low_space: member.low_space,
        }
    }
}

impl Cluster {
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|member| member.voter).count()
    }

    /// True if a member leads, as it says, and the answering node knows that a majority confirms it.
    pub fn confirms(&self, id: u64) -> bool {
        self.leader == Some(id)
    }

    fn role(&self, member: &Member) -> String {
        or_dash(member.says.as_ref().map(|says| role(&says.role, self.confirms(member.id))))
    }

    /// How the members are. `*` marks the member with the id `answered`, which is the source of the table.
    pub fn states(&self, answered: u64) -> String {
        if self.members.is_empty() {
            return self.below();
        }
        let marked = |member: &Member| if member.id == answered { "*" } else { "" }.to_owned();
        let head = ["", "NAME", "VOTES", "ROLE", "TERM", "LAST LOG", "COMMIT", "APPLIED", "LAG"];
        let logs = self.rows(&head, |member| {
            let number = |of: fn(&Says) -> u64| or_dash(member.says.as_ref().map(|says| of(says).to_string()));
            vec![
                marked(member),
                shown(&member.name),
                votes(member),
                self.role(member),
                number(|says| says.term),
                number(|says| says.last_log),
                number(|says| says.commit),
                number(|says| says.applied),
                or_dash(member.lag.map(|lag| lag.to_string())),
            ]
        });
        let head = ["", "NAME", "ID", "LAST HEARD", "FREE SPACE", "LONGEST SYNC"];
        let machines = self.rows(&head, |member| {
            vec![
                marked(member),
                shown(&member.name),
                member.id.to_string(),
                heard(member, answered),
                or_dash(member.free_bytes.map(size)),
                or_dash(member.sync_ms.map(|ms| format!("{ms} ms"))),
            ]
        });
        format!("{logs}\n{machines}{}", after_gap(&self.below()))
    }

    /// The records of the members.
    pub fn records(&self) -> String {
        let head = ["NAME", "ID", "VOTES", "ROLE", "LAG", "CLIENTS", "OTHER NODES"];
        let row = |member: &Member| {
            vec![
                shown(&member.name),
                member.id.to_string(),
                votes(member),
                self.role(member),
                or_dash(member.lag.map(|lag| lag.to_string())),
                shown(&member.address),
                or_dash(unless_empty(shown(&member.peer_address))),
            ]
        };
        if self.members.is_empty() {
            return self.below();
        }
        self.rows(&head, row) + &after_gap(&self.below())
    }

    fn rows(&self, head: &[&str], row: impl Fn(&Member) -> Vec<String>) -> String {
        let head = head.iter().map(|&cell| cell.to_owned()).collect();
        narrow_table(&std::iter::once(head).chain(self.members.iter().map(row)).collect::<Vec<_>>())
    }

    /// What is wrong, and who waits.
    fn below(&self) -> String {
        let mut below = String::new();
        if let Some(why) = &self.no_leader {
            below += &format!("no leader: {}\n", whole(why));
        }
        for member in &self.members {
            if let Some(error) = &member.error {
                let silent = match self.confirms(member.id) {
                    // The sentence above has said already who does not answer.
                    _ if self.no_leader.is_some() => "",
                    true => " leads, as far as the answering node knows, but does not answer",
                    false => " does not answer",
                };
                below += &format!("{}{silent}: {}\n", shown(&member.name), whole(error));
            }
            if let Some(remark) = &member.remark {
                below += &format!("{} {}\n", shown(&member.name), whole(remark));
            }
        }
        for Joining { id, name, peer_address, .. } in &self.joining {
            let (name, address) = (shown(name), shown(peer_address));
            // A wiped node comes back under a new id.
            let is_taken = self.members.iter().any(|member| shown(&member.name) == name);
            let first = if is_taken { format!("baton member remove {name}, then ") } else { String::new() };
            below += &format!("{name} (id {id}, {address}) waits to be added: {first}baton member add {name}\n");
        }
        folded(&below)
    }
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
    if member.voter { "yes" } else { "no, learns" }.to_owned()
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

    fn cluster() -> views::Cluster {
        let member = |id, name: &str, role: &str, lag, heard_ms_ago| views::Member {
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
            ..views::Member::default()
        };
        let silent = views::Member { error: "connection refused".into(), ..member(3, "c", "", None, Some(64_000)) };
        let members = vec![
            member(1, "a", "leader", Some(0), None),
            member(2, "b", "follower", Some(2), Some(40)),
            silent,
            member(4, "d", "learner", Some(900), None),
        ];
        let (name, peer_address, client_address) = ("e".to_owned(), "10.0.0.5:7520".to_owned(), String::new());
        let joining = vec![views::Joining { id: 5, name, peer_address, client_address }];
        views::Cluster { id: 0xab, leader: Some(1), no_leader: String::new(), members, joining }
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
        .assert_eq(&Cluster::from(cluster()).states(1));
        let (no_leader, joining) = ("2 of 3 voters are needed; no answer from c".to_owned(), Vec::new());
        let leaderless = views::Cluster { leader: None, no_leader, joining, ..cluster() };
        expect_test::expect![[r#"
            NAME  ID  VOTES       ROLE                   LAG  CLIENTS        OTHER NODES
            a     1   yes         leader, not confirmed  0    10.0.0.1:7420  10.0.0.1:7520
            b     2   yes         follower               2    10.0.0.2:7420  10.0.0.2:7520
            c     3   yes         -                      -    10.0.0.3:7420  10.0.0.3:7520
            d     4   no, learns  learner                900  10.0.0.4:7420  10.0.0.4:7520

            no leader: 2 of 3 voters are needed; no answer from c
            c: connection refused
        "#]]
        .assert_eq(&Cluster::from(leaderless).records());
    }

    #[test]
    fn a_leader_that_does_not_answer_is_told_as_the_leader() {
        let text = Cluster::from(views::Cluster { leader: Some(3), ..cluster() }).states(2);
        let told = "\nc leads, as far as the answering node knows, but does not answer: connection refused\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_wiped_node_that_waits_and_one_that_was_set_back_are_told_with_what_to_do() {
        let mut seen = cluster();
        seen.joining[0].name = "c".into();
        seen.members[1].remark = "no longer has entries".into();
        let text = Cluster::from(seen).records();
        let told = "c (id 5, 10.0.0.5:7520) waits to be added: baton member remove c, then baton member add c\n";
        assert!(text.ends_with(told), "{text}");
        assert!(text.contains("\nb no longer has entries\n"), "{text}");
    }

    #[test]
    fn a_node_that_waits_for_a_cluster_shows_no_empty_table() {
        let no_leader = "this node is no member of a cluster yet; it waits for b".to_owned();
        let waits = views::Cluster { no_leader: no_leader.clone(), ..views::Cluster::default() };
        assert_eq!(Cluster::from(waits.clone()).states(1), format!("no leader: {no_leader}\n"));
        assert_eq!(Cluster::from(waits).records(), format!("no leader: {no_leader}\n"));
    }

    #[test]
    fn a_cluster_has_exactly_the_promised_fields() {
        let mut cluster = cluster();
        cluster.members.drain(1..2);
        cluster.members.truncate(2);
        expect_test::expect![[r#"{"id":"00000000000000ab","leader":1,"no_leader":null,"members":[{"id":1,"name":"a","voter":true,"address":"10.0.0.1:7420","peer_address":"10.0.0.1:7520","role":"leader","term":3,"last_log":20,"commit":19,"applied":18,"leader":null,"voted_for":null,"lag":0,"heard_ms_ago":null,"error":null,"remark":null,"sync_ms":12,"free_bytes":1073741824,"low_space":false},{"id":3,"name":"c","voter":true,"address":"10.0.0.3:7420","peer_address":"10.0.0.3:7520","lag":null,"heard_ms_ago":64000,"error":"connection refused","remark":null,"sync_ms":null,"free_bytes":null,"low_space":false}],"joining":[{"id":5,"name":"e","address":"","peer_address":"10.0.0.5:7520"}]}"#]]
        .assert_eq(&serde_json::to_string(&Cluster::from(cluster)).unwrap());
    }
}
