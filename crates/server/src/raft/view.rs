//! The cluster, as people see it: pure functions over what the members say.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_types::views::{self, Cluster, Joining};

use super::joining::distinct;
use super::members::Member;
use super::node::Node;
use super::options::Timing;
use super::pace::slow_syncs;
use super::peers::{Announcement, NodeStatus};
use crate::format::record::NodeRecord;
use crate::replica::{Leadership, Role};
use crate::store::FREE_BYTES_MIN;

impl Node {
    /// The cluster, as this node sees it. Asks every member how it is, for half a second at most.
    pub async fn cluster_view(&self) -> Cluster {
        let members = self.members().await;
        let leader = match *self.leadership().borrow() {
            Leadership::Leads { .. } => Some(self.id()),
            Leadership::DoesNotLead { leader } => leader,
        };
        let halves = self.group.metrics().membership_config.get_joint_config().clone();
        let mut view = cluster(self.cluster(), self.id(), leader, &self.group.peers.waits(), &members, &halves);
        if !view.no_leader.is_empty() {
            view.no_leader += &slow_disk(&view.members, self.group.timing);
        }
        view
    }

    /// A sentence if the leader says that this node is no member of the cluster any more. A leader of an earlier term may
    /// not know that this node was added.
    pub(super) async fn removed(&self) -> Option<String> {
        let (members, term) = (self.members().await, self.status().term);
        let leads = |says: &NodeStatus| says.role == Role::Leader && says.term >= term;
        let removed = members.iter().find(|member| member.excludes && member.says.as_ref().is_ok_and(leads));
        removed.map(no_member)
    }
}

/// `waits`: for what this node waits, if it is no member yet. `halves`: the voters; two sets while they change.
fn cluster(
    id: u64,
    me: u64,
    leader: Option<u64>,
    waits: &str,
    members: &[Member],
    halves: &[BTreeSet<u64>],
) -> Cluster {
    let last_log = leader.and_then(|leader| says(members, leader)).and_then(|says| says.last_log);
    let mut shown: Vec<views::Member> = members.iter().map(|member| show(me, last_log, member)).collect();
    shown.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    let waiting = distinct(members.iter().flat_map(|member| member.announced.iter().cloned()));
    // A node that was just added announces itself until it has heard of it.
    let is_member = |id: u64| members.iter().any(|member| member.id == id);
    Cluster {
        id,
        leader,
        no_leader: match members.iter().find(|member| leaves_out(member)) {
            _ if leader.is_some() => String::new(),
            Some(member) => no_member(member),
            None if is_member(me) && halves.len() > 1 => no_leader(me, &shown) + &half_made(&shown, halves),
            None if is_member(me) => no_leader(me, &shown),
            None if !waits.is_empty() => format!("this node is no member of a cluster yet; it {waits}"),
            None => match members.first() {
                // It was removed, or was added and has not got this far in the log.
                Some(member) => format!(
                    "this node is no member of the cluster, as far as it knows; if it was removed, {}",
                    again(&member.record)
                ),
                None => "this node is no member of a cluster yet".to_owned(),
            },
        },
        members: shown,
        joining: waiting.into_iter().filter(|node| !is_member(node.node)).map(joining).collect(),
    }
}

/// True if the member knows that this node is no member. A member that hears of no leader may not have heard yet that this
/// node was added.
fn leaves_out(member: &Member) -> bool {
    member.excludes && member.says.as_ref().is_ok_and(|says| says.leader.is_some())
}

fn no_member(member: &Member) -> String {
    let NodeRecord { name, .. } = &member.record;
    format!("{name} says that this node is no member of the cluster any more; {}", again(&member.record))
}

/// What to do with a node that was removed.
fn again(member: &NodeRecord) -> String {
    format!(
        "stop it, empty its data folder, start it with `--join {}`, and add it with `baton member add`",
        member.peer_address
    )
}

fn says(members: &[Member], id: u64) -> Option<&NodeStatus> {
    members.iter().find(|member| member.id == id)?.says.as_ref().ok()
}

fn joining(Announcement { node, record, .. }: Announcement) -> Joining {
    Joining { id: node, name: record.name, peer_address: record.peer_address, client_address: record.client_address }
}

