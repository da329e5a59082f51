//! Converts between the words of clients and the words of the log.

use baton_types::frames;
use baton_types::locks::{self as types, CancelOutcome, Mode};
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::views::Holder;

use crate::state::OwnerId;
use crate::state::locks::{self, LockName, limits};

pub(super) fn operation(operation: types::Operation) -> locks::Operation {
    match operation {
        types::Operation::Acquire(acquire) => locks::Operation::Acquire(self::acquire(acquire)),
        types::Operation::Release { acquire } => locks::Operation::Release { acquire },
        types::Operation::Cancel { acquire } => locks::Operation::Cancel { acquire },
    }
}

fn acquire(acquire: types::Acquire) -> locks::Acquire {
    let types::Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms } = acquire;
    let mode = match mode {
        Mode::Exclusive => locks::Mode::Exclusive,
        Mode::Shared => locks::Mode::Shared,
        Mode::Permit { of } => locks::Mode::Permit { of },
    };
    let one = locks::Acquire::one(&name, mode, OwnerId(owner));
    locks::Acquire { parent: parent.map(OwnerId), timeout_ms, lock_delay_ms, ..one }
}

pub fn name(bytes: &[u8]) -> Result<LockName, limits::Invalid> {
    limits::check_name(bytes)?;
    Ok(LockName::from(bytes))
}

pub fn mode(mode: locks::Mode) -> Mode {
    match mode {
        locks::Mode::Exclusive => Mode::Exclusive,
        locks::Mode::Shared => Mode::Shared,
        locks::Mode::Permit { of } => Mode::Permit { of },
    }
}

pub(super) fn answer(answer: &locks::Answer) -> frames::Answer {
    match answer {
        locks::Answer::Granted { fence } => types::Answer::Granted { fence: *fence }.into(),
        locks::Answer::Released => types::Answer::Released.into(),
        locks::Answer::Cancelled(outcome) => types::Answer::Cancelled(match outcome {
            locks::CancelOutcome::Removed => CancelOutcome::Removed,
            locks::CancelOutcome::Released => CancelOutcome::Released,
            locks::CancelOutcome::Nothing => CancelOutcome::Nothing,
        })
        .into(),
        locks::Answer::Refused(refusal) => frames::Answer::Refused(refused(refusal)),
    }
}

fn refused(refusal: &locks::Refusal) -> Refusal {
    use locks::Refusal as Lock;
    let code = match refusal {
        Lock::NotAvailable => RefusalCode::NotAvailable,
        Lock::TimedOut => RefusalCode::TimedOut,
        Lock::Cancelled => RefusalCode::Cancelled,
        Lock::Deadlock(_) => RefusalCode::Deadlock,
        Lock::PermitsDiffer { .. } => RefusalCode::PermitsDiffer,
        Lock::NotHolder { .. } => RefusalCode::NotHolder,
        Lock::NoSharing | Lock::NoPermits | Lock::NoSeveral => RefusalCode::Unsupported,
        Lock::Unavailable(_) => RefusalCode::Unavailable,
    };
    let wait = |step: &locks::WaitFor| {
        let (owner, label, lock) = (step.owner.0, step.label.clone(), step.lock.as_bytes().to_vec());
        types::Wait { owner, label, lock }
    };
    let cycle = if let Lock::Deadlock(cycle) = refusal { cycle.iter().map(wait).collect() } else { Vec::new() };
    Refusal { code, message: refusal.to_string(), cycle }
}

pub(super) fn holder(holder: &locks::ForcedHolder, deadline_in_ms: u64) -> Holder {
    Holder {
        session: holder.session.0,
        owner: holder.owner.0,
        label: holder.label.to_string(),
        host: holder.host.to_string(),
        pid: holder.pid,
        fence: holder.fence,
        since_ms: holder.since_ms,
        deadline_in_ms: Some(deadline_in_ms),
    }
}
