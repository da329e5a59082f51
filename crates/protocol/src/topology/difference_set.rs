//! Perfect difference sets: q + 1 numbers whose differences modulo n = q^2 + q + 1 are all numbers but 0, each once.
//!
//! Shifted by 0, 1, .. n - 1 such a set gives the n lines of a projective plane of order q: any two meet in one point.
//! Singer, "A theorem in finite projective geometry and some applications to number theory" (1938), makes one for every
//! prime power q. The points of the plane are the powers of a generator x of the field of q^3 elements, taken up to
//! factors from the field of q elements inside it; these factors are the powers of x^n, so x^i and x^(i+n) are one
//! point. The line through x^0 and x^1 is 1 and all x + g, g in the small field; their exponents are the set.

use alloc::vec;
use alloc::vec::Vec;

/// The order q of the projective plane with n points, if there is one; q is 1 or a prime power.
pub fn order_of_plane(n: usize) -> Option<usize> {
    let q = (1..).take_while(|q| q * q + q < n).last()?;
    (q * q + q + 1 == n && (q == 1 || prime_power(q).is_some())).then_some(q)
}

/// A perfect difference set for a plane of order q, which must be 1 or a prime power. The set contains 0 and 1.
pub fn difference_set(q: usize) -> Option<Vec<usize>> {
    if q == 1 {
        return Some(vec![0, 1]);
    }
    let (p, exponent) = prime_power(q)?;
    let n = q * q + q + 1;
    let field = Field::new(p, 3 * exponent)?;
    let small_field = core::iter::once(0).chain((0..q - 1).map(|j| field.powers[j * n]));
    let line = small_field.map(|g| field.log(add(p, field.powers[1], g)) % n);
    let mut set: Vec<usize> = core::iter::once(0).chain(line).collect();
    set.sort_unstable();
    Some(set)
}

/// The prime p and the exponent e with p^e = q.
fn prime_power(q: usize) -> Option<(usize, usize)> {
    let p = (2..=q).find(|divisor| q.is_multiple_of(*divisor))?;
    let exponent = (1..).take_while(|&e| p.checked_pow(e).is_some_and(|power| power <= q)).last()?;
    (p.pow(exponent) == q).then_some((p, exponent as usize))
}

/// The field of p^m elements: polynomials of degree below m over the integers modulo p. An element is written as a
/// number whose digits to the base p are its coefficients, the constant last; x is the number p.
struct Field {
    /// x^0, x^1, .. until the powers repeat: every element but 0.
    powers: Vec<usize>,
    /// For each element, its exponent of x. The entry of 0 has no meaning.
    logs: Vec<usize>,
}

impl Field {
    /// Finds a polynomial modulo which x generates the field. `x_m` is what x^m equals modulo the polynomial.
    fn new(p: usize, m: usize) -> Option<Self> {
        let size = p.checked_pow(m as u32)?;
        let powers = (1..size).filter(|x_m| !x_m.is_multiple_of(p)).find_map(|x_m| powers_of_x(p, size, x_m))?;
        let mut logs = vec![0; size];
        for (exponent, &element) in powers.iter().enumerate() {
            logs[element] = exponent;
        }
        Some(Field { powers, logs })
    }

    fn log(&self, element: usize) -> usize {
        self.logs[element]
    }
}

/// All powers of x, if they are all elements except 0.
fn powers_of_x(p: usize, size: usize, x_m: usize) -> Option<Vec<usize>> {
    let mut powers = vec![1];
    let mut power = p;
    while power != 1 && powers.len() < size {
        powers.push(power);
        // Multiplies by x: shifts by a digit. The digit that falls out counts the x^m to add.
        let (out, rest) = (power / (size / p), power % (size / p));
        power = (0..out).fold(rest * p, |sum, _| add(p, sum, x_m));
    }
    (powers.len() == size - 1).then_some(powers)
}

/// Adds digit by digit, without carrying.
fn add(p: usize, mut a: usize, mut b: usize) -> usize {
    let (mut sum, mut place) = (0, 1);
    while a > 0 || b > 0 {
        sum += (a + b) % p * place;
        (a, b, place) = (a / p, b / p, place * p);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_but_0_occurs_once() {
        for q in [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27] {
            let (n, set) = (q * q + q + 1, difference_set(q).unwrap());
            assert!(set.len() == q + 1 && set[..2] == [0, 1], "{q}: {set:?}");
            let mut seen = vec![0; n];
            for (a, b) in set.iter().flat_map(|a| set.iter().map(move |b| (a, b))) {
                seen[(n + a - b) % n] += 1;
            }
            assert!(seen[0] == q + 1 && seen[1..].iter().all(|&count| count == 1), "{q}: {set:?}");
        }
        assert_eq!(difference_set(2), Some(vec![0, 1, 3]));
    }

    #[test]
    fn there_are_planes_of_prime_power_order_only() {
        let sizes: Vec<usize> = (0..200).filter(|&n| order_of_plane(n).is_some()).collect();
        assert_eq!(sizes, [3, 7, 13, 21, 31, 57, 73, 91, 133, 183]);
        assert!([6, 10, 12, 14, 15].iter().all(|&q| difference_set(q).is_none() && prime_power(q).is_none()));
    }
}