/// `last_log`: the last entry of the leader, if it answers.
fn show(me: u64, last_log: Option<u64>, member: &Member) -> views::Member {
    let record = &member.record;
    let known = views::Member {
        id: member.id,
        name: record.name.clone(),
        peer_address: record.peer_address.clone(),
        client_address: record.client_address.clone(),
        is_voter: member.is_voter,
        heard_ms_ago: member.heard_ms_ago.filter(|_| member.id != me),
        remark: member.remark.clone(),
        ..views::Member::default()
    };
    let next = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    match &member.says {
        // What it has acknowledged earlier says nothing about what it has now.
        Err(error) => views::Member { error: error.clone(), ..known },
        Ok(says) => {
            let behind = last_log.map(|last| next(Some(last)).saturating_sub(next(says.last_log)));
            views::Member {
                remark: if known.remark.is_empty() { overwritten(says) } else { known.remark },
                role: says.role.word().to_owned(),
                term: says.term,
                last_log: says.last_log.unwrap_or(0),
                commit: says.commit.unwrap_or(0),
                applied: says.applied.unwrap_or(0),
                leader: says.leader,
                // A node that has never voted names itself, in term 0.
                voted_for: (says.term > 0).then_some(says.voted_for),
                lag: behind,
                sync_ms: Some(says.sync_ms),
                free_bytes: says.free_bytes,
                low_space: says.free_bytes.is_some_and(|free| free < FREE_BYTES_MIN),
                ..known
            }
        }
    }
}

/// A sentence without a subject if a member has applied more than it knows to be committed. No node does this by itself.
fn overwritten(says: &NodeStatus) -> String {
    match (says.applied, says.commit) {
        (Some(applied), commit) if Some(applied) > commit => {
            let commit = commit.map_or("none".to_owned(), |commit| format!("only those up to {commit}"));
            format!(
                "has applied entries up to {applied}, and of these {commit} are committed: the data folder of a node was set \
                 back to an older copy, and its state is that of no other node; remove it, empty its folder, and add it again"
            )
        }
        _ => String::new(),
    }
}

/// Why there is no leader, as a sentence. Why a member does not answer is told with the member.
fn no_leader(me: u64, members: &[views::Member]) -> String {
    let voters: Vec<&views::Member> = members.iter().filter(|member| member.is_voter).collect();
    let (silent, answer): (Vec<&views::Member>, Vec<_>) = voters.iter().partition(|voter| !voter.error.is_empty());
    let needed = voters.len() / 2 + 1;
    let mut sentence = format!("{} of {} voters answer, and {needed} are needed", answer.len(), voters.len());
    if !silent.is_empty() {
        let silent: Vec<&str> = silent.iter().map(|voter| voter.name.as_str()).collect();
        sentence += &format!("; no answer from {}", silent.join(", "));
    }
    let name =
        |id| members.iter().find(|member| member.id == id).map_or(format!("node {id}"), |voter| voter.name.clone());
    let leads = answer.iter().find(|voter| voter.role == "leader");
    // A follower goes on to name a leader that is gone until another one is elected. With a majority that is soon.
    let follows = |voter: &&&views::Member| voter.id != me && voter.leader.is_some_and(|leader| leader != me);
    if let (None, Some(voter)) = (leads, answer.iter().find(follows).filter(|_| answer.len() >= needed))
        && let Some(leader) = voter.leader
    {
        sentence = format!("{} follows {}, which this node does not hear; {sentence}", voter.name, name(leader));
    }
    if let Some(leads) = leads {
        sentence += &match leads.id == me {
            true => format!("; {} was elected, and hears from no majority", leads.name),
            false => format!(
                "; {} says that it leads, and this node does not hear of it (`baton status --server {}` says why, if it refuses \
                 this node)",
                leads.name, leads.client_address
            ),
        };
    }
    let votes = answer.iter().filter_map(|voter| {
        let voted_for = voter.voted_for?;
        Some(format!("{} for {} in term {}", voter.name, name(voted_for), voter.term))
    });
    let votes: Vec<String> = votes.collect();
    match votes.is_empty() {
        true => sentence + "; no voter has voted",
        false => sentence + &format!("; last votes: {}", votes.join(", ")),
    }
}

/// The slowest disk of a voter, if it is too slow for an election.
fn slow_disk(members: &[views::Member], timing: Timing) -> String {
    let slowest = members.iter().filter(|member| member.is_voter).max_by_key(|member| member.sync_ms);
    let slow = |voter: &views::Member| slow_syncs(Duration::from_millis(voter.sync_ms?), timing);
    slowest.and_then(|voter| Some(format!("; {} {}", voter.name, slow(voter)?))).unwrap_or_default()
}

