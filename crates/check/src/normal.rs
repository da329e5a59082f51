//! Normal forms: states that differ only in the absolute values of counters are one state.
//!
//! For each family of counters, the smallest value in the whole group, in processes and messages, is subtracted from
//! all values. Protocols declare that they only compare these counters and count them up. So the same steps, with the
//! same outcomes, are possible before and after: the normal form is exact. A fence that no step depends on becomes 0.
//! No counter is ever capped: if two counters of a family grow apart for ever, there are infinitely many states.

use baton_protocol::{Counter, Message, Protocol};
use rustc_hash::FxHashMap;

use crate::system::{Content, Local, Payload, State, System, User};

/// A local state or a message, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    Local(u32),
    /// A message, and its sender, whose counters the message may carry.
    Payload(u32, u8),
}

/// Subtracts `by` from the counters of one family in one item. A counter below `by` becomes 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lowering {
    item: Item,
    family: Counter,
    by: u64,
}

/// A cache of counters and normal forms.
#[derive(Default)]
pub struct Normal {
    /// The families of counters in an item, each with its smallest value; for fences, the largest value.
    extremes: FxHashMap<Item, Box<[(Counter, u64)]>>,
    lowered: FxHashMap<Lowering, u32>,
}

impl Normal {
    /// Whether any process has shown a counter.
    pub fn has_counters(&self) -> bool {
        let of_process = |item: &Item| matches!(item, Item::Local(_));
        self.extremes.iter().any(|(item, counters)| of_process(item) && !counters.is_empty())
    }
}

/// What must be computed before a normal form is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The counters in an item.
    Extremes(Item),
    /// An item with lower counters.
    Lowered(Lowering),
}

impl<P: Protocol, U: User<P>> System<P, U> {
    /// Replaces a state by its normal form. Returns what is missing for that.
    pub fn normalize<G>(&self, state: &mut State<G>) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut floors: Vec<(Counter, u64)> = Vec::new();
        for item in items(state) {
            let Some(extremes) = self.normal.extremes.get(&item) else {
                missing.push(Missing::Extremes(item));
                continue;
            };
            for &(family, value) in extremes {
                match floors.iter_mut().find(|(known, _)| *known == family) {
                    Some((_, floor)) => *floor = value.min(*floor),
                    None => floors.push((family, value)),
                }
            }
        }
        for (family, floor) in floors {
            // A fence becomes 0, even if the smallest fence is less than the others.
            let by = if family == Counter::Fence { u64::MAX } else { floor };
            if missing.is_empty() && by > 0 {
                self.lower(state, family, by, &mut missing);
            }
        }
        if missing.is_empty() {
            state.sort_messages(self.rules.order);
        }
        missing
    }

    fn lower<G>(&self, state: &mut State<G>, family: Counter, by: u64, missing: &mut Vec<Missing>) {
        let lowered = |item| {
            let extremes = self.normal.extremes.get(&item);
            let Some(extremes) = extremes else { return Err(Missing::Extremes(item)) };
            if !extremes.iter().any(|&(known, value)| known == family && value > 0) {
                return Ok(None);
            }
            let lowering = Lowering { item, family, by };
            self.normal.lowered.get(&lowering).copied().map(Some).ok_or(Missing::Lowered(lowering))
        };
        for local in &mut state.locals {
            match lowered(Item::Local(*local)) {
                Ok(number) => *local = number.unwrap_or(*local),
                Err(gap) => missing.push(gap),
            }
        }
        for flight in &mut state.network {
            match lowered(Item::Payload(flight.payload, flight.from)) {
                Ok(number) => flight.payload = number.unwrap_or(flight.payload),
                Err(gap) => missing.push(gap),
            }
        }
    }

    /// Computes what was missing.
    pub fn learn_normal(&mut self, missing: Missing) {
        match missing {
            Missing::Extremes(item) => {
                let extremes = self.extremes(item);
                self.normal.extremes.insert(item, extremes);
            }
            Missing::Lowered(lowering) => {
                let Lowering { item, family, by } = lowering;
                let lower = &mut |counter: Counter, value: &mut u64| {
                    if counter == family {
                        *value = value.saturating_sub(by);
                    }
                };
                let number = match item {
                    Item::Local(number) => {
                        let mut local: Local<P, U> = self.local(number).clone();
                        local.process.counters(lower);
                        self.number_local(local)
                    }
                    Item::Payload(number, from) => {
                        let mut payload: Payload<P::Message> = self.payload(number).clone();
                        show(&mut payload.content, from, lower);
                        self.number_payload(payload)
                    }
                };
                self.normal.lowered.insert(lowering, number);
            }
        }
    }

    fn extremes(&self, item: Item) -> Box<[(Counter, u64)]> {
        let mut extremes: Vec<(Counter, u64)> = Vec::new();
        let note = &mut |family: Counter, value: &mut u64| match extremes.iter_mut().find(|(known, _)| *known == family)
        {
            Some((Counter::Fence, extreme)) => *extreme = (*value).max(*extreme),
            Some((_, extreme)) => *extreme = (*value).min(*extreme),
            None => extremes.push((family, *value)),
        };
        match item {
            Item::Local(number) => self.local(number).process.clone().counters(note),
            Item::Payload(number, from) => show(&mut self.payload(number).content.clone(), from, note),
        }
        extremes.into()
    }

    /// A message with all counters set to 0: equal for messages that differ only in their counters.
    pub fn gist(&self, number: u32, from: u8) -> Payload<P::Message> {
        let mut payload = self.payload(number).clone();
        show(&mut payload.content, from, &mut |_, value| *value = 0);
        payload
    }
}

fn show<M: Message>(content: &mut Content<M>, from: u8, visit: &mut dyn FnMut(Counter, &mut u64)) {
    match content {
        Content::Protocol(message) => message.counters(from.into(), visit),
        Content::App(stamp) => stamp.iter_mut().for_each(|stamp| visit(Counter::Clock, stamp)),
    }
}

fn items<G>(state: &State<G>) -> impl Iterator<Item = Item> {
    let messages = state.network.iter().map(|flight| Item::Payload(flight.payload, flight.from));
    state.locals.iter().map(|&local| Item::Local(local)).chain(messages)
}
