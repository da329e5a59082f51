//! A client that speaks the protocol by hand, so that each test sees every frame.

use baton_api::v1;
use baton_api::v1::client_frame::Frame as Said;
use baton_api::v1::request::Operation;
use baton_api::v1::server_frame::Frame as Heard;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::server::{LONG, PAUSE, TestServer};

/// A session, over as many streams as it takes.
pub struct TestClient {
    session: u64,
    attempt: u64,
    stream: Option<(mpsc::Sender<v1::ClientFrame>, Streaming<v1::ServerFrame>)>,
}

impl TestClient {
    pub fn new(session: u64) -> Self {
        TestClient { session, attempt: 0, stream: None }
    }

    /// A client that has opened its session at this server. Returns the leader, if the server follows.
    pub async fn open(session: u64, at: &TestServer) -> (Self, Option<v1::Leader>) {
        let mut client = TestClient::new(session);
        let leader = client.connect(at).await;
        (client, leader)
    }

    /// Opens the session at this server, again and again until that succeeds. Returns the leader, if the server follows.
    pub async fn connect(&mut self, at: &TestServer) -> Option<v1::Leader> {
        let connects = async {
            loop {
                match self.try_connect(at).await {
                    Ok(leader) => return leader,
                    Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LONG, connects).await.expect("the session opens")
    }

    async fn try_connect(&mut self, at: &TestServer) -> Result<Option<v1::Leader>, Status> {
        let (frames, said) = mpsc::channel(100);
        self.attempt += 1;
        let (session, attempt, secret) = (self.session, self.attempt, vec![7; 32]);
        let open = v1::Open { session, attempt, ttl_ms: 30_000, secret, ..Default::default() };
        let _ = frames.try_send(v1::ClientFrame { frame: Some(Said::Open(open)) });
        let heard = at.locks().await.session(ReceiverStream::new(said)).await?.into_inner();
        self.stream = Some((frames, heard));
        let first = self.hear().await?;
        let (leader, opened) = match first {
            Heard::Leader(leader) => (Some(leader), self.hear().await?),
            first => (None, first),
        };
        let cluster_id = at.status().await.cluster_id;
        assert_eq!(opened, Heard::Opened(v1::Opened { session, ttl_ms: 30_000, cluster_id, closed_ms: 0 }));
        Ok(leader)
    }

    pub async fn hear(&mut self) -> Result<Heard, Status> {
        let (_, heard) = self.stream.as_mut().expect("a stream");
        let frame = tokio::time::timeout(LONG, heard.message()).await.expect("something is said")?;
        Ok(frame.expect("the stream goes on").frame.expect("a known frame"))
    }

    /// The status that ends the stream.
    pub async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.hear().await {
                return status;
            }
        }
    }

    pub async fn ask(&self, number: u64, operation: Operation) {
        let request = v1::Request { number, seen: 0, missing: Vec::new(), operation: Some(operation) };
        let (frames, _) = self.stream.as_ref().expect("a stream");
        frames.send(v1::ClientFrame { frame: Some(Said::Request(request)) }).await.expect("the stream goes on");
    }

    /// Asks for a lock, and does not wait for the answer.
    pub async fn wants(&self, number: u64, name: &str) {
        let acquire = v1::Acquire { name: name.into(), mode: 1, owner: self.session, ..Default::default() };
        self.ask(number, Operation::Acquire(acquire)).await;
    }

    pub async fn release(&mut self, number: u64, acquire: u64) {
        self.ask(number, Operation::Release(v1::Release { acquire })).await;
        self.answer(number).await;
    }

    pub async fn answer(&mut self, number: u64) -> v1::answer::Answer {
        match self.hear().await.unwrap() {
            Heard::Answer(answer) => {
                assert_eq!(answer.number, number);
                answer.answer.unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the grant of this acquire, and returns its fence.
    pub async fn granted(&mut self, number: u64) -> u64 {
        match self.answer(number).await {
            v1::answer::Answer::Granted(granted) => granted.fence,
            other => panic!("{other:?}"),
        }
    }

    pub async fn lock(&mut self, number: u64, name: &str) -> u64 {
        self.wants(number, name).await;
        self.granted(number).await
    }
}
