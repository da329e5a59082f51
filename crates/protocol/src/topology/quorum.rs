//! Quorums: a voting set for each process, such that every two sets meet.
//!
//! Maekawa wants more: each process is in its own set, all sets have one size K, and each process is in K sets. Then n
//! <= K(K-1) + 1, and the projective plane reaches that bound. [`properties`] says which of these properties some sets
//! have. The load of a process is the number of sets that it is in.
//!
//! | construction | n                               | size of a set                  | load                          |
//! |--------------|---------------------------------|--------------------------------|-------------------------------|
//! | `Plane`      | q^2+q+1, q 1 or a prime power   | q + 1                          | q + 1                         |
//! | `Grid`       | squares                         | 2 sqrt(n) - 1                  | 2 sqrt(n) - 1                 |
//! | `PaddedGrid` | any                             | w+r-1 to c+r-1, see below      | as the size of the own set    |
//! | `Majority`   | any                             | floor(n/2) + 1                 | floor(n/2) + 1                |
//! | `Tree`       | any                             | the tree's levels, or one less | n for the root, down to 1     |
//!
//! The padded grid has c = ceil(sqrt(n)) columns and r = ceil(n/c) rows. The last row has only w <= c processes. A set
//! is a row and a column, as in the grid. Two sets meet where the row of one crosses the column of the other. A
//! crossing can be empty only in the last row. So one of the two crossings is a process, or both processes are in the
//! last row. Sizes (and loads) are c+r-1 in a full row and column, c+r-2 in a full row and short column, and w+r-1 in
//! the last row. They differ by up to c-w, which is less than sqrt(n) + 1.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::difference_set::{difference_set, order_of_plane};
use crate::registry::{Params, SetupError, Variant};
use crate::{ProcessId, ProcessSet};

/// Most processes: all sets together take n^2 bits, and every two sets are compared.
pub const PROCESSES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construction {
    /// The lines of a projective plane.
    Plane,
    /// Row and column of a square.
    Grid,
    /// Row and column of a rectangle whose last row is not full.
    PaddedGrid,
    /// More than half.
    Majority,
    /// A path from the root of a binary tree to a leaf: the quorums of Agrawal and El Abbadi (1991) while no process
    /// fails. (When the root fails, their quorums go from both of its children to leaves. The sets here are made in
    /// advance, so no process may fail.)
    Tree,
}

impl Construction {
    pub const VARIANTS: [Variant; 5] = [
        Variant { name: "plane", summary: "lines of a projective plane, n = q^2+q+1 (the default where there is one)" },
        Variant { name: "grid", summary: "row and column of a square (the default for other squares)" },
        Variant { name: "padded-grid", summary: "row and column, the last row not full (the default for other n)" },
        Variant { name: "majority", summary: "more than half" },
        Variant { name: "tree", summary: "a path from the root of a binary tree to a leaf" },
    ];

    pub const NAMED: [(&'static str, Construction); 5] = [
        ("plane", Construction::Plane),
        ("grid", Construction::Grid),
        ("padded-grid", Construction::PaddedGrid),
        ("majority", Construction::Majority),
        ("tree", Construction::Tree),
    ];

    /// The construction that the variant names, or the best one for n.
    pub fn choose(params: &Params) -> Result<Self, SetupError> {
        let asked = params.one_of(&Self::NAMED.map(|(name, _)| name))?;
        let named = Self::NAMED.into_iter().find(|(name, _)| Some(*name) == asked);
        Ok(named.map_or_else(|| Self::best(params.n), |(_, construction)| construction))
    }

    /// The plane if there is one for n, else the grid, else the padded grid.
    pub fn best(n: usize) -> Self {
        match (order_of_plane(n), side(n)) {
            (Some(_), _) => Construction::Plane,
            (None, Some(_)) => Construction::Grid,
            (None, None) => Construction::PaddedGrid,
        }
    }

    /// The voting sets of P0, P1, ...
    pub fn quorums(self, n: usize) -> Result<Vec<ProcessSet>, SetupError> {
        if n > PROCESSES_MAX {
            return Err(SetupError::TooMany { n, max: PROCESSES_MAX, reason: "every two quorums are compared" });
        }
        let members: Vec<Vec<ProcessId>> = match self {
            Construction::Plane => {
                let line = order_of_plane(n).and_then(difference_set).ok_or_else(|| no_plane(n))?;
                (0..n).map(|i| line.iter().map(|d| (i + d) % n).collect()).collect()
            }
            Construction::Grid => {
                let side = side(n).ok_or_else(|| no_square(n))?;
                (0..n).map(|i| row_and_column(n, side, i)).collect()
            }
            Construction::PaddedGrid => (0..n).map(|i| row_and_column(n, ceil_sqrt(n), i)).collect(),
            Construction::Majority => (0..n).map(|i| (i..=i + n / 2).map(|member| member % n).collect()).collect(),
            Construction::Tree => (0..n).map(|i| path_through(n, i)).collect(),
        };
        let quorums: Vec<ProcessSet> = members.into_iter().map(|members| ProcessSet::of(n, members)).collect();
        let properties = properties(&quorums);
        assert!(properties.apart.is_none() && properties.outside.is_none(), "{self:?} of {n}: {properties:?}");
        Ok(quorums)
    }
}

/// Facts about voting sets, one set for each process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumFacts {
    /// Two processes whose sets do not meet, if any.
    pub apart: Option<(ProcessId, ProcessId)>,
    /// A process that is not in its own set, if any.
    pub outside: Option<ProcessId>,
    /// Sizes of the smallest and the largest set.
    pub sizes: RangeInclusive<usize>,
    /// Lowest and highest load.
    pub loads: RangeInclusive<usize>,
}

