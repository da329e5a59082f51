use super::*;
use crate::raft::peers::Purpose;

fn list(text: &str) -> Vec<(String, String)> {
    let node = |node: &str| node.split_once('=').map(|(name, address)| (name.to_owned(), address.to_owned()));
    text.split(',').filter_map(node).collect()
}

fn own(id: u64, name: &str) -> Own {
    let record =
        NodeRecord { name: name.to_owned(), client_address: format!("client-{name}"), ..NodeRecord::default() };
    Own { id, start: id, record, formats: (2, 2) }
}

fn hello(node: u64, name: &str, said: &str) -> Hello {
    Hello {
        cluster: node * 100,
        node,
        to: 0,
        purpose: Purpose::Introduction,
        record: own(node, name).record,
        formats: (2, 2),
        is_empty: true,
        list: list(said),
        members: Vec::new(),
        joins: false,
        start: node,
    }
}

const LIST: &str = "a=x:1,b=x:2,c=x:3";

/// What the node `a` decides, with id 1, when it hears this from `b` and `c`.
fn decided(b: Result<Hello, &str>, c: Result<Hello, &str>) -> Step {
    decided_with(Ok(hello(1, "a", LIST)), b, c)
}

/// `a`: what it hears at its own address.
fn decided_with(a: Result<Hello, &str>, b: Result<Hello, &str>, c: Result<Hello, &str>) -> Step {
    let heard = [("a", a), ("b", b), ("c", c)].map(|(name, hello)| (name.to_owned(), hello.map_err(str::to_owned)));
    decide(&own(1, "a"), &list(LIST), &BTreeMap::from(heard))
}

