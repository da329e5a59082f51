//! How `baton lock` gets a session and the lock.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_client::{
    AcquireError, Client, Guard, Loss, OpenError, Owner, Refusal, RefusalCode, Session, SessionBuilder,
};
use baton_types::limits::OPEN_MAX;
use baton_types::name::Quoted;

use super::args::Wanted;
use super::{failed, hopeless, millis, waiting, with_trouble};
use crate::output::{Failure, warn};
use crate::service_args::no_server;
use crate::view;

/// The pause before the servers are asked again for a session in the place of a lost one.
const AGAIN: Duration = Duration::from_secs(1);

/// The time for acquiring the lock, counted from the start of the program. Opening a session is a part of it.
pub struct Time {
    since: Instant,
    answer: Duration,
    timeout: Option<Duration>,
}

impl Time {
    pub fn new(timeout: Option<Duration>) -> Self {
        Time { since: Instant::now(), answer: answer_max(timeout), timeout }
    }

    /// How long the servers still have to answer.
    fn to_answer(&self) -> Duration {
        self.answer.saturating_sub(self.since.elapsed())
    }

    /// Whether the user wants to wait at all.
    fn waits(&self) -> bool {
        self.timeout.is_none_or(|timeout| !timeout.is_zero())
    }

    /// How long to wait for the lock; none: without a limit.
    fn to_wait(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()))
    }
}

/// How long all servers together have to answer.
fn answer_max(timeout: Option<Duration>) -> Duration {
    match timeout {
        None => OPEN_MAX,
        // With -n the command does not wait for the lock, but it waits for the answer of a server.
        Some(Duration::ZERO) => OPEN_MAX / 2,
        Some(timeout) => timeout.max(Duration::from_secs(1)),
    }
}

/// Opens the session. While there is time, asks servers again that do not answer or have no room, because a server may
/// be about to start. Without a session nothing is known of the lock, so each failure has the status for "no server".
pub async fn open(wanted: &Wanted<'_>, client: &Client, time: &Time) -> Result<Session, Failure> {
    let session = || client.session().ttl(wanted.ttl).label(&wanted.label);
    let opened = match wanted.timeout {
        Some(Duration::ZERO) => session().open_timeout(time.to_answer()).open_once().await,
        _ => open_again(session, time).await,
    };
    opened.map_err(not_opened)
}

fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::InvalidTtl { .. } => Failure::bad_input(error),
        OpenError::NoRandomness(_) => failed(error),
        OpenError::Refused(_) | OpenError::NoAnswer { .. } => no_server(error),
    }
}

/// Tries a new session every 10 to 20 s. The server may have begun the first session although its answer was lost. If
/// that session expires, it cannot begin again.
async fn open_again(session: impl Fn() -> SessionBuilder, time: &Time) -> Result<Session, OpenError> {
    loop {
        let left = time.to_answer();
        let within = if left < 2 * OPEN_MAX { left } else { OPEN_MAX };
        let since = Instant::now();
        match session().open_timeout(within).open().await {
            // An attempt that ends early has found that no server can succeed.
            Err(OpenError::NoAnswer { .. }) if since.elapsed() >= within && !time.to_answer().is_zero() => {}
            opened => return opened,
        }
    }
}

/// The lock; none if it was not granted in time. While it waits, it says whom for. If the session is lost meanwhile, it
/// queues again in a new session: it holds nothing, so it has nothing to lose but its place.
pub async fn acquire(
    wanted: &Wanted<'_>,
    client: &Client,
    session: &mut Session,
    time: &Time,
) -> Result<Option<Guard>, Failure> {
    let owner = match wanted.parent {
        Some(parent) => Owner::from_raw(parent).child(),
        None => Owner::new(),
    };
    let owner = owner.map_err(failed)?;
    let (mut told, hopeless) = (wanted.quiet, Arc::new(hopeless::Reporter::default()));
    loop {
        match attempt(wanted, client, session, (&owner, &hopeless), time).await {
            Ok(guard) => return Ok(Some(guard)),
            Err(AcquireError::Refused(Refusal { code: RefusalCode::NotAvailable, .. })) => {
                tell_holder(wanted, client, session, "is not free", None).await;
                return Ok(None);
            }
            Err(AcquireError::TimedOut { .. }) => break,
            Err(AcquireError::Lost(loss @ (Loss::Unacknowledged | Loss::Ended(_)))) if time.waits() => {
                if !told {
                    told = true;
                    warn(place_lost(wanted, session, &loss));
                }
                let again = open_instead(wanted, client, session, time);
                match time.to_wait() {
                    None => *session = again.await?,
                    Some(left) => match tokio::time::timeout(left, again).await {
                        Ok(opened) => *session = opened?,
                        Err(_) => break,
                    },
                }
            }
            Err(error) => return Err(failure(wanted, session, error)),
        }
    }
    let within = wanted.timeout.filter(|timeout| !timeout.is_zero());
    let within = within.map_or_else(|| "at once".to_owned(), |time| format!("within {}", view::duration(millis(time))));
    tell_holder(wanted, client, session, &format!("was not granted {within}"), hopeless.recent()).await;
    Ok(None)
}

