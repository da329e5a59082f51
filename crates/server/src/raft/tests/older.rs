//! Data format 1 stored openraft's own types with postcard. These tests write such data with openraft, and read it with
//! the frozen copies in `format::v1`.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{BasicNode, EntryPayload, Membership, StoredMembership};
use serde::{Deserialize, Serialize};

use super::*;
use crate::format::FromOlder;
use crate::format::record::{self, Payload, Record};
use crate::format::snapshot::SnapshotMeta;
use crate::store::Upgrade;

/// An entry of format 1 with a time and no commands. (The kept folders have entries with commands.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OldEntry {
    now_ms: u64,
    commands: Vec<()>,
}

impl std::fmt::Display for OldEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

type OldPayload = EntryPayload<OldEntry, u64, BasicNode>;

#[derive(Serialize)]
enum OldRecord<'a> {
    Entry { id: LogId, payload: &'a [u8] },
    Vote(Vote),
    Committed(LogId),
    Truncate(Option<LogId>),
    Purge(LogId),
}

fn old_membership() -> Membership<u64, BasicNode> {
    let nodes = BTreeMap::from([(1, BasicNode::new("127.0.0.1:1")), (2, BasicNode::new(""))]);
    Membership::new(vec![BTreeSet::from([1])], nodes).unwrap()
}

fn new_membership() -> record::Membership {
    let node = |address: &str| {
        let (name, peer_address) = ("default".to_owned(), String::new());
        NodeRecord { name, peer_address, client_address: address.to_owned() }
    };
    let nodes = BTreeMap::from([(1, node("127.0.0.1:1")), (2, node(""))]);
    record::Membership { configs: vec![BTreeSet::from([1])], nodes }
}

#[test]
fn records_of_openraft_s_own_types_are_read() {
    let (id, new_id) = (LogId::new_term_index(300, 70_000), record::LogId { term: 300, index: 70_000 });
    let entry = OldEntry { now_ms: 1_000_000, commands: Vec::new() };
    let new_entry = Entry { now_ms: 1_000_000, commands: Vec::new() };
    let payloads = [
        (OldPayload::Blank, Payload::Blank),
        (OldPayload::Normal(entry), Payload::Commands(new_entry)),
        (OldPayload::Membership(old_membership()), Payload::Membership(new_membership())),
    ];
    let mut frame = Vec::new();
    let mut expected = Vec::new();
    for (old, new) in &payloads {
        let old = postcard::to_stdvec(old).unwrap();
        frame.extend(postcard::to_stdvec(&OldRecord::Entry { id, payload: &old }).unwrap());
        Record::Entry { id: new_id, payload: &new.encode() }.encode_to(&mut expected);
    }
    for (old, new) in [
        (OldRecord::Vote(Vote::new(300, 1)), Record::Vote(record::Vote { term: 300, node: 1, committed: false })),
        (OldRecord::Vote(Vote::new_committed(7, 1)), Record::Vote(record::Vote { term: 7, node: 1, committed: true })),
        (OldRecord::Committed(id), Record::Committed(new_id)),
        (OldRecord::Truncate(None), Record::Truncate(None)),
        (OldRecord::Truncate(Some(id)), Record::Truncate(Some(new_id))),
        (OldRecord::Purge(id), Record::Purge(new_id)),
    ] {
        frame.extend(postcard::to_stdvec(&old).unwrap());
        new.encode_to(&mut expected);
    }
    assert_eq!(FromOlder.frame(1, &frame).unwrap(), expected);
}

#[test]
fn a_snapshot_of_openraft_s_own_meta_is_read() {
    let (last, at) = (LogId::new_term_index(300, 70_000), LogId::new_term_index(1, 0));
    let last_membership = StoredMembership::new(Some(at), old_membership());
    let meta = postcard::to_stdvec(&openraft::SnapshotMeta { last_log_id: Some(last), last_membership }).unwrap();
    // Six numbers, no sessions, the last number of a lock, no locks.
    let table = [5, 1, 0, 0, 0, 0, 0, 0, 0];
    let old = [&(meta.len() as u32).to_le_bytes(), &meta[..], &table].concat();
    let chunks = FromOlder.snapshot(1, vec![old]).unwrap();
    let expected = SnapshotMeta {
        last: Some(record::LogId { term: 300, index: 70_000 }),
        membership: new_membership(),
        membership_at: Some(record::LogId { term: 1, index: 0 }),
    };
    assert_eq!(SnapshotMeta::decode(&chunks[0]).unwrap(), expected);
    let state = crate::format::snapshot::restore(&chunks[1..]).unwrap();
    assert_eq!((state.now_ms(), state.term(), state.revision()), (5, 1, 1));
}