fn refused(step: Step) -> String {
    match step {
        Step::Refused(sentence) => sentence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_smallest_name_begins_when_all_are_empty_with_the_same_list() {
    let step = decided(Ok(hello(7, "b", "c=x:3,a=x:1,b=x:2")), Ok(hello(5, "c", LIST)));
    let record = |name: &str, peer_address: &str| NodeRecord {
        name: name.to_owned(),
        peer_address: peer_address.to_owned(),
        client_address: format!("client-{name}"),
    };
    let members = [(1, record("a", "x:1")), (7, record("b", "x:2")), (5, record("c", "x:3"))];
    assert_eq!(step, Step::Initialize(BTreeMap::from(members)));

    let heard = [("a", hello(1, "a", LIST)), ("c", hello(5, "c", LIST))];
    let heard = heard.map(|(name, hello)| (name.to_owned(), Ok(hello)));
    let step = decide(&own(7, "b"), &list(LIST), &BTreeMap::from(heard));
    assert_eq!(step, Step::Wait("waits until a begins the cluster".to_owned()));
    let heard = BTreeMap::from([("a".to_owned(), Ok(hello(1, "a", "a=x:1")))]);
    let alone = decide(&own(1, "a"), &list("a=x:1"), &heard);
    assert_eq!(alone, Step::Initialize(BTreeMap::from([(1, record("a", "x:1"))])));
}

#[test]
fn a_node_waits_for_each_of_the_others() {
    let step = decided(Err("no connection to x:2: refused"), Ok(hello(5, "c", "")));
    let expected = "waits for b (no connection to x:2: refused), c (it has not said its list yet)";
    assert_eq!(step, Step::Wait(expected.to_owned()));
    // It votes, but has no entry yet.
    let begun = Hello { is_empty: false, ..hello(5, "c", "") };
    let step = decided(Ok(hello(7, "b", LIST)), Ok(begun));
    assert_eq!(step, Step::Wait("waits for c (it does not know its members yet)".to_owned()));
}

/// Otherwise both could begin a cluster, each with a majority of the list.
#[test]
fn two_nodes_with_one_name_do_not_both_begin() {
    let (b, c) = (|| Ok(hello(7, "b", LIST)), || Ok(hello(5, "c", LIST)));
    let sentence = refused(decided_with(Ok(hello(2, "a", LIST)), b(), c()));
    assert_eq!(
        sentence,
        "another node (id 2, name \"a\") answers at x:1, the address of a in the list of the cluster; is this node started \
         twice, or on the wrong machine?"
    );
    let step = decided_with(Err("refused"), b(), c());
    assert_eq!(step, Step::Wait("waits until it reaches itself at x:1".to_owned()));
}

#[test]
fn a_node_goes_on_in_the_cluster_that_knows_its_id_and_is_refused_by_any_other() {
    let members = |ids: &[u64]| ids.iter().map(|id| (*id, format!("x:{id}"))).collect();
    let begun = |ids: &[u64]| Hello { is_empty: false, members: members(ids), ..hello(7, "b", "") };
    assert_eq!(decided(Ok(begun(&[7, 1, 5])), Err("down")), Step::GoOn);
    // Even if another node is wrong.
    assert_eq!(decided(Ok(begun(&[7, 1, 5])), Ok(hello(5, "z", LIST))), Step::GoOn);
    let sentence = refused(decided(Ok(begun(&[7, 2, 5])), Err("down")));
    for part in ["b at x:2 belongs to a cluster already (00000000000002bc)", "--join x:2", "baton member add a"] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn nodes_that_do_not_fit_are_refused_with_what_to_do() {
    let fits = || Ok(hello(5, "c", LIST));
    let sentence = refused(decided(Ok(hello(7, "b", "a=x:1,b=y:2,c=x:3")), fits()));
    assert_eq!(
        sentence,
        "b at x:2 has another list of the cluster: only ours has b=x:2, only theirs has b=y:2; start all nodes with the \
         same list"
    );
    let sentence = refused(decided(Ok(hello(7, "b", "a=x:1,b=x:2,c=x:3,d=x:4")), fits()));
    assert!(sentence.contains(": only theirs has d=x:4;"), "{sentence}");
    let sentence = refused(decided(Ok(hello(7, "z", LIST)), fits()));
    assert_eq!(
        sentence,
        "the node at x:2 has the name \"z\", but the list of the cluster calls it b; correct the list or the name"
    );
    let sentence = refused(decided(Ok(Hello { joins: true, ..hello(7, "b", "") }), fits()));
    assert!(sentence.starts_with("b at x:2 waits to be added to another cluster"), "{sentence}");
    let sentence = refused(decided(Ok(hello(1, "b", LIST)), fits()));
    assert!(sentence.contains("leads to this node itself"), "{sentence}");
    let sentence = refused(decided(Ok(hello(5, "b", LIST)), fits()));
    assert!(sentence.starts_with("the addresses of b and c in the list of the cluster lead to the same"), "{sentence}");
    let sentence = refused(decided(Ok(Hello { formats: (5, 6), ..hello(7, "b", LIST) }), fits()));
    assert!(sentence.starts_with("b at x:2 reads data formats 5 to 6, and this node 2 to 2; "), "{sentence}");
}

#[test]
fn a_list_that_cannot_be_right_is_refused_before_anything() {
    let check = |name, text| check_list(name, &list(text));
    assert_eq!(check("a", LIST), Ok(()));
    assert_eq!(
        check("d", LIST).unwrap_err(),
        "this node has the name \"d\", which is not in the list of the cluster (a, b, c); give it one of these names, or \
         add it to the list of every node"
    );
    assert!(check("a", "a=x:1,a=x:2").unwrap_err().starts_with("the name a is in the list of the cluster twice"));
    assert!(check("a", "a=x:1,b=x:1").unwrap_err().starts_with("the address x:1 is in the list of the cluster twice"));
    assert!(check("a", "a=").unwrap_err().contains("a has no address; write a=HOST:PORT"));
    assert!(check("a", "a b=x:1").unwrap_err().contains("contains a space"));
    let many: Vec<String> = (0..17).map(|n| format!("n{n}=x:{n}")).collect();
    assert!(check("n1", &many.join(",")).unwrap_err().contains("has 17 nodes; begin with at most 16"));
}
