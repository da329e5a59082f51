//! [Views](crate::views) with one mistake. None of these groups is in the registry: the checker's tests make them.

use crate::election::Election;
use crate::mutex::Mutex;
use crate::registry::{Group, Params, SetupError};
use crate::views::{self, Believer, Caller, Viewed};

/// What a group with views does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// The source publishes a view without a member that it suspects. Nothing makes sure that the member is out.
    BelievesSuspicion,
    /// A request that waits is not asked again in the next view.
    AsksOnce,
    /// Fences are counts, without the epoch.
    CountsOnly,
    /// Messages of later views are dropped.
    DropsLater,
    /// The next view starts as if no process were inside.
    IgnoresHold,
    /// A member takes each view that names its id, in whatever session.
    NamesIds,
    /// A message of an earlier view is accepted.
    AcceptsEarlier,
    /// The instance of the view before runs on until START.
    RunsOn,
    /// FREE before START is forgotten.
    ForgetsFree,
    /// The lowest member does not wait for every READY.
    StartsEarly,
    /// The source admits a session that has ended.
    AdmitsEndedSession,
    /// FREE of any epoch counts.
    FreesAnyEpoch,
    /// The end of a session ends the later sessions of the same client, too.
    EndsById,
}

pub fn mutex<P: Mutex>(
    params: &Params,
    group: Group<P>,
    mistake: Option<Mistake>,
) -> Result<Group<Viewed<P, Caller>>, SetupError> {
    views::carry(params, group, true, mistake)
}

pub fn election<P: Election>(
    params: &Params,
    group: Group<P>,
    mistake: Option<Mistake>,
) -> Result<Group<Viewed<P, Believer>>, SetupError> {
    views::carry(params, group, false, mistake)
}
