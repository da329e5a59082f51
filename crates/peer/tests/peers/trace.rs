//! The traces that members write.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use baton_peer::{ElectionPeer, MutexPeer, Options, PeerGroup};
use baton_trace::{Event, Header, Record, Unit};
use tokio::net::TcpListener;

use crate::cancel::ask_and_give_up;
use crate::{join_all, listeners, listening, within_a_minute};

/// A sink whose contents the test can read.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn options(&self, listener: TcpListener) -> Options {
        Options { trace: Some(Box::new(self.clone())), ..listening(listener) }
    }

    fn read(&self) -> (Header, Vec<Record>) {
        baton_trace::read(self.0.lock().unwrap().as_slice()).unwrap()
    }

    /// All events except messages.
    fn events(&self) -> Vec<Event> {
        let events = self.read().1.into_iter().map(|record| record.event);
        events
            .filter(|event| !matches!(event, Event::Send { .. } | Event::Deliver { .. } | Event::Drop { .. }))
            .collect()
    }
}

#[tokio::test]
async fn the_traces_of_all_members_tell_one_story() {
    within_a_minute(async {
        let (file, listeners) = listeners("voting", 4).await;
        let group = PeerGroup::new(file).unwrap();
        let sinks: Vec<Sink> = (0..4).map(|_| Sink::default()).collect();
        let traced = |(listener, sink): (_, &Sink)| sink.options(listener);
        let peers = join_all(&group, listeners.into_iter().zip(&sinks).map(traced).collect()).await;
        for _ in 0..3 {
            peers[0].acquire().await.unwrap().release();
            peers[1].acquire().await.unwrap().release();
        }
        let mut entries = 0;
        for peer in peers {
            entries += peer.shutdown().await.unwrap().entries;
        }
        let (headers, records): (Vec<Header>, Vec<Vec<Record>>) = sinks.iter().map(Sink::read).unzip();
        assert!(headers.iter().all(|header| (header.processes, header.clients, header.unit) == (4, 2, Unit::Seconds)));
        let mut sent = BTreeMap::new();
        let mut delivered = Vec::new();
        let (mut requests, mut enters, mut exits, mut choices) = (0, 0, 0, 0);
        for (p, record) in records.iter().enumerate().flat_map(|(p, records)| records.iter().map(move |r| (p, r))) {
            assert_eq!(record.p, Some(p));
            match &record.event {
                Event::Request { .. } => requests += 1,
                Event::Enter { .. } => enters += 1,
                Event::Exit { .. } => exits += 1,
                Event::Choice { .. } => choices += 1,
                Event::Send { msg, to, .. } => assert_eq!(sent.insert(*msg, (p, *to)), None, "ids are unique"),
                Event::Deliver { msg, from, .. } => delivered.push((*msg, (*from, p))),
                _ => {}
            }
        }
        assert_eq!((entries, requests, enters, exits), (6, 6, 6, 6));
        assert!(choices >= 12, "two coordinators are drawn at every attempt");
        assert!(delivered.iter().all(|(msg, way)| sent.get(msg) == Some(way)), "what arrives was sent");
        for records in &records {
            assert!(matches!(&records.last().unwrap().event, Event::End { reason, .. } if reason == "shutdown"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_dropped_request_has_no_enter() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("suzuki-kasami", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let sink = Sink::default();
        let (second, first) = (sink.options(listeners.pop().unwrap()), listening(listeners.pop().unwrap()));
        let joining = tokio::join!(MutexPeer::join(&group, 0, first), MutexPeer::join(&group, 1, second));
        let (first, second) = (joining.0.unwrap(), joining.1.unwrap());
        let grant = first.acquire().await.unwrap();
        ask_and_give_up(&second).await;
        grant.release();
        second.acquire().await.unwrap().release();
        second.shutdown().await.unwrap();
        let events = sink.events();
        let [
            Event::Request { req: dropped, .. },
            Event::Cancel { req: cancelled },
            Event::Request { req: asked, .. },
            Event::Enter { req: entered, fence: 3 },
            Event::Exit { req: left },
            Event::End { entries: 1, .. },
        ] = events.as_slice()
        else {
            panic!("{events:#?}")
        };
        assert_eq!(dropped, cancelled);
        assert!(asked == entered && entered == left && left != dropped);
    })
    .await;
}

#[tokio::test]
async fn an_election_is_told_from_suspicion_to_leader() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("bully", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let sink = Sink::default();
        let (highest, lowest) = (listening(listeners.pop().unwrap()), sink.options(listeners.pop().unwrap()));
        let joining = tokio::join!(ElectionPeer::join(&group, 0, lowest), ElectionPeer::join(&group, 1, highest));
        let (lowest, highest) = (joining.0.unwrap(), joining.1.unwrap());
        highest.shutdown().await.unwrap();
        lowest.watch_leader().wait_for(|leader| leader.id == Some(0)).await.unwrap();
        lowest.shutdown().await.unwrap();
        let events = sink.events();
        let position = |wanted: Event| events.iter().position(|event| *event == wanted);
        let suspected = position(Event::Suspect { peer: 1 });
        let overdue = position(Event::Timer { name: "Answer".into() });
        let elected = position(Event::Elected { leader: Some(0), term: None });
        assert!(suspected.is_some() && suspected < overdue && overdue < elected, "{events:#?}");
    })
    .await;
}
