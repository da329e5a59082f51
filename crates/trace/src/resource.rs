//! The resources of a trace. A member of a peer group runs many resources, and its trace has the events of all of them.

use std::collections::BTreeMap;

use crate::Record;

/// A refusal names at most this many resources.
const NAMED_MAX: usize = 10;

/// Why the records of one resource cannot be taken out of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    #[error("the trace has {count} resources; name one of them with --resource: {names}")]
    Several { count: usize, names: String },
    #[error("the trace has no resource `{wanted}`; it has {names}")]
    Unknown { wanted: String, names: String },
}

/// The resources of a trace in the order of their names, each with the number of its records. Empty if the trace names
/// no resource: then all records are of one resource without a name.
pub fn resources(records: &[Record]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for resource in records.iter().filter_map(|record| record.resource.as_deref()) {
        *counts.entry(resource).or_default() += 1;
    }
    counts
}

/// The records of one resource, and those that concern all resources. None is enough if there is only one resource.
pub fn choose(records: Vec<Record>, wanted: Option<&str>) -> Result<Vec<Record>, ResourceError> {
    let all = resources(&records);
    match wanted {
        None if all.len() > 1 => Err(ResourceError::Several { count: all.len(), names: names(&all) }),
        None => Ok(records),
        Some(wanted) if !all.contains_key(wanted) => {
            Err(ResourceError::Unknown { wanted: wanted.to_owned(), names: names(&all) })
        }
        Some(wanted) => {
            let belongs = |record: &Record| record.resource.as_deref().is_none_or(|resource| resource == wanted);
            Ok(records.into_iter().filter(belongs).collect())
        }
    }
}

fn names(all: &BTreeMap<&str, usize>) -> String {
    let mut names: Vec<String> =
        all.keys().take(NAMED_MAX).map(|name| name.chars().flat_map(char::escape_debug).collect()).collect();
    match all.len() {
        0 => names.push("no resources with names".to_owned()),
        count if count > NAMED_MAX => names.push(format!("and {} more", count - NAMED_MAX)),
        _ => {}
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    fn record(resource: Option<&str>) -> Record {
        Record { seq: 0, t: 0.0, p: Some(0), resource: resource.map(str::to_owned), event: Event::Crash }
    }

    #[test]
    fn one_resource_is_chosen_by_itself_and_one_of_several_by_name() {
        let one = vec![record(None), record(Some("a"))];
        assert_eq!(choose(one.clone(), None), Ok(one.clone()));
        assert_eq!(choose(vec![record(None)], None).unwrap().len(), 1);
        let two = vec![record(None), record(Some("a")), record(Some("b"))];
        assert_eq!(choose(two.clone(), Some("a")), Ok(one));
        let told = "the trace has 2 resources; name one of them with --resource: a, b";
        assert_eq!(choose(two.clone(), None).unwrap_err().to_string(), told);
        assert_eq!(choose(two, Some("c")).unwrap_err().to_string(), "the trace has no resource `c`; it has a, b");
        let told = "the trace has no resource `c`; it has no resources with names";
        assert_eq!(choose(vec![record(None)], Some("c")).unwrap_err().to_string(), told);
        let many: Vec<Record> = (0..12).map(|number| record(Some(&format!("r{number:02}")))).collect();
        assert!(choose(many, None).unwrap_err().to_string().ends_with("r08, r09, and 2 more"));
    }
}
