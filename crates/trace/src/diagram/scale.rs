//! The horizontal position of each moment: in proportion to time, but with a smallest distance between two moments, and
//! with a break in a long time without events.

use crate::scene::{Fate, Scene};

/// The width of one unit of time, unless the moments need more.
pub const UNIT: f64 = 150.0;
/// The smallest distance between two moments.
pub const GAP_MIN: f64 = 30.0;
/// The width of the arrow of a message that is under way at the end.
pub const UNDER_WAY: f64 = 0.75 * UNIT;
/// A longer time without events is cut, in units of time.
const GAP_MAX: f64 = 3.0;
/// What remains of a time that is cut, in units of time.
const GAP_CUT: f64 = 1.0;

/// What remains of a time without events.
pub fn remaining(gap: f64) -> f64 {
    if gap > GAP_MAX { GAP_CUT } else { gap }
}

pub struct Scale {
    /// Time and position, ascending.
    pub moments: Vec<(f64, f64)>,
    pub breaks: Vec<Break>,
    /// The right end of the lines.
    pub end: f64,
}

/// A place where the axis leaves out a time.
pub struct Break {
    pub x: f64,
    /// The time that is left out.
    pub cut: f64,
}

impl Scale {
    pub fn new(scene: &Scene, left: f64) -> Self {
        let mut scale = Scale { moments: Vec::new(), breaks: Vec::new(), end: left + UNIT };
        for moment in &scene.moments {
            let x = match scale.moments.last() {
                None => left + GAP_MIN,
                Some(&(t, x)) => {
                    let (gap, remains) = (moment.t - t, remaining(moment.t - t));
                    let width = (remains * UNIT).max(GAP_MIN);
                    if remains < gap {
                        scale.breaks.push(Break { x: x + width / 2.0, cut: gap - remains });
                    }
                    x + width
                }
            };
            scale.moments.push((moment.t, x));
            scale.end = x + GAP_MIN;
        }
        if scene.arrows.iter().any(|arrow| arrow.fate == Fate::UnderWay) {
            scale.end += UNDER_WAY;
        }
        scale
    }

    /// The position of the first moment at or after `t`.
    pub fn x(&self, t: f64) -> f64 {
        let next = self.moments.partition_point(|(moment, _)| *moment < t);
        self.moments.get(next).map_or(self.end, |(_, x)| *x)
    }
}