/// What finishes a change of the voters that a dead node has stopped.
fn half_made(members: &[views::Member], halves: &[BTreeSet<u64>]) -> String {
    let names = |half: &BTreeSet<u64>, pick: &dyn Fn(&views::Member) -> bool| {
        let picked = members.iter().filter(|member| half.contains(&member.id) && pick(member));
        picked.map(|member| member.name.as_str()).collect::<Vec<&str>>().join(", ")
    };
    let silent = |member: &views::Member| !member.error.is_empty();
    let lacks = |half: &&BTreeSet<u64>| {
        let answer = members.iter().filter(|member| half.contains(&member.id) && !silent(member)).count();
        answer <= half.len() / 2
    };
    let sets: Vec<String> = halves.iter().map(|half| format!("({})", names(half, &|_| true))).collect();
    let sentence = format!(
        "; a change of the voters is half made, and until it is finished each of {} needs a majority",
        sets.join(" and ")
    );
    match halves.iter().find(lacks) {
        Some(half) => sentence + &format!("; start {} to finish it", names(half, &silent)),
        None => sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> NodeRecord {
        NodeRecord { name: name.to_owned(), peer_address: format!("{name}:1"), client_address: format!("{name}:2") }
    }

    fn member(id: u64, name: &str, says: Result<NodeStatus, &str>) -> Member {
        let (record, says) = (record(name), says.map_err(str::to_owned));
        Member {
            id,
            record,
            is_voter: true,
            heard_ms_ago: Some(7),
            remark: String::new(),
            says,
            announced: Vec::new(),
            excludes: false,
        }
    }

    fn status(role: Role, term: u64, last_log: u64, leader: Option<u64>, voted_for: u64) -> NodeStatus {
        let (last_log, commit, applied) = (Some(last_log), Some(last_log), Some(last_log));
        NodeStatus {
            role,
            term,
            last_log,
            commit,
            applied,
            leader,
            voted_for,
            sync_ms: 1,
            sync_min_ms: 1,
            free_bytes: Some(7),
        }
    }

    #[test]
    fn members_are_in_order_of_name_and_a_follower_knows_their_lag() {
        let mut members = vec![
            member(1, "c", Ok(status(Role::Follower, 4, 90, Some(3), 3))),
            member(2, "b", Err("no connection to b:1: refused")),
            member(3, "a", Ok(status(Role::Leader, 4, 100, Some(3), 3))),
        ];
        let waits = |node, name| Announcement { node, record: record(name), formats: (2, 2) };
        members[0].announced = vec![waits(9, "e"), waits(8, "d"), waits(1, "c")];
        members[2].announced = vec![waits(8, "d")];
        let seen = cluster(5, 1, Some(3), "", &members, &[]);
        let line = |member: &views::Member| (member.name.clone(), member.lag, member.heard_ms_ago, member.role.clone());
        let lines: Vec<_> = seen.members.iter().map(line).collect();
        let expected = [
            ("a".to_owned(), Some(0), Some(7), "leader".to_owned()),
            ("b".to_owned(), None, Some(7), String::new()),
            ("c".to_owned(), Some(10), None, "follower".to_owned()),
        ];
        assert_eq!(lines, expected);
        assert_eq!((seen.id, seen.leader, seen.no_leader.as_str()), (5, Some(3), ""));
        assert_eq!(seen.members[1].error, "no connection to b:1: refused");
        let disk = |member: &views::Member| (member.sync_ms, member.free_bytes, member.low_space);
        let disks: Vec<_> = seen.members.iter().map(disk).collect();
        assert_eq!(disks, [(Some(1), Some(7), true), (None, None, false), (Some(1), Some(7), true)]);
        let joining: Vec<(u64, &str)> = seen.joining.iter().map(|node| (node.id, node.name.as_str())).collect();
        assert_eq!(joining, [(8, "d"), (9, "e")], "each once, and no member");
    }

    #[test]
    fn a_member_that_has_applied_more_than_is_committed_is_remarked() {
        let remark = |commit, applied| {
            let says = NodeStatus { commit, applied, ..status(Role::Follower, 4, 107, Some(3), 3) };
            show(1, None, &member(2, "b", Ok(says))).remark
        };
        assert_eq!((remark(Some(107), Some(107)), remark(Some(107), None), remark(None, None)), Default::default());
        let overwritten =
            "has applied entries up to 107, and of these only those up to 50 are committed: the data folder";
        assert!(remark(Some(50), Some(107)).starts_with(overwritten), "{}", remark(Some(50), Some(107)));
        assert!(remark(None, Some(0)).contains("of these none are committed"));
    }

    #[test]
    fn the_lag_of_a_member_that_does_not_answer_is_unknown() {
        let members = vec![
            member(1, "a", Ok(status(Role::Leader, 4, 100, Some(1), 1))),
            member(2, "b", Err("it did not answer for 500 ms")),
        ];
        let lags = |leader| cluster(5, 1, leader, "", &members, &[]).members.into_iter().map(|member| member.lag);
        assert_eq!(lags(Some(1)).collect::<Vec<_>>(), [Some(0), None], "it may have lost its folder");
        assert_eq!(lags(None).collect::<Vec<_>>(), [None, None], "the others may have a leader");
    }

    #[test]
    fn a_change_that_cannot_finish_names_who_finishes_it() {
        let members = [
            member(1, "a", Ok(status(Role::Leader, 4, 9, Some(1), 1))),
            member(2, "b", Ok(status(Role::Follower, 4, 9, Some(1), 1))),
            member(3, "c", Err("no connection to c:1: refused")),
        ];
        let halves = [BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 3])];
        let why = cluster(5, 1, None, "", &members, &halves).no_leader;
        let expected = "; a change of the voters is half made, and until it is finished each of (a, b, c) and (a, c) needs a \
                        majority; start c to finish it";
        assert!(why.starts_with("2 of 3 voters answer") && why.ends_with(expected), "{why}");
        assert_eq!(cluster(5, 1, Some(1), "", &members, &halves).no_leader, "");
    }

    #[test]
    fn a_sentence_says_why_there_is_no_leader() {
        let why = |members: &[Member]| cluster(5, 1, None, "", members, &[]).no_leader;
        let down = "no connection to b:1: refused";
        let mut members = vec![
            member(1, "a", Ok(status(Role::Candidate, 4, 9, None, 1))),
            member(2, "b", Err(down)),
            member(3, "c", Err("it did not answer for 500 ms")),
        ];
        assert_eq!(
            why(&members),
            "1 of 3 voters answer, and 2 are needed; no answer from b, c; last votes: a for a in term 4"
        );
        members[2] = member(3, "c", Ok(status(Role::Candidate, 4, 9, None, 3)));
        assert_eq!(
            why(&members),
            "2 of 3 voters answer, and 2 are needed; no answer from b; last votes: a for a in term 4, c for c in term 4"
        );
        members[2].says = Ok(status(Role::Follower, 4, 9, Some(2), 2));
        assert_eq!(
            why(&members),
            "c follows b, which this node does not hear; 2 of 3 voters answer, and 2 are needed; no answer from b; last votes: a \
             for a in term 4, c for b in term 4"
        );
        members[2].says = Ok(status(Role::Follower, 4, 9, Some(1), 1));
        assert!(why(&members).starts_with("2 of 3 voters answer"), "c follows this node");
        members[2].says = Ok(status(Role::Candidate, 4, 9, None, 3));
        members[2].excludes = true;
        assert!(why(&members).starts_with("2 of 3 voters answer"), "a member without a leader may be behind");
        members[2].says = Ok(status(Role::Follower, 5, 9, Some(2), 2));
        assert!(why(&members).starts_with("c says that this node is no member"), "{}", why(&members));
        members[2] = member(3, "c", Ok(status(Role::Candidate, 4, 9, None, 3)));
        members[0].says = Ok(status(Role::Leader, 4, 9, Some(1), 1));
        assert!(why(&members).contains("; a was elected, and hears from no majority; "), "{}", why(&members));
        members[0].id = 9;
        assert_eq!(
            why(&members),
            "this node is no member of the cluster, as far as it knows; if it was removed, stop it, empty its data folder, start \
             it with `--join a:1`, and add it with `baton member add`"
        );
        members[0] = member(1, "a", Ok(status(Role::Follower, 4, 9, None, 1)));
        members[2].says = Ok(status(Role::Leader, 4, 9, Some(3), 3));
        assert!(
            why(&members).contains(
                "; c says that it leads, and this node does not hear of it (`baton status --server c:2` says why, if it refuses \
                 this node); "
            ),
            "{}",
            why(&members)
        );
        assert_eq!(why(&[]), "this node is no member of a cluster yet");
        let waits = cluster(5, 1, None, "waits for b (it is down)", &[], &[]).no_leader;
        assert_eq!(waits, "this node is no member of a cluster yet; it waits for b (it is down)");
    }
}
