//! Whether a server, with its cluster, grants locks now: for scripts and probes. Everything here is pure.

use baton_types::sentences;
use baton_types::views::{Cluster, Member, Status};

use super::view::whole;
use crate::output::shown;
use crate::view::{duration, size};

/// Fails with a sentence that says why no lock may be granted now, or soon.
pub fn check(status: &Status) -> Result<(), String> {
    let verdict = match (&status.group, &status.cluster) {
        (Some(group), _) if !group.serves => Err("the member that answers does not serve".to_owned()),
        (Some(_), _) => Ok(()),
        (None, Some(cluster)) => check_cluster(cluster).and_then(|()| check_way(status, cluster)),
        (None, None) if status.role != "leader" => {
            Err(format!("the server is no leader, but a {}", shown(&status.role)))
        }
        (None, None) if status.low_space => {
            Err(format!("the server has too little free space{}", free(status.free_bytes)))
        }
        (None, None) => Ok(()),
    };
    verdict.and_then(|()| check_open(status.closed_ms))
}

fn check_open(closed_ms: u64) -> Result<(), String> {
    if closed_ms == 0 { Ok(()) } else { Err(sentences::closed(duration(closed_ms))) }
}

fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    let leader = cluster.members.iter().find(|member| Some(member.id) == cluster.leader);
    let Some(leader) = leader else {
        let why = match cluster.no_leader.as_str() {
            "" => "the answering node does not know the one that leads",
            why => why,
        };
        return Err(format!("there is no leader: {}", whole(why)));
    };
    let name = shown(&leader.name);
    if leader.role != "leader" || leader.leader != Some(leader.id) {
        return Err(format!("{name} leads, as far as the answering node knows, but does not confirm that"));
    }
    let voters: Vec<&Member> = cluster.members.iter().filter(|member| member.is_voter).collect();
    let needed = voters.len() / 2 + 1;
    let follows = |voter: &&&Member| voter.answers() && voter.leader == Some(leader.id);
    let following: Vec<&Member> = voters.iter().filter(follows).copied().collect();
    if following.len() < needed {
        let (count, all) = (following.len(), voters.len());
        return Err(format!("{count} of {all} voters answer and follow {name}, and {needed} are needed"));
    }
    if leader.low_space {
        return Err(format!("{name}, which leads, has too little free space{}", free(leader.free_bytes)));
    }
    let low: Vec<String> = following.iter().filter(|voter| voter.low_space).map(|voter| shown(&voter.name)).collect();
    match following.len() - low.len() < needed {
        true => Err(format!("too few voters have enough free space: {} have too little", low.join(", "))),
        false => Ok(()),
    }
}

/// Fails if the answering node sends its clients to a stranger: it advertises the same address as the leader, and another
/// server answers there.
fn check_way(status: &Status, cluster: &Cluster) -> Result<(), String> {
    let find = |id| cluster.members.iter().find(|member| Some(member.id) == id);
    let (Some(own), Some(leader)) = (find(Some(status.node)), find(cluster.leader)) else { return Ok(()) };
    match status.address_remark.as_str() {
        remark if !remark.is_empty() && own.id != leader.id && own.client_address == leader.client_address => {
            let (own, leader) = (shown(&own.name), shown(&leader.name));
            Err(format!("{own} reaches {leader}, which leads, for no client: {}", whole(remark)))
        }
        _ => Ok(()),
    }
}

