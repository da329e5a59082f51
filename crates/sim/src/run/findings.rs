//! The verdicts on the properties of a run of mutual exclusion.

use baton_protocol::registry::About;
use baton_protocol::{PerProperty, Promises, Property};

use crate::app::mutex::MutexUsers;
use crate::oracle::Finding;
use crate::oracle::causality::Causality;
use crate::oracle::mutex::MutexJudge;
use crate::report::Properties;
use crate::run::Options;

/// The verdicts, given the one on liveness. A property that this run could not have shown to be violated is untested, if
/// the algorithm does not promise it in this run, or is broken on purpose, or no process has entered.
pub fn of_mutex(
    about: &About,
    promises: &Promises,
    options: &Options,
    users: &MutexUsers,
    liveness: Finding,
    watches_order: bool,
) -> Properties {
    let told = options.workload.app_messages;
    let judged = |property: Property| match users.violations.get(property.name()) {
        Some(violation) => Finding::violated(violation.clone()),
        None if users.judge().shows(property, about.broken.is_none() && promises.include(property), told) => {
            Finding::held().given(promises.include(property))
        }
        None => Finding::untested(why_untested(about, options, users.judge(), property)),
    };
    let order = if watches_order {
        judged(Property::Order)
    } else {
        Finding::unchecked(format!("happened-before is kept for up to {} clients", Causality::CLIENTS_MAX))
    };
    let liveness = liveness.given(promises.liveness);
    Properties(PerProperty { safety: judged(Property::Safety), liveness, order, fence: judged(Property::Fence) })
}

/// A command that tests the property, first so that no line break divides it, and the reason.
fn why_untested(about: &About, options: &Options, judge: &MutexJudge, property: Property) -> String {
    let reason = judge.why_untested(property, options.workload.app_messages);
    match command(about, options, property) {
        Some(command) => format!("{command} tests it; here {reason}"),
        None => reason.to_owned(),
    }
}

/// The checker tries all orders of events. A variant with a value may fit only this number of processes; then a run
/// with application messages and varying delays tests the order.
fn command(about: &About, options: &Options, property: Property) -> Option<String> {
    let (name, params) = (about.name, &options.params);
    // Without a lock no process ever waits, so none is overtaken.
    if name == "no-lock" && property == Property::Order {
        return None;
    }
    let variant = params.variant.as_ref().map(|variant| match variant.contains('|') {
        true => format!(" --variant '{variant}'"),
        false => format!(" --variant {variant}"),
    });
    let variant = variant.unwrap_or_default();
    if variant.contains(':') {
        let command = format!("`baton sim {name} -n {}{variant} --app-messages --network async`", params.n);
        return (property == Property::Order).then_some(command);
    }
    let size = match name {
        // A process overtakes with a permission that it has kept since its first entry.
        "carvalho-roucairol" => "-n 2 --entries 2",
        // With three processes this check takes long.
        "ricart-agrawala-time-only" | "ricart-agrawala-current-clock" => "-n 2",
        "permission-ring-original" if params.has("retry") => "-n 2",
        "generalized" if params.has("ricart-agrawala") => "-n 2",
        _ if params.has("grid") => "-n 4",
        _ => "-n 3",
    };
    Some(format!("`baton check {name} {size}{variant} --property {property}`"))
}
