//! Measures the disk and the network alone. No server can be faster than these.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

/// The time of a durable append to a file.
pub fn synced_append_us(folder: &Path) -> Result<f64, String> {
    const APPENDS: u32 = 2000;
    let failed = |error: io::Error| format!("{} cannot be written to: {error}", folder.display());
    let mut file = File::create(folder.join("appends")).map_err(failed)?;
    let start = Instant::now();
    for _ in 0..APPENDS {
        file.write_all(&[1; 200]).and_then(|()| file.sync_data()).map_err(failed)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(APPENDS))
}

/// The time of a round trip of one byte between two threads over TCP.
pub fn tcp_round_trip_us() -> Result<f64, String> {
    round_trip_us().map_err(|error| format!("TCP on this machine: {error}"))
}

fn round_trip_us() -> io::Result<f64> {
    const ROUND_TRIPS: u32 = 5000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    let echo = move || -> io::Result<()> {
        let mut byte = [0];
        while there.read(&mut byte)? == 1 {
            there.write_all(&byte)?;
        }
        Ok(())
    };
    let echo = thread::spawn(echo);
    let start = Instant::now();
    for _ in 0..ROUND_TRIPS {
        here.write_all(&[1])?;
        here.read_exact(&mut [0])?;
    }
    let took = start.elapsed();
    drop(here);
    echo.join().expect("it does not panic")?;
    Ok(took.as_secs_f64() * 1e6 / f64::from(ROUND_TRIPS))
}
