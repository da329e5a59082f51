//! The traces that members write.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use baton_peer::{Options, PeerGroup};
use baton_trace::{Event, Header, Record, Unit};
use tokio::net::TcpListener;

use crate::cancel::ask_and_give_up;
use crate::{join_all, listeners, listening, within_a_minute};

/// A sink whose contents the test can read.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

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

    pub fn read(&self) -> (Header, Vec<Record>) {
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
        let (file, listeners) = listeners("voting", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let sinks: Vec<Sink> = (0..2).map(|_| Sink::default()).collect();
        let traced = |(listener, sink): (_, &Sink)| sink.options(listener);
        let members = join_all(&group, listeners.into_iter().zip(&sinks).map(traced).collect()).await;
        for _ in 0..3 {
            members[0].lock(b"a").unwrap().acquire().await.unwrap().release();
            members[1].lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        let mut entries = 0;
        for member in members {
            entries += member.shutdown().await.entries;
        }
        let (headers, records): (Vec<Header>, Vec<Vec<Record>>) = sinks.iter().map(Sink::read).unzip();
        assert!(headers.iter().all(|header| (header.processes, header.clients, header.unit) == (4, 2, Unit::Seconds)));
        let mut sent = BTreeMap::new();
        let mut delivered = Vec::new();
        let (mut requests, mut enters, mut exits, mut choices) = (0, 0, 0, 0);
        for (at, record) in records.iter().enumerate().flat_map(|(at, records)| records.iter().map(move |r| (at, r))) {
            // The coordinators, P2 and P3, are beside the clients.
            let Some(p) = record.p else { continue };
            assert_eq!(p % 2, at);
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
    // The second grant of the first generation.
    const SECOND: u64 = 1 << 34 | 2;
    within_a_minute(async {
        let (file, mut listeners) = listeners("suzuki-kasami", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let sink = Sink::default();
        let (second, first) = (sink.options(listeners.pop().unwrap()), listening(listeners.pop().unwrap()));
        let members = join_all(&group, vec![first, second]).await;
        let grant = members[0].lock(b"a").unwrap().acquire().await.unwrap();
        ask_and_give_up(&members[1]).await;
        grant.release();
        members[1].lock(b"a").unwrap().acquire().await.unwrap().release();
        members[1].shutdown().await;
        let events = sink.events();
        let [
            Event::Request { req: dropped, .. },
            Event::Cancel { req: cancelled },
            Event::Request { req: asked, .. },
            Event::Enter { req: entered, fence: SECOND },
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
        let (mut file, mut listeners) = listeners("bully", 2).await;
        file.assume_synchronous = true;
        let group = PeerGroup::new(file).unwrap();
        let sink = Sink::default();
        let (highest, lowest) = (listening(listeners.pop().unwrap()), sink.options(listeners.pop().unwrap()));
        let members = join_all(&group, vec![lowest, highest]).await;
        let election = members[0].election(b"leader").unwrap();
        members[1].shutdown().await;
        election.watch_leader().wait_for(|leader| leader.id == Some(0)).await.unwrap();
        members[0].shutdown().await;
        let events = sink.events();
        let position = |wanted: Event| events.iter().position(|event| *event == wanted);
        let suspected = position(Event::Suspect { peer: 1 });
        let overdue = position(Event::Timer { name: "Answer".into() });
        let elected = position(Event::Elected { leader: Some(0), term: None });
        assert!(suspected.is_some() && suspected < overdue && overdue < elected, "{events:#?}");
    })
    .await;
}
