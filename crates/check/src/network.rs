//! The messages in flight, in one canonical order, so that equal networks are equal values.

use baton_protocol::{ProcessId, Ticks};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The order in which messages from one process to another arrive. Application messages have their own channel, and
/// always arrive in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOrder {
    /// In the order of sending.
    Fifo,
    Unordered,
}

/// A message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flight {
    pub channel: Channel,
    pub from: u8,
    pub to: u8,
    /// For how many ticks the message has been in flight; 0 in models without time.
    pub age: u8,
    /// The number of the payload.
    pub payload: u32,
}

/// All messages in flight, in one canonical order.
pub type Network = SmallVec<[Flight; 16]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// Messages of the algorithm.
    Protocol,
    /// Messages of the application.
    App,
}

/// A process id in a [`Flight`] has 8 bits.
pub const PROCESSES_MAX: usize = 1 << 8;

impl Flight {
    pub fn receiver(&self) -> ProcessId {
        self.to.into()
    }

    fn same_link(&self, other: &Flight) -> bool {
        (self.channel, self.from, self.to) == (other.channel, other.from, other.to)
    }
}

pub fn send(network: &mut Network, order: LinkOrder, flight: Flight) {
    let place = match (order, flight.channel) {
        // Behind all messages of its own link, so that older messages come first.
        (LinkOrder::Fifo, Channel::Protocol) => network
            .partition_point(|other| (other.channel, other.from, other.to) <= (flight.channel, flight.from, flight.to)),
        _ => network.partition_point(|other| *other < flight),
    };
    network.insert(place, flight);
}

/// The messages that can arrive next. Of equal messages only one, because it does not matter which.
pub fn deliverable(network: &[Flight], order: LinkOrder) -> impl Iterator<Item = (usize, Flight)> {
    network.iter().copied().enumerate().filter(move |&(index, flight)| {
        let Some(before) = index.checked_sub(1).map(|before| network[before]) else { return true };
        match (order, flight.channel) {
            (LinkOrder::Fifo, Channel::Protocol) => !flight.same_link(&before),
            _ => flight != before,
        }
    })
}

/// Whether one of them must arrive before anything else happens.
pub fn is_overdue(network: &[Flight], delay_max: Ticks) -> bool {
    network.iter().any(|flight| Ticks::from(flight.age) >= delay_max)
}

/// Lets a tick pass. All messages age by 1, so their order does not change.
pub fn age(network: &mut [Flight]) {
    for flight in network {
        flight.age += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(channel: Channel, from: u8, to: u8, payload: u32) -> Flight {
        Flight { channel, from, to, age: 0, payload }
    }

    fn arrivals(order: LinkOrder, sent: &[Flight]) -> Vec<u32> {
        let mut network = Network::new();
        for &flight in sent {
            send(&mut network, order, flight);
        }
        deliverable(&network, order).map(|(_, flight)| flight.payload).collect()
    }

    #[test]
    fn a_fifo_link_delivers_the_oldest_and_links_do_not_wait_for_each_other() {
        use Channel::Protocol;
        let sent = [flight(Protocol, 0, 1, 9), flight(Protocol, 0, 1, 3), flight(Protocol, 1, 0, 5)];
        assert_eq!(arrivals(LinkOrder::Fifo, &sent), [9, 5]);
        assert_eq!(arrivals(LinkOrder::Unordered, &sent), [3, 9, 5]);
    }

    #[test]
    fn application_messages_overtake_on_either_network() {
        use Channel::{App, Protocol};
        let sent = [flight(Protocol, 0, 1, 9), flight(App, 0, 1, 8), flight(App, 0, 1, 7)];
        assert_eq!(arrivals(LinkOrder::Fifo, &sent), [9, 7, 8]);
    }

    #[test]
    fn an_unordered_network_forgets_the_order_of_sending_and_equal_messages_arrive_as_one() {
        let (a, b) = (flight(Channel::Protocol, 0, 1, 1), flight(Channel::Protocol, 0, 1, 2));
        let network = |sent: [Flight; 3]| {
            let mut network = Network::new();
            sent.into_iter().for_each(|flight| send(&mut network, LinkOrder::Unordered, flight));
            network
        };
        assert_eq!(network([a, b, a]), network([b, a, a]));
        assert_eq!(arrivals(LinkOrder::Unordered, &[a, b, a]), [1, 2]);
    }
}
