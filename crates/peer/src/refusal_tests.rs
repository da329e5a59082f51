//! Processes outside the group, and members that break the rules, over real sockets. Each gets its own error, and the
//! group goes on.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::beginning::{Beginning, Entry, Past, Stage};
use crate::frame::{self, Envelope, Frame, Greeting, Item, decode_exactly, unique_id};
use crate::handshake::{Hello, Side, preamble, shake_hands};
use crate::{
    FrameError, GroupFile, LinkError, Member, NAME_BYTES_MAX, Options, PeerGroup, Refusal, SessionError, VERSION,
    Warning,
};

/// Stops a test that hangs.
async fn within_a_minute<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
}

/// Running members and their warnings.
struct Scene {
    group: PeerGroup,
    members: Vec<Member>,
    warnings: Vec<mpsc::Receiver<Warning>>,
}

const RESOURCES_MAX: usize = 4;

/// Of the member that a test plays.
const INCARNATION: u64 = 1 << 62;

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
        // So that a player that does not beat is not taken for silent soon.
        let file = GroupFile { delay_max_ms: 1000, ..GroupFile::new(algorithm, addresses) };
        let group = PeerGroup::new(file).unwrap();
        let (mut joining, mut warnings) = (Vec::new(), Vec::new());
        for (id, listener) in listeners.into_iter().take(members - absent).enumerate() {
            let (notice, noticed) = mpsc::channel(64);
            warnings.push(noticed);
            let options = Options {
                listener: Some(listener),
                warnings: Some(notice),
                resources_max: RESOURCES_MAX,
                ..Options::default()
            };
            let group = group.clone();
            joining.push(tokio::spawn(async move { Member::join(&group, id, options).await.unwrap() }));
        }
        let played = beside(&group).await;
        let mut members = Vec::new();
        for joining in joining {
            members.push(joining.await.unwrap());
        }
        (Scene { group, members, warnings }, played)
    }

    async fn start(algorithm: &str, members: usize) -> Scene {
        Scene::with(algorithm, members, 0, async |_| ()).await.0
    }

    async fn call(&self, id: usize) -> TcpStream {
        TcpStream::connect(self.group.address(id).unwrap()).await.unwrap()
    }

    /// Connects to `to` with this Hello. Returns the error of the caller.
    async fn greet(&self, to: usize, hello: &Hello) -> LinkError {
        let mut stream = self.call(to).await;
        shake_hands(&mut stream, Side::Caller, hello, |_| Ok(())).await.unwrap_err()
    }

    /// Why `id` refused the next connection.
    async fn refused(&mut self, id: usize) -> LinkError {
        match self.warnings[id].recv().await.unwrap() {
            Warning::Refused { error, .. } => error,
            other => panic!("expected a refusal: {other:?}"),
        }
    }

    /// Why the connection of `id` with `peer` broke.
    async fn broken(&mut self, id: usize, peer: usize) -> LinkError {
        match self.warnings[id].recv().await.unwrap() {
            Warning::Broken { peer: found, error } if found == peer => error,
            other => panic!("expected a broken connection: {other:?}"),
        }
    }

    /// All members that run can enter.
    async fn works(&self) {
        for member in &self.members {
            member.lock(b"a").unwrap().acquire().await.unwrap().release();
        }
    }
}

fn hello(group: &PeerGroup, from: usize, to: usize) -> Hello {
    Hello {
        algorithm: group.about().name.to_string(),
        variant: group.file().variant.clone(),
        members: group.members(),
        group_hash: group.hash(),
        from,
        to,
        incarnation: INCARNATION,
        connection: 0,
        generation: 0,
    }
}

fn encode(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode_to(&mut bytes, frame).unwrap();
    bytes
}

fn item(number: u64, item: Item<'_>) -> Vec<u8> {
    encode(&Frame::Item { number, item })
}

/// Shakes hands, and begins a conversation in which nothing was said before. Returns the other side's Hello.
async fn begin(group: &PeerGroup, hello: &Hello) -> (TcpStream, Hello) {
    let mut stream = TcpStream::connect(group.address(hello.to).unwrap()).await.unwrap();
    let theirs = shake_hands(&mut stream, Side::Caller, hello, |_| Ok(())).await.unwrap();
    stream.write_all(&encode(&Frame::Resume { received: 0 })).await.unwrap();
    let resume = read(&mut stream).await;
    assert!(matches!(decode_exactly(&resume, "a frame").unwrap(), Frame::Resume { .. }));
    (stream, theirs)
}

