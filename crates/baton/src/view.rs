//! The JSON objects of the commands that show the lock service, and how these commands format times and sizes.

use std::time::Duration;

pub use baton_types::durations::shown as duration;
use baton_types::locks::Mode;
use baton_types::{name, views};
use serde::Serialize;

use crate::cluster::view::Cluster;

#[derive(Serialize)]
pub struct Lock {
    pub name: String,
    /// Whether `name` is in the escaped form, because it is not UTF-8.
    #[serde(skip_serializing_if = "is_false")]
    pub escaped: bool,
    /// The mode of its holders; none if there is no holder.
    pub mode: Option<&'static str>,
    /// The number of permits; 0 if the lock is not held by permits.
    pub permits: u32,
    pub holders: Vec<Holder>,
    /// In the order of the queue.
    pub waiters: Vec<Waiter>,
    pub history: Vec<Past>,
    /// The longest time that the lock may still stay closed.
    pub lock_delay_ms: u64,
}

#[derive(Serialize)]
pub struct Holder {
    session: String,
    owner: String,
    pub label: String,
    pub host: String,
    pub pid: u32,
    pub fence: u64,
    /// The time of the grant, in milliseconds since 1970.
    pub since_ms: u64,
    /// The time until the lease ends, if it is not renewed. None in a local read, which does not know leases.
    pub deadline_in_ms: Option<u64>,
}

#[derive(Serialize)]
pub struct Waiter {
    session: String,
    owner: String,
    pub label: String,
    pub mode: &'static str,
    pub waiting_ms: u64,
    /// The place in the queue, from 1 on.
    pub position: u32,
}

/// An earlier holder.
#[derive(Serialize)]
pub struct Past {
    session: String,
    pub label: String,
    pub fence: u64,
    /// The time of the grant, in milliseconds since 1970.
    pub from_ms: u64,
    /// The time when the hold ended, in milliseconds since 1970.
    pub to_ms: u64,
    pub ended: &'static str,
}

#[derive(Serialize)]
pub struct Session {
    pub id: String,
    pub label: String,
    pub host: String,
    pub pid: u32,
    pub ttl_ms: u64,
    /// The time until the session expires, if no keep-alive comes. None in a local read, which does not know leases.
    pub expires_in_ms: Option<u64>,
    /// Whether all names in `holds` and `waits` are in the escaped form, because one of them is not UTF-8.
    #[serde(skip_serializing_if = "is_false")]
    pub escaped: bool,
    pub holds: Vec<String>,
    pub waits: Vec<String>,
}

