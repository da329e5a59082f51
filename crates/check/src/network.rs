//! The network: what is on its way, in one canonical order, so that equal networks are equal values.

use baton_protocol::{ProcessId, Ticks};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// In which order messages from one process to another arrive. Application messages have a channel of their own, and
/// arrive in any order whichever of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOrder {
    /// In the order in which they were sent.
    Fifo,
    /// In any order.
    Unordered,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flight {
    /// Whose message it is.
    pub channel: Channel,
    /// The sender.
    pub from: u8,
    /// The receiver.
    pub to: u8,
    /// For how many ticks it has been on its way; 0 where there is no time.
    pub age: u8,
    /// What it carries, by number.
    pub payload: u32,
}

/// All that is on its way, in one canonical order.
pub type Network = SmallVec<[Flight; 16]>;

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// The algorithm's.
    Protocol,
    /// The application's.
    App,
}

/// Bits for a process id in a [`Flight`], and so how many processes there may be.
pub const PROCESSES_MAX: usize = 1 << 8;

impl Flight {
    /// The receiver.
    pub fn receiver(&self) -> ProcessId {
        self.to.into()
    }

    fn same_link(&self, other: &Flight) -> bool {
        (self.channel, self.from, self.to) == (other.channel, other.from, other.to)
    }
}

/// Adds a message that has just been sent.
pub fn send(network: &mut Network, order: LinkOrder, flight: Flight) {
    let place = match (order, flight.channel) {
        // Behind all of its own link, older ones first.
        (LinkOrder::Fifo, Channel::Protocol) => network
            .partition_point(|other| (other.channel, other.from, other.to) <= (flight.channel, flight.from, flight.to)),
        _ => network.partition_point(|other| *other < flight),
    };
    network.insert(place, flight);
}

/// Which messages can arrive next; of several that are equal only one, since it does not matter which.
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

/// Lets a tick pass. All age alike, so that the order stays what it is.
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
