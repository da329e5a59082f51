//! Mutual exclusion among the members of a group, as a program sees it.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_protocol::mutex::{Command, Event, Mutex};
use baton_trace::Event as Traced;
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;

use crate::driver::Driver;
use crate::group::MemberId;
use crate::resource::{Core, Resource, User};
use crate::wires::{PeerError, Touched, Wires};

/// How many callers of one member may wait for one critical section.
pub const CALLERS_MAX: usize = 65_536;

/// The lock with one name, at one member. A clone is the same lock.
#[derive(Clone)]
pub struct Lock(Arc<dyn AnyLock>);

/// The right to be in the critical section, until it is dropped or released.
#[must_use = "the critical section is left as soon as the grant is dropped"]
pub struct Grant {
    fence: u64,
    lock: Arc<dyn AnyLock>,
}

impl Grant {
    /// Greater than the fence of every earlier grant of this lock in the group.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Leaves the critical section.
    pub fn release(self) {}
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.lock.clone().release();
    }
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant").field("fence", &self.fence).finish()
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    #[error("`{algorithm}` is an algorithm for {found}, but this needs one for {needed}")]
    Family { algorithm: &'static str, found: &'static str, needed: &'static str },
    #[error("{CALLERS_MAX} callers of this process already wait, which is the limit")]
    TooManyCallers,
    #[error(
        "this member has taken {limit} names, which is the limit, and it forgets no name; use a name that it knows, ask \
         another member, or start the whole group again"
    )]
    TooManyResources { limit: usize },
    #[error("the name of the resource has {bytes} bytes; at most {limit} are allowed")]
    LongName { bytes: usize, limit: usize },
    #[error(
        "this lock was granted {} times since the group began, which is the limit; start the whole group again",
        crate::fences::COUNT_MAX
    )]
    NoFences,
    /// Too much is unacknowledged.
    #[error("process {peer} is too far behind: it has not acknowledged more than half of the backlog (--backlog)")]
    Congested { peer: MemberId },
    #[error(transparent)]
    Failed(#[from] PeerError),
}

impl Lock {
    pub(crate) fn new(lock: Arc<dyn AnyLock>) -> Self {
        Lock(lock)
    }

    /// Waits for the critical section. Callers of one member enter in the order of their calls, and each caller has an
    /// entry of its own: between two callers of this member the algorithm may let other members in.
    ///
    /// If this future is dropped before the grant, the request is given up. No algorithm can take back a request, so
    /// the member leaves the critical section as soon as the grant comes.
    ///
    /// If another member is gone, this may wait for ever. [`Member::hopeless`](crate::Member::hopeless) tells.
    pub async fn acquire(&self) -> Result<Grant, AcquireError> {
        // If each grant comes at once, a caller that enters again and again must still let the links read.
        consume_budget().await;
        match self.0.clone().begin()? {
            Begun::Granted(grant) => Ok(grant),
            Begun::Waits(grant) => grant.await.unwrap_or(Err(PeerError::Left.into())),
        }
    }

    /// Asks without waiting. `on_turn` is called with the result, maybe before this returns. It must be short, and should
    /// hand the grant on: if each of many callers drops its grant inside `on_turn`, the calls are nested.
    pub fn request(&self, on_turn: impl FnOnce(Result<Grant, AcquireError>) + Send + 'static) {
        self.0.clone().request(Box::new(on_turn));
    }
}

/// The result of a call that does not wait.
pub(crate) enum Begun {
    Granted(Grant),
    Waits(oneshot::Receiver<Result<Grant, AcquireError>>),
}

type OnTurn = Box<dyn FnOnce(Result<Grant, AcquireError>) + Send>;

/// A lock, whatever its algorithm is.
pub(crate) trait AnyLock: Send + Sync {
    fn begin(self: Arc<Self>) -> Result<Begun, AcquireError>;
    fn request(self: Arc<Self>, on_turn: OnTurn);
    fn release(self: Arc<Self>);
}

