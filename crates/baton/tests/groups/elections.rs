//! The leader, or another member, is killed or stopped: the others agree on a leader, and no term has two.

use baton_protocol::registry::Family;
use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::group::Group;
use crate::{LONG, healthy, is_full, is_wanted};

const SIZE: usize = 5;

/// The leader that all these members believe in.
async fn agree(group: &mut Group, members: &[usize], is_right: impl Fn(u64) -> bool) -> u64 {
    loop {
        let mut leaders = Vec::new();
        for &id in members {
            let member = &mut group.members[id];
            member.comes_to("leader", |leader| leader.as_u64().is_some_and(&is_right)).await;
            leaders.push(member.last("leader").as_u64());
        }
        if let Some(leader) = leaders[0].filter(|_| leaders.iter().all(|leader| *leader == leaders[0])) {
            return leader;
        }
        tokio::task::yield_now().await;
    }
}

async fn fault(algorithm: &str, hits_leader: bool, signal: Signal) {
    let mut group = Group::start(algorithm, SIZE, 1).await;
    let all: Vec<usize> = (0..SIZE).collect();
    let leader = agree(&mut group, &all, |_| true).await;
    let victim = if hits_leader { leader } else { (leader + 1) % SIZE as u64 };
    group.signal(usize::try_from(victim).unwrap(), signal);
    let survivors: Vec<usize> = all.iter().copied().filter(|&id| id as u64 != victim).collect();
    agree(&mut group, &survivors, |leader| leader != victim).await;
    if signal == Signal::SIGSTOP {
        group.signal(usize::try_from(victim).unwrap(), Signal::SIGCONT);
        agree(&mut group, &all, |_| true).await;
    }
    group.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_survivors_agree_on_a_leader_when_a_member_dies_or_stops() {
    let roles: &[bool] = if is_full() { &[true, false] } else { &[true] };
    let names: Vec<&str> = match is_full() {
        true => healthy(Family::Election).map(|about| about.name).collect(),
        false => vec!["bully"],
    };
    for algorithm in names.into_iter().filter(|name| is_wanted(name)) {
        for &hits_leader in roles {
            for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
                let name = format!("{algorithm}, leader {hits_leader}, {signal}");
                timeout(LONG, fault(algorithm, hits_leader, signal))
                    .await
                    .unwrap_or_else(|_| panic!("{name}: it hangs"));
            }
        }
    }
}
