//! The sizes of voting sets.

/// A row and a column of a square grid: 2 sqrt(n) - 1. None if n is not a square.
pub fn grid(n: usize) -> Option<usize> {
    let side = n.isqrt();
    (side * side == n && n > 0).then(|| 2 * side - 1)
}

/// A line of the projective plane of order q: q + 1. None unless n = q^2 + q + 1 and q is a prime power (or 1: the
/// triangle). No voting sets are smaller, because n <= K(K-1) + 1.
pub fn plane(n: usize) -> Option<usize> {
    (1..).take_while(|q| q * q + q < n).find(|q| q * q + q + 1 == n && (*q == 1 || is_prime_power(*q))).map(|q| q + 1)
}

pub fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// A lower bound for voting sets of one size: the least K with n <= K(K-1) + 1.
pub fn least(n: usize) -> usize {
    (1..=n).find(|k| n <= k * (k - 1) + 1).unwrap_or(n)
}

fn is_prime_power(q: usize) -> bool {
    let Some(prime) = (2..=q).find(|divisor| q.is_multiple_of(*divisor)) else { return false };
    let mut rest = q;
    while rest.is_multiple_of(prime) {
        rest /= prime;
    }
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_square() {
        assert_eq!([4, 9, 36, 100].map(grid), [Some(3), Some(5), Some(11), Some(19)]);
        assert_eq!([0, 2, 7, 35].map(grid), [None; 4]);
    }

    #[test]
    fn planes_exist_for_prime_powers() {
        assert_eq!([3, 7, 13, 21, 31, 57, 73, 91].map(plane), [2, 3, 4, 5, 6, 8, 9, 10].map(Some));
        // 6 and 10 are not prime powers.
        assert_eq!([43, 111, 4, 9, 100, 1].map(plane), [None; 6]);
    }

    #[test]
    fn a_plane_is_the_optimum() {
        for n in [3, 7, 13, 21, 31, 57] {
            assert_eq!(plane(n), Some(least(n)));
        }
        assert_eq!([1, 2, 4, 100].map(least), [1, 2, 3, 11]);
        assert_eq!([4, 5, 100].map(majority), [3, 3, 51]);
    }
}
