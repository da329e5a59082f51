//! The runtime for openraft.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

use openraft::impls::TokioRuntime;
use openraft::{AsyncRuntime, OptionalSend};
use rand_core::{Rng, TryRng};

use crate::simulation;
use crate::{Elapsed, Instant, JoinError, JoinHandle, Sleep, Timeout};

/// openraft's tasks and timers come from this crate. Its channels and locks are those of tokio, which need no runtime.
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

/// The random numbers of openraft: they decide when a follower wants to lead.
#[derive(Debug)]
pub struct Random;

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let simulated = simulation::running(|world| world.random());
        Ok(simulated.unwrap_or_else(|| TokioRuntime::thread_rng().next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}

impl AsyncRuntime for Runtime {
    type JoinError = JoinError;
    type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = Random;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        crate::spawn(future)
    }

    fn sleep(duration: Duration) -> Sleep {
        crate::sleep(duration)
    }

    fn sleep_until(deadline: Instant) -> Sleep {
        crate::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timeout<F> {
        crate::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Instant, future: F) -> Timeout<F> {
        crate::timeout_at(deadline, future)
    }

    fn is_panic(error: &JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> Random {
        Random
    }

    fn new(threads: usize) -> Self {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    async fn spawn_blocking<F, T>(work: F) -> Result<T, io::Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        crate::spawn_blocking(work).await.map_err(io::Error::other)
    }
}