impl QuorumFacts {
    /// Whether the sets have all properties that Maekawa wants.
    pub fn perfect(&self) -> bool {
        let equal = |range: &RangeInclusive<usize>| range.start() == range.end();
        self.apart.is_none() && self.outside.is_none() && equal(&self.sizes) && equal(&self.loads)
    }
}

/// `sets` begins with the set of P0.
pub fn properties(sets: &[ProcessSet]) -> QuorumFacts {
    let n = sets.len();
    let mut pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let mut loads = vec![0; n];
    for member in sets.iter().flat_map(ProcessSet::iter).filter(|&member| member < n) {
        loads[member] += 1;
    }
    QuorumFacts {
        apart: pairs.find(|&(i, j)| !sets[i].meets(&sets[j])),
        outside: (0..n).find(|&i| !sets[i].contains(i)),
        sizes: span(sets.iter().map(ProcessSet::len)),
        loads: span(loads.into_iter()),
    }
}

fn span(values: impl Iterator<Item = usize> + Clone) -> RangeInclusive<usize> {
    values.clone().min().unwrap_or(0)..=values.max().unwrap_or(0)
}

fn row_and_column(n: usize, columns: usize, i: ProcessId) -> Vec<ProcessId> {
    (0..n).filter(|other| other / columns == i / columns || other % columns == i % columns).collect()
}

/// The path from the root to i, then to the left down to a leaf. The children of i are 2i + 1 and 2i + 2.
fn path_through(n: usize, i: ProcessId) -> Vec<ProcessId> {
    let up = core::iter::successors(Some(i), |&child| child.checked_sub(1).map(|child| child / 2));
    let down = core::iter::successors(Some(i), |&parent| Some(2 * parent + 1).filter(|&child| child < n));
    up.chain(down.skip(1)).collect()
}

fn ceil_sqrt(n: usize) -> usize {
    (0..=n).find(|side| side * side >= n).unwrap_or(n)
}

fn side(n: usize) -> Option<usize> {
    Some(ceil_sqrt(n)).filter(|side| side * side == n)
}

fn no_plane(n: usize) -> SetupError {
    let is_right = |n: &usize| order_of_plane(*n).is_some();
    let (below, above) = ((0..n).rev().find(is_right), (n..).find(is_right));
    let reason = format!(
        "it must be q^2 + q + 1, q being 1 or a prime power, such as {}; `grid` and `padded-grid` serve others",
        either(below, above)
    );
    SetupError::Value { what: "the size of a projective plane", value: n.to_string(), reason }
}

fn no_square(n: usize) -> SetupError {
    let side = ceil_sqrt(n);
    let below = Some((side - 1) * (side - 1)).filter(|&n| n >= 2);
    let reason =
        format!("it must be a square, such as {}; `padded-grid` serves any n", either(below, Some(side * side)));
    SetupError::Value { what: "the size of a grid", value: n.to_string(), reason }
}

