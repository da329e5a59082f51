//! What `baton lock` says about its wait: whom it waits for, and who holds a lock that it did not get.

use std::convert::Infallible;
use std::time::Duration;

use baton_client::{CallError, Client, ConnectError, Session};
use baton_types::name;
use baton_types::views::Lock;

use super::millis;
use crate::elsewhere::{self, Elsewhere};
use crate::output::{shown, warn};
use crate::view::{ago, duration};

/// A free lock is granted before this time. Then there is no wait to speak of.
const FIRST: Duration = Duration::from_millis(250);
/// The pause between two looks at the queue.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest time to find out who holds a lock that was not granted.
const ASK_MAX: Duration = Duration::from_secs(1);

/// Says whom this session waits for, and says so again when that has changed. Runs until the caller drops it.
pub async fn report(client: &Client, name: &[u8], session: u64) -> Infallible {
    tokio::time::sleep(FIRST).await;
    let mut told = None;
    loop {
        // If no server answers, the session itself deals with that.
        if let Ok(Some(lock)) = client.get_lock(name).await
            && let Some(waiter) = lock.waiters.iter().find(|waiter| waiter.session == session)
        {
            let fences: Vec<u64> = lock.holders.iter().map(|holder| holder.fence).collect();
            let closed = if held(&lock).is_none() { closed(client).await } else { None };
            let what = (waiter.position, fences, closed.is_some());
            if told.as_ref() != Some(&what) {
                warn(waiting(&lock, waiter.position, closed));
                told = Some(what);
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Asks who holds a lock that was not granted, or else tells why nobody can get it, or why no server can be asked. None if no
/// server says so in time.
pub async fn holder(client: &Client, name: &[u8], in_vain: Option<String>) -> Option<String> {
    let asked = async {
        let lock = match client.get_lock(name).await {
            Ok(lock) => lock,
            Err(CallError::Connect(ConnectError::NoServer { reasons })) => return Some(reasons),
            Err(_) => return None,
        };
        if let Some(held) = lock.as_ref().and_then(held) {
            return Some(held);
        }
        if let Some(why) = in_vain {
            return Some(format!("the group cannot grant it: {why}"));
        }
        let status = client.status().await.ok()?;
        if let Some(closed) = closed_for(status.closed_ms) {
            return Some(closed);
        }
        let elsewhere = status.group.as_ref().map(Elsewhere::from);
        Some(elsewhere.map_or_else(|| "it was held a moment ago".to_owned(), |elsewhere| elsewhere.to_string()))
    };
    tokio::time::timeout(ASK_MAX, asked).await.ok()?
}

/// The name of a lock for people.
pub fn named(name: &[u8]) -> String {
    shown(&name::shown(name).0)
}

/// Asks whether the cluster grants nothing yet.
async fn closed(client: &Client) -> Option<String> {
    closed_for(client.status().await.ok()?.closed_ms)
}

/// Why nobody gets a lock that nobody holds. None if the cluster grants locks.
fn closed_for(left_ms: u64) -> Option<String> {
    (left_ms > 0).then(|| elsewhere::closed(left_ms))
}

/// Says once if the cluster grants nothing yet: then the wait is long, although nobody may hold the lock. Runs until the
/// caller drops it.
pub async fn report_closed(name: &[u8], session: &Session) -> Infallible {
    tokio::time::sleep(FIRST).await;
    if let Some(closed) = closed_for(millis(session.closed_for())) {
        warn(format_args!("waiting for {}: {closed}", named(name)));
    }
    std::future::pending().await
}

fn waiting(lock: &Lock, position: u32, closed: Option<String>) -> String {
    let held = held(lock).or(closed).unwrap_or_else(|| "not held by a client of this server".to_owned());
    format!("waiting for {}: {held}, you are {}", named(&lock.name), ordinal(position))
}

/// Describes the holders and how long they have held the lock, or how long a lock-delay still closes it. None if the lock is free.
fn held(lock: &Lock) -> Option<String> {
    let Some(first) = lock.holders.first() else {
        return (lock.lock_delay_ms > 0)
            .then(|| format!("closed for another {} (lock-delay)", duration(lock.lock_delay_ms)));
    };
    let label = if first.label.is_empty() { "a client" } else { &first.label };
    let host = if first.host.is_empty() { String::new() } else { format!(" on {}", shown(&first.host)) };
    let others = match lock.holders.len() - 1 {
        0 => String::new(),
        1 => " and by another one".to_owned(),
        more => format!(" and by {more} others"),
    };
    Some(format!("held by {}{host} for {}{others}", shown(label), ago(first.since_ms)))
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::views::Holder;

    fn lock(holders: &[(&str, &str)]) -> Lock {
        // Held since a time in the future: for 0.0 s.
        let holder = |&(label, host): &(&str, &str)| {
            let (label, host) = (label.to_owned(), host.to_owned());
            Holder { label, host, since_ms: u64::MAX, ..Holder::default() }
        };
        Lock { name: b"deploy".to_vec(), holders: holders.iter().map(holder).collect(), ..Lock::default() }
    }

    #[test]
    fn the_holder_is_told_with_its_place_and_its_time() {
        let one = lock(&[("migrate.sh", "web1")]);
        assert_eq!(waiting(&one, 2, None), "waiting for deploy: held by migrate.sh on web1 for 0.0 s, you are 2nd");
        assert_eq!(held(&lock(&[("", ""), ("b", "h")])).unwrap(), "held by a client for 0.0 s and by another one");
        let three = lock(&[("a", "h"), ("b", "h"), ("c", "h")]);
        assert_eq!(held(&three).unwrap(), "held by a on h for 0.0 s and by 2 others");
        assert_eq!(held(&lock(&[])), None);
        let closed = Lock { lock_delay_ms: 2_000, ..lock(&[]) };
        assert_eq!(held(&closed).unwrap(), "closed for another 2.0 s (lock-delay)");
        assert_eq!(
            waiting(&lock(&[]), 1, None),
            "waiting for deploy: not held by a client of this server, you are 1st"
        );
        let anew = "waiting for deploy: nothing is granted for another 10 min 0 s, because the cluster began anew and leases \
                    of before may still run, you are 1st";
        assert_eq!((waiting(&lock(&[]), 1, closed_for(600_000)).as_str(), closed_for(0)), (anew, None));
    }

    #[tokio::test]
    async fn if_no_server_can_be_asked_the_reasons_are_told() {
        let client = Client::lazy(["127.0.0.1:1"]).unwrap();
        let told = holder(&client, b"deploy", None).await;
        assert_eq!(told.as_deref(), Some("127.0.0.1:1: Connection refused (os error 111)"));
    }

    #[test]
    fn places_in_a_queue_are_ordinals() {
        let told = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(ordinal);
        assert_eq!(told, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "113th"]);
    }
}
