//! Long work in threads of its own: only a few at a time, each with a limit of time. A job is told to stop when its time
//! is over or its caller is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;

use crate::Refusal;
use crate::limits::{JOB_WAIT_MAX, JOBS_MAX};

/// Tells a job to stop. The job looks at it from time to time.
pub type Stop = Arc<AtomicBool>;

/// Lines of progress that a slow reader has not taken yet.
const LINES_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct Jobs {
    places: Arc<Semaphore>,
    /// How long a call waits for a place.
    wait: Duration,
}

impl Default for Jobs {
    fn default() -> Self {
        Jobs { places: Arc::new(Semaphore::new(JOBS_MAX)), wait: JOB_WAIT_MAX }
    }
}

/// The place of a job among all jobs.
pub type Place = OwnedSemaphorePermit;

/// Sets `stop` when it is dropped: the caller has gone, or has its answer.
struct Leash(Stop);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Jobs {
    /// Number of jobs whose threads have not ended.
    pub fn running(&self) -> usize {
        JOBS_MAX - self.places.available_permits()
    }

    /// Runs `work` in a thread and returns its answer. Dropping the future stops the job.
    pub async fn run<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce(&Stop) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        Jobs::run_at(self.place().await?, time, work).await
    }

    /// Like [`Jobs::run`], at a place that the caller has taken.
    pub async fn run_at<T: Send + 'static>(
        place: Place,
        time: Duration,
        work: impl FnOnce(&Stop) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let leash = Leash(Stop::default());
        let stop = Arc::clone(&leash.0);
        let (sender, answer) = oneshot::channel();
        spawn(place, move || {
            // If the caller is gone, nobody reads the answer.
            _ = sender.send(work(&stop));
        })?;
        match timeout(time, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(fault()),
            Err(_) => Err(too_long(time)),
        }
    }

    /// Runs `work` in a thread. The answer is a stream of JSON lines: any number of `{"progress": ...}`, then one
    /// `{"result": ...}` or `{"error": ...}`. Dropping the stream stops the job.
    pub async fn stream<T: Serialize + Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce(&Stop, Progress) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Body, Refusal> {
        let place = self.place().await?;
        let leash = Leash(Stop::default());
        let stop = Arc::clone(&leash.0);
        let (sender, lines) = mpsc::channel(LINES_MAX);
        spawn(place, move || {
            let last = match work(&stop, Progress(sender.clone())) {
                Ok(result) => line(&json!({ "result": result })),
                Err(refusal) => line(&json!({ "error": refusal.why })),
            };
            _ = sender.blocking_send(last);
        })?;
        let over = tokio::time::Instant::now() + time;
        let lines = futures::stream::unfold((ReceiverStream::new(lines), leash, false), move |state| async move {
            let (mut lines, leash, is_over) = state;
            if is_over {
                return None;
            }
            match timeout_at(over, lines.next()).await {
                Ok(line) => line.map(|line| (line, (lines, leash, false))),
                Err(_) => Some((line(&json!({ "error": too_long(time).why })), (lines, leash, true))),
            }
        });
        Ok(Body::from_stream(lines.map(Ok::<Bytes, std::convert::Infallible>)))
    }

    /// Waits for the place of a job, but not for long.
    pub async fn place(&self) -> Result<Place, Refusal> {
        let busy = || Refusal::busy("the lab is busy with other runs; stop one of them, or try again in a while");
        let place = timeout(self.wait, Arc::clone(&self.places).acquire_owned()).await.map_err(|_| busy())?;
        place.map_err(|_| busy())
    }
}

/// The thread keeps its place until it ends.
fn spawn(place: Place, work: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
    let job = move || {
        let _place = place;
        work();
    };
    let spawned = thread::Builder::new().name("lab-job".into()).spawn(job);
    spawned.map(|_| ()).map_err(|error| Refusal::busy(format!("cannot start a thread: {error}")))
}

fn too_long(time: Duration) -> Refusal {
    let seconds = time.as_secs();
    Refusal::bad(format!(
        "this takes longer than {seconds} seconds and was stopped; ask for less, or use the command line"
    ))
}

/// The thread has ended without an answer: it has panicked.
fn fault() -> Refusal {
    Refusal::fault("the lab has failed at this request, which is a fault of the lab; please report it")
}