fn either(below: Option<usize>, above: Option<usize>) -> alloc::string::String {
    let sizes: Vec<_> = below.into_iter().chain(above).map(|size| size.to_string()).collect();
    sizes.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Construction::{Grid, Majority, PaddedGrid, Plane, Tree};

    fn of(construction: Construction, n: usize) -> QuorumFacts {
        properties(&construction.quorums(n).unwrap())
    }

    fn members(construction: Construction, n: usize) -> Vec<Vec<ProcessId>> {
        construction.quorums(n).unwrap().iter().map(|set| set.iter().collect()).collect()
    }

    #[test]
    fn every_two_meet_and_everybody_is_in_its_own_set() {
        for n in 2..=111 {
            for (name, construction) in Construction::NAMED {
                let Ok(quorums) = construction.quorums(n) else { continue };
                let properties = properties(&quorums);
                assert_eq!((properties.apart, properties.outside), (None, None), "{name}, n = {n}");
            }
        }
    }

    #[test]
    fn plane_grid_and_majority_have_equal_sizes_and_loads() {
        for n in 2..=111 {
            for construction in [Plane, Grid, Majority] {
                let Ok(quorums) = construction.quorums(n) else { continue };
                let properties = properties(&quorums);
                assert!(properties.perfect(), "{construction:?}, n = {n}: {properties:?}");
                let k = *properties.sizes.start();
                assert!(n <= k * (k - 1) + 1, "{construction:?}, n = {n}");
                match construction {
                    Plane => assert_eq!(n, k * (k - 1) + 1),
                    Grid => assert_eq!(4 * n, (k + 1) * (k + 1)),
                    _ => assert_eq!(k, n / 2 + 1),
                }
            }
        }
    }

    #[test]
    fn the_padded_grid_misses_equal_sizes_and_loads_by_what_its_last_row_lacks() {
        for n in 2..=111 {
            let columns = ceil_sqrt(n);
            let rows = n.div_ceil(columns);
            let last = n - (rows - 1) * columns;
            let sizes = last + rows - 1..=columns + rows - 1;
            let properties = of(PaddedGrid, n);
            assert_eq!((&properties.sizes, &properties.loads), (&sizes, &sizes), "n = {n}");
            assert_eq!(properties.perfect(), n == rows * columns, "n = {n}");
        }
    }

    #[test]
    fn the_root_of_the_tree_is_in_every_set() {
        for n in 3..=111 {
            let properties = of(Tree, n);
            let levels = n.ilog2() as usize + 1;
            let last_level_reached_by_all = n + 2 >= 1 << levels;
            assert_eq!(properties.sizes, if last_level_reached_by_all { levels } else { levels - 1 }..=levels);
            assert_eq!(properties.loads, 1..=n);
        }
    }

    #[test]
    fn the_best_is_the_plane_then_the_grid_then_the_padded_grid() {
        let best: Vec<_> = [2, 3, 4, 5, 7, 9, 13, 21, 25, 36, 57, 73, 91].into_iter().map(Construction::best).collect();
        let expected =
            [PaddedGrid, Plane, Grid, PaddedGrid, Plane, Grid, Plane, Plane, Grid, Grid, Plane, Plane, Plane];
        assert_eq!(best, expected);
    }

    #[test]
    fn small_ones_look_as_they_should() {
        assert_eq!(members(Plane, 3), [vec![0, 1], vec![1, 2], vec![0, 2]]);
        assert_eq!(members(Plane, 7)[..2], [vec![0, 1, 3], vec![1, 2, 4]]);
        assert_eq!(members(Grid, 4), [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]);
        assert_eq!(members(PaddedGrid, 5)[2..4], [vec![0, 1, 2], vec![0, 3, 4]]);
        assert_eq!(members(Majority, 4)[3], [0, 1, 3]);
        assert_eq!(members(Tree, 7)[2], [0, 2, 5]);
        // Row and column of 14 and 29 in the square of 36 cross at 17 and at 26.
        let grid = Grid.quorums(36).unwrap();
        let both: Vec<_> = grid[14].iter().filter(|&member| grid[29].contains(member)).collect();
        assert_eq!(both, [17, 26]);
    }

    #[test]
    fn an_n_that_cannot_be_served_is_refused_with_those_that_can() {
        let refusal = |construction: Construction, n| construction.quorums(n).unwrap_err().to_string();
        assert_eq!(
            refusal(Grid, 7),
            "`7` does not work as the size of a grid: it must be a square, such as 4 or 9; `padded-grid` serves any n"
        );
        assert_eq!(
            refusal(Plane, 10),
            "`10` does not work as the size of a projective plane: it must be q^2 + q + 1, q being 1 or a prime power, \
             such as 7 or 13; `grid` and `padded-grid` serve others"
        );
        assert!(refusal(Plane, 43).contains("such as 31 or 57"), "there is no plane of order 6");
        assert!(refusal(Plane, 2).contains("such as 3;") && refusal(Grid, 2).contains("such as 4;"));
        assert!(refusal(Majority, 5000).contains("at most 4096"));
    }

    #[test]
    fn sets_that_do_not_meet_are_found() {
        let sets = [[0, 1], [1, 2], [2, 3], [0, 3]].map(|members| ProcessSet::of(4, members));
        let expected = QuorumFacts { apart: Some((0, 2)), outside: None, sizes: 2..=2, loads: 2..=2 };
        assert_eq!(properties(&sets), expected);
        let sets = [[1], [1]].map(|members| ProcessSet::of(2, members));
        assert_eq!(properties(&sets).outside, Some(0));
        assert!(!properties(&sets).perfect());
    }
}
