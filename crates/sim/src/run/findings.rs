//! The verdicts on the properties of a run of mutual exclusion.

use baton_protocol::registry::About;
use baton_protocol::{PerProperty, Promises, Property};

use crate::app::mutex::MutexUsers;
use crate::oracle::Finding;
use crate::oracle::causality::Causality;
use crate::oracle::mutex::MutexJudge;
use crate::report::Properties;
use crate::run::Options;

/// The verdicts, given the one on liveness. A property that the algorithm does not promise in this run and that this run could not
/// have shown to be violated is untested.
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
        None if promises.include(property) || users.judge().tests(property, told) => Finding::held(),
        None => Finding::untested(why_untested(about, options, users.judge(), property)),
    };
    let order = if watches_order {
        judged(Property::Order)
    } else {
        Finding::unchecked(format!("happened-before is kept for up to {} clients", Causality::CLIENTS_MAX))
    };
    Properties(PerProperty { safety: judged(Property::Safety), liveness, order, fence: judged(Property::Fence) })
}

/// A command that tests the property, first so that no line break divides it, and the reason.
fn why_untested(about: &About, options: &Options, judge: &MutexJudge, property: Property) -> String {
    let reason = judge.why_untested(property, options.workload.app_messages);
    match command(about, options.params.variant.as_deref(), property) {
        Some(command) => format!("{command} tests it; here {reason}"),
        None => reason.to_owned(),
    }
}

/// The checker tries all orders of events. None for a variant with a value, which may fit only this number of
/// processes; then application messages and varying delays test the order.
fn command(about: &About, variant: Option<&str>, property: Property) -> Option<String> {
    if variant.is_some_and(|variant| variant.contains(':')) {
        return (property == Property::Order).then(|| "--app-messages --network async".to_owned());
    }
    let variant = variant.map(|variant| format!(" --variant {variant}")).unwrap_or_default();
    Some(format!("`baton check {} -n 3{variant} --property {property}`", about.name))
}
