//! Finds room for text, so that no text covers another.

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
    let strip = |x: f64| (x / STRIP).floor() as i64;
    strip(place.x - reach)..=strip(place.x + reach)
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
    fn the_first_free_place_is_taken() {
        let mut places = Places::default();
        places.take(place(1000.0, 0.0, 0.0));
        let found = places.take_first([place(1050.0, 5.0, 0.0), place(1050.0, 15.0, 0.0)]).map(|place| place.y);
        assert_eq!(found, Some(15.0));
        assert!(places.take_first([place(1000.0, 12.0, 0.0)]).is_none(), "the second place is taken, too");
    }
}
