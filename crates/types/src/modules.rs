//! The list of the modules of the state.

/// Calls the macro `$then` with the list of modules. A module has a number, which is on disk and never changes, a name as a
/// type, and a name as a Rust module: of its public words here, of its state in `baton_state::state`, of its half in the
/// front end in `baton_state::frontend`, and of its users and its judge in `baton_soak::modules`.
///
/// To add a module: write these four, and add a line at the end of the list.
#[macro_export]
macro_rules! modules {
    ($then:ident) => {
        $then! {
            1 Locks locks;
            #[cfg(feature = "test-module")]
            3 Counter counter;
        }
    };
}
