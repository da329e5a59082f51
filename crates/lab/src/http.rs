//! The shell: sockets, headers and paths. Everything that decides something is in the other modules.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use baton_protocol::registry::{self, ALGORITHMS};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;

use crate::cache::Cache;
use crate::jobs::{Jobs, Place, Stop};
use crate::limits::{
    BODIES_BYTES_MAX, BODY_BYTES_MAX, CHECK_TIME_MAX, COMPARE_TIME_MAX, DISTANCE_TIME_MAX, MOMENT_BYTES_MAX,
    RUN_TIME_MAX, TRACE_BYTES_MAX, TRACES_BYTES_MAX,
};
use crate::moment::Source;
use crate::room::{Held, Room};
use crate::run::Ran;
use crate::upload::Upload;
use crate::{Refusal, about, assets, body, check, claims, compare, distance, guard, hand, moment, pages, run, upload};

/// Runs that are kept for the next call.
const RUNS_KEPT: usize = 4;
/// Traces that are kept for the next call.
const UPLOADS_KEPT: usize = 2;
/// How long the checker may take to notice that its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// A lab, which may serve several listeners.
#[derive(Clone, Debug)]
pub struct Lab {
    jobs: Jobs,
    /// For requests with a trace.
    large: Room,
    /// For all other requests.
    small: Room,
    runs: Arc<Cache<Ran>>,
    uploads: Arc<Cache<Upload>>,
    claims: Arc<Cache<claims::Answer>>,
}

impl Default for Lab {
    fn default() -> Self {
        Lab {
            jobs: Jobs::default(),
            large: Room::new(TRACES_BYTES_MAX),
            small: Room::new(BODIES_BYTES_MAX),
            runs: Arc::new(Cache::new(RUNS_KEPT)),
            uploads: Arc::new(Cache::new(UPLOADS_KEPT)),
            claims: Arc::new(Cache::new(ALGORITHMS.len())),
        }
    }
}

impl Lab {
    /// Number of jobs whose threads have not ended.
    pub fn jobs_running(&self) -> usize {
        self.jobs.running()
    }
}

/// Serves the lab on a listener until an error ends it.
pub async fn serve(listener: TcpListener, lab: Lab) -> io::Result<()> {
    let address = listener.local_addr()?;
    axum::serve(listener, router(lab, address)).await
}

fn router(lab: Lab, address: SocketAddr) -> Router {
    Router::new()
        .route("/api/about", get(get_about))
        .route("/api/run", post(post_run))
        .route("/api/hand", post(post_hand))
        .route("/api/moment", post(post_moment))
        .route("/api/trace", post(post_trace))
        .route("/api/distance", post(post_distance))
        .route("/api/check", post(post_check))
        .route("/api/compare", post(post_compare))
        .route("/api/algorithms/{name}", get(get_page))
        .route("/api/algorithms/{name}/claims", get(get_claims))
        .route("/api/{*rest}", axum::routing::any(unknown_call))
        .fallback(page)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(address, keep_out))
        .with_state(lab)
}

async fn get_about() -> Result<Response, Refusal> {
    // The first call takes a while.
    let answered = tokio::task::spawn_blocking(|| to_bytes(about::about())).await.map_err(Refusal::fault)?;
    Ok(json_bytes(answered?))
}

async fn post_run(State(lab): State<Lab>, Json(request, _held): Json<run::Request>) -> Result<Response, Refusal> {
    let jobs = lab.jobs.clone();
    let answered = jobs.run(RUN_TIME_MAX, move |stop| to_bytes(&lab.ran(&request, stop)?.answer()));
    Ok(json_bytes(answered.await?))
}

async fn post_hand(State(lab): State<Lab>, Json(request, _held): Json<hand::Request>) -> Result<Response, Refusal> {
    let answered = lab.jobs.run(RUN_TIME_MAX, move |_| to_bytes(&hand::drive(&request)?));
    Ok(json_bytes(answered.await?))
}