fn free(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!(": {}", size(bytes))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use baton_types::views;

    use super::*;

    fn member(id: u64, name: &str, leads: bool) -> views::Member {
        let role = if leads { "leader" } else { "follower" }.to_owned();
        let free_bytes = Some(id << 20);
        views::Member { id, name: name.into(), is_voter: true, role, leader: Some(1), free_bytes, ..Default::default() }
    }

    fn silent(member: &mut views::Member) {
        (member.role, member.leader, member.error) = (String::new(), None, "refused".into());
    }

    /// The verdict on three nodes after a change.
    fn checked(change: impl Fn(&mut views::Cluster)) -> Result<(), String> {
        let members = vec![member(1, "a", true), member(2, "b", false), member(3, "c", false)];
        let mut cluster = views::Cluster { leader: Some(1), members, ..Default::default() };
        change(&mut cluster);
        check(&views::Status { node: 2, cluster: Some(cluster), ..Default::default() })
    }

    #[test]
    fn a_cluster_with_a_leader_a_majority_and_space_is_well() {
        assert_eq!(checked(|_| ()), Ok(()));
        assert_eq!(checked(|seen| silent(&mut seen.members[2])), Ok(()));
        assert_eq!(checked(|seen| seen.members[1].low_space = true), Ok(()), "two others have enough");
    }

    #[test]
    fn a_sentence_says_why_locks_may_not_be_granted() {
        let says = |change: fn(&mut views::Cluster)| checked(change).unwrap_err();
        let no_leader = says(|seen| (seen.leader, seen.no_leader) = (None, "it waits for b".into()));
        assert_eq!(no_leader, "there is no leader: it waits for b");
        let gone = says(|seen| silent(&mut seen.members[0]));
        assert_eq!(gone, "a leads, as far as the answering node knows, but does not confirm that");
        let unconfirmed = says(|seen| seen.members[0].leader = None);
        assert_eq!(unconfirmed, gone, "it says that it leads, and no majority confirms it");
        let alone = says(|seen| seen.members[1..].iter_mut().for_each(silent));
        assert_eq!(alone, "1 of 3 voters answer and follow a, and 2 are needed");
        assert_eq!(says(|seen| seen.members[0].low_space = true), "a, which leads, has too little free space: 1.0 MiB");
        let low = says(|seen| seen.members[1..].iter_mut().for_each(|member| member.low_space = true));
        assert_eq!(low, "too few voters have enough free space: b, c have too little");
    }

    #[test]
    fn a_cluster_that_began_anew_is_not_well_until_it_grants_locks() {
        let says = |closed_ms| check(&views::Status { role: "leader".into(), closed_ms, ..Default::default() });
        let left = "no lock is granted for another 10 min 0 s, because the cluster began anew and leases of before may still \
                    run";
        assert_eq!((says(600_000), says(0)), (Err(left.to_owned()), Ok(())));
    }

    #[test]
    fn a_follower_that_finds_a_stranger_at_the_address_of_the_leader_is_not_well() {
        let says = |node, leads_at: &str| {
            let at = |address: &str, member| views::Member { client_address: address.into(), ..member };
            let members = vec![at(leads_at, member(1, "a", true)), at("h:9", member(2, "b", false))];
            let cluster = Some(views::Cluster { leader: Some(1), members, ..Default::default() });
            let address_remark = "another server answers at h:9".to_owned();
            check(&views::Status { node, cluster, address_remark, ..Default::default() })
        };
        let told = "b reaches a, which leads, for no client: another server answers at h:9";
        assert_eq!(says(2, "h:9"), Err(told.to_owned()));
        assert_eq!(
            (says(1, "h:9"), says(2, "h:8")),
            (Ok(()), Ok(())),
            "clients of a are served there, or at its own address"
        );
    }

    #[test]
    fn a_server_without_a_cluster_is_judged_by_its_own_words() {
        let says = |status| check(&status);
        let leads = views::Status { role: "leader".into(), ..Default::default() };
        assert_eq!(says(leads.clone()), Ok(()));
        let low = views::Status { low_space: true, free_bytes: Some(3 << 20), ..leads };
        assert_eq!(says(low), Err("the server has too little free space: 3.0 MiB".to_owned()));
        let group = |serves| Some(views::Group { serves, ..Default::default() });
        let member = |serves| says(views::Status { group: group(serves), ..Default::default() });
        assert_eq!((member(true), member(false).is_err()), (Ok(()), true));
    }
}