/// A caller that waits.
pub(crate) enum Caller {
    Task(oneshot::Sender<Result<Grant, AcquireError>>),
    Function(OnTurn),
}

impl Caller {
    fn has_given_up(&self) -> bool {
        matches!(self, Caller::Task(sender) if sender.is_closed())
    }

    fn call(self, result: Result<Grant, AcquireError>) {
        match self {
            // If the caller gave up at this moment, the grant is dropped here, and so released.
            Caller::Task(sender) => drop(sender.send(result)),
            Caller::Function(on_turn) => on_turn(result),
        }
    }
}

/// What the member's own process is doing.
enum Turn {
    Idle,
    /// The protocol has the request. No caller: the caller of this step waits for the outcome of the step.
    Requested {
        req: u64,
        caller: Option<Caller>,
    },
    Inside {
        req: u64,
    },
}

/// What is left to tell the callers.
#[derive(Default)]
pub(crate) struct Calls {
    /// The caller whose turn has come, and its fence.
    granted: Option<(Caller, u64)>,
    /// The turn of these has come, but there is no fence for them.
    refused: Vec<Caller>,
}

/// The callers of one lock at one member.
pub(crate) struct Callers {
    waiting: VecDeque<Caller>,
    turn: Turn,
    /// The fence of the caller of this step, or that there is none.
    mine: Option<Result<u64, AcquireError>>,
}

impl Default for Callers {
    fn default() -> Self {
        Callers { waiting: VecDeque::new(), turn: Turn::Idle, mine: None }
    }
}

impl<P: Mutex> AnyLock for Resource<P, Callers> {
    fn begin(self: Arc<Self>) -> Result<Begun, AcquireError> {
        let begun = self.step(|core, wires, touched| {
            let Core { driver, user, .. } = core;
            user.may_ask(wires)?;
            if matches!(user.turn, Turn::Idle) && user.waiting.is_empty() {
                user.request(None, driver, wires, touched);
                user.take_events(driver, wires, touched, &mut Calls::default());
            }
            Ok::<_, AcquireError>(match user.mine.take() {
                Some(fence) => Ok(fence?),
                None => {
                    let (caller, grant) = oneshot::channel();
                    user.add(Caller::Task(caller));
                    Err(grant)
                }
            })
        })?;
        Ok(match begun {
            Ok(fence) => Begun::Granted(Grant { fence, lock: self }),
            Err(grant) => Begun::Waits(grant),
        })
    }

    fn request(self: Arc<Self>, on_turn: OnTurn) {
        let refused = self.step(|core, wires, _| match core.user.may_ask(wires) {
            Ok(()) => {
                core.user.waiting.push_back(Caller::Function(on_turn));
                None
            }
            Err(error) => Some((on_turn, error)),
        });
        if let Some((on_turn, error)) = refused {
            on_turn(Err(error));
        }
    }

    fn release(self: Arc<Self>) {
        self.step(|core, wires, touched| {
            let Core { user, .. } = core;
            let turn = std::mem::replace(&mut user.turn, Turn::Idle);
            if let Turn::Inside { req } = turn {
                core.drive(|driver| {
                    driver.journal(wires, || Traced::Exit { req });
                    driver.command(Command::Release, wires, touched);
                });
            }
        });
    }
}

impl<P: Mutex> User<P> for Callers {
    type Calls = Calls;

    /// Passes on a grant, and requests for the next caller, until there is nothing to do but wait.
    fn settle(&mut self, driver: &mut Driver<P>, wires: &Wires, touched: &mut Touched) -> Self::Calls {
        let mut calls = Calls::default();
        loop {
            self.take_events(driver, wires, touched, &mut calls);
            if !matches!(self.turn, Turn::Idle) {
                return calls;
            }
            let Some(caller) = self.next_caller() else { return calls };
            self.request(Some(caller), driver, wires, touched);
        }
    }