/// The state of a server.
#[derive(Serialize)]
pub struct Status {
    /// The cluster, or the peer group. An older server does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    pub node: u64,
    /// Only a node of a cluster has it, also before it is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is wrong with the address that the node advertises to clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_remark: Option<String>,
    /// How long the cluster still grants nothing, because it began anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<u64>,
    /// The longest TTL of the sessions that begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ttl_ms: Option<u64>,
    pub role: String,
    /// Only a leader of a cluster has it: whether a majority confirms that it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    pub term: u64,
    /// The index of the last committed log entry.
    pub commit: u64,
    /// The index of the last log entry that is applied to the table of locks.
    pub applied: u64,
    pub locks: u64,
    pub sessions: u64,
    /// The number of waiting requests.
    pub waiters: u64,
    pub uptime_ms: u64,
    pub version: String,
    /// Free space for the data folder; none if the system does not report it.
    pub free_bytes: Option<u64>,
    /// Whether the free space is too little for new sessions and acquires.
    pub low_space: bool,
    /// Only a member of a peer group has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// A member of a peer group does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

/// A peer group, as one of its members sees it.
#[derive(Serialize)]
pub struct Group {
    pub algorithm: String,
    /// Empty if the algorithm has no variants.
    pub variant: String,
    /// The id of the member that answered.
    pub member: u64,
    /// The number of members.
    pub members: u64,
    /// Whether the member that answered serves its clients.
    pub serves: bool,
    /// The number of names that the member that answered has taken; it only grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<u64>,
    /// The most names that it can take. An older member does not tell either number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names_max: Option<u64>,
    /// The other members.
    pub peers: Vec<Peer>,
}

#[derive(Serialize)]
pub struct Peer {
    pub id: u64,
    pub connected: bool,
    pub not_heard_ms: u64,
    /// The bytes for this member that it has not acknowledged.
    pub backlog_bytes: u64,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The id of a session or owner as 16 hexadecimal digits, because many JSON readers round numbers of 64 bits.
pub fn id(id: u64) -> String {
    format!("{id:016x}")
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permit { .. } => "permit",
    }
}

impl From<views::Lock> for Lock {
    fn from(lock: views::Lock) -> Self {
        let (name, escaped) = name::shown(&lock.name);
        Lock {
            mode: lock.mode.map(mode),
            name,
            escaped,
            permits: lock.permits,
            holders: lock.holders.into_iter().map(Holder::from).collect(),
            waiters: lock.waiters.into_iter().map(Waiter::from).collect(),
            history: lock.history.into_iter().map(Past::from).collect(),
            lock_delay_ms: lock.lock_delay_ms,
        }
    }
}

impl From<views::Holder> for Holder {
    fn from(holder: views::Holder) -> Self {
        let views::Holder { session, owner, label, host, pid, fence, since_ms, deadline_in_ms } = holder;
        let deadline_in_ms = Some(deadline_in_ms);
        Holder { session: id(session), owner: id(owner), label, host, pid, fence, since_ms, deadline_in_ms }
    }
}

impl From<views::Waiter> for Waiter {
    fn from(waiter: views::Waiter) -> Self {
        let views::Waiter { session, owner, label, mode, waiting_ms, position } = waiter;
        Waiter { session: id(session), owner: id(owner), label, mode: self::mode(mode), waiting_ms, position }
    }
}

impl From<views::Past> for Past {
    fn from(past: views::Past) -> Self {
        let views::Past { session, label, fence, from_ms, to_ms, ended } = past;
        let ended = match ended {
            views::HowEnded::Released => "released",
            views::HowEnded::Expired => "expired",
            views::HowEnded::Forced => "forced",
            views::HowEnded::Unknown => "unknown",
        };
        Past { session: id(session), label, fence, from_ms, to_ms, ended }
    }
}

impl From<views::Session> for Session {
    fn from(session: views::Session) -> Self {
        let views::Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits } = session;
        // All names are in the same form, so that one flag tells the form.
        let escaped = holds.iter().chain(&waits).any(|name| str::from_utf8(name).is_err());
        let shown = |name: &Vec<u8>| if escaped { name::escaped(name) } else { name::shown(name).0 };
        let (holds, waits) = (holds.iter().map(shown).collect(), waits.iter().map(shown).collect());
        let expires_in_ms = Some(expires_in_ms);
        Session { id: self::id(id), label, host, pid, ttl_ms, expires_in_ms, escaped, holds, waits }
    }
}

impl From<views::Status> for Status {
    fn from(status: views::Status) -> Self {
        let views::Status { node, role, term, commit, applied, locks, sessions, waiters, .. } = status;
        let views::Status {
            uptime_ms,
            version,
            free_bytes,
            low_space,
            group,
            cluster,
            name,
            cluster_id,
            address_remark,
            closed_ms,
            max_ttl_ms,
            ..
        } = status;
        let cluster = cluster.map(Cluster::from);
        let confirmed = cluster.as_ref().filter(|_| role == "leader").map(|cluster| cluster.confirms(node));
        Status {
            cluster_id: cluster_id.map(|id| id.to_string()),
            address_remark: (!address_remark.is_empty()).then_some(address_remark),
            closed_ms: (closed_ms > 0).then_some(closed_ms),
            max_ttl_ms: (max_ttl_ms > 0).then_some(max_ttl_ms),
            node,
            name: (!name.is_empty()).then_some(name),
            role,
            confirmed,
            term,
            commit,
            applied,
            locks,
            sessions,
            waiters,
            uptime_ms,
            version,
            free_bytes,
            low_space,
            group: group.map(Group::from),
            cluster,
        }
    }
}

