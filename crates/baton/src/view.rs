//! How the commands that show the lock service format times, sizes and places. The objects themselves, also as JSON, are in
//! `baton_types::views`.

use std::time::Duration;

pub use baton_types::durations::shown as duration;
use serde::Serialize;

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
    use baton_types::locks::Mode;
    use baton_types::views;

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
            deadline_in_ms: Some(2),
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
        assert_eq!(serde_json::to_string(&lock).unwrap(), expected);
        let local = serde_json::to_string(&Aged::new(lock.without_leases(), Some(Duration::from_millis(6)))).unwrap();
        let expected = expected.replace(r#""deadline_in_ms":2"#, r#""deadline_in_ms":null"#);
        assert_eq!(local, format!(r#"{},"age_ms":6}}"#, &expected[..expected.len() - 1]));
        let lock = views::Lock { name: b"a\\\xff".to_vec(), ..views::Lock::default() };
        let told = serde_json::to_string(&lock).unwrap();
        assert!(told.starts_with(r#"{"name":"a\\\\\\xff","escaped":true,"mode":null,"#), "{told}");
        let free = views::Lock { name: "free".into(), ..views::Lock::default() };
        assert_eq!(serde_json::to_value(&free).unwrap()["mode"], serde_json::Value::Null);
    }

    #[test]
    fn a_session_and_a_status_have_exactly_the_promised_fields() {
        let session =
            views::Session { id: 1, expires_in_ms: Some(0), holds: vec!["a".into()], ..views::Session::default() };
        let expected = concat!(
            r#"{"id":"0000000000000001","label":"","host":"","pid":0,"ttl_ms":0,"expires_in_ms":0,"#,
            r#""holds":["a"],"waits":[]}"#,
        );
        assert_eq!(serde_json::to_string(&session).unwrap(), expected);
        let (holds, waits) = (vec![br"a\b".to_vec()], vec![b"\xff".to_vec()]);
        let session = views::Session { holds, waits, ..views::Session::default() };
        let told = serde_json::to_string(&session).unwrap();
        assert!(told.ends_with(r#""escaped":true,"holds":["a\\\\b"],"waits":["\\xff"]}"#), "{told}");
        let status = views::Status { node: 1, role: "leader".into(), ..Default::default() };
        let expected = concat!(
            r#"{"node":1,"role":"leader","term":0,"commit":0,"applied":0,"locks":0,"sessions":0,"waiters":0,"#,
            r#""uptime_ms":0,"version":"","free_bytes":null,"low_space":false}"#,
        );
        assert_eq!(serde_json::to_string(&status).unwrap(), expected);
        let status = views::Status { free_bytes: Some(7), low_space: true, ..Default::default() };
        let told = serde_json::to_string(&status).unwrap();
        assert!(told.ends_with(r#","free_bytes":7,"low_space":true}"#), "{told}");
        let confirmed = |leader| {
            let cluster = Some(views::Cluster { leader, ..Default::default() });
            let status = views::Status { node: 1, role: "leader".into(), cluster, ..Default::default() };
            serde_json::to_value(status).unwrap()["confirmed"].as_bool()
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
        let told = serde_json::to_string(&views::Status { group, ..Default::default() }).unwrap();
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