/// Tells the caller how far a job has come.
#[derive(Clone, Debug)]
pub struct Progress(mpsc::Sender<Bytes>);

impl Progress {
    /// A reader that is too slow misses lines. Returns false if the caller has gone.
    pub fn tell(&self, progress: &impl Serialize) -> bool {
        let sent = self.0.try_send(line(&json!({ "progress": progress })));
        !matches!(sent, Err(TrySendError::Closed(_)))
    }
}

fn line(value: &serde_json::Value) -> Bytes {
    let mut text = value.to_string();
    text.push('\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_stopped(stop: &Stop) -> Result<(), Refusal> {
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        Ok(())
    }

    async fn until_none_runs(jobs: &Jobs) {
        // All places are free only when all threads have ended.
        let all = jobs.places.acquire_many(JOBS_MAX as u32).await.unwrap();
        drop(all);
        assert_eq!(jobs.running(), 0);
    }

    #[tokio::test]
    async fn a_job_answers_from_its_thread() {
        let jobs = Jobs::default();
        assert_eq!(jobs.run(Duration::from_secs(60), |_| Ok(7)).await, Ok(7));
        let refused = jobs.run(Duration::from_secs(60), |_| Err::<(), _>(Refusal::bad("no"))).await;
        assert_eq!(refused, Err(Refusal::bad("no")));
        until_none_runs(&jobs).await;
    }

    #[tokio::test]
    async fn a_job_that_takes_too_long_is_stopped() {
        let jobs = Jobs::default();
        let refused = jobs.run(Duration::from_millis(1), until_stopped).await.unwrap_err();
        assert!(refused.why.starts_with("this takes longer than"), "{}", refused.why);
        until_none_runs(&jobs).await;
    }

    #[tokio::test]
    async fn a_job_without_a_caller_is_stopped() {
        let jobs = Jobs::default();
        let (started, has_started) = oneshot::channel();
        let job = jobs.run(Duration::from_secs(3600), move |stop| {
            started.send(()).unwrap();
            until_stopped(stop)
        });
        tokio::select! {
            _ = job => panic!("nobody has stopped it"),
            _ = has_started => {}
        }
        until_none_runs(&jobs).await;
    }

    #[tokio::test]
    async fn a_stream_without_a_reader_stops_its_job() {
        let jobs = Jobs::default();
        let body = jobs.stream(Duration::from_secs(3600), |stop, _| until_stopped(stop)).await.unwrap();
        drop(body);
        until_none_runs(&jobs).await;
    }

    #[tokio::test]
    async fn a_stream_tells_its_progress_and_then_its_result() {
        let jobs = Jobs::default();
        let work = |_: &Stop, progress: Progress| {
            progress.tell(&1);
            Ok(2)
        };
        let body = jobs.stream(Duration::from_secs(60), work).await.unwrap();
        let bytes = axum::body::to_bytes(body, 1_000).await.unwrap();
        assert_eq!(bytes, "{\"progress\":1}\n{\"result\":2}\n");
        let body = jobs.stream(Duration::from_millis(1), |stop, _| until_stopped(stop)).await.unwrap();
        let bytes = axum::body::to_bytes(body, 1_000).await.unwrap();
        assert!(bytes.starts_with(b"{\"error\":\"this takes longer than"), "{bytes:?}");
    }

    #[tokio::test]
    async fn a_job_that_panics_is_a_fault_and_frees_its_place() {
        let jobs = Jobs::default();
        let refused = jobs.run(Duration::from_secs(60), |_| -> Result<(), Refusal> { panic!("on purpose") }).await;
        assert_eq!(refused, Err(fault()));
        until_none_runs(&jobs).await;
    }

    #[tokio::test]
    async fn too_many_jobs_are_refused() {
        let jobs = Jobs { wait: Duration::from_millis(1), ..Jobs::default() };
        let mut bodies = Vec::new();
        for _ in 0..JOBS_MAX {
            bodies.push(jobs.stream(Duration::from_secs(3600), |stop, _| until_stopped(stop)).await.unwrap());
        }
        assert_eq!(jobs.running(), JOBS_MAX);
        let refused = jobs.run(Duration::from_secs(60), |_| Ok(())).await.unwrap_err();
        assert!(refused.why.starts_with("the lab is busy"), "{}", refused.why);
        drop(bodies);
        until_none_runs(&jobs).await;
    }
}
