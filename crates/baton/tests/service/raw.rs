//! Streams and connections of clients that do not use the client library.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::client_frame;
use baton_api::v1::locks_client::LocksClient;
use baton_api::v1::request::Operation;
use baton_api::v1::server_frame::Frame;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::server::Server;

/// A limit that only a failed test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first bytes of an HTTP/2 client, and an empty settings frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A connection that starts HTTP/2, and then sends and reads nothing.
pub fn mute(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server has answered. The answer stays unread.
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1, "the server closed the connection");
    stream
}

/// A connection that several streams can share.
pub async fn channel(server: &Server) -> Channel {
    Channel::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap()
}

/// A stream of raw frames.
pub struct Raw {
    pub frames: mpsc::Sender<v1::ClientFrame>,
    answers: Streaming<v1::ServerFrame>,
}

impl Raw {
    /// A stream on a new connection.
    pub async fn connect(server: &Server) -> Raw {
        Raw::on(&channel(server).await).await
    }

    /// A stream on this connection.
    pub async fn on(channel: &Channel) -> Raw {
        let (frames, outgoing) = mpsc::channel(16);
        let mut client = LocksClient::new(channel.clone());
        let stream = client.session(ReceiverStream::new(outgoing));
        let answers = tokio::time::timeout(PATIENCE, stream).await.expect("no stream").unwrap().into_inner();
        Raw { frames, answers }
    }

    /// A stream on a new connection, and the server's answer to this Open.
    pub async fn open(server: &Server, open: v1::Open) -> (Raw, Frame) {
        let mut raw = Raw::connect(server).await;
        let answer = raw.opens(open).await;
        (raw, answer)
    }

    /// The server's answer to this Open.
    pub async fn opens(&mut self, open: v1::Open) -> Frame {
        self.try_opens(open).await.unwrap()
    }

    /// The server's answer to this Open; an error if the server has ended the stream.
    pub async fn try_opens(&mut self, open: v1::Open) -> Result<Frame, Status> {
        // If the stream has ended, `next` returns the reason.
        let _ = self.frames.send(v1::ClientFrame { frame: Some(client_frame::Frame::Open(open)) }).await;
        Ok(self.next().await?.expect("an answer"))
    }

    pub async fn send(&self, frame: client_frame::Frame) {
        self.frames.send(v1::ClientFrame { frame: Some(frame) }).await.unwrap();
    }

    /// The next frame; none if the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Frame>, Status> {
        let next = tokio::time::timeout(PATIENCE, self.answers.message()).await;
        Ok(next.expect("the server says nothing")?.and_then(|frame| frame.frame))
    }

    /// Sends a request, and returns its answer.
    pub async fn ask(&mut self, number: u64, operation: Operation) -> v1::answer::Answer {
        self.send_request(number, operation).await;
        self.answer(number).await
    }

    pub async fn send_request(&self, number: u64, operation: Operation) {
        self.frames.send(request(number, operation)).await.unwrap();
    }

    /// The next frame, which is the answer to this request.
    pub async fn answer(&mut self, number: u64) -> v1::answer::Answer {
        match self.next().await {
            Ok(Some(Frame::Answer(v1::Answer { number: to, answer: Some(answer) }))) if to == number => answer,
            other => panic!("this is no answer to request {number}: {other:?}"),
        }
    }

    /// Sends these requests without waiting, and receives their answers in the same order.
    pub async fn pipeline(
        &mut self,
        requests: impl Iterator<Item = (u64, Operation)> + Clone,
        mut answered: impl FnMut(u64, v1::answer::Answer),
    ) {
        let (numbers, frames) = (requests.clone(), self.frames.clone());
        let send = async {
            for (number, operation) in requests {
                frames.send(request(number, operation)).await.unwrap();
            }
        };
        let receive = async {
            for (number, _) in numbers {
                answered(number, self.answer(number).await);
            }
        };
        tokio::join!(send, receive);
    }

    /// Whether the server answers a keep-alive on this stream.
    pub async fn is_alive(&mut self, number: u64) -> bool {
        self.send(client_frame::Frame::KeepAlive(v1::KeepAlive { number })).await;
        matches!(self.next().await, Ok(Some(Frame::Alive(alive))) if alive.number == number)
    }
}

/// A request of a client that has seen all earlier answers.
pub fn request(number: u64, operation: Operation) -> v1::ClientFrame {
    let request = v1::Request { number, seen: number - 1, missing: vec![], operation: Some(operation) };
    v1::ClientFrame { frame: Some(client_frame::Frame::Request(request)) }
}

pub fn open(session: u64) -> v1::Open {
    let (label, host, secret) = ("test".into(), "here".into(), Vec::new());
    v1::Open { session, ttl_ms: 60_000, label, host, pid: 1, resume: false, secret, attempt: 0, cluster_id: 0 }
}

pub fn exclusive(name: &[u8]) -> v1::Acquire {
    v1::Acquire { name: name.to_vec(), mode: v1::Mode::Exclusive.into(), owner: 1, ..v1::Acquire::default() }
}

pub fn acquire(name: &str) -> Operation {
    Operation::Acquire(exclusive(name.as_bytes()))
}

pub fn release(acquire: u64) -> Operation {
    Operation::Release(v1::Release { acquire })
}

/// Whether the answer is this refusal, with a message that contains `says`.
pub fn is_refused(answer: &v1::answer::Answer, refusal: v1::Refusal, says: &str) -> bool {
    matches!(answer, v1::answer::Answer::Refused(refused)
        if refused.refusal() == refusal && refused.message.contains(says))
}

pub fn is_granted(answer: &v1::answer::Answer) -> bool {
    matches!(answer, v1::answer::Answer::Granted(_))
}
