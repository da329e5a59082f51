//! What the simulator does with each module: its users, and its judge. The list of modules is in
//! `baton_types::modules!`.

use baton_client::session::Session;
use baton_state::state::{Command, Outcome, SessionId, State};
use baton_types::frames;

#[cfg(feature = "test-module")]
use super::counter;

pub(super) trait Simulated: Default {
    /// A client with a live session is about to do something.
    fn acts(&mut self, _now_ms: u64, _session: &mut Session) {}

    /// A client got this answer.
    fn answered(&mut self, _session: SessionId, _number: u64, _answer: &frames::Answer) -> Result<(), String> {
        Ok(())
    }

    /// An entry was committed. `truth` is the state after it.
    fn committed(
        &mut self,
        _now_ms: u64,
        _command: &Command,
        _outcome: &Outcome,
        _truth: &State,
    ) -> Result<(), String> {
        Ok(())
    }
}

mod locks {
    /// The simulation is about locks throughout: their users are in `client.rs`, their judges in `oracle.rs`.
    #[derive(Default)]
    pub struct Locks;

    impl super::Simulated for Locks {}
}

macro_rules! modules {
    ($($(#[$on:meta])* $number:literal $Name:ident $module:ident;)*) => {
        #[derive(Default)]
        pub(super) struct Modules {
            $($(#[$on])* pub $module: $module::$Name,)*
        }

        impl Modules {
            pub fn acts(&mut self, now_ms: u64, session: &mut Session) {
                $($(#[$on])* self.$module.acts(now_ms, session);)*
            }

            pub fn answered(
                &mut self,
                session: SessionId,
                number: u64,
                answer: &frames::Answer,
            ) -> Result<(), String> {
                $($(#[$on])* self.$module.answered(session, number, answer)?;)*
                Ok(())
            }

            pub fn committed(
                &mut self,
                now_ms: u64,
                command: &Command,
                outcome: &Outcome,
                truth: &State,
            ) -> Result<(), String> {
                $($(#[$on])* self.$module.committed(now_ms, command, outcome, truth)?;)*
                Ok(())
            }
        }
    };
}

baton_types::modules!(modules);
