//! The proxies of a group of three.

mod common;

use baton_proxy::{Counters, Direction, Mesh};
use common::{is_refused, is_reset, receive, rest, send, soon, talks};
use tokio::net::{TcpListener, TcpStream};

struct Group {
    mesh: Mesh,
    listeners: Vec<TcpListener>,
}

impl Group {
    async fn start() -> Group {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let targets: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        Group { mesh: Mesh::start(&targets, 7).unwrap(), listeners }
    }

    /// The end at `from`, then the end at `to`.
    async fn open(&self, from: usize, to: usize) -> (TcpStream, TcpStream) {
        let mut dialler = TcpStream::connect(&self.mesh.addresses(from)[to]).await.unwrap();
        let (mut accepted, _) = soon("accept", self.listeners[to].accept()).await.unwrap();
        talks(&mut dialler, &mut accepted).await;
        (dialler, accepted)
    }

    async fn is_cut(&self, from: usize, to: usize) {
        is_refused(&self.mesh.addresses(from)[to]).await;
    }
}

#[tokio::test]
async fn every_member_has_a_proxy_to_every_other_and_its_own_address() {
    let group = Group::start().await;
    assert_eq!((group.mesh.size(), group.mesh.links().count()), (3, 6));
    for member in 0..3 {
        let own = group.listeners[member].local_addr().unwrap().to_string();
        assert_eq!(group.mesh.addresses(member)[member], own);
    }
    let _open = (group.open(2, 0).await, group.open(0, 2).await);
    assert_eq!(group.mesh.link(2, 0).counters().accepted, 1);
    assert_eq!(group.mesh.link(0, 2).counters().accepted, 1);
    let sum = group.mesh.counters();
    assert_eq!(sum, Counters { accepted: 2, open: 2, forward_bytes: 8, backward_bytes: 8, ..Counters::default() });
}

#[tokio::test]
async fn a_cut_between_two_members_leaves_the_third_alone() {
    let group = Group::start().await;
    let (mut high, mut low) = group.open(1, 0).await;
    let (mut third, mut there) = group.open(2, 0).await;
    group.mesh.cut(0, 1);
    assert_eq!(rest(&mut high).await, b"");
    assert_eq!(rest(&mut low).await, b"");
    group.is_cut(0, 1).await;
    group.is_cut(1, 0).await;
    talks(&mut third, &mut there).await;
    group.mesh.heal();
    group.open(1, 0).await;
    group.mesh.reset(0, 2);
    is_reset(&mut third).await;
    is_reset(&mut there).await;
}

#[tokio::test]
async fn one_way_is_between_members_whoever_dials() {
    let group = Group::start().await;
    let (mut zero, mut one) = group.open(0, 1).await;
    let (mut one_dials, mut zero_listens) = group.open(1, 0).await;
    group.mesh.cut_one_way(0, 1);
    assert!(group.mesh.link(0, 1).conditions().holds(Direction::Forward));
    assert!(group.mesh.link(1, 0).conditions().holds(Direction::Backward));
    send(&mut zero, b"waits").await;
    send(&mut zero_listens, b"waits").await;
    send(&mut one, b"passes").await;
    send(&mut one_dials, b"passes").await;
    receive(&mut zero, b"passes").await;
    receive(&mut zero_listens, b"passes").await;
    let sum = group.mesh.counters();
    assert_eq!((sum.forward_bytes, sum.backward_bytes), (4 + 4 + 6, 4 + 4 + 6));
    group.mesh.heal();
    receive(&mut one, b"waits").await;
    receive(&mut one_dials, b"waits").await;
}

#[tokio::test]
async fn a_member_comes_back_to_those_that_are_there() {
    let group = Group::start().await;
    group.mesh.cut_off(0);
    group.mesh.cut_off(1);
    for (from, to) in [(1, 0), (2, 0), (2, 1)] {
        group.is_cut(from, to).await;
        group.is_cut(to, from).await;
    }
    group.mesh.bring_back(0);
    group.open(2, 0).await;
    group.is_cut(1, 0).await;
    group.mesh.bring_back(1);
    group.open(1, 0).await;
    group.open(2, 1).await;
}

#[tokio::test]
async fn an_unplugged_member_is_silent_and_loses_nothing() {
    let group = Group::start().await;
    let (mut one, mut zero) = group.open(1, 0).await;
    group.mesh.unplug(0);
    send(&mut one, b"forward").await;
    send(&mut zero, b"backward").await;
    let (mut two, mut one_listens) = group.open(2, 1).await;
    for _ in 0..100 {
        talks(&mut two, &mut one_listens).await;
    }
    let counters = group.mesh.link(1, 0).counters();
    assert_eq!((counters.open, counters.forward_bytes, counters.backward_bytes), (1, 4, 4));
    group.mesh.bring_back(0);
    receive(&mut zero, b"forward").await;
    receive(&mut one, b"backward").await;
}
