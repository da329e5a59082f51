//! Drives a failure detector by hand: `watch 0`, `beat 10`, `ask 21`, each with the watcher's time.

use baton_protocol::detector::Detector;

/// Carries out one command and returns its output. None if there is no such command.
pub fn run<D: Detector>(detector: &mut D, command: &str) -> Option<String> {
    let (name, now) = command.split_once(' ')?;
    let now = now.parse().ok()?;
    match name {
        "watch" => detector.watch(now),
        "beat" => detector.beat(now),
        "ask" => return Some(if detector.suspects(now) { "suspected".into() } else { "trusted".into() }),
        _ => return None,
    }
    Some(format!("trusted until {}", detector.deadline()))
}
