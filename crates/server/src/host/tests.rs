//! The front end on a real log: clients receive its frames in order, and nothing is left behind.

use std::sync::RwLock;

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{self, Open, Request, Secret, ToClient};
use baton_types::limits::NAME_BYTES_MAX;
use baton_types::locks::{Acquire, Answer, Mode, Operation};
use baton_types::refusal::{Refusal, RefusalCode};
use prost::Message;
use tokio::sync::mpsc;

use super::*;
use crate::frontend::Closing;
use crate::listing::ListLocks;
use crate::replica::{Role, Status};
use crate::state::Outcome;
use crate::store::fake::FakeDisk;

/// Longer than any wait in these tests.
const LONG: Duration = Duration::from_secs(60);

async fn host(disk: &FakeDisk) -> Arc<Host> {
    let host = Host::open(Arc::new(disk.clone()), ServerLimits::default(), Options::default()).await.unwrap();
    tokio::time::timeout(LONG, host.until_leads()).await.expect("it leads").unwrap();
    Arc::new(host)
}

struct TestClient<R: Replica = Node> {
    stream: Stream<R>,
    heard: Heard,
}

impl<R: Replica> TestClient<R> {
    async fn open(host: &Host<R>, session: u64) -> Self {
        let (stream, heard) = host.stream(ConnectionId(session), None);
        let mut client = TestClient { stream, heard };
        let cluster = Some(host.shell.replica().cluster_id());
        let (label, host, secret) = (String::new(), String::new(), Some(Secret([1; 32])));
        let open =
            Open { session, attempt: 1, ttl_ms: 10_000, label, host, pid: 0, resume: false, secret, cluster: None };
        client.stream.hears(Ok(ToServer::Open(open))).await;
        assert_eq!(client.next().await, ToClient::Opened { session, ttl_ms: 10_000, cluster, closed_ms: 0 });
        client
    }

    async fn next(&mut self) -> ToClient {
        let next = tokio::time::timeout(LONG, self.heard.recv()).await.expect("something is said");
        next.expect("the stream goes on").expect("it is not closed")
    }

    async fn request(&mut self, number: u64, operation: impl Into<frames::Operation>) {
        let operation = operation.into();
        let (seen, missing) = (number - 1, Vec::new());
        self.stream.hears(Ok(ToServer::Request(Request { number, seen, missing, operation }))).await;
    }

    async fn answer(&mut self, number: u64, operation: impl Into<frames::Operation>) -> frames::Answer {
        self.request(number, operation).await;
        match self.next().await {
            ToClient::Answer { number: to, answer } if to == number => answer,
            other => panic!("{other:?}"),
        }
    }
}

fn acquire(name: &str) -> Operation {
    let (name, mode, owner) = (name.as_bytes().to_vec(), Mode::Exclusive, fastrand::u64(..));
    Operation::Acquire(Acquire { name, mode, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 })
}

#[tokio::test]
async fn on_a_full_disk_locks_are_given_back_and_not_given_out() {
    let disk = FakeDisk::default();
    let host = host(&disk).await;
    let mut client = TestClient::open(&host, 7).await;
    assert_eq!(client.answer(1, acquire("a")).await, Answer::Granted { fence: 1 }.into());
    let accepts = || *host.accepts().borrow();
    assert!(!host.own_status().low_space && accepts());
    disk.set_full(true);
    host.look_at_space();
    assert_eq!((host.own_status().low_space, host.own_status().free_bytes), (true, Some(0)));
    assert!(!accepts() && *host.leads().borrow(), "health tells it, and leases go on");
    let says = "the server has too little free space: 0 MiB, and it needs 64 MiB";
    let low = Refusal::new(RefusalCode::LowSpace, says);
    assert_eq!(client.answer(2, acquire("b")).await, frames::Answer::Refused(low));
    assert_eq!(client.answer(3, Operation::Release { acquire: 1 }).await, Answer::Released.into());
    disk.set_full(false);
    host.look_at_space();
    assert_eq!(client.answer(4, acquire("b")).await, Answer::Granted { fence: 2 }.into());
    host.shutdown().await;
}