impl From<views::Group> for Group {
    fn from(group: views::Group) -> Self {
        let views::Group { algorithm, variant, member, members, serves, names, names_max, peers } = group;
        let known = |number| (names_max > 0).then_some(number);
        let (names, names_max) = (known(names), known(names_max));
        let peer = |views::Peer { id, connected, not_heard_ms, backlog_bytes }| Peer {
            id,
            connected,
            not_heard_ms,
            backlog_bytes,
        };
        let peers = peers.into_iter().map(peer).collect();
        Group { algorithm, variant, member, members, serves, names, names_max, peers }
    }
}

impl Lock {
    /// As a local read shows it.
    pub fn local(mut self) -> Self {
        self.holders.iter_mut().for_each(|holder| holder.deadline_in_ms = None);
        self
    }
}

impl Session {
    /// As a local read shows it.
    pub fn local(self) -> Self {
        Session { expires_in_ms: None, ..self }
    }
}

/// The JSON object of a local read.
#[derive(Serialize)]
pub struct Aged<T> {
    #[serde(flatten)]
    value: T,
    /// How old it may be; none if the server does not know.
    age_ms: Option<u64>,
}

impl<T> Aged<T> {
    pub fn new(value: T, age: Option<Duration>) -> Self {
        Aged { value, age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)) }
    }
}

impl Holder {
    pub fn place(&self) -> String {
        place(&self.host, self.pid)
    }
}

/// A process on a host: `host:pid`.
pub fn place(host: &str, pid: u32) -> String {
    format!("{host}:{pid}")
}

/// What is left of a lease. Only the leader counts leases, so a local read does not know it.
pub fn lease(left_ms: Option<u64>) -> String {
    or_dash(left_ms.map(duration))
}

/// A number of bytes in the largest unit that fits, rounded down to tenths.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    match (1..).zip(units).take_while(|(power, _)| bytes >> (10 * power) > 0).last() {
        None => format!("{bytes} B"),
        Some((power, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> (10 * power);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
    }
}

/// The time since `then_ms`, by the clock of this machine. Another machine's clock may be ahead: then the result is 0.
pub fn ago(then_ms: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    duration((now.as_millis() as u64).saturating_sub(then_ms))
}

