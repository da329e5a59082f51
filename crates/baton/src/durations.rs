//! Durations on the command line: `500ms`, `5s`, `2m`, `1h`; a plain number is seconds.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Parses a duration of any length. `what` names the option in the error.
pub fn any(what: &str, text: &str) -> Result<Duration, String> {
    let right = "such as 500ms, 5s, 2m or 1h; a plain number is seconds";
    parse(text).ok_or_else(|| format!("{what} must be a duration, {right}"))
}

/// Parses a duration in this range.
pub fn within(what: &str, text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    parse(text).filter(|time| range.contains(time)).ok_or_else(|| {
        let (least, most) = (shown(*range.start()), shown(*range.end()));
        format!("{what} must be from {least} to {most}; a plain number is seconds")
    })
}

/// The number may have a fraction.
fn parse(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

/// In the largest unit that needs no fraction.
fn shown(time: Duration) -> String {
    let ms = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0s".to_owned(),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit_or_seconds() {
        let ms = |text| parse(text).map(|time| time.as_millis());
        let good = [("500ms", 500), ("5s", 5_000), ("5", 5_000), ("2m", 120_000), ("1h", 3_600_000), ("0", 0)];
        for (text, right) in good.into_iter().chain([("0.3", 300), ("1.5h", 5_400_000), (".5s", 500)]) {
            assert_eq!(ms(text), Some(right), "{text}");
        }
        for bad in ["", "s", "5 s", "5d", "-1", "-1s", "inf", "NaN", "1e300", "1e300h", "5S", "5sec", "1m30s", "é"] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_range_is_told_in_its_largest_units() {
        let range = Duration::from_millis(1_500)..=Duration::from_secs(7_200);
        let told = Err("the wait must be from 1500ms to 2h; a plain number is seconds".to_owned());
        assert_eq!(within("the wait", "1", range.clone()), told);
        assert_eq!(within("the wait", "2m", range), Ok(Duration::from_secs(120)));
        assert_eq!([0, 60, 61].map(|seconds| shown(Duration::from_secs(seconds))), ["0s", "1m", "61s"]);
    }
}
