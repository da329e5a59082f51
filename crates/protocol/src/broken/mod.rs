//! Algorithms that are wrong on purpose. Each shows what breaks without one rule of the correct algorithm.

pub mod bully_late_leads;
pub mod chang_roberts_no_resend;
pub mod generalized_unchecked;
pub mod maekawa_1985;
pub mod maekawa_no_inquire;
pub mod maekawa_yield_unseen;
pub mod no_lock;
pub mod permission_ring_original;
pub mod raymond_asks_once;
pub mod raymond_greedy;
pub mod ricart_agrawala_current_clock;
pub mod ricart_agrawala_time_only;
pub mod singhal_1989;
pub mod suzuki_kasami_no_outdated_check;
pub mod token_ring_last_word;
pub mod views;
