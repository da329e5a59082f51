use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{Instant, JoinSet, sleep, spawn_blocking, timeout};

const MS: Duration = Duration::from_millis(1);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 7500))
}

#[test]
fn time_passes_only_by_sleeping_and_each_clock_has_its_rate() {
    let simulation = Simulation::new(1);
    let right = simulation.add_host(Clock::default());
    let fast = simulation.add_host(Clock { starts_at: Duration::ZERO, fast_ppm: 500_000 });
    for (host, expected) in [(right, 600), (fast, 400)] {
        let before = simulation.now();
        let slept = simulation.block_on(host, Duration::from_secs(9), async {
            let began = Instant::now();
            sleep(600 * MS).await;
            began.elapsed()
        });
        assert_eq!(slept, Some(600 * MS));
        assert_eq!(simulation.now() - before, expected * MS);
    }
}

#[test]
fn a_caller_that_is_no_task_uses_the_simulation_and_waits_for_its_tasks() {
    let simulation = Simulation::new(1);
    let hosts = [(), ()].map(|()| simulation.add_host(Clock::default()));
    // No task could borrow this.
    let heard = std::cell::RefCell::new(Vec::new());
    let talk = async {
        let listener = current().unwrap().on(hosts[1], || listen(address(1)));
        let mut listener = listener.unwrap();
        let answers = crate::spawn(async move {
            let (mut reader, mut writer, _) = listener.accept().await.unwrap();
            let mut byte = [0];
            while reader.read_exact(&mut byte).await.is_ok() {
                writer.write_all(&byte).await.unwrap();
            }
        });
        let (mut reader, mut writer) = dial(address(1)).await.unwrap();
        for byte in 0..3 {
            current().unwrap().network().cut(hosts[0], hosts[1]);
            writer.write_all(&[byte]).await.unwrap();
            assert!(timeout(500 * MS, reader.read_u8()).await.is_err(), "the cable is cut");
            current().unwrap().network().heal();
            let answer = reader.read_u8().await.unwrap();
            heard.borrow_mut().push(answer);
        }
        drop(writer);
        answers.await.unwrap();
    };
    assert_eq!(simulation.block_on(hosts[0], Duration::from_secs(9), talk), Some(()));
    assert_eq!(*heard.borrow(), [0, 1, 2]);
    assert!(current().is_none());
    let never = simulation.block_on(hosts[0], Duration::from_secs(9), std::future::pending::<()>());
    assert_eq!(never, None);
}

#[test]
fn tasks_of_a_set_are_aborted_and_limits_hold() {
    let simulation = Simulation::new(1);
    let host = simulation.add_host(Clock::default());
    let ended = simulation.block_on(host, Duration::from_secs(9), async {
        let mut set = JoinSet::new();
        set.spawn(async { sleep(5 * MS).await });
        set.spawn(std::future::pending());
        sleep(10 * MS).await;
        let first = set.try_join_next().is_some_and(|joined| joined.is_ok());
        let second = set.try_join_next().is_none();
        set.shutdown().await;
        let limit = timeout(3 * MS, std::future::pending::<()>()).await.is_err();
        (first, second, limit, spawn_blocking(|| 7).await.ok())
    });
    assert_eq!(ended, Some((true, true, true, Some(7))));
}

/// Two machines talk over the network. Returns the trace.
fn talk(seed: u64) -> Vec<u8> {
    let simulation = Simulation::new(seed);
    let [one, two] = [(), ()].map(|()| simulation.add_host(Clock::default()));
    simulation.network().trace();
    simulation.spawn(one, async {
        let mut listener = listen(address(1)).unwrap();
        while let Ok((mut reader, mut writer, _)) = listener.accept().await {
            crate::spawn(async move {
                let mut bytes = [0; 5];
                while reader.read_exact(&mut bytes).await.is_ok() {
                    writer.write_all(&bytes).await.unwrap();
                }
            });
        }
    });
    let heard = simulation.block_on(two, Duration::from_secs(9), async {
        let mut heard = Vec::new();
        for round in 0..5_u8 {
            let (mut reader, mut writer) = dial(address(1)).await.unwrap();
            writer.write_all(&[round; 50]).await.unwrap();
            let mut bytes = [0; 50];
            reader.read_exact(&mut bytes).await.unwrap();
            heard.extend(bytes);
        }
        heard
    });
    let expected: Vec<u8> = (0..5).flat_map(|round| [round; 50]).collect();
    assert_eq!(heard, Some(expected));
    simulation.network().traced()
}

