//! The words of the state, as a list of the words of its modules, and what passes each word to its module.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::Held;
use super::feed::{self, Leader, Member};
use super::module::{Beside, Module};
use super::sessions::{EndReason, Session};
use super::turn::Turn;
use super::words::Fingerprint;
use super::{Request, RequestNumber, SessionId, cluster, sessions};

/// The first data format: its modules and words need no newer one.
const FIRST_FORMAT: u8 = 2;
/// The first data format that has the words of the cluster.
const CLUSTER_FORMAT: u8 = 3;
/// The first data format that has the feed.
const FEED_FORMAT: u8 = 4;

/// Only the enums whose variants are on disk in another order than the list: the cluster comes after the first module.
macro_rules! of_log_and_snapshot {
    (
        $first_number:literal $First:ident $first:ident;
        $($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*
    ) => {
        /// One change of the state.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Command {
            Sessions(sessions::Command),
            /// A client's request, applied once.
            Request(Request),
            $First(super::$first::Command),
            /// Of data format 3.
            Cluster(cluster::Command),
            $($(#[$on])* $Name(super::$module::Command),)*
        }

        /// A part of the state, for snapshots. Only data that cannot be derived is written.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Record {
            /// Data that belongs to no module.
            State {
                /// The time of the latest entry.
                now_ms: u64,
                revision: u64,
            },
            Sessions(sessions::Record),
            $First(super::$first::Record),
            /// Of data format 3.
            Cluster(cluster::Record),
            /// Of data format 4.
            Feed(feed::Record),
            $($(#[$on])* $Name(super::$module::Record),)*
        }
    };
}

macro_rules! modules {
    ($($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*) => {
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Operation {
            /// Ends the session with everything that it has.
            Close,
            $($(#[$on])* $Name(super::$module::Operation),)*
        }

        /// The answer to a request. It never changes, however often the client repeats the request.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Answer {
            Closed,
            /// The request is refused before any module sees it.
            Refused(sessions::Refusal),
            $($(#[$on])* $Name(super::$module::Answer),)*
        }

        /// An action for the leader.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Effect {
            Opened {
                session: SessionId,
                /// The TTL of the session's first Open.
                ttl_ms: u64,
            },
            Answer {
                session: SessionId,
                number: RequestNumber,
                answer: Answer,
            },
            Ended {
                session: SessionId,
                reason: sessions::EndReason,
            },
            Cluster(cluster::Effect),
            $($(#[$on])* $Name(super::$module::Effect),)*
        }

        /// The value before and after a change.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum What {
            /// A session began or ended.
            Session {
                id: SessionId,
                /// None if it begins.
                before: Option<Arc<Session>>,
                /// None if it has ended.
                after: Option<Arc<Session>>,
                /// When it has ended, if the feed has begun.
                held: Option<Arc<Held>>,
            },
            /// A member of the cluster was added, removed or changed.
            Member {
                node: u64,
                before: Option<Arc<Member>>,
                after: Option<Arc<Member>>,
            },
            /// A node begins to lead.
            Leader {
                before: Option<Arc<Leader>>,
                after: Arc<Leader>,
            },
            $($(#[$on])* $Name(super::$module::What),)*
        }

        /// A timer of a module, which runs at the leader.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Timer {
            $($(#[$on])* $Name(super::$module::Timer),)*
        }

        $(
            $(#[$on])*
            impl From<super::$module::Command> for Command {
                fn from(command: super::$module::Command) -> Self {
                    Command::$Name(command)
                }
            }

            $(#[$on])*
            impl From<super::$module::Answer> for Answer {
                fn from(answer: super::$module::Answer) -> Self {
                    Answer::$Name(answer)
                }
            }

            $(#[$on])*
            impl From<super::$module::What> for What {
                fn from(what: super::$module::What) -> Self {
                    What::$Name(what)
                }
            }

            $(#[$on])*
            impl From<super::$module::Effect> for Effect {
                fn from(effect: super::$module::Effect) -> Self {
                    Effect::$Name(effect)
                }
            }
        )*

        /// The modules of a state.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct Modules {
            $($(#[$on])* pub $module: super::$module::$Name,)*
        }

        impl Modules {
            /// The command must be one of a module.
            pub fn apply(&mut self, turn: &mut Turn<'_>, command: &Command) {
                match command {
                    $($(#[$on])* Command::$Name(command) => Module::apply(&mut self.$module, turn, command),)*
                    Command::Sessions(_) | Command::Request(_) | Command::Cluster(_) => {
                        unreachable!("the state itself applies this command")
                    }
                }
            }

            /// The operation must be one of a module.
            pub fn request(
                &mut self,
                turn: &mut Turn<'_>,
                session: SessionId,
                number: RequestNumber,
                operation: &Operation,
            ) {
                match operation {
                    Operation::Close => unreachable!("the state itself closes sessions"),
                    $($(#[$on])* Operation::$Name(operation) => {
                        Module::request(&mut self.$module, turn, session, number, operation);
                    })*
                }
            }

            pub fn resumed(&self, turn: &mut Turn<'_>, session: SessionId) {
                $($(#[$on])* Module::resumed(&self.$module, turn, session);)*
            }

            pub fn session_ends(&mut self, turn: &mut Turn<'_>, session: SessionId, reason: EndReason) {
                $($(#[$on])* Module::session_ends(&mut self.$module, turn, session, reason);)*
            }

            pub fn closes(&mut self) {
                $($(#[$on])* Module::closes(&mut self.$module);)*
            }

            pub fn opens(&mut self, turn: &mut Turn<'_>) {
                $($(#[$on])* Module::opens(&mut self.$module, turn);)*
            }

            pub fn raise_fences(&mut self, from: u64) {
                $($(#[$on])* Module::raise_fences(&mut self.$module, from);)*
            }

            pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
                let none = std::iter::empty();
                $($(#[$on])* let none = none.chain(Module::records(&self.$module).map(Record::$Name));)*
                none
            }

            /// The record must be one of a module.
            pub fn restore(&mut self, record: Record) -> Result<(), String> {
                match record {
                    $($(#[$on])* Record::$Name(record) => Module::restore(&mut self.$module, record),)*
                    Record::State { .. } | Record::Sessions(_) | Record::Cluster(_) | Record::Feed(_) => {
                        unreachable!("the state itself restores this record")
                    }
                }
            }

            pub fn restored(&mut self, is_closed: bool) {
                $($(#[$on])* Module::restored(&mut self.$module, is_closed);)*
            }

            /// What each snapshot must have once, in words.
            pub fn heads() -> impl Iterator<Item = &'static str> {
                let none = std::iter::empty();
                $($(#[$on])* let none = none.chain(<super::$module::$Name as Module>::HEAD);)*
                none
            }

            pub fn check(&self, beside: &Beside<'_>) -> Result<(), String> {
                $($(#[$on])* Module::check(&self.$module, beside)?;)*
                Ok(())
            }

            /// The requests of the session that modules will answer later, in the order of their numbers.
            pub fn owed(&self, session: SessionId) -> Vec<RequestNumber> {
                let mut owed = Vec::new();
                $($(#[$on])* owed.extend(Module::owed(&self.$module, session));)*
                owed.sort_unstable();
                owed
            }

            pub fn timers(&self) -> impl Iterator<Item = (Timer, u64)> + '_ {
                let none = std::iter::empty();
                $(
                    $(#[$on])*
                    let none = none.chain(Module::timers(&self.$module).map(|(timer, ms)| (Timer::$Name(timer), ms)));
                )*
                none
            }
        }

        impl Record {
            /// What the record is in words, if each snapshot must have it once.
            pub(super) fn head(&self) -> Option<&'static str> {
                match self {
                    Record::State { .. } => Some(super::record::HEAD),
                    Record::Sessions(sessions::Record::Term(_)) => Some(sessions::HEAD),
                    Record::Sessions(_) | Record::Cluster(_) | Record::Feed(_) => None,
                    $($(#[$on])* Record::$Name(record) => {
                        let is_head = <super::$module::$Name as Module>::is_head(record);
                        <super::$module::$Name as Module>::HEAD.filter(|_| is_head)
                    })*
                }
            }

            /// The first data format that has this record.
            pub fn format(&self) -> u8 {
                match self {
                    Record::State { .. } | Record::Sessions(_) => FIRST_FORMAT,
                    Record::Cluster(_) => CLUSTER_FORMAT,
                    Record::Feed(_) => FEED_FORMAT,
                    $($(#[$on])* Record::$Name(_) => <super::$module::$Name as Module>::FORMAT,)*
                }
            }
        }

        impl Command {
            /// Whether a timer of the leader proposes it.
            pub fn is_of_timer(&self) -> bool {
                match self {
                    Command::Sessions(command) => matches!(command, sessions::Command::Expire { .. }),
                    Command::Request(_) => false,
                    Command::Cluster(command) => command.is_of_timer(),
                    $($(#[$on])* Command::$Name(command) => {
                        <super::$module::$Name as Module>::is_of_timer(command)
                    })*
                }
            }

            /// The first data format that has this command.
            pub fn format(&self) -> u8 {
                match self {
                    Command::Sessions(_) => FIRST_FORMAT,
                    Command::Request(request) => request.operation.format(),
                    Command::Cluster(cluster::Command::Leads(_)) => FEED_FORMAT,
                    Command::Cluster(_) => CLUSTER_FORMAT,
                    $($(#[$on])* Command::$Name(_) => <super::$module::$Name as Module>::FORMAT,)*
                }
            }
        }

        impl Operation {
            /// Fails with a sentence if the operation is invalid.
            pub fn check(&self, number: RequestNumber) -> Result<(), String> {
                match self {
                    Operation::Close => Ok(()),
                    $($(#[$on])* Operation::$Name(operation) => {
                        <super::$module::$Name as Module>::check_operation(operation, number)
                    })*
                }
            }

            /// Whether the operation gives something back, or ends the session. It is never refused because space is
            /// low.
            pub fn frees(&self) -> bool {
                match self {
                    Operation::Close => true,
                    $($(#[$on])* Operation::$Name(operation) => {
                        <super::$module::$Name as Module>::frees(operation)
                    })*
                }
            }

            /// The number of the module that applies the operation, and its fields.
            pub(super) fn hash(&self, hash: &mut Fingerprint) {
                match self {
                    Operation::Close => hash.number(0),
                    $($(#[$on])* Operation::$Name(operation) => {
                        hash.number($number);
                        <super::$module::$Name as Module>::fingerprint(operation, hash);
                    })*
                }
            }

            fn format(&self) -> u8 {
                match self {
                    Operation::Close => FIRST_FORMAT,
                    $($(#[$on])* Operation::$Name(_) => <super::$module::$Name as Module>::FORMAT,)*
                }
            }
        }

        impl Answer {
            /// The answer as this version keeps it, in few bytes. An older version may have kept more.
            pub(super) fn shortened(self) -> Self {
                match self {
                    Answer::Closed | Answer::Refused(_) => self,
                    $($(#[$on])* Answer::$Name(answer) => {
                        Answer::$Name(<super::$module::$Name as Module>::shortened(answer))
                    })*
                }
            }
        }

        impl Effect {
            /// The timer of a module that this effect arms, and its time in milliseconds. It replaces the timers from
            /// [`Timer::first`] to itself.
            pub fn timer(&self) -> Option<(Timer, u64)> {
                match self {
                    Effect::Opened { .. } | Effect::Answer { .. } | Effect::Ended { .. } | Effect::Cluster(_) => None,
                    $($(#[$on])* Effect::$Name(effect) => {
                        let (timer, ms) = <super::$module::$Name as Module>::armed_by(effect)?;
                        Some((Timer::$Name(timer), ms))
                    })*
                }
            }
        }

        impl Timer {
            /// The first of the timers that this one replaces; usually itself.
            pub fn first(&self) -> Timer {
                match self {
                    $($(#[$on])* Timer::$Name(timer) => {
                        Timer::$Name(<super::$module::$Name as Module>::first(timer))
                    })*
                }
            }

            /// The request that the timer belongs to. The timer ends when the request is answered, or its session ends.
            pub fn request(&self) -> Option<(SessionId, RequestNumber)> {
                match self {
                    $($(#[$on])* Timer::$Name(timer) => <super::$module::$Name as Module>::request_of(timer),)*
                }
            }

            /// What the leader proposes at the end of the timer.
            pub fn command(self) -> Command {
                match self {
                    $($(#[$on])* Timer::$Name(timer) => {
                        Command::$Name(<super::$module::$Name as Module>::at_end_of(timer))
                    })*
                }
            }
        }
    };
}

baton_types::modules!(of_log_and_snapshot);
baton_types::modules!(modules);

#[cfg(test)]
mod tests {
    /// The fingerprints of requests are on disk.
    #[test]
    fn the_numbers_of_modules_differ() {
        macro_rules! numbers {
            ($($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*) => {
                {
                    let mut numbers = Vec::new();
                    $($(#[$on])* numbers.push($number as u64);)*
                    numbers
                }
            };
        }
        let numbers = baton_types::modules!(numbers);
        assert!(numbers.is_sorted_by(|one, next| one < next) && numbers[0] > 0, "{numbers:?}");
    }
}