/// The shell stops reading while too many requests are parked, and goes on when there is room.
#[tokio::test]
async fn a_client_that_pipelines_gets_all_of_its_answers_in_order() {
    const REQUESTS: u64 = 500;
    let host = host(&FakeDisk::default()).await;
    let TestClient { mut stream, mut heard } = TestClient::open(&host, 7).await;
    let asks = tokio::spawn(async move {
        for number in 1..=REQUESTS {
            let (seen, missing, operation) = (number - 1, Vec::new(), acquire(&format!("lock {number}")));
            stream.hears(Ok(ToServer::Request(Request { number, seen, missing, operation: operation.into() }))).await;
        }
        stream
    });
    for number in 1..=REQUESTS {
        let next = tokio::time::timeout(LONG, heard.recv()).await.expect("an answer");
        let granted = ToClient::Answer { number, answer: Answer::Granted { fence: number }.into() };
        assert_eq!(next, Some(Ok(granted)));
    }
    drop(asks.await.unwrap());
    assert!(host.shell.inner().streams.is_empty(), "a stream that is dropped is gone");
    host.shutdown().await;
}

#[tokio::test]
async fn a_stop_ends_every_stream_and_every_lease_and_answers_every_call() {
    let host = host(&FakeDisk::default()).await;
    let mut client = TestClient::open(&host, 7).await;
    host.stop();
    let said = tokio::time::timeout(LONG, client.heard.recv()).await.unwrap();
    assert_eq!(said, Some(Err(Closing::Stopping)));
    tokio::time::timeout(LONG, client.stream.ended()).await.unwrap();
    assert_eq!(host.shell.inner().frontend.next_wake(), None);
    let refused = host.sessions(&[], Reading::Linearizable).await.unwrap_err();
    assert_eq!(refused, CallError::Unavailable("the server is stopping".to_owned()));
    host.shutdown().await;
    // The session is still in the state.
    assert_eq!(host.shell.with_state(|state| state.counts().sessions), 1);
}

#[tokio::test]
async fn calls_that_make_no_sense_are_told_so() {
    let host = host(&FakeDisk::default()).await;
    let invalid = |error: CallError| matches!(error, CallError::Invalid(_));
    assert!(invalid(host.lock(b"", &[], Reading::Local).await.unwrap_err()));
    assert!(invalid(host.force(&[b'x'; 513], false, None).await.unwrap_err()));
    assert!(invalid(host.sessions(b"no page", Reading::Local).await.unwrap_err()));
    let bad_page = ListLocks { page: b"no page".to_vec(), ..ListLocks::default() };
    assert!(invalid(host.locks(&bad_page, Reading::Linearizable).await.unwrap_err()));
    assert_eq!(host.force(b"free", true, None).await, Ok(Vec::new()));
    assert_eq!(host.status().await.role, "leader");
    assert!(*host.leads().borrow());
    host.shutdown().await;
}

/// A replica whose leadership the test decides. It applies each entry at once.
struct Obedient {
    state: Arc<RwLock<State>>,
    entries: mpsc::UnboundedSender<(u64, Entry)>,
    leadership: watch::Receiver<Leadership>,
}

impl Obedient {
    fn start(leadership: watch::Receiver<Leadership>, reports: Reports<Self>) -> Self {
        let state = Arc::<RwLock<State>>::default();
        let (entries, mut submitted) = mpsc::unbounded_channel::<(u64, Entry)>();
        let applied = state.clone();
        tokio::spawn(async move {
            let mut index = 0;
            while let Some((term, entry)) = submitted.recv().await {
                index += 1;
                let mut outcome = Outcome::default();
                let mut state = applied.write().unwrap();
                state.apply(index, entry.now_ms, &entry.commands[0], &mut outcome);
                reports.applied(term, &entry, &outcome, &state);
            }
        });
        Obedient { state, entries, leadership }
    }
}

impl Replica for Obedient {
    fn submit(&self, term: u64, entry: Entry) {
        self.entries.send((term, entry)).unwrap();
    }

    async fn read_index(&self) -> bool {
        true
    }

    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    fn status(&self) -> Status {
        Status { node: 1, role: Role::Leader, term: 1, commit: 0, applied: 0 }
    }