async fn post_moment(State(lab): State<Lab>, request: Request) -> Result<Response, Refusal> {
    check_type(request.headers(), "application/json")?;
    let (text, _held, place) = lab.read_large(request.into_body(), MOMENT_BYTES_MAX).await?;
    // Reading 128 MiB of JSON is work for a job, too.
    let answered = Jobs::run_at(place, RUN_TIME_MAX, move |stop| {
        let (source, seq) = body::read::<moment::Request>(&text)?.source()?;
        drop(text);
        match source {
            Source::Spec(spec) => {
                let ran = lab.ran(&run::Request { spec: *spec }, stop)?;
                to_bytes(&moment::moment(&ran.header, &ran.records, seq)?)
            }
            Source::Trace(text) => {
                let read = lab.read(text.as_bytes())?;
                to_bytes(&moment::moment(&read.header, &read.records, seq)?)
            }
            Source::Upload(id) => {
                let forgotten = || Refusal::not_found("the lab has forgotten this trace; upload it again");
                let read = lab.uploads.get(&id).ok_or_else(forgotten)?;
                to_bytes(&moment::moment(&read.header, &read.records, seq)?)
            }
        }
    });
    Ok(json_bytes(answered.await?))
}

async fn post_trace(State(lab): State<Lab>, request: Request) -> Result<Response, Refusal> {
    check_type(request.headers(), "application/x-ndjson")?;
    let (text, _held, place) = lab.read_large(request.into_body(), TRACE_BYTES_MAX).await?;
    let answered = Jobs::run_at(place, RUN_TIME_MAX, move |_| to_bytes(&lab.read(&text)?.answer()));
    Ok(json_bytes(answered.await?))
}

async fn post_distance(
    State(lab): State<Lab>,
    Json(request, _held): Json<distance::Request>,
) -> Result<Response, Refusal> {
    // The checker looks at its own clock, and gives an answer when its time is over.
    let time = DISTANCE_TIME_MAX + GRACE;
    let answered = lab.jobs.run(time, move |stop| to_bytes(&distance::distance(&request, stop)?));
    Ok(json_bytes(answered.await?))
}

async fn post_check(State(lab): State<Lab>, Json(request, _held): Json<check::Request>) -> Result<Response, Refusal> {
    let time = CHECK_TIME_MAX + GRACE;
    let lines = lab.jobs.stream(time, move |stop, progress| check::check(&request, stop, Some(progress))).await?;
    Ok(json_lines(lines))
}

async fn post_compare(
    State(lab): State<Lab>,
    Json(request, _held): Json<compare::Request>,
) -> Result<Response, Refusal> {
    let work = move |stop: &Stop, progress| compare::compare(&request, stop, &progress);
    Ok(json_lines(lab.jobs.stream(COMPARE_TIME_MAX, work).await?))
}

async fn get_claims(State(lab): State<Lab>, Path(name): Path<String>) -> Result<Response, Refusal> {
    let known = registry::find(&name).map_err(Refusal::not_found)?.name;
    let jobs = lab.jobs.clone();
    let answered = jobs.run(COMPARE_TIME_MAX, move |stop| {
        if let Some(claims) = lab.claims.get(known) {
            return to_bytes(&*claims);
        }
        let claims = Arc::new(claims::claims(known, stop)?);
        lab.claims.put(known.into(), Arc::clone(&claims));
        to_bytes(&*claims)
    });
    Ok(json_bytes(answered.await?))
}

async fn get_page(Path(name): Path<String>) -> Result<Response, Refusal> {
    let answered = tokio::task::spawn_blocking(move || to_bytes(&pages::page(&name)?)).await.map_err(Refusal::fault)?;
    Ok(json_bytes(answered?))
}