/// Agrees with all other members that the group begins.
async fn agree(members: usize, met: Vec<(TcpStream, Hello)>) -> Vec<TcpStream> {
    let past = Past { generation: 0, ttl_max_ms: 0, held_nothing: true, group: 0 };
    let mut beginning = Beginning::new(members - 1, members, Entry { incarnation: INCARNATION, past }, false);
    for (_, theirs) in &met {
        beginning.meet(theirs).unwrap();
    }
    let mut streams: Vec<_> = met.into_iter().map(|(stream, _)| stream).collect();
    let mut said = None;
    let mut begun = vec![false; streams.len()];
    while begun.contains(&false) {
        if let Some(work) = beginning.take_work() {
            beginning.written(work);
        }
        let statement = Some(beginning.statement());
        if said != statement {
            said.clone_from(&statement);
            for stream in &mut streams {
                stream.write_all(&encode(&Frame::Statement(said.clone().unwrap()))).await.unwrap();
            }
        }
        let readable = streams.iter().map(|stream| Box::pin(async { stream.peek(&mut [0]).await }));
        let (_, from, rest) = futures::future::select_all(readable).await;
        drop(rest);
        let frame = read(&mut streams[from]).await;
        if let Frame::Statement(theirs) = decode_exactly(&frame, "a frame").unwrap() {
            begun[from] = matches!(theirs.stage, Stage::Begun { .. });
            beginning.hear(from, theirs).unwrap();
        }
    }
    streams
}

/// The next frame, without its length.
async fn read(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32_le().await.unwrap();
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Plays the last member: it begins a conversation with every other member.
async fn impostor(group: &PeerGroup) -> Vec<TcpStream> {
    let me = group.members() - 1;
    let mut met = Vec::new();
    for to in 0..me {
        met.push(begin(group, &hello(group, me, to)).await);
    }
    agree(group.members(), met).await
}

#[tokio::test]
async fn a_caller_with_a_wrong_id_is_refused_and_both_know_why() {
    within_a_minute(async {
        let mut scene = Scene::start("ricart-agrawala", 3).await;
        let hello = |from, to| hello(&scene.group, from, to);
        let restarted = Refusal::Restarted { id: 2, algorithm: "ricart-agrawala".into() };
        let outdated = Hello { incarnation: 1, ..hello(2, 1) };
        let cases = [
            (hello(7, 1), Refusal::UnknownId { id: 7, members: 3 }),
            (hello(2, 0), Refusal::NotMe { called: 0, me: 1 }),
            (hello(0, 1), Refusal::NotTheCaller { id: 0, me: 1 }),
            (hello(1, 1), Refusal::NotTheCaller { id: 1, me: 1 }),
            (hello(2, 1), restarted),
            (outdated, Refusal::Outdated { id: 2 }),
        ];
        for (hello, refusal) in cases {
            assert_eq!(scene.greet(1, &hello).await, LinkError::RefusedByPeer(refusal.clone()));
            assert_eq!(scene.refused(1).await, LinkError::Refused(refusal));
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
        let mut verdict = hello.to_vec();
        frame::encode_to(&mut verdict, &Greeting::Verdict(Ok(()))).unwrap();
        let oversize = [&hello[..], &u32::MAX.to_le_bytes()].concat();
        let malformed = [&hello[..], &3u32.to_le_bytes(), &[9, 9, 9]].concat();
        let cases = [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), LinkError::NotBaton(*b"GET / ")),
            (preamble(VERSION + 1).to_vec(), LinkError::Version { found: VERSION + 1 }),
            (oversize, LinkError::Frame(FrameError::Oversize { bytes: u32::MAX as usize })),
            (malformed, LinkError::Frame(FrameError::Malformed { bytes: 3, expected: "a greeting" })),
            (verdict, LinkError::OutOfPlace { expected: "a greeting" }),
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
        }
        scene.works().await;
    })
    .await;
}

/// A connection that says nothing occupies one handshake, and nothing else.
#[tokio::test]
async fn connections_that_say_nothing_do_not_hinder_the_group() {
    within_a_minute(async {
        let scene = Scene::start("ricart-agrawala", 3).await;
        let mut idle = Vec::new();
        for _ in 0..100 {
            idle.push(scene.call(0).await);
        }
        scene.works().await;
    })
    .await;
}