    fn cluster_id(&self) -> ClusterId {
        ClusterId::MIN
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn failure(&self) -> Option<String> {
        None
    }

    async fn shutdown(&self) {}
}

/// A leader without a majority may go on in the same term, but no stream and no lease goes on with it.
#[tokio::test]
async fn a_leader_that_lost_its_majority_for_a_moment_begins_to_lead_again() {
    let (tell, leadership) = watch::channel(Leadership::DoesNotLead { leader: None });
    let open = async |reports| Ok::<_, OpenError>(Obedient::start(leadership, reports));
    let host = Arc::new(Host::start(ServerLimits::default(), open).await.unwrap());
    let runs = tokio::spawn({
        let host = host.clone();
        async move { host.run().await }
    });
    let mut leads = host.leads();
    assert!(!*leads.borrow_and_update(), "a host starts before it leads");
    tell.send_replace(Leadership::Leads { term: 3 });
    tokio::time::timeout(LONG, leads.wait_for(|leads| *leads)).await.expect("it leads").unwrap();
    let mut client = TestClient::open(&host, 7).await;
    // The host sees only the last of these two.
    tell.send_replace(Leadership::DoesNotLead { leader: None });
    tell.send_replace(Leadership::Leads { term: 3 });
    let said = tokio::time::timeout(LONG, client.heard.recv()).await.expect("the stream ends");
    assert_eq!(said, Some(Err(Closing::NotLeading)));
    tokio::time::timeout(LONG, leads.wait_for(|leads| *leads)).await.expect("it leads again").unwrap();
    let mut client = TestClient::open(&host, 8).await;
    assert_eq!(client.answer(1, acquire("a")).await, Answer::Granted { fence: 1 }.into());
    runs.abort();
}

/// The longest names, so that their escaped form is long too.
fn long_name(number: u64) -> Vec<u8> {
    let mut name = vec![0xff; NAME_BYTES_MAX];
    name[..8].copy_from_slice(&number.to_be_bytes());
    name
}

fn of_owner(owner: u64, name: Vec<u8>) -> Operation {
    let (mode, parent, timeout_ms) = (Mode::Exclusive, None, None);
    Operation::Acquire(Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms: 0 })
}

/// A host over a replica that leads and applies each entry at once.
async fn obedient_host() -> Host<Obedient> {
    let (tell, leadership) = watch::channel(Leadership::Leads { term: 3 });
    let open = async |reports| Ok::<_, OpenError>(Obedient::start(leadership, reports));
    let host = Host::start(ServerLimits::default(), open).await.unwrap();
    host.tell(Leadership::Leads { term: 3 });
    tokio::time::timeout(LONG, host.leads().wait_for(|leads| *leads)).await.expect("it leads").unwrap();
    drop(tell);
    host
}

/// The client repeats an acquire that is refused as a deadlock, and does not read the refusals. They are as long as
/// refusals can be.
#[tokio::test]
async fn a_client_that_does_not_read_its_refusals_costs_few_bytes() {
    const OWNERS: u64 = 32;
    let host = obedient_host().await;
    let mut client = TestClient::open(&host, 7).await;
    for owner in 1..=OWNERS {
        let granted = client.answer(owner, of_owner(owner, long_name(owner))).await;
        assert_eq!(granted, Answer::Granted { fence: owner }.into());
    }
    for owner in 1..OWNERS {
        client.request(OWNERS + owner, of_owner(owner, long_name(owner + 1))).await;
    }
    for _ in 0..1_000 {
        client.request(2 * OWNERS, of_owner(OWNERS, long_name(1))).await;
    }
    let mut bytes = 0;
    let end = loop {
        match tokio::time::timeout(LONG, client.heard.recv()).await.expect("the stream ends") {
            Some(Ok(said)) => bytes += baton_api::convert::to_client(said).encoded_len(),
            end => break end,
        }
    };
    assert_eq!(end, Some(Err(Closing::Slow)));
    assert!((64 << 10..=256 << 10).contains(&bytes), "{bytes} bytes waited for a client that does not read");
}

/// The server does not read on while much is unread, so the client gets every answer.
#[tokio::test]
async fn a_client_that_reads_late_gets_all_of_its_answers() {
    const REQUESTS: u64 = 10_000;
    let host = obedient_host().await;
    let mut client = TestClient::open(&host, 7).await;
    let mut stream = client.stream;
    let asks = tokio::spawn(async move {
        for number in 1..=REQUESTS {
            // An empty name is refused at once.
            let (seen, missing, operation) = (number - 1, Vec::new(), acquire(""));
            stream.hears(Ok(ToServer::Request(Request { number, seen, missing, operation: operation.into() }))).await;
        }
        stream
    });
    // The other task runs until it can read no more.
    tokio::task::yield_now().await;
    assert!(!asks.is_finished());
    for number in 1..=REQUESTS {
        let next = tokio::time::timeout(LONG, client.heard.recv()).await.expect("an answer");
        assert!(matches!(next, Some(Ok(ToClient::Answer { number: to, .. })) if to == number), "{number}: {next:?}");
    }
    drop(asks.await.unwrap());
}
