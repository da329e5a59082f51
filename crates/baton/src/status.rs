//! `baton status`: show the state of a server.

use std::process::ExitCode;

use baton_types::views::{Cluster, Group, Peer, Status};

use crate::cluster::answer::answer;
use crate::cluster::check::check;
use crate::cluster::view::{role, states, whole};
use crate::output::{Failure, Outcome, VIOLATED, folded, print, print_json, shown, table};
use crate::service_args::{ServerArgs, block_on};
use crate::view::{duration, size};

/// Show the server's role, log, counts and free space
///
/// A node of a cluster also shows every member: its role, its log, its lag in entries and when the node last heard of it.
/// `*` marks the node that answered. If there is no leader, it says why. Of several servers it shows the first that is a
/// member and knows a leader, or else the first that answers.
///
/// A member of a peer group shows its group instead of log and free space: the algorithm, the other members, and how many
/// names of locks it has taken. It forgets no name.
///
/// With `--check` it prints nothing if a leader is confirmed, a majority of the voters follows it, and the leader and a
/// majority have enough free space, and no wait after a restore is left. Otherwise one sentence on standard error says what
/// is wrong. With `--json` it also prints the object.
///
/// Exit status 0: the server answered; 2: bad input; 69: no server answered; 74: the output cannot be written. With
/// `--check`, 0: all is well; 1: it is not, or no server answered; 2: bad input.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Only check whether locks are granted: for scripts and probes
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args) -> Outcome {
    let ask = || answer(&args.server);
    if args.check {
        let unwell = |message| Failure { message, status: ExitCode::from(VIOLATED) };
        let status = block_on(async {
            // Wrong addresses are bad input.
            args.server.client()?;
            ask().await.map_err(|failure| unwell(failure.message))
        })?;
        if args.json {
            print_json(&status)?
        }
        return check(&status).map(|()| ExitCode::SUCCESS).map_err(unwell);
    }
    let status = block_on(ask())?;
    if args.json {
        print_json(&status)?
    } else {
        print(&to_text(&status))?
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text(status: &Status) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let counts = [
        row("locks", status.locks.to_string()),
        row("sessions", status.sessions.to_string()),
        row("waiters", status.waiters.to_string()),
    ];
    let cluster = status.cluster_id.iter().map(|id| row("cluster", id.to_string())).collect::<Vec<_>>();
    let end = [row("up for", duration(status.uptime_ms)), row("version", status.version.clone())];
    let Some(group) = &status.group else {
        let node = [
            row("node", format!("{}, {}", name(status), role(&status.role, status.confirmed() != Some(false)))),
            row("term", status.term.to_string()),
            row("log", format!("{} committed, {} applied", status.commit, status.applied)),
        ];
        let closed = |ms| {
            format!("none for another {}: the cluster began anew, and leases of before may still run", duration(ms))
        };
        let known = |ms: u64| Some(ms).filter(|ms| *ms > 0).into_iter();
        let closed = known(status.closed_ms).map(|ms| row("grants", closed(ms))).collect::<Vec<_>>();
        let max_ttl = known(status.max_ttl_ms).map(|ms| row("max TTL", duration(ms))).collect::<Vec<_>>();
        let own = table(
            &[&node[..], &cluster, &closed, &max_ttl, &counts, &[row("free space", free_space(status))], &end].concat(),
        );
        // A node that is alone and leads has nothing to add.
        let is_worth_it = |cluster: &&Cluster| {
            cluster.members.len() > 1 || !cluster.no_leader.is_empty() || !cluster.joining.is_empty()
        };
        let members =
            status.cluster.as_ref().filter(is_worth_it).map(|cluster| format!("\n{}", states(cluster, status.node)));
        let remark = &status.address_remark;
        let remark = if remark.is_empty() { String::new() } else { format!("\n{}", folded(&whole(remark))) };
        return own + &members.unwrap_or_default() + &remark;
    };
    let serves = if group.serves { "" } else { "; does not serve" };
    let variant = if group.variant.is_empty() { String::new() } else { format!(", {}", shown(&group.variant)) };
    let member = [
        row("member", format!("{}, of {} members{serves}", group.member, group.members)),
        row("algorithm", format!("{}{variant}", shown(&group.algorithm))),
    ];
    let names =
        Some(group.names_max).filter(|max| *max > 0).map(|max| row("names", format!("{} of {max}", group.names)));
    let own = member.into_iter().chain(cluster).chain(counts).chain(names).chain(end).collect::<Vec<_>>();
    format!("{}\n{}", table(&own), table(&peers(group)))
}

/// The name of the node if it has one, and its id. An older server tells the name only in its list of the members.
fn name(status: &Status) -> String {
    let members = status.cluster.iter().flat_map(|cluster| &cluster.members);
    let listed = members.filter(|member| member.id == status.node).map(|member| &member.name);
    match [&status.name].into_iter().chain(listed).find(|name| !name.is_empty()) {
        Some(name) => format!("{} (id {})", shown(name), status.node),
        None => status.node.to_string(),
    }
}

fn peers(group: &Group) -> Vec<Vec<String>> {
    let title = ["member", "connected", "last heard", "not acknowledged"].map(str::to_owned).to_vec();
    let row = |peer: &Peer| {
        let connected = if peer.connected { "yes" } else { "no" };
        let heard = format!("{} ago", duration(peer.not_heard_ms));
        vec![peer.id.to_string(), connected.to_owned(), heard, size(peer.backlog_bytes)]
    };
    std::iter::once(title).chain(group.peers.iter().map(row)).collect()
}

fn free_space(status: &Status) -> String {
    let free = status.free_bytes.map_or_else(|| "unknown".to_owned(), size);
    if status.low_space { format!("{free}: too little for new sessions and acquires") } else { free }
}

#[cfg(test)]
mod tests {
    use baton_types::views;

    use super::*;

    #[test]
    fn the_text_tells_how_much_space_is_free() {
        let line = |free_bytes, low_space| {
            let status = views::Status { free_bytes, low_space, ..views::Status::default() };
            let text = to_text(&status);
            text.lines().find_map(|line| line.strip_prefix("free space  ")).map(String::from)
        };
        assert_eq!(line(Some(5 << 30), false).as_deref(), Some("5.0 GiB"));
        assert_eq!(line(Some(3 << 20), true).as_deref(), Some("3.0 MiB: too little for new sessions and acquires"));
        assert_eq!(line(None, false).as_deref(), Some("unknown"));
    }

    #[test]
    fn a_cluster_that_began_anew_says_how_long_it_grants_nothing() {
        let text = |closed_ms| to_text(&views::Status { closed_ms, ..views::Status::default() });
        assert!(!text(0).contains("grants"));
        let told =
            "grants      none for another 1 min 30 s: the cluster began anew, and leases of before may still run";
        assert!(text(90_000).lines().any(|line| line == told), "{}", text(90_000));
    }

    #[test]
    fn a_node_shows_its_cluster_unless_it_is_alone() {
        let member = |id| views::Member { id, role: "leader".into(), ..views::Member::default() };
        let text = |members: Vec<views::Member>, no_leader: &str| {
            let cluster = Some(views::Cluster { members, no_leader: no_leader.into(), ..views::Cluster::default() });
            to_text(&views::Status { node: 1, cluster, ..views::Status::default() })
        };
        assert!(!text(vec![member(1)], "").contains("LAST HEARD"));
        assert!(text(vec![member(1), member(2)], "").contains("LONGEST SYNC\n*        1   -"));
        assert!(text(vec![member(1)], "it waits for b").ends_with("\nno leader: it waits for b\n"));
        let named = views::Member { name: "a".into(), ..member(1) };
        assert!(text(vec![named, member(2)], "").starts_with("node        a (id 1),"));
        let waits = views::Status { node: 1, name: "b".into(), role: "waiting".into(), ..views::Status::default() };
        assert!(to_text(&waits).starts_with("node        b (id 1), waiting\n"));
    }

    #[test]
    fn a_member_shows_its_group() {
        let peer =
            |id, connected, not_heard_ms, backlog_bytes| views::Peer { id, connected, not_heard_ms, backlog_bytes };
        let peers = vec![peer(0, true, 120, 0), peer(2, false, 64_000, 3 << 20)];
        let (algorithm, variant, version) = ("raymond".to_owned(), "k-ary:3".to_owned(), "1.0".to_owned());
        let (names, names_max) = (12, 65_536);
        let group = views::Group { algorithm, variant, member: 1, members: 3, serves: false, names, names_max, peers };
        let status = views::Status { locks: 5, waiters: 2, version, group: Some(group), ..views::Status::default() };
        let expected = "\
member     1, of 3 members; does not serve
algorithm  raymond, k-ary:3
locks      5
sessions   0
waiters    2
names      12 of 65536
up for     0.0 s
version    1.0

member  connected  last heard     not acknowledged
0       yes        0.1 s ago      0 B
2       no         1 min 4 s ago  3.0 MiB
";
        let older = views::Group { names: 0, names_max: 0, ..status.group.clone().unwrap() };
        let older = views::Status { group: Some(older), ..status.clone() };
        assert_eq!(to_text(&status), expected);
        assert_eq!(to_text(&older), expected.replace("names      12 of 65536\n", ""));
    }
}
