//! Finds room for text, so that no text covers another, and few lines cross it.

use std::collections::HashMap;

/// A rectangle, perhaps turned.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The middle.
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    /// In radians.
    pub angle: f64,
}

impl Place {
    /// The four corners.
    fn corners(&self) -> [(f64, f64); 4] {
        let (sin, cos) = self.angle.sin_cos();
        let (a, b) = (self.width / 2.0, self.height / 2.0);
        [(-a, -b), (a, -b), (a, b), (-a, b)].map(|(u, v)| (self.x + u * cos - v * sin, self.y + u * sin + v * cos))
    }

    /// Whether a line between two points crosses the rectangle.
    fn is_crossed(&self, (from, to): &Segment) -> bool {
        let (sin, cos) = self.angle.sin_cos();
        // Coordinates along the sides of the rectangle, from its middle.
        let turned = |(x, y): (f64, f64)| {
            let (dx, dy) = (x - self.x, y - self.y);
            (dx * cos + dy * sin, dy * cos - dx * sin)
        };
        let ((u1, v1), (u2, v2)) = (turned(*from), turned(*to));
        // The part of the line, from 0 to 1, that is between two opposite sides.
        let between = |start: f64, end: f64, half: f64| {
            let (a, b) = ((-half - start) / (end - start), (half - start) / (end - start));
            match start == end {
                true if start.abs() < half => (0.0, 1.0),
                true => (1.0, 0.0),
                false => (a.min(b).max(0.0), a.max(b).min(1.0)),
            }
        };
        let (along, across) = (between(u1, u2, self.width / 2.0), between(v1, v2, self.height / 2.0));
        along.0.max(across.0) < along.1.min(across.1)
    }

    /// Two rectangles are apart if a line along a side of one of them separates them.
    fn overlaps(&self, other: &Place) -> bool {
        let (own, others) = (self.corners(), other.corners());
        let span = |corners: &[(f64, f64); 4], (u, v): (f64, f64)| {
            let along = corners.map(|(x, y)| x * u + y * v);
            (along.into_iter().fold(f64::INFINITY, f64::min), along.into_iter().fold(f64::NEG_INFINITY, f64::max))
        };
        let is_between = |angle: f64| {
            let axis = (angle.cos(), angle.sin());
            let ((from, to), (other_from, other_to)) = (span(&own, axis), span(&others, axis));
            to <= other_from || other_to <= from
        };
        let quarter = std::f64::consts::FRAC_PI_2;
        ![self.angle, self.angle + quarter, other.angle, other.angle + quarter].into_iter().any(is_between)
    }
}

/// The places that are taken.
#[derive(Default)]
pub struct Places {
    /// By vertical strip of the picture, so that a search looks only at near places.
    strips: HashMap<i64, Vec<Place>>,
}

const STRIP: f64 = 200.0;

/// A straight line between two points.
pub type Segment = ((f64, f64), (f64, f64));

/// Lines that text should not cover.
#[derive(Default)]
pub struct Segments {
    /// By vertical strip of the picture, as in [`Places`].
    strips: HashMap<i64, Vec<Segment>>,
}

impl Segments {
    pub fn add(&mut self, segment: Segment) {
        let ((x1, _), (x2, _)) = segment;
        for strip in strip(x1.min(x2))..=strip(x1.max(x2)) {
            self.strips.entry(strip).or_default().push(segment);
        }
    }

    /// The number of lines through the place.
    pub fn crossing(&self, place: &Place) -> usize {
        let first = strips(place).next();
        let in_strip = |index: i64| {
            // In several strips, a line counts only in the first.
            let begins = |((x1, _), (x2, _)): &Segment| first == Some(index) || strip(x1.min(*x2)) == index;
            let segments = self.strips.get(&index).into_iter().flatten();
            segments.filter(|segment| begins(segment) && place.is_crossed(segment)).count()
        };
        strips(place).map(in_strip).sum()
    }
}

impl Places {
    pub fn take(&mut self, place: Place) {
        for strip in strips(&place) {
            self.strips.entry(strip).or_default().push(place);
        }
    }

    /// Takes the first of these places that is free.
    pub fn take_first(&mut self, places: impl IntoIterator<Item = Place>) -> Option<Place> {
        let place = places.into_iter().find(|place| self.is_free(place))?;
        self.take(place);
        Some(place)
    }

    pub fn is_free(&self, place: &Place) -> bool {
        let mut near = strips(place).filter_map(|strip| self.strips.get(&strip)).flatten();
        !near.any(|taken| taken.overlaps(place))
    }
}

fn strips(place: &Place) -> impl Iterator<Item = i64> {
    let reach = (place.width + place.height) / 2.0;
    strip(place.x - reach)..=strip(place.x + reach)
}

fn strip(x: f64) -> i64 {
    (x / STRIP).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(x: f64, y: f64, angle: f64) -> Place {
        Place { x, y, width: 100.0, height: 10.0, angle }
    }

    #[test]
    fn turned_places_overlap_only_where_they_meet() {
        let eighth = std::f64::consts::FRAC_PI_4;
        for (one, other, overlap) in [
            (place(0.0, 0.0, 0.0), place(90.0, 0.0, 0.0), true),
            (place(0.0, 0.0, 0.0), place(101.0, 0.0, 0.0), false),
            (place(0.0, 0.0, 0.0), place(0.0, 11.0, 0.0), false),
            // A cross.
            (place(0.0, 0.0, eighth), place(0.0, 0.0, -eighth), true),
            // Two parallel slopes, one beside the other: their unturned frames would overlap.
            (place(0.0, 0.0, eighth), place(20.0, 0.0, eighth), false),
            (place(0.0, 0.0, eighth), place(10.0, 0.0, eighth), true),
        ] {
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (overlap, overlap), "{one:?} {other:?}");
        }
    }

    #[test]
    fn lines_through_a_place_are_counted() {
        let eighth = std::f64::consts::FRAC_PI_4;
        let mut lines = Segments::default();
        lines.add(((30.0, -100.0), (30.0, 100.0)));
        lines.add(((-100.0, 20.0), (100.0, 20.0)));
        lines.add(((-3.0, 0.0), (-2.0, 1.0)));
        assert_eq!(lines.crossing(&place(10.0, 3.0, 0.0)), 2, "the line up and the short one inside");
        assert_eq!(lines.crossing(&place(100.0, 0.0, 0.0)), 0);
        assert_eq!(lines.crossing(&place(30.0, 20.0, eighth)), 2, "both long lines");
        assert_eq!(lines.crossing(&place(70.0, 20.0, eighth)), 1, "turned, it does not reach the line up");
    }

    #[test]
    fn the_first_free_place_is_taken() {
        let mut places = Places::default();
        places.take(place(1000.0, 0.0, 0.0));
        let found = places.take_first([place(1050.0, 5.0, 0.0), place(1050.0, 15.0, 0.0)]).map(|place| place.y);
        assert_eq!(found, Some(15.0));
        assert!(places.take_first([place(1000.0, 12.0, 0.0)]).is_none(), "the second place is taken, too");
    }
}
