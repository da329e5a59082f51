//! Processes outside the group, and members that send nonsense, over real sockets. Each gets its own error, and the
//! group goes on.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::frame::{self, Envelope, Frame, unique_id};
use crate::handshake::{Hello, Side, preamble, shake_hands};
use crate::link::greeting;
use crate::{FrameError, GroupFile, JoinError, LinkError, MutexPeer, Options, PeerGroup, Refusal, VERSION, Warning};

async fn within_a_minute<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
}

/// Running members and their warnings.
struct Scene {
    group: PeerGroup,
    peers: Vec<MutexPeer>,
    warnings: Vec<mpsc::Receiver<Warning>>,
}

impl Scene {
    /// Starts all members of the group but the last `absent` ones, which `beside` may play.
    async fn with<T>(
        algorithm: &str,
        members: usize,
        absent: usize,
        beside: impl AsyncFnOnce(&PeerGroup) -> T,
    ) -> (Scene, T) {
        let mut listeners = Vec::new();
        for _ in 0..members {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let group = PeerGroup::new(GroupFile::new(algorithm, addresses)).unwrap();
        let (mut joining, mut warnings) = (Vec::new(), Vec::new());
        for (id, listener) in listeners.into_iter().take(members - absent).enumerate() {
            let (notice, noticed) = mpsc::channel(16);
            warnings.push(noticed);
            let options = Options { listener: Some(listener), warnings: Some(notice), ..Options::default() };
            let group = group.clone();
            joining.push(tokio::spawn(async move { MutexPeer::join(&group, id, options).await.unwrap() }));
        }
        let played = beside(&group).await;
        let mut peers = Vec::new();
        for joining in joining {
            peers.push(joining.await.unwrap());
        }
        (Scene { group, peers, warnings }, played)
    }

    async fn start(algorithm: &str, members: usize) -> Scene {
        Scene::with(algorithm, members, 0, async |_| ()).await.0
    }

    async fn call(&self, id: usize) -> TcpStream {
        TcpStream::connect(self.group.address(id).unwrap()).await.unwrap()
    }

    /// Connects to `to` with this Hello. Returns the errors of both sides.
    async fn greet(&mut self, to: usize, hello: Hello) -> (LinkError, LinkError) {
        let mut stream = self.call(to).await;
        let shaken = shake_hands(&mut stream, Side::Caller, &hello, |_| Ok(())).await;
        drop(stream);
        (shaken.unwrap_err(), self.refused(to).await)
    }

    /// Why `id` refused the next connection.
    async fn refused(&mut self, id: usize) -> LinkError {
        match self.warnings[id].recv().await.unwrap() {
            Warning::Refused { error, .. } => error,
            other => panic!("expected a refusal: {other:?}"),
        }
    }

    /// All clients can still enter.
    async fn works(&self) {
        for peer in &self.peers[..self.group.clients()] {
            peer.acquire().await.unwrap().release();
        }
    }
}

#[tokio::test]
async fn a_caller_with_another_algorithm_is_refused_and_both_know_why() {
    within_a_minute(async {
        let mut scene = Scene::start("ricart-agrawala", 3).await;
        let file = GroupFile { algorithm: "suzuki-kasami".into(), ..scene.group.file().clone() };
        let other = PeerGroup::new(file).unwrap();
        let listener = Some(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let options = Options { listener, ..Options::default() };
        let error = MutexPeer::join(&other, 1, options).await.unwrap_err();
        let refusal = |ours: &str, theirs: &str| {
            LinkError::Refused(Refusal::Algorithm { ours: ours.into(), theirs: theirs.into() })
        };
        let JoinError::Refused { peer: 0, error, .. } = error else { panic!("{error}") };
        assert_eq!(error, refusal("suzuki-kasami", "ricart-agrawala"));
        assert_eq!(scene.refused(0).await, refusal("ricart-agrawala", "suzuki-kasami"));
        scene.works().await;
    })
    .await;
}

#[tokio::test]
async fn a_caller_with_a_wrong_id_is_refused_and_both_know_why() {
    within_a_minute(async {
        let mut scene = Scene::start("ricart-agrawala", 3).await;
        let hello = |from, to| Hello { from, to, ..greeting(&scene.group, 0) };
        let cases = [
            (1, hello(7, 1), Refusal::UnknownId { id: 7, processes: 3 }),
            (1, hello(2, 0), Refusal::NotMe { called: 0, me: 1 }),
            (1, hello(0, 1), Refusal::NotTheCaller { id: 0, me: 1 }),
            (1, hello(2, 1), Refusal::Restarted { id: 2 }),
        ];
        for (to, hello, refusal) in cases {
            let (at_caller, at_called) = scene.greet(to, hello).await;
            assert_eq!(at_caller, LinkError::RefusedByPeer(refusal.clone()));
            assert_eq!(at_called, LinkError::Refused(refusal));
        }
        scene.works().await;
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_talks_nonsense_is_refused() {
    within_a_minute(async {
        let mut scene = Scene::start("ricart-agrawala", 3).await;
        let hello = preamble(VERSION);
        let oversize = [&hello[..], &u32::MAX.to_le_bytes()].concat();
        let malformed = [&hello[..], &3u32.to_le_bytes(), &[9, 9, 9]].concat();
        let out_of_place = [&hello[..], &frame::encode(&Frame::Done).unwrap()].concat();
        let cases = [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), LinkError::NotBaton(*b"GET / ")),
            (preamble(VERSION + 1).to_vec(), LinkError::Version { found: VERSION + 1 }),
            (oversize, LinkError::Frame(FrameError::Oversize { bytes: u32::MAX as usize })),
            (malformed, LinkError::Frame(FrameError::Malformed { bytes: 3, expected: "a frame" })),
            (out_of_place, LinkError::OutOfPlace { expected: "a greeting" }),
            (hello[..5].to_vec(), LinkError::Left),
        ];
        for (bytes, error) in cases {
            let mut stream = scene.call(0).await;
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(scene.refused(0).await, error);
            // The accepting side sends its version, if it has read one, and closes the connection.
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            assert!(answer.is_empty() || answer == hello);
            scene.works().await;
        }
    })
    .await;
}

/// Plays the last member: it shakes hands with all other members and returns the connections.
async fn impostor(group: &PeerGroup) -> Vec<(Hello, TcpStream)> {
    let me = group.processes() - 1;
    let ours = greeting(group, me);
    let mut streams = Vec::new();
    for to in 0..me {
        let hello = Hello { to, ..ours.clone() };
        let mut stream = TcpStream::connect(group.address(to).unwrap()).await.unwrap();
        shake_hands(&mut stream, Side::Caller, &hello, |_| Ok(())).await.unwrap();
        streams.push((hello, stream));
    }
    streams
}

#[tokio::test]
async fn a_member_that_talks_nonsense_is_lost_and_the_others_go_on() {
    within_a_minute(async {
        // Voting works without one of its three coordinators.
        let (mut scene, mut streams) = Scene::with("voting", 6, 1, impostor).await;
        let message = |id, payload| frame::encode(&Frame::Message(Envelope { id, lamport: 1, payload })).unwrap();
        let not_a_message = FrameError::Malformed { bytes: 2, expected: "a message of the protocol" };
        let cases = [
            (message(unique_id(5, 0), vec![77, 1]), LinkError::Frame(not_a_message)),
            (message(unique_id(4, 0), vec![2, 1]), LinkError::Foreign { id: unique_id(4, 0), from: 5 }),
            (u32::MAX.to_le_bytes().to_vec(), LinkError::Frame(FrameError::Oversize { bytes: u32::MAX as usize })),
            (frame::encode(&Frame::Verdict(Ok(()))).unwrap(), LinkError::OutOfPlace { expected: "a message" }),
            (vec![1, 0], LinkError::Left),
        ];
        for (to, (bytes, error)) in cases.into_iter().enumerate() {
            let (_, stream) = &mut streams[to];
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(scene.warnings[to].recv().await.unwrap(), Warning::Lost { peer: 5, error });
            assert!(scene.peers[to].watch_status().borrow().lost.contains(&5));
        }
        scene.works().await;
        assert!(scene.warnings.iter_mut().all(|warnings| warnings.try_recv().is_err()), "nobody is lost twice");
    })
    .await;
}

#[tokio::test]
async fn a_member_that_calls_twice_keeps_its_first_connection() {
    within_a_minute(async {
        let (mut scene, streams) = Scene::with("voting", 4, 1, impostor).await;
        let refusal = Refusal::AlreadyConnected { id: 3 };
        let (at_caller, at_called) = scene.greet(0, streams[0].0.clone()).await;
        assert_eq!(at_caller, LinkError::RefusedByPeer(refusal.clone()));
        assert_eq!(at_called, LinkError::Refused(refusal));
        assert!(scene.peers[0].watch_status().borrow().lost.is_empty());
    })
    .await;
}
