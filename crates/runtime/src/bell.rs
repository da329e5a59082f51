//! A thread wakes a task.
//!
//! A channel of tokio could do it. But for a task that is woken from outside of tokio, tokio wakes one worker to search for the
//! task, and then a second one, in case there is more to find. A bell is a socket, so it wakes one worker, like any other
//! message from outside.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use crate::simulation;

/// Held by the thread.
#[derive(Debug)]
pub struct Ringer(Rings);

#[derive(Debug)]
enum Rings {
    System(UnixStream),
    Simulated(mpsc::Sender<()>),
}

/// Held by the task.
#[derive(Debug)]
pub struct Bell(Hears);

#[derive(Debug)]
enum Hears {
    System(tokio::net::UnixStream),
    Simulated(mpsc::Receiver<()>),
}

/// Must be called inside tokio's runtime or a simulation.
pub fn bell() -> io::Result<(Ringer, Bell)> {
    if simulation::is_running() {
        let (rings, hears) = mpsc::channel(1);
        return Ok((Ringer(Rings::Simulated(rings)), Bell(Hears::Simulated(hears))));
    }
    let (rings, hears) = UnixStream::pair()?;
    rings.set_nonblocking(true)?;
    hears.set_nonblocking(true)?;
    Ok((Ringer(Rings::System(rings)), Bell(Hears::System(tokio::net::UnixStream::from_std(hears)?))))
}

impl Ringer {
    /// Wakes the task, now or as soon as it waits. Several rings may wake it once. Fails if the bell is gone.
    pub fn ring(&self) -> io::Result<()> {
        match &self.0 {
            Rings::System(socket) => loop {
                match (&*socket).write(&[0]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // It is full of rings that the task has not heard yet.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    rung => return rung.map(drop),
                }
            },
            Rings::Simulated(sender) => match sender.try_send(()) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(())) => Ok(()),
                Err(mpsc::error::TrySendError::Closed(())) => Err(ErrorKind::BrokenPipe.into()),
            },
        }
    }
}

impl Bell {
    /// Waits for a ring. False if the ringer is gone.
    pub async fn rings(&mut self) -> io::Result<bool> {
        match &mut self.0 {
            Hears::System(socket) => Ok(socket.read(&mut [0; 64]).await? > 0),
            Hears::Simulated(receiver) => Ok(receiver.recv().await.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More rings than the socket holds.
    const RINGS: usize = 1_000_000;

    #[tokio::test]
    async fn a_bell_keeps_the_rings_before_it_is_heard_and_ends_with_its_ringer() {
        let (ringer, mut bell) = bell().unwrap();
        let rang = std::thread::spawn(move || {
            (0..RINGS).for_each(|_| ringer.ring().unwrap());
            ringer
        });
        assert!(bell.rings().await.unwrap());
        drop(rang.join().unwrap());
        // What was not heard yet, and then the end.
        while bell.rings().await.unwrap() {}
    }

    #[tokio::test]
    async fn a_ringer_notices_that_nobody_hears_it() {
        let (ringer, bell) = bell().unwrap();
        drop(bell);
        assert_eq!(ringer.ring().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
