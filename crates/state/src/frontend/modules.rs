//! The halves of the modules in the front end, and what passes each word to its module. The list of modules is in
//! `baton_types::modules!`; their halves in the state are in `state::module`.

use std::net::SocketAddr;

use baton_types::frames::{self, ToClient};
use baton_types::limits::ServerLimits;
use baton_types::refusal::{Refusal, RefusalCode};

use super::limits::Denied;
use super::words::{self, Invalid};
use crate::state::{Answer, Command, Effect, Operation, Outcome, RequestNumber, SessionId, State};

/// What the front end asks a module. It knows no module by name: only requests, calls, timers (of the state's half) and
/// what is told to clients.
pub(super) trait Half: Default {
    /// What a client may ask for.
    type Asked;
    /// The same for the log.
    type Operation;
    type Answer;
    /// A change that no session asks for, such as a call's.
    type Command;
    type Effect;
    /// What a call of this module is answered.
    type Reply;
    /// A line for the operator about a call.
    type Note;

    /// The operation for the log. It must be the same when the request is repeated.
    fn operation(&self, number: RequestNumber, asked: Self::Asked) -> Result<Self::Operation, String>;

    /// The memory that the operation takes while it is parked, beside its own size.
    fn bytes(asked: &Self::Asked) -> usize;

    /// Why a request is refused before it is proposed: a limit is reached, space is low, or nothing is granted now.
    fn admits(&self, gate: &Gate<'_>, session: SessionId, operation: &Self::Operation) -> Result<(), Denied>;

    /// Whether the operation need not hurry: it may go into the log with the next proposal.
    fn may_be_held_back(state: &State, operation: &Self::Operation) -> bool;

    /// The request is on its way to the state.
    fn proposed(&mut self, session: SessionId, operation: &Self::Operation);

    /// A proposed request was applied.
    fn applied(&mut self, session: SessionId, operation: &Self::Operation);

    /// The term has ended: nothing is on its way any more.
    fn reset(&mut self);

    /// The answer in the words of clients.
    fn answer(answer: &Self::Answer) -> frames::Answer;

    /// What a session is told because of an effect.
    fn told(effect: &Self::Effect) -> Option<(SessionId, ToClient)>;

    /// What the call is answered whose command had this effect. `expires_in`: how long a session lives, at least.
    fn reply(effect: &Self::Effect, expires_in: &dyn Fn(SessionId) -> u64) -> Option<Self::Reply>;

    /// What a call with this command has done, as in "it is not known whether {the release was forced}".
    fn done_by(command: &Self::Command) -> &'static str;

    /// A line for the operator about a call's command that was applied.
    fn note(command: &Self::Command, outcome: &Outcome) -> Option<Self::Note>;
}

/// What a module looks at before it admits a request.
pub(super) struct Gate<'a> {
    pub state: &'a State,
    pub limits: &'a ServerLimits,
    /// The sentence about low space, if it is low: then the server takes only what gives something back.
    pub low_space: Option<&'a str>,
}

impl Gate<'_> {
    /// For operations that take something. The operator is told of low space when it begins, and not of each refusal.
    pub fn low_space(&self) -> Option<Denied> {
        let message = self.low_space?.to_owned();
        Some(Denied { refusal: Refusal::new(RefusalCode::LowSpace, message), limit: None })
    }
}

