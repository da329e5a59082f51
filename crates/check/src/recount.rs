//! Repeats the path to a violation step by step, and describes each step.

use baton_protocol::mutex::Mutex;

use crate::explore::{Violation, expand};
use crate::group::GroupModel;
use crate::mutex::MutexModel;
use crate::story::{Story, Told};

/// Repeats the path to a violation, and describes it. From step `cycle` on the path is a cycle.
pub fn recount<M: GroupModel>(
    model: &mut M,
    processes: usize,
    violation: &Violation,
    path: &[usize],
    cycle: Option<usize>,
) -> Told {
    let mut story = M::story(processes);
    let mut state = None;
    for (step, &nth) in path.iter().enumerate() {
        if cycle == Some(step) {
            story.cycle_begins();
        }
        let successor = expand(model, state.as_ref()).successors.swap_remove(nth);
        model.tell(&mut story, state.as_ref(), &successor.action);
        state = successor.next.ok();
    }
    story.end(violation)
}

/// Like `recount`, for a path of normal forms. It repeats the path with real states beside the normal forms, so that
/// counters and fences are those of a real run.
pub fn recount_normal<P: Mutex>(
    model: &mut MutexModel<P>,
    processes: usize,
    violation: &Violation,
    path: &[usize],
    cycle: Option<usize>,
) -> Told {
    let mut story = Story::new(processes);
    let (mut state, mut real) = (None, None);
    for (step, &nth) in path.iter().enumerate() {
        if cycle == Some(step) {
            story.cycle_begins();
        }
        model.normal = true;
        let normal = expand(model, state.as_ref()).successors.swap_remove(nth);
        model.normal = false;
        let mut successors = expand(model, real.as_ref()).successors;
        let place = successors.iter().position(|successor| match (&successor.next, &normal.next) {
            (Ok(next), Ok(wanted)) => model.normal_form(next) == *wanted && successor.action.is_like(&normal.action),
            (Err(found), Err(wanted)) => found == wanted && successor.action.is_like(&normal.action),
            _ => false,
        });
        let successor = successors.swap_remove(place.expect("what can happen to a normal form can really happen"));
        model.tell(&mut story, real.as_ref(), &successor.action);
        (state, real) = (normal.next.ok(), successor.next.ok());
    }
    model.normal = true;
    story.end(violation)
}
