//! What the api lets through, on a disk that has no room left.

use std::path::Path;
use std::sync::Arc;

use baton_proto::v1;
use tokio::sync::mpsc;

use super::locks::request;
use super::service::Service;
use crate::state::sessions::{self, Open};
use crate::state::{Caller, SessionId};
use crate::store::fake::FakeDisk;

const SESSION: SessionId = SessionId(7);

fn acquire(number: u64, name: &str) -> v1::Request {
    let acquire = v1::Acquire { name: name.into(), mode: v1::Mode::Exclusive.into(), ..v1::Acquire::default() };
    let operation = Some(v1::request::Operation::Acquire(acquire));
    v1::Request { number, seen: number - 1, missing: vec![], operation }
}

/// The next answer: its number, and whether it is a refusal, and why.
async fn next(answers: &mut mpsc::Receiver<Result<v1::ServerFrame, tonic::Status>>) -> (u64, Option<v1::Refusal>) {
    let frame = answers.recv().await.unwrap().unwrap().frame;
    let Some(v1::server_frame::Frame::Answer(v1::Answer { number, answer })) = frame else { panic!("{frame:?}") };
    match answer {
        Some(v1::answer::Answer::Refused(refused)) => (number, Some(refused.refusal())),
        _ => (number, None),
    }
}

#[tokio::test]
async fn on_a_full_disk_locks_are_given_back_and_not_given_out() {
    let disk = FakeDisk::default();
    let service = Service::open_on(Arc::new(disk.clone()), Path::new("/data"), String::new()).await.unwrap();
    let (outgoing, mut answers) = mpsc::channel(16);
    let _attached = service.desk.attach(SESSION, outgoing.clone());
    let open = Open {
        session: SESSION,
        ttl_ms: 10_000,
        label: String::new(),
        host: String::new(),
        pid: 0,
        resume: false,
        secret_hash: None,
        caller: Caller::default(),
    };
    service.propose(sessions::Command::Open(open).into()).await.unwrap().await.unwrap();
    request(&service, SESSION, &Caller::default(), acquire(1, "a"), &outgoing).await.unwrap();
    assert_eq!(next(&mut answers).await, (1, None));

    assert_eq!(service.low_space(), None);
    disk.set_full(true);
    service.look_at_space();
    let says = "too little free space in /data of the server: 0 bytes, and 67108864 are needed";
    assert_eq!(service.low_space().as_deref(), Some(says));
    request(&service, SESSION, &Caller::default(), acquire(2, "b"), &outgoing).await.unwrap();
    assert_eq!(next(&mut answers).await, (2, Some(v1::Refusal::LowSpace)));
    let operation = Some(v1::request::Operation::Release(v1::Release { acquire: 1 }));
    let release = v1::Request { number: 3, seen: 2, missing: vec![], operation };
    request(&service, SESSION, &Caller::default(), release, &outgoing).await.unwrap();
    assert_eq!(next(&mut answers).await, (3, None));
    assert_eq!(service.node.state().counts().holders, 0);

    disk.set_full(false);
    service.look_at_space();
    request(&service, SESSION, &Caller::default(), acquire(4, "b"), &outgoing).await.unwrap();
    assert_eq!(next(&mut answers).await, (4, None));
}
