//! Durations as text, one form for the service and the command line.

/// A duration in at most two units, rounded down.
pub fn shown(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_the_units_that_matter() {
        let told = [0, 950, 9_999, 59_999, 61_000, 3_600_000, 90_000_000].map(shown);
        assert_eq!(told, ["0.0 s", "0.9 s", "9.9 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
    }
}
