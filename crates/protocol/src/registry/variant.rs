//! Checks one part of the value of `--variant`.

use alloc::string::ToString;

use super::{About, SetupError};

/// A variant listed as `name:VALUE` needs a value; all others take none.
pub fn check(about: &'static About, name: &str, value: Option<&str>) -> Result<(), SetupError> {
    let known = || about.variants.iter().map(|variant| variant.name);
    let form = known().find(|form| form.split(':').next() == Some(name)).ok_or_else(|| SetupError::UnknownVariant {
        algorithm: about.name,
        variant: name.to_string(),
        known: known().collect(),
    })?;
    match (form.contains(':'), value) {
        (true, None | Some("")) => {
            let example = VALUES.iter().copied().find(|example| example.split(':').next() == Some(name));
            Err(SetupError::ValueMissing { form, example: example.unwrap_or(form) })
        }
        (false, Some(_)) => Err(SetupError::NoValueTaken { name: form }),
        _ => Ok(()),
    }
}

/// An example of each variant that takes a value.
const VALUES: &[&str] = &[
    "back-off:6",
    "batch:4",
    "drift:10",
    "edges:0-1,1-2",
    "greedy:2",
    "inform:0,1,2|0,1,2|0,1,2",
    "k-ary:3",
    "lease:5",
    "period:10",
    "phi:8",
    "replicas:3",
    "request:0,1,2|0,1,2|0,1,2",
    "ring:2,0,1",
    "timeout:2",
    "window:100",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{ALGORITHMS, Params, Visitor, visit};

    #[test]
    fn every_variant_with_a_value_has_an_example_that_works() {
        struct Any;
        impl Visitor for Any {
            type Output = ();
            fn unsupported(self, _: &'static About) {}
        }
        for about in ALGORITHMS {
            for form in about.variants.iter().map(|variant| variant.name).filter(|form| form.contains(':')) {
                let name = form.split(':').next();
                let example = VALUES.iter().find(|example| example.split(':').next() == name);
                let example = example.unwrap_or_else(|| panic!("VALUES has no example of {form}"));
                // An inform set is checked against the request sets.
                let asks = if *example == "inform:0,1,2|0,1,2|0,1,2" { "request:0,1,2|0,1,2|0,1,2+" } else { "" };
                let params = Params { variant: Some(alloc::format!("{asks}{example}")), ..Params::new(3, 1) };
                let made = visit(about.name, &params, Any);
                assert_eq!(made, Ok(()), "{} {example}", about.name);
            }
        }
    }
}
