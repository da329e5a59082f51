//! The legend: a sample and a few words for everything that occurs in the picture, and for nothing else.

use std::fmt::Write;

use super::{Drawing, LETTER, LINE, MARGIN, cross, rectangle, shape};
use crate::scene::{BarKind, MarkKind};

/// The width of a sample.
const SAMPLE: f64 = 26.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sample {
    Bar(BarKind),
    Message { is_app: bool },
    Duplicate,
    UnderWay,
    Lost,
    Mark(MarkKind),
    Break,
}

impl Sample {
    pub fn message_class(self, is_app: bool) -> String {
        let fate = match self {
            Sample::Duplicate => " duplicate",
            Sample::UnderWay => " under-way",
            Sample::Lost => " lost",
            _ => "",
        };
        format!("message{}{fate}", if is_app { " app" } else { "" })
    }

    fn words(self) -> &'static str {
        match self {
            Sample::Bar(BarKind::Waiting) => "waits",
            Sample::Bar(BarKind::Inside) => "in the critical section",
            Sample::Bar(BarKind::Leads) => "believes that it leads",
            Sample::Bar(BarKind::Down) => "down",
            Sample::Bar(BarKind::Paused) => "paused",
            Sample::Message { is_app: false } => "message",
            Sample::Message { is_app: true } => "message of the application",
            Sample::Duplicate => "arrives again",
            Sample::UnderWay => "still under way",
            Sample::Lost => "lost",
            Sample::Mark(MarkKind::Crash) => "crash",
            Sample::Mark(MarkKind::Recover) => "recovers",
            Sample::Mark(MarkKind::Pause) => "pause",
            Sample::Mark(MarkKind::Resume) => "resumes",
            Sample::Mark(MarkKind::Suspect) => "suspects",
            Sample::Mark(MarkKind::Trust) => "trusts again",
            Sample::Mark(MarkKind::Elected) => "learns of a leader",
            Sample::Mark(MarkKind::NoLeader) => "knows of no leader",
            Sample::Mark(MarkKind::Timer) => "timer fires",
            Sample::Mark(MarkKind::WriteAccepted) => "store accepts a write",
            Sample::Mark(MarkKind::WriteRefused) => "write is refused",
            Sample::Mark(MarkKind::Partition) => "links are cut",
            Sample::Mark(MarkKind::Heal) => "links are restored",
            Sample::Mark(MarkKind::Violation) => "violation",
            Sample::Break => "time without events, cut",
        }
    }

    /// The sample, around `y`.
    fn draw(self, x: f64, y: f64) -> String {
        let (middle, right) = (x + SAMPLE / 2.0, x + SAMPLE);
        let line = |class: &str| {
            format!("<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\"/>")
        };
        match self {
            Sample::Bar(BarKind::Down) => line("down"),
            Sample::Bar(kind) => rectangle(kind, x, y, SAMPLE),
            Sample::Message { is_app } => line(&self.message_class(is_app)),
            Sample::Duplicate | Sample::UnderWay => line(&self.message_class(false)),
            Sample::Lost => line(&self.message_class(false)) + &cross("cross", right - 4.0, y),
            Sample::Mark(kind @ (MarkKind::Partition | MarkKind::Heal | MarkKind::Violation)) => {
                let class = super::class_of(kind);
                format!(
                    "<line class=\"{class}\" x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\"/>",
                    y - 8.0,
                    y + 8.0
                )
            }
            Sample::Mark(kind) => shape(kind, middle, y),
            Sample::Break => {
                let side = |x: f64| format!("M{:.1} {:.1} l6 5 l-6 5 l6 5", x, y - 8.0);
                format!("<path class=\"zigzag\" d=\"{} {}\"/>", side(middle - 7.0), side(middle + 1.0))
            }
        }
    }
}

/// Draws the legend in lines of this width. Returns its height.
pub fn draw(picture: &mut Drawing, width: f64, top: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for sample in std::mem::take(&mut picture.samples) {
        let item = SAMPLE + 8.0 + LETTER * sample.words().chars().count() as f64 + 14.0;
        if x > MARGIN && x + item > MARGIN + width {
            (x, y) = (MARGIN, y + LINE);
        }
        let _ = writeln!(
            picture.texts,
            "<g class=\"legend\">{}<text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            sample.draw(x, y - 4.0),
            x + SAMPLE + 8.0,
            y,
            sample.words()
        );
        x += item;
    }
    if (x, y) == (MARGIN, top) { 0.0 } else { y - top + 1.5 * LINE }
}