#[test]
fn a_seed_repeats_a_run() {
    for seed in 0..20 {
        assert_eq!(talk(seed), talk(seed), "seed {seed}");
    }
    assert_ne!(talk(1), talk(2));
}

#[test]
fn bytes_wait_for_the_end_of_a_cut_and_a_killed_machine_is_noticed() {
    let simulation = Simulation::new(3);
    let [one, two] = [(), ()].map(|()| simulation.add_host(Clock::default()));
    let mut heard = simulation.spawn(one, async {
        let mut listener = listen(address(1)).unwrap();
        let (mut reader, _writer, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 3];
        reader.read_exact(&mut bytes).await.unwrap();
        let at = Instant::now();
        let rest = reader.read(&mut bytes).await;
        (at, rest.map_err(|error| error.kind()))
    });
    simulation.spawn(two, async {
        let (_reader, mut writer) = dial(address(1)).await.unwrap();
        sleep(100 * MS).await;
        writer.write_all(b"abc").await.unwrap();
        std::future::pending::<()>().await;
    });
    simulation.run_until(50 * MS);
    simulation.network().cut(two, one);
    simulation.run_until(1_000 * MS);
    simulation.network().heal();
    simulation.run_until(2_000 * MS);
    simulation.kill(two, false);
    simulation.run_until(3_000 * MS);
    let (at, rest) = heard.take().unwrap().unwrap();
    let at = simulation.on(one, || Instant::now() - at);
    assert!(at < 2_000 * MS && at >= 1_700 * MS, "{at:?}");
    assert_eq!(rest, Ok(0));
}

#[test]
fn a_connection_breaks_after_any_byte() {
    let simulation = Simulation::new(3);
    let [one, two] = [(), ()].map(|()| simulation.add_host(Clock::default()));
    let mut heard = simulation.spawn(one, async {
        let mut listener = listen(address(1)).unwrap();
        let (mut reader, _writer, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let error = reader.read_to_end(&mut bytes).await.map_err(|error| error.kind());
        (bytes, error)
    });
    simulation.spawn(two, async {
        let (_reader, mut writer) = dial(address(1)).await.unwrap();
        sleep(100 * MS).await;
        writer.write_all(b"abcdef").await.unwrap();
        std::future::pending::<()>().await;
    });
    simulation.run_until(50 * MS);
    let connection = simulation.network().connections()[0];
    simulation.network().break_after(connection, true, 4, true);
    simulation.run_until(1_000 * MS);
    let heard = heard.take().unwrap().unwrap();
    assert_eq!(heard, (b"abcd".to_vec(), Err(std::io::ErrorKind::ConnectionReset)));
}

/// Two connections between two machines are independent.
#[test]
fn bytes_of_a_held_connection_arrive_after_those_of_a_newer_one() {
    let simulation = Simulation::new(3);
    let [one, two] = [(), ()].map(|()| simulation.add_host(Clock::default()));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    simulation.spawn(one, async move {
        let mut listener = listen(address(1)).unwrap();
        while let Ok((mut reader, writer, _)) = listener.accept().await {
            let hears = hears.clone();
            crate::spawn(async move {
                while let Ok(byte) = reader.read_u8().await {
                    hears.lock().unwrap().push(byte);
                }
                drop(writer);
            });
        }
    });
    let newest = || current().unwrap().network().newest(two, one).unwrap();
    let said = simulation.block_on(two, Duration::from_secs(9), async {
        let (_reader, mut first) = dial(address(1)).await.unwrap();
        let held = newest();
        current().unwrap().network().hold(held, 500 * MS);
        first.write_u8(1).await.unwrap();
        let (_reader, mut second) = dial(address(1)).await.unwrap();
        assert_ne!(newest(), held);
        second.write_u8(2).await.unwrap();
        sleep(400 * MS).await;
        let before = heard.lock().unwrap().clone();
        sleep(200 * MS).await;
        before
    });
    assert_eq!((said, heard.lock().unwrap().as_slice()), (Some(vec![2]), [2, 1].as_slice()));
    let suffered = simulation.network().suffered();
    assert!(suffered.held > 0 && suffered.overtook == 1, "{suffered:?}");
}