    fn call(resource: &Arc<Resource<P, Self>>, calls: Self::Calls) {
        calls.refused.into_iter().for_each(|caller| caller.call(Err(AcquireError::NoFences)));
        if let Some((caller, fence)) = calls.granted {
            caller.call(Ok(Grant { fence, lock: resource.clone() }));
        }
    }

    fn is_inside(&self) -> bool {
        matches!(self.turn, Turn::Inside { .. })
    }

    fn stop(&mut self, error: &PeerError) -> Vec<Box<dyn FnOnce() + Send>> {
        let asked = match &mut self.turn {
            Turn::Requested { caller, .. } => caller.take(),
            Turn::Idle | Turn::Inside { .. } => None,
        };
        let callers = asked.into_iter().chain(self.waiting.drain(..));
        let tell = |caller: Caller| {
            let error = AcquireError::from(error.clone());
            Box::new(move || caller.call(Err(error))) as Box<dyn FnOnce() + Send>
        };
        callers.map(tell).collect()
    }
}

impl Callers {
    fn may_ask(&mut self, wires: &Wires) -> Result<(), AcquireError> {
        if let Some(error) = wires.failed.borrow().clone() {
            return Err(error.into());
        }
        if let Some(peer) = wires.congested() {
            return Err(AcquireError::Congested { peer });
        }
        if self.waiting.len() >= CALLERS_MAX {
            self.waiting.retain(|caller| !caller.has_given_up());
        }
        if self.waiting.len() >= CALLERS_MAX { Err(AcquireError::TooManyCallers) } else { Ok(()) }
    }

    /// The caller of this step waits from now on: as the one whose request the protocol has, or behind others.
    fn add(&mut self, caller: Caller) {
        match &mut self.turn {
            Turn::Requested { caller: vacant @ None, .. } => *vacant = Some(caller),
            _ => self.waiting.push_back(caller),
        }
    }

    /// Skips callers that gave up before the protocol had their request.
    fn next_caller(&mut self) -> Option<Caller> {
        std::iter::from_fn(|| self.waiting.pop_front()).find(|caller| !caller.has_given_up())
    }

    fn request<P: Mutex>(
        &mut self,
        caller: Option<Caller>,
        driver: &mut Driver<P>,
        wires: &Wires,
        touched: &mut Touched,
    ) {
        let req = wires.next_request();
        driver.request(req, wires);
        self.turn = Turn::Requested { req, caller };
        driver.command(Command::Acquire, wires, touched);
    }

    fn take_events<P: Mutex>(
        &mut self,
        driver: &mut Driver<P>,
        wires: &Wires,
        touched: &mut Touched,
        calls: &mut Calls,
    ) {
        // The algorithm's own fence is not used: it does not grow over several beginnings of the group.
        while let Some((_, event)) = driver.take_event() {
            // A group over sockets has no views.
            let Event::Granted { .. } = event else { continue };
            let (req, caller) = match std::mem::replace(&mut self.turn, Turn::Idle) {
                Turn::Requested { req, caller } => (req, caller),
                // A protocol grants only what was requested.
                turn @ (Turn::Idle | Turn::Inside { .. }) => {
                    self.turn = turn;
                    continue;
                }
            };
            let has_given_up = caller.as_ref().is_some_and(Caller::has_given_up);
            let fence = if has_given_up { None } else { driver.next_fence(wires) };
            match fence {
                Some(fence) => {
                    driver.stats.entries += 1;
                    driver.journal(wires, || Traced::Enter { req, fence });
                    self.turn = Turn::Inside { req };
                }
                None => {
                    driver.stats.cancelled += 1;
                    driver.journal(wires, || Traced::Cancel { req });
                    driver.command(Command::Release, wires, touched);
                }
            }
            match (caller, fence) {
                (Some(_), _) if has_given_up => {}
                (Some(caller), Some(fence)) => calls.granted = Some((caller, fence)),
                (Some(caller), None) => calls.refused.push(caller),
                (None, fence) => self.mine = Some(fence.ok_or(AcquireError::NoFences)),
            }
        }
    }
}