fn place_lost(wanted: &Wanted<'_>, session: &Session, loss: &Loss) -> String {
    let (name, loss) = (waiting::named(&wanted.name), with_trouble(loss, session));
    format!("the place in the queue for {name} is lost, because {loss}; queues again as soon as a server answers")
}

/// Opens a session in the place of a lost one. First closes the lost one: the server may still know its request, and
/// would grant it the lock.
async fn open_instead(wanted: &Wanted<'_>, client: &Client, lost: &Session, time: &Time) -> Result<Session, Failure> {
    let key = lost.key();
    while client.close_session(&key).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
    loop {
        let within = time.to_wait().map_or(OPEN_MAX, |left| left.min(OPEN_MAX));
        match client.session().ttl(wanted.ttl).label(&wanted.label).open_timeout(within).open().await {
            // The servers have answered before, so even a failure that looks final may pass.
            Err(OpenError::NoAnswer { .. }) => tokio::time::sleep(AGAIN).await,
            opened => return opened.map_err(not_opened),
        }
    }
}

/// Requests the lock in this session.
async fn attempt(
    wanted: &Wanted<'_>,
    client: &Client,
    session: &Session,
    (owner, hopeless): (&Owner, &Arc<hopeless::Reporter>),
    time: &Time,
) -> Result<Guard, AcquireError> {
    let (hopeless, waits) = (Arc::clone(hopeless), time.waits());
    let acquire = session.lock(&wanted.name).mode(wanted.mode).lock_delay(wanted.lock_delay).owner(owner);
    let acquire = acquire.on_hopeless(move |why| hopeless.report(why, waits));
    let acquired = async {
        let Some(wait) = time.to_wait() else { return acquire.acquire().await };
        // With -n the server should answer at once, but it may be silent. So the answer has a time limit, too.
        let answered = tokio::time::timeout(wait.max(time.to_answer()), acquire.timeout(wait).acquire());
        answered.await.unwrap_or_else(|_| Err(AcquireError::TimedOut { name: wanted.name.clone() }))
    };
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        never = waiting::report(client, &wanted.name, session.id()), if wanted.tells_wait => match never {},
        never = waiting::report_closed(&wanted.name, session), if !wanted.quiet && !wanted.tells_wait => match never {},
    }
}

/// Says that the lock was not acquired, and who holds it, or else why the group cannot grant it. If the servers are away
/// or belong to another cluster, says that.
async fn tell_holder(wanted: &Wanted<'_>, client: &Client, session: &Session, what: &str, in_vain: Option<String>) {
    if wanted.quiet {
        return;
    }
    // If no server answers in time, the session knows what was wrong when it last tried.
    let why = waiting::holder(client, &wanted.name, in_vain).await.or_else(|| session.trouble());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    warn(format_args!("the lock {} {what}{why}", waiting::named(&wanted.name)));
}

fn failure(wanted: &Wanted<'_>, session: &Session, error: AcquireError) -> Failure {
    match error {
        AcquireError::Refused(Refusal {
            code: RefusalCode::Invalid | RefusalCode::PermitsDiffer | RefusalCode::Unsupported,
            ..
        })
        | AcquireError::InvalidName(_) => Failure::bad_input(error),
        AcquireError::NoRandomness(_) => failed(error),
        // A peer group cannot say whether the lock is free, or a cluster that began anew grants nothing yet: status 1 would
        // say that another client holds the lock.
        AcquireError::Refused(Refusal { code: RefusalCode::Unavailable, .. })
            if wanted.timeout == Some(Duration::ZERO) =>
        {
            no_server(error)
        }
        AcquireError::Lost(Loss::Unacknowledged) => no_server(with_trouble(&error, session)),
        AcquireError::Open(_) => no_server(error),
        AcquireError::Refused(Refusal { code: RefusalCode::Deadlock, cycle, .. })
            if wanted.parent.is_some() && cycle.len() == 1 =>
        {
            not_acquired(wanted, held_around_us(&wanted.name))
        }
        AcquireError::Refused(_) | AcquireError::Lost(_) | AcquireError::TimedOut { .. } => not_acquired(wanted, error),
    }
}

/// The owner of this request is new and holds nothing. So a cycle can only come back to it from one of its parents. If
/// the cycle has one step, a parent holds the lock.
fn held_around_us(name: &[u8]) -> String {
    format!(
        "this command runs under a `baton lock` that holds the lock {}: waiting for it would be a deadlock",
        Quoted(name)
    )
}

/// The failure if a server answered and refused the lock.
fn not_acquired(wanted: &Wanted<'_>, error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(wanted.conflict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_less_gives_the_servers_less_time_to_answer_but_always_some() {
        let ms = Duration::from_millis;
        let waits = [None, Some(0), Some(1), Some(500), Some(3_000), Some(60_000)];
        let answers = waits.map(|wait| answer_max(wait.map(ms)));
        assert_eq!(answers, [10_000, 5_000, 1_000, 1_000, 3_000, 60_000].map(ms));
    }
}