/// The text for a table cell: a dash if there is none.
pub fn or_dash(text: Option<impl Into<String>>) -> String {
    text.map_or_else(|| "-".into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_exactly_the_promised_fields() {
        let holder = views::Holder {
            session: 0xab,
            owner: u64::MAX,
            label: "job".into(),
            host: "here".into(),
            pid: 7,
            fence: 9,
            since_ms: 1,
            deadline_in_ms: 2,
        };
        let waiter =
            views::Waiter { session: 1, owner: 2, label: "w".into(), mode: Mode::Shared, waiting_ms: 3, position: 1 };
        let past = views::Past {
            session: 5,
            label: "p".into(),
            fence: 8,
            from_ms: 1,
            to_ms: 2,
            ended: views::HowEnded::Forced,
        };
        let lock = views::Lock {
            name: "deploy".into(),
            mode: Some(Mode::Permit { of: 3 }),
            permits: 3,
            holders: vec![holder],
            waiters: vec![waiter],
            history: vec![past],
            lock_delay_ms: 4,
        };
        let expected = concat!(
            r#"{"name":"deploy","mode":"permit","permits":3,"#,
            r#""holders":[{"session":"00000000000000ab","owner":"ffffffffffffffff","label":"job","host":"here","pid":7,"#,
            r#""fence":9,"since_ms":1,"deadline_in_ms":2}],"#,
            r#""waiters":[{"session":"0000000000000001","owner":"0000000000000002","label":"w","mode":"shared","#,
            r#""waiting_ms":3,"position":1}],"#,
            r#""history":[{"session":"0000000000000005","label":"p","fence":8,"from_ms":1,"to_ms":2,"ended":"forced"}],"#,
            r#""lock_delay_ms":4}"#,
        );
        assert_eq!(serde_json::to_string(&Lock::from(lock.clone())).unwrap(), expected);
        let local =
            serde_json::to_string(&Aged::new(Lock::from(lock).local(), Some(Duration::from_millis(6)))).unwrap();
        let expected = expected.replace(r#""deadline_in_ms":2"#, r#""deadline_in_ms":null"#);
        assert_eq!(local, format!(r#"{},"age_ms":6}}"#, &expected[..expected.len() - 1]));
        let lock = Lock::from(views::Lock { name: b"a\\\xff".to_vec(), ..views::Lock::default() });
        let told = serde_json::to_string(&lock).unwrap();
        assert!(told.starts_with(r#"{"name":"a\\\\\\xff","escaped":true,"mode":null,"#), "{told}");
        let free = Lock::from(views::Lock { name: "free".into(), ..views::Lock::default() });
        assert_eq!(serde_json::to_value(&free).unwrap()["mode"], serde_json::Value::Null);
    }

    #[test]
    fn a_session_and_a_status_have_exactly_the_promised_fields() {
        let session = Session::from(views::Session { id: 1, holds: vec!["a".into()], ..views::Session::default() });
        let expected = concat!(
            r#"{"id":"0000000000000001","label":"","host":"","pid":0,"ttl_ms":0,"expires_in_ms":0,"#,
            r#""holds":["a"],"waits":[]}"#,
        );
        assert_eq!(serde_json::to_string(&session).unwrap(), expected);
        let (holds, waits) = (vec![br"a\b".to_vec()], vec![b"\xff".to_vec()]);
        let session = Session::from(views::Session { holds, waits, ..views::Session::default() });
        let told = serde_json::to_string(&session).unwrap();
        assert!(told.ends_with(r#""escaped":true,"holds":["a\\\\b"],"waits":["\\xff"]}"#), "{told}");
        let status = Status::from(views::Status { node: 1, role: "leader".into(), ..Default::default() });
        let expected = concat!(
            r#"{"node":1,"role":"leader","term":0,"commit":0,"applied":0,"locks":0,"sessions":0,"waiters":0,"#,
            r#""uptime_ms":0,"version":"","free_bytes":null,"low_space":false}"#,
        );
        assert_eq!(serde_json::to_string(&status).unwrap(), expected);
        let status = Status::from(views::Status { free_bytes: Some(7), low_space: true, ..Default::default() });
        let told = serde_json::to_string(&status).unwrap();
        assert!(told.ends_with(r#","free_bytes":7,"low_space":true}"#), "{told}");
        let confirmed = |leader| {
            let cluster = Some(views::Cluster { leader, ..Default::default() });
            let status = views::Status { node: 1, role: "leader".into(), cluster, ..Default::default() };
            serde_json::to_value(Status::from(status)).unwrap()["confirmed"].as_bool()
        };
        assert_eq!((confirmed(Some(1)), confirmed(None)), (Some(true), Some(false)));
        let peers = vec![views::Peer { id: 2, connected: true, not_heard_ms: 3, backlog_bytes: 4 }];
        let (algorithm, variant) = ("raymond".to_owned(), String::new());
        let group = Some(views::Group {
            algorithm,
            variant,
            member: 1,
            members: 2,
            serves: true,
            names: 5,
            names_max: 6,
            peers,
        });
        let told = serde_json::to_string(&Status::from(views::Status { group, ..Default::default() })).unwrap();
        let expected = concat!(
            r#","group":{"algorithm":"raymond","variant":"","member":1,"members":2,"serves":true,"#,
            r#""names":5,"names_max":6,"peers":[{"id":2,"connected":true,"not_heard_ms":3,"backlog_bytes":4}]}}"#,
        );
        assert!(told.ends_with(expected), "{told}");
    }

    #[test]
    fn sizes_are_told_in_the_unit_that_matters() {
        let told = [0, 1_023, 1_024, 1_126, 1_048_575, 3 << 30, u64::MAX].map(size);
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.0 KiB", "1023.9 KiB", "3.0 GiB", "15.9 EiB"]);
    }
}
