//! The token ring under random load: measured values beside the theory of a patrol.

use std::sync::atomic::AtomicBool;

use baton_compare::Caller;
use baton_compare::mutex::{compare, contestants};
use baton_sim::app::mutex::Load;

#[test]
fn the_token_ring_has_a_theory_under_random_load() {
    let rings: Vec<_> =
        contestants().into_iter().filter(|one| one.about.name == "token-ring" && one.variant.is_none()).collect();
    let caller = Caller { progress: &|_| (), cancel: &AtomicBool::new(false) };
    let rows = compare(&rings, &[2, 5, 20], &[Load::Random], caller).unwrap();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        let costs = &row.costs;
        let all = [&costs.messages_per_entry, &costs.client_delay, &costs.sync_delay];
        assert!(all.iter().all(|expected| expected.is_some()), "theory is missing with n = {}", row.n);
        assert!(row.is_fine(), "n = {}: {}", row.n, row.verdict());
    }
}