#[tokio::test]
async fn a_member_that_breaks_the_rules_is_excluded_and_the_others_go_on() {
    within_a_minute(async {
        // The coordinator is beside member 0, so the others go on without the last member.
        let (mut scene, mut streams) = Scene::with("central", 13, 1, impostor).await;
        let me = 12;
        let open = item(1, Item::Open { name: b"a" });
        let message = |to, from, maker, resource, payload: &[u8]| {
            let envelope = Envelope { resource, from, to, id: unique_id(maker, 0), lamport: 1, count: 0, payload };
            [open.clone(), item(2, Item::Message(envelope))].concat()
        };
        let foreign = |maker, from, to| LinkError::Foreign { id: unique_id(maker, 0), from, to };
        let not_a_message = FrameError::Malformed { bytes: 2, expected: "a message of the protocol" };
        let long = vec![b'x'; NAME_BYTES_MAX + 1];
        let limit = RESOURCES_MAX * 13;
        let many = (1..=limit as u64 + 1).map(|number| item(number, Item::Open { name: &number.to_le_bytes() }));
        let cases = [
            // Nothing was sent yet.
            (encode(&Frame::Beat { received: 99 }), SessionError::NeverSent { found: 99, last: 0 }.into()),
            (message(1, me, me, 0, &[77, 1]), LinkError::Frame(not_a_message)),
            // A process of another member, a process that does not exist, another maker of the id, another addressee.
            (message(2, 3, me, 0, &[0]), foreign(me, 3, 2)),
            (message(3, 99, me, 0, &[0]), foreign(me, 99, 3)),
            (message(4, me, 5, 0, &[0]), foreign(5, me, 4)),
            (message(6, me, me, 0, &[0]), foreign(me, me, 6)),
            (message(6, me, me, 1, &[0]), LinkError::NotOpen { resource: 1 }),
            (u32::MAX.to_le_bytes().to_vec(), FrameError::Oversize { bytes: u32::MAX as usize }.into()),
            (encode(&Frame::Resume { received: 0 }), LinkError::OutOfPlace { expected: "a message" }),
            (item(5, Item::Open { name: b"a" }), SessionError::Gap { found: 5, expected: 1 }.into()),
            (item(1, Item::Open { name: &long }), LinkError::LongName { bytes: long.len(), limit: NAME_BYTES_MAX }),
            (many.collect::<Vec<_>>().concat(), LinkError::TooManyResources { limit }),
        ];
        for (to, (bytes, error)) in cases.into_iter().enumerate() {
            streams[to].write_all(&bytes).await.unwrap();
            assert_eq!(scene.broken(to, me).await, error);
            // The connection is closed. On the next attempt the member is told why.
            let refusal = Refusal::Faulty { id: me, why: error.to_string() };
            let told = scene.greet(to, &hello(&scene.group, me, to)).await;
            assert_eq!(told, LinkError::RefusedByPeer(refusal.clone()));
            assert!(told.to_string().contains(&format!("process {me} broke the rules of the group: ")), "{told}");
            assert_eq!(scene.refused(to).await, LinkError::Refused(refusal));
        }
        scene.works().await;
        assert!(scene.warnings.iter_mut().all(|warnings| warnings.try_recv().is_err()), "nothing else is broken");
    })
    .await;
}

#[tokio::test]
async fn a_member_that_floods_with_copies_does_not_stop_the_others() {
    within_a_minute(async {
        let (scene, mut streams) = Scene::with("central", 3, 1, impostor).await;
        let open = item(1, Item::Open { name: b"a" });
        let chunk = open.repeat(1000);
        let mut stream = streams.remove(0);
        let flood = tokio::spawn(async move {
            while stream.write_all(&chunk).await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..20 {
            scene.works().await;
        }
        assert_eq!(scene.members[0].stats().resources, 1);
        assert!(!flood.is_finished(), "copies are allowed");
        flood.abort();
    })
    .await;
}

/// Items that come in one segment with the beginning of the conversation do not wait for the next bytes.
#[tokio::test]
async fn what_comes_together_with_the_beginning_is_delivered() {
    within_a_minute(async {
        let (scene, _stream) = Scene::with("central", 2, 1, async |group| {
            drop(impostor(group).await);
            let mut stream = TcpStream::connect(group.address(0).unwrap()).await.unwrap();
            let again = Hello { connection: 1, ..hello(group, 1, 0) };
            shake_hands(&mut stream, Side::Caller, &again, |_| Ok(())).await.unwrap();
            let begun = [encode(&Frame::Resume { received: 0 }), item(1, Item::Open { name: b"a" })].concat();
            stream.write_all(&begun).await.unwrap();
            stream
        })
        .await;
        while scene.members[0].stats().resources == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A connection that is lost in the network and comes late does not take the place of a later one.
#[tokio::test]
async fn an_earlier_connection_that_comes_late_is_not_used() {
    within_a_minute(async {
        let (scene, mut streams) = Scene::with("central", 2, 1, async |group| {
            let earlier = hello(group, 1, 0);
            let later = Hello { connection: 1, ..earlier.clone() };
            // The earlier connection is held up when only the verdict is missing.
            let mut late = TcpStream::connect(group.address(0).unwrap()).await.unwrap();
            late.write_all(&preamble(VERSION)).await.unwrap();
            frame::write(&mut late, &Greeting::Hello(earlier)).await.unwrap();
            let mut stream = agree(2, vec![begin(group, &later).await]).await.remove(0);
            stream.write_all(&item(1, Item::Open { name: b"a" })).await.unwrap();
            frame::write(&mut late, &Greeting::Verdict(Ok(()))).await.unwrap();
            late.write_all(&encode(&Frame::Resume { received: 0 })).await.unwrap();
            // The member hangs up.
            late.read_to_end(&mut Vec::new()).await.unwrap();
            vec![stream]
        })
        .await;
        // The later one is still in use.
        streams[0].write_all(&item(2, Item::Open { name: b"b" })).await.unwrap();
        while scene.members[0].stats().resources < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
