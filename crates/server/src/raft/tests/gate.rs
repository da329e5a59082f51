//! A disk that waits for the test.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::store::DiskFile;

/// Longer than any wait in these tests, unless the event never comes.
pub(super) const NEVER: Duration = Duration::from_secs(60);

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Create,
    Open,
}

/// A disk on which an operation on some files waits for a message from the test, and panics if none comes.
#[derive(Clone)]
pub(super) struct Gate {
    pub disk: FakeDisk,
    pub at: At,
    /// Names of these files begin with this.
    pub file: &'static str,
    /// Nothing waits before it is set.
    pub is_closed: Arc<AtomicBool>,
    pub entered: mpsc::Sender<()>,
    pub go_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Gate {
    /// Creating a snapshot waits.
    pub fn of_snapshots(disk: FakeDisk, entered: mpsc::Sender<()>, go_on: mpsc::Receiver<()>) -> Gate {
        let (is_closed, go_on) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(go_on)));
        Gate { disk, at: At::Create, file: "snapshot-", is_closed, entered, go_on }
    }

    fn wait(&self, at: At, name: &str) -> io::Result<()> {
        if self.is_closed.load(Ordering::SeqCst) && at == self.at && name.starts_with(self.file) {
            self.entered.send(()).map_err(io::Error::other)?;
            self.go_on.lock().unwrap().recv_timeout(NEVER).expect("the test lets it go on");
        }
        Ok(())
    }
}

impl Disk for Gate {
    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        self.wait(At::Create, name)?;
        self.disk.create(name, length)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk.read(name)
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        self.disk.length(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.wait(At::Open, name)?;
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn is_there(&self) -> bool {
        self.disk.is_there()
    }
}
