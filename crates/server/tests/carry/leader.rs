//! A fake leader: it knows nothing of locks, and does with the bytes of a stream or call what the test wants.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use baton_types::frames;
use http_body::Frame;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{Bytes, Service};
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;

use crate::follower::cluster;

/// What the leader does with a stream or call.
#[derive(Clone)]
pub enum Does {
    /// It sends the same bytes back, and ends when the client ends.
    Echoes,
    /// It sends this status at once.
    Refuses(Status),
    /// It sends this status after the first bytes of the client.
    EndsWith(Status),
    /// It echoes once there is a permit.
    EchoesLate(Arc<Semaphore>),
    /// It does not answer.
    Hangs,
    /// It reads one piece of the stream for each permit.
    Reads(Arc<Semaphore>),
}

/// What the leader sees.
#[derive(Debug, PartialEq, Eq)]
pub enum Saw {
    Began {
        carried: Option<String>,
        from: Option<String>,
        link: SocketAddr,
    },
    Read(usize),
    /// The stream is gone.
    Ended,
}

/// A leader with its own threads, so that it can be killed.
pub struct FakeLeader {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
    pub saw: mpsc::UnboundedReceiver<Saw>,
}

impl FakeLeader {
    pub fn start(does: Does) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, saw) = mpsc::unbounded_channel();
        let service = Echo { does, tell };
        runtime.spawn(async move {
            let listener = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(listener).await.unwrap();
        });
        FakeLeader { address, runtime: Some(runtime), saw }
    }

    /// Where this leader is, for a follower.
    pub fn record(&self) -> frames::Leader {
        frames::Leader { node: 1, name: "anna".to_owned(), address: self.address.to_string(), cluster: Some(cluster()) }
    }

    /// All its connections break.
    pub fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    pub async fn sees(&mut self) -> Saw {
        tokio::time::timeout(super::bytes::LONG, self.saw.recv()).await.expect("the leader sees something").unwrap()
    }

    /// The link of the next stream or call.
    pub async fn sees_link(&mut self) -> SocketAddr {
        loop {
            if let Saw::Began { link, .. } = self.sees().await {
                return link;
            }
        }
    }

    /// Waits until a stream or call is gone.
    pub async fn sees_end(&mut self) {
        while self.sees().await != Saw::Ended {}
    }
}

impl Drop for FakeLeader {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Clone)]
struct Echo {
    does: Does,
    tell: mpsc::UnboundedSender<Saw>,
}

impl NamedService for Echo {
    const NAME: &'static str = "baton.v1.Locks";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let text = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let link = request.extensions().get::<TcpConnectInfo>().unwrap().remote_addr().unwrap();
        let began = Saw::Began { carried: text("baton-carried"), from: text("baton-from"), link };
        let _ = self.tell.send(began);
        let does = self.does.clone();
        let ends = Ends(self.tell.clone());
        Box::pin(async move {
            match &does {
                Does::Refuses(status) => return Ok(status.clone().into_http()),
                Does::Hangs => std::future::pending().await,
                Does::EchoesLate(permits) => permits.acquire().await.unwrap().forget(),
                _ => {}
            }
            let echo = EchoBody { inner: request.into_body(), does, is_over: false, ends };
            let mut response = Response::new(Body::new(echo));
            response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
            Ok(response)
        })
    }
}

/// Tells that the stream is gone when it is dropped.
struct Ends(mpsc::UnboundedSender<Saw>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(Saw::Ended);
    }
}

struct EchoBody {
    inner: Body,
    does: Does,
    is_over: bool,
    ends: Ends,
}

impl EchoBody {
    fn over(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_over = true;
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers).unwrap();
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

impl http_body::Body for EchoBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Does::Reads(permits) = &self.does
            && permits.available_permits() == 0
        {
            // The test adds permits now and then.
            let waker = cx.waker().clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                waker.wake();
            });
            return Poll::Pending;
        }
        match (ready!(Pin::new(&mut self.inner).poll_frame(cx)), self.does.clone()) {
            (None, _) => self.over(&Status::ok("")),
            (Some(Ok(_)), Does::EndsWith(status)) => self.over(&status),
            (Some(Ok(frame)), Does::Reads(permits)) => {
                permits.try_acquire().expect("only this stream reads").forget();
                let bytes = frame.into_data().map_or(0, |data| data.len());
                let _ = self.ends.0.send(Saw::Read(bytes));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            (frame, _) => Poll::Ready(frame),
        }
    }
}