impl Lab {
    /// Reads a body that may be large. A large one takes the place of a job first, so there are never more of them than
    /// jobs. A small one takes it afterwards, so that slow senders of small bodies hold up no job.
    async fn read_large(&self, body: Body, bytes_max: usize) -> Result<(Vec<u8>, Held, Place), Refusal> {
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= BODY_BYTES_MAX as u64);
        let first = if is_small { None } else { Some(self.jobs.place().await?) };
        let (text, held) = self.large.read(body, bytes_max).await?;
        let place = match first {
            Some(place) => place,
            None => self.jobs.place().await?,
        };
        Ok((text, held, place))
    }

    /// A trace, from the cache if it is there.
    fn read(&self, text: &[u8]) -> Result<Arc<Upload>, Refusal> {
        let id = upload::id(text);
        if let Some(upload) = self.uploads.get(&id) {
            return Ok(upload);
        }
        let read = Arc::new(upload::read(text)?);
        self.uploads.put(id, Arc::clone(&read));
        Ok(read)
    }

    /// The run of a request, from the cache if it is there.
    fn ran(&self, request: &run::Request, stop: &Stop) -> Result<Arc<Ran>, Refusal> {
        let key = format!("{:?}", request.spec);
        if let Some(ran) = self.runs.get(&key) {
            return Ok(ran);
        }
        let ran = Arc::new(run::run(&request.spec, stop)?);
        self.runs.put(key, Arc::clone(&ran));
        Ok(ran)
    }
}

async fn unknown_call(uri: Uri) -> Refusal {
    Refusal::not_found(format!("the lab has no call {}", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let right = if method == Method::GET { "POST" } else { "GET" };
    let why = format!("{} does not take {method}; use {right}", uri.path());
    Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why }
}

async fn page(method: Method, uri: Uri) -> Result<Response, Refusal> {
    if method != Method::GET && method != Method::HEAD {
        return Err(Refusal::not_found(format!("the lab has no call {}", uri.path())));
    }
    let path = uri.path().trim_start_matches('/');
    let (data, kind) = assets::page_file(path).ok_or_else(|| Refusal::not_found("the lab has no such file"))?;
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, data).into_response())
}

/// Refuses foreign requests, and adds the headers that keep a page from doing more than it should.
async fn keep_out(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let mut response = match check_origin(address, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check_origin(address: SocketAddr, request: &Request) -> Result<(), Refusal> {
    let is_twice = |name| request.headers().get_all(name).iter().count() > 1;
    if is_twice(header::HOST) || is_twice(header::ORIGIN) {
        return Err(Refusal::bad("the request has two hosts or origins"));
    }
    let text = |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    // A request may name its host in the first line, too.
    if let (Some(line), Some(host)) = (request.uri().authority(), text(header::HOST))
        && line.as_str() != host
    {
        return Err(Refusal::bad("the request has two hosts"));
    }
    guard::check(address, text(header::HOST), text(header::ORIGIN))
}

const SECURITY: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(&serde_json::json!({ "error": self.why }));
        *response.status_mut() = self.status;
        response
    }
}

fn to_bytes(value: &impl Serialize) -> Result<Bytes, Refusal> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Refusal::fault)
}

fn json(value: &impl Serialize) -> Response {
    match to_bytes(value) {
        Ok(bytes) => json_bytes(bytes),
        Err(refusal) => (refusal.status, refusal.why).into_response(),
    }
}

fn json_bytes(bytes: Bytes) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from(bytes)).into_response()
}

fn json_lines(lines: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    (headers, lines).into_response()
}

/// The body of a request, read as JSON. A browser sends this type to another site only after asking, which is refused.
/// The body takes room until the call is answered.
struct Json<T>(T, Held);

impl<T: DeserializeOwned> FromRequest<Lab> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, lab: &Lab) -> Result<Self, Refusal> {
        check_type(request.headers(), "application/json")?;
        let (text, held) = lab.small.read(request.into_body(), BODY_BYTES_MAX).await?;
        Ok(Json(body::read(&text)?, held))
    }
}

fn check_type(headers: &HeaderMap, right: &str) -> Result<(), Refusal> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case(right) {
        true => Ok(()),
        false => Err(Refusal::bad(format!("the content-type of this call must be {right}"))),
    }
}