macro_rules! modules {
    ($($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*) => {
        /// The front end's halves of all modules.
        #[derive(Clone, Debug, Default)]
        pub struct Modules {
            $($(#[$on])* pub(super) $module: super::$module::$Name,)*
        }

        /// An event for the operator's log.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Note {
            Leads {
                term: u64,
                /// Number of sessions in the state.
                sessions: usize,
            },
            LeadsNoMore {
                /// The term that has ended for this node.
                term: u64,
            },
            /// An entry of this term was applied that is not the next proposal of this node. This is a fault of the server: no
            /// client gets an answer for the entry, and the node begins to lead again.
            OutOfOrder {
                term: u64,
            },
            Expired {
                session: SessionId,
                label: String,
                host: String,
            },
            Space {
                low: bool,
                free_bytes: u64,
            },
            /// A limit refused a client. Noted at most once a minute per limit.
            Limit {
                /// The command-line flag that sets the limit, or a few words if no flag does.
                limit: &'static str,
                /// What is refused, as a sentence.
                message: String,
                /// The address of the client that the limit refused.
                from: Option<SocketAddr>,
            },    $($(#[$on])* $Name(super::$module::Note),)*
        }

        /// The answer to a call.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Reply {
            /// The state is at least as new as the call, and the shell may read it.
            Current,
            /// This node cannot answer, for this reason.
            Unavailable(String),
            /// The call's command may or may not be applied, for this reason.
            Unknown(String),
            $($(#[$on])* $Name(super::$module::Reply),)*
        }

        impl Modules {
            pub fn operation(&self, number: RequestNumber, asked: frames::Operation) -> Result<Operation, Invalid> {
                match asked {
                    frames::Operation::Close => Ok(Operation::Close),
                    $($(#[$on])* frames::Operation::$Name(asked) => {
                        let operation = Half::operation(&self.$module, number, asked).map_err(Invalid::Operation)?;
                        Ok(Operation::$Name(operation))
                    })*
                }
            }

            pub(super) fn bytes(asked: &frames::Operation) -> usize {
                match asked {
                    frames::Operation::Close => 0,
                    $($(#[$on])* frames::Operation::$Name(asked) => <super::$module::$Name as Half>::bytes(asked),)*
                }
            }

            pub(super) fn admits(&self, gate: &Gate<'_>, session: SessionId, operation: &Operation) -> Result<(), Denied> {
                match operation {
                    Operation::Close => Ok(()),
                    $($(#[$on])* Operation::$Name(operation) => {
                        Half::admits(&self.$module, gate, session, operation)
                    })*
                }
            }

            pub(super) fn may_be_held_back(state: &State, operation: &Operation) -> bool {
                match operation {
                    Operation::Close => false,
                    $($(#[$on])* Operation::$Name(operation) => {
                        <super::$module::$Name as Half>::may_be_held_back(state, operation)
                    })*
                }
            }

            pub(super) fn proposed(&mut self, session: SessionId, operation: &Operation) {
                match operation {
                    Operation::Close => {}
                    $($(#[$on])* Operation::$Name(operation) => {
                        Half::proposed(&mut self.$module, session, operation);
                    })*
                }
            }

            pub(super) fn applied(&mut self, session: SessionId, operation: &Operation) {
                match operation {
                    Operation::Close => {}
                    $($(#[$on])* Operation::$Name(operation) => {
                        Half::applied(&mut self.$module, session, operation);
                    })*
                }
            }

            pub(super) fn reset(&mut self) {
                $($(#[$on])* Half::reset(&mut self.$module);)*
            }

            pub fn answer(answer: &Answer) -> frames::Answer {
                match answer {
                    Answer::Closed => frames::Answer::Closed,
                    Answer::Refused(refusal) => words::refused(refusal),
                    $($(#[$on])* Answer::$Name(answer) => <super::$module::$Name as Half>::answer(answer),)*
                }
            }

            pub(super) fn told(effect: &Effect) -> Option<(SessionId, ToClient)> {
                match effect {
                    $($(#[$on])* Effect::$Name(effect) => <super::$module::$Name as Half>::told(effect),)*
                    Effect::Opened { .. } | Effect::Answer { .. } | Effect::Ended { .. } | Effect::Cluster(_) => None,
                }
            }

            pub(super) fn done_by(command: &Command) -> &'static str {
                match command {
                    $($(#[$on])* Command::$Name(command) => <super::$module::$Name as Half>::done_by(command),)*
                    Command::Sessions(_) | Command::Request(_) | Command::Cluster(_) => "it was applied",
                }
            }

            pub(super) fn note(command: &Command, outcome: &Outcome) -> Option<Note> {
                match command {
                    $($(#[$on])* Command::$Name(command) => {
                        <super::$module::$Name as Half>::note(command, outcome).map(Note::$Name)
                    })*
                    Command::Sessions(_) | Command::Request(_) | Command::Cluster(_) => None,
                }
            }

            pub(super) fn reply(effect: &Effect, expires_in: &dyn Fn(SessionId) -> u64) -> Option<Reply> {
                match effect {
                    $($(#[$on])* Effect::$Name(effect) => {
                        <super::$module::$Name as Half>::reply(effect, expires_in).map(Reply::$Name)
                    })*
                    Effect::Opened { .. } | Effect::Answer { .. } | Effect::Ended { .. } | Effect::Cluster(_) => None,
                }
            }
        }
    };
}

baton_types::modules!(modules);
