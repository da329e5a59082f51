//! The state in pieces, as a snapshot holds it.

use baton_service::state::{Record, State};

/// The state, written down piece by piece and read again.
pub fn again(state: &State) -> State {
    let bytes = state.records().map(|record| postcard::to_stdvec(&record).expect("written"));
    let records = bytes.map(|bytes| postcard::from_bytes::<Record>(&bytes).map_err(|error| error.to_string()));
    State::restore(records).expect("what was written can be read")
}
