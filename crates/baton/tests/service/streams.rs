//! Streams that come late, streams with a wrong secret, and streams with many requests at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_api::v1;
use baton_api::v1::request::Operation;
use baton_api::v1::server_frame::Frame;
use baton_client::Client;
use serde_json::json;
use tokio::sync::oneshot;
use tonic::Code;
use tonic::transport::Channel;

use crate::commands::json;
use crate::raw::{Raw, acquire, is_granted, open, release, request};
use crate::server::Server;

fn attempt(attempt: u64, resume: bool) -> v1::Open {
    v1::Open { attempt, resume, ..open(7) }
}

fn is_opened(answer: &Frame) -> bool {
    matches!(answer, Frame::Opened(_))
}

/// The client sent the first Open, then made another connection and closed the session there.
#[tokio::test]
async fn a_first_open_that_comes_after_the_close_does_not_bring_the_session_back() {
    let server = Server::start();
    let mut late = Raw::connect(&server).await;
    let (mut raw, answer) = Raw::open(&server, attempt(2, false)).await;
    assert!(is_opened(&answer), "{answer:?}");
    assert!(is_granted(&raw.ask(1, acquire("deploy")).await));
    let closed = raw.ask(2, Operation::Close(v1::Close {})).await;
    assert!(matches!(closed, v1::answer::Answer::Closed(_)), "{closed:?}");

    let answer = late.opens(attempt(1, false)).await;
    let Frame::Ended(ended) = &answer else { panic!("{answer:?}") };
    assert_eq!(ended.reason(), v1::ended::Reason::Unknown);
    assert!(ended.message.contains("has ended, and cannot begin again"), "{}", ended.message);
    assert_eq!(late.next().await.unwrap(), None, "the stream ends");
    assert_eq!(json(&server, &["sessions"]), json!([]));
    assert_eq!(json(&server, &["locks"]), json!([]));
}

#[tokio::test]
async fn an_open_that_comes_late_does_not_take_the_session_from_its_stream() {
    let server = Server::start();
    let mut late = [Raw::connect(&server).await, Raw::connect(&server).await];
    let (mut live, answer) = Raw::open(&server, attempt(3, false)).await;
    assert!(is_opened(&answer), "{answer:?}");
    assert!(is_granted(&live.ask(1, acquire("deploy")).await));
    for (late, open) in late.iter_mut().zip([attempt(1, false), attempt(2, true)]) {
        let closed = late.try_opens(open).await.unwrap_err();
        assert_eq!(
            (closed.code(), closed.message()),
            (Code::Unavailable, "a later stream of the session replaced this one")
        );
    }
    assert!(live.is_alive(1).await);
    // A stream with a later attempt takes the session.
    let (mut later, answer) = Raw::open(&server, attempt(4, true)).await;
    assert!(is_opened(&answer), "{answer:?}");
    let replaced = live.next().await.unwrap_err();
    assert_eq!(
        (replaced.code(), replaced.message()),
        (Code::Unavailable, "a later stream of the session replaced this one")
    );
    assert!(matches!(later.ask(2, release(1)).await, v1::answer::Answer::Released(_)));
}

#[tokio::test]
async fn a_session_is_taken_up_again_by_its_own_secret_only() {
    let server = Server::start();
    let with = |secret: Vec<u8>, resume| v1::Open { secret, resume, ..open(7) };
    let (mut live, answer) = Raw::open(&server, with(vec![7; 32], false)).await;
    assert!(is_opened(&answer), "{answer:?}");
    assert!(is_granted(&live.ask(1, acquire("deploy")).await));
    let wrong = [(vec![], true), (vec![8; 32], true), (vec![], false), (vec![8; 32], false)];
    for (number, (secret, resume)) in (1..).zip(wrong) {
        let (mut stranger, answer) = Raw::open(&server, with(secret, resume)).await;
        let Frame::Ended(ended) = &answer else { panic!("{answer:?}") };
        assert_eq!(ended.reason(), v1::ended::Reason::WrongSecret);
        let says = "the session began with another secret: only the client that began it can resume it";
        assert_eq!(ended.message, says);
        assert_eq!(stranger.next().await.unwrap(), None, "the stream ends");
        assert!(live.is_alive(number).await);
        assert_eq!(json(&server, &["lock-info", "deploy"])["holders"][0]["session"], "0000000000000007");
    }
    let (mut again, answer) = Raw::open(&server, with(vec![7; 32], true)).await;
    assert!(is_opened(&answer), "{answer:?}");
    assert!(again.is_alive(1).await);
    assert!(matches!(again.ask(2, release(1)).await, v1::answer::Answer::Released(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_for_much_at_once_does_not_hold_the_others_back() {
    const REQUESTS: u64 = 20_000;
    let server = Server::start();
    let session = Client::connect([&server.address]).await.unwrap().session().open().await.unwrap();
    let (mut raw, answer) = Raw::open(&server, open(7)).await;
    assert!(is_opened(&answer), "{answer:?}");
    let (answered, (begins, begun)) = (Arc::new(AtomicU64::new(0)), oneshot::channel());
    let (count, mut begins) = (Arc::clone(&answered), Some(begins));
    let pipeline = tokio::spawn(async move {
        let ask = |number: u64| if number.is_multiple_of(2) { release(number - 1) } else { acquire("mine") };
        let requests = (1..=REQUESTS).map(|number| (number, ask(number)));
        let answered = |number: u64, answer: v1::answer::Answer| {
            let is_right = match answer {
                v1::answer::Answer::Granted(_) => !number.is_multiple_of(2),
                v1::answer::Answer::Released(_) => number.is_multiple_of(2),
                _ => false,
            };
            assert!(is_right, "{number}: {answer:?}");
            count.store(number, Ordering::Relaxed);
            // The receiver may have been dropped.
            begins.take().map(|begins| begins.send(()));
        };
        raw.pipeline(requests, answered).await;
    });
    begun.await.expect("the pipeline ended before it began");
    for _ in 0..10 {
        session.lock("other").acquire().await.unwrap().release().await.unwrap();
    }
    // A stream has at most 64 requests on their way, so each request of the session waits for few requests of the raw
    // stream.
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered < REQUESTS / 2, "{answered} requests of the raw stream came before 20 of the session");
    pipeline.await.unwrap();
}

/// The server reads no further requests while the client does not read the answers.
#[tokio::test]
async fn a_client_that_reads_late_gets_all_of_its_answers() {
    const REQUESTS: u64 = 15_000;
    let server = Server::start();
    // A small window, so that few answers fit into buffers on the way.
    let to = Channel::from_shared(format!("http://{}", server.address)).unwrap().initial_stream_window_size(65_535);
    let mut raw = Raw::on(&to.connect().await.unwrap()).await;
    assert!(is_opened(&raw.opens(open(7)).await));
    let (frames, (many, sent)) = (raw.frames.clone(), oneshot::channel());
    let asks = tokio::spawn(async move {
        let mut many = Some(many);
        for number in 1..=REQUESTS {
            // An empty name is refused at once.
            frames.send(request(number, acquire(""))).await.unwrap();
            if number == REQUESTS / 20 {
                many.take().map(|many| many.send(()));
            }
        }
    });
    sent.await.expect("many requests are sent before the client reads");
    for number in 1..=REQUESTS {
        raw.answer(number).await;
    }
    asks.await.unwrap();
}
