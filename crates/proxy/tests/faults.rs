//! Each fault of a proxy, through real sockets.

mod common;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use baton_proxy::{Conditions, Direction, Proxy, Weather};
use common::{Line, a_while, is_refused, is_reset, receive, rest, send, soon, talks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;

const HOUR: Duration = Duration::from_secs(3600);
const MEGABYTE: usize = 1 << 20;

#[tokio::test]
async fn bytes_and_ends_pass_in_both_directions() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    dialler.shutdown().await.unwrap();
    assert_eq!(rest(&mut accepted).await, b"");
    send(&mut accepted, b"the other direction is open").await;
    drop(accepted);
    assert_eq!(rest(&mut dialler).await, b"the other direction is open");
    let counters = line.wait("the connection ends", |counters| counters.finished == 1).await;
    assert_eq!((counters.accepted, counters.open), (1, 0));
    assert_eq!((counters.forward_bytes, counters.backward_bytes), (4, 31));
}

#[tokio::test]
async fn two_connections_do_not_mix() {
    let line = Line::start().await;
    let (mut first, mut first_accepted) = line.open().await;
    let (mut second, mut second_accepted) = line.open().await;
    send(&mut first, b"one").await;
    send(&mut second, b"two").await;
    receive(&mut second_accepted, b"two").await;
    receive(&mut first_accepted, b"one").await;
    assert_eq!(line.proxy.counters().open, 2);
}

#[tokio::test]
async fn delayed_bytes_come_later_and_in_order() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    let delay = Duration::from_millis(20);
    line.proxy.delay(delay..=delay * 3);
    let before = Instant::now();
    for byte in 0..100 {
        send(&mut dialler, &[byte]).await;
    }
    receive(&mut accepted, &Vec::from_iter(0..100)).await;
    assert!(before.elapsed() >= delay);
}

#[tokio::test]
async fn a_shorter_delay_lets_waiting_bytes_pass() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.delay(HOUR..=Duration::MAX);
    send(&mut dialler, b"late").await;
    a_while().await;
    assert_eq!(line.proxy.counters().forward_bytes, 4, "only the ping of the beginning has passed");
    line.proxy.delay(Duration::ZERO..=Duration::ZERO);
    receive(&mut accepted, b"late").await;
}

#[tokio::test]
async fn held_bytes_wait_and_pass_after_the_heal() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.hold();
    send(&mut dialler, b"forward").await;
    send(&mut accepted, b"backward").await;
    dialler.shutdown().await.unwrap();
    a_while().await;
    let counters = line.wait("both directions are held", |counters| counters.held == 2).await;
    assert_eq!((counters.open, counters.forward_bytes, counters.backward_bytes), (1, 4, 4));
    line.proxy.heal();
    assert_eq!(rest(&mut accepted).await, b"forward");
    receive(&mut dialler, b"backward").await;
}

/// The proxy does not take in what it cannot pass on: the sender is stopped by TCP.
#[tokio::test]
async fn a_held_direction_stops_the_sender_and_loses_nothing() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    // The length of the pattern is no multiple of any buffer, so a wrong order shows.
    let pattern: Vec<u8> = (0..1_000_003).map(|i| (i / 251) as u8).collect();
    let sent = pattern.repeat(64);
    line.proxy.hold();
    let copy = sent.clone();
    let sender = tokio::spawn(async move {
        dialler.write_all(&copy).await.unwrap();
        dialler
    });
    a_while().await;
    assert!(!sender.is_finished(), "the buffers of TCP are smaller than this");
    line.proxy.heal();
    let mut received = vec![0; sent.len()];
    soon("all bytes arrive", accepted.read_exact(&mut received)).await.unwrap();
    assert!(received == sent, "other bytes arrived");
    soon("the sender ends", sender).await.unwrap();
}

#[tokio::test]
async fn a_new_connection_waits_while_the_link_is_held() {
    let line = Line::start().await;
    line.proxy.hold();
    let mut dialler = line.dial().await;
    send(&mut dialler, b"hello").await;
    line.wait("the proxy accepts", |counters| counters.open == 1).await;
    tokio::select! {
        biased;
        _ = line.listener.accept() => panic!("the target sees a connection through a pulled cable"),
        () = a_while() => {}
    }
    line.proxy.heal();
    receive(&mut line.accept().await, b"hello").await;
}

#[tokio::test]
async fn one_way_is_cut_and_the_other_way_is_open() {
    for direction in Direction::BOTH {
        let line = Line::start().await;
        let (dialler, accepted) = line.open().await;
        let (mut mute, mut heard) = match direction {
            Direction::Forward => (dialler, accepted),
            Direction::Backward => (accepted, dialler),
        };
        line.proxy.cut_one_way(direction);
        send(&mut mute, b"waits").await;
        for _ in 0..100 {
            send(&mut heard, b"passes").await;
            receive(&mut mute, b"passes").await;
        }
        let counters = line.proxy.counters();
        let passed = match direction {
            Direction::Forward => counters.forward_bytes,
            Direction::Backward => counters.backward_bytes,
        };
        assert_eq!((passed, counters.held), (4, 1), "{direction:?}");
        line.proxy.reopen();
        receive(&mut heard, b"waits").await;
    }
}

#[tokio::test]
async fn a_cut_closes_both_ends_and_refuses_until_the_heal() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.cut();
    assert_eq!(rest(&mut dialler).await, b"");
    assert_eq!(rest(&mut accepted).await, b"");
    is_refused(line.proxy.address()).await;
    let counters = line.proxy.counters();
    assert_eq!((counters.cut, counters.refused, counters.open), (1, 1, 0));
    line.proxy.heal();
    line.open().await;
}

#[tokio::test]
async fn a_cut_loses_held_bytes_and_also_ends_connections_that_wait_for_the_target() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.hold();
    let mut waiting = line.dial().await;
    line.wait("the proxy accepts", |counters| counters.open == 2).await;
    send(&mut dialler, b"lost").await;
    line.proxy.close();
    assert_eq!(rest(&mut dialler).await, b"");
    assert_eq!(rest(&mut accepted).await, b"");
    assert_eq!(rest(&mut waiting).await, b"");
    assert_eq!(line.proxy.counters().cut, 2);
}

#[tokio::test]
async fn a_reset_reaches_both_ends_and_new_connections_pass() {
    let line = Line::start().await;
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.reset();
    is_reset(&mut dialler).await;
    is_reset(&mut accepted).await;
    let _open = line.open().await;
    let counters = line.proxy.counters();
    assert_eq!((counters.reset, counters.cut, counters.open), (1, 0, 1));
}

#[tokio::test]
async fn a_cut_in_mid_frame_delivers_exactly_so_many_bytes() {
    let line = Line::start().await;
    let frame: Vec<u8> = (0..MEGABYTE).map(|i| (i / 251) as u8).collect();
    let lengths = [0, 1, 2, 3, 17, 16_383, 16_384, 16_385, 500_000];
    for (count, &length) in lengths.iter().enumerate() {
        for direction in Direction::BOTH {
            let (dialler, accepted) = line.open().await;
            let (mut sender, mut receiver) = match direction {
                Direction::Forward => (dialler, accepted),
                Direction::Backward => (accepted, dialler),
            };
            line.proxy.cut_after(direction, length as u64);
            let copy = frame.clone();
            let sent = tokio::spawn(async move {
                // The rest is thrown away, or the connection is closed meanwhile: both are a cut.
                let _ = sender.write_all(&copy).await;
                sender
            });
            assert!(rest(&mut receiver).await == frame[..length], "{direction:?} {length}");
            drop(receiver);
            let mut sender = soon("the sender goes on", sent).await.unwrap();
            assert_eq!(soon("the sender sees the cut", sender.read(&mut [0])).await.unwrap_or(0), 0);
        }
        let counters = line.proxy.counters();
        assert_eq!((counters.cut_after, counters.cut), (2 * count as u64 + 2, 2 * count as u64 + 2));
    }
}

/// The receiver's buffer is full when the cut comes, and the proxy has not read what the receiver sent.
#[tokio::test]
async fn a_cut_loses_no_byte_that_was_passed_on() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap(), 7).unwrap();
    let line = Line { proxy, listener };
    let (mut dialler, mut accepted) = line.open().await;
    line.proxy.cut_one_way(Direction::Backward);
    send(&mut accepted, b"not read by the proxy").await;
    line.proxy.cut_after(Direction::Forward, 100_000);
    let sent = tokio::spawn(async move { dialler.write_all(&[1; 200_000]).await });
    line.wait("the cut", |counters| counters.cut_after == 1).await;
    a_while().await;
    assert_eq!(rest(&mut accepted).await.len(), 100_000);
    let _ = soon("the sender goes on", sent).await.unwrap();
}

/// The limit holds over several connections, until it is used up.
#[tokio::test]
async fn the_next_connection_goes_on_counting() {
    let line = Line::start().await;
    line.proxy.cut_after(Direction::Forward, 10);
    let (dialler, accepted) = line.open().await;
    drop((dialler, accepted));
    line.wait("the first connection ends", |counters| counters.open == 0).await;
    let (mut dialler, mut accepted) = line.open().await;
    send(&mut dialler, b"0123456789").await;
    assert_eq!(rest(&mut accepted).await, b"01");
    line.open().await;
}

#[tokio::test]
async fn an_end_that_resets_resets_the_other_end() {
    let line = Line::start().await;
    let (mut dialler, accepted) = line.open().await;
    accepted.set_zero_linger().unwrap();
    drop(accepted);
    is_reset(&mut dialler).await;
    assert_eq!(line.proxy.counters().broken, 1);
}

#[tokio::test]
async fn a_target_that_does_not_listen_resets_the_dialler_and_may_come_later() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let proxy = Proxy::start(socket.local_addr().unwrap(), 7).unwrap();
    is_refused(proxy.address()).await;
    assert_eq!((proxy.counters().unreachable, proxy.counters().open), (1, 0));
    Line { proxy, listener: socket.listen(8).unwrap() }.open().await;
}

#[tokio::test]
async fn a_dropped_proxy_ends_all_its_tasks() {
    let Line { proxy, listener } = Line::start().await;
    let mut dialler = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut accepted, _) = soon("accept", listener.accept()).await.unwrap();
    talks(&mut dialler, &mut accepted).await;
    proxy.weather(Weather { calm: HOUR, ..Weather::default() });
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 3, "listener, connection, weather");
    drop(proxy);
    // The end of the stream or a reset: both mean that the socket is closed.
    assert_eq!(soon("the dialler sees the end", dialler.read(&mut [0])).await.unwrap_or(0), 0);
    assert_eq!(soon("the target sees the end", accepted.read(&mut [0])).await.unwrap_or(0), 0);
    soon("all tasks end", async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn conditions_are_a_value() {
    let line = Line::start().await;
    line.proxy.cut_one_way(Direction::Backward);
    line.proxy.delay(HOUR..=HOUR);
    let conditions = line.proxy.conditions();
    assert_eq!(conditions, Conditions { delay: (HOUR..=HOUR).into(), hold_backward: true, ..Conditions::default() });
    line.proxy.heal();
    assert_eq!(line.proxy.conditions(), Conditions::default());
    line.open().await;
    line.proxy.set(conditions);
    assert_eq!(line.proxy.conditions(), conditions);
    line.proxy.reopen();
    assert_eq!(line.proxy.conditions(), Conditions { hold_backward: false, ..conditions });
}

/// A command holds for each byte that was sent after the command returned, on whatever thread the proxy runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_passes_that_was_sent_after_a_command() {
    let line = Line::start().await;
    for round in 0..300 {
        let (mut dialler, mut accepted) = line.open().await;
        match round % 3 {
            0 => line.proxy.hold(),
            1 => line.proxy.cut_one_way(Direction::Forward),
            _ => line.proxy.cut(),
        }
        // The proxy may have closed the connection.
        let _ = dialler.write_all(b"too late").await;
        line.proxy.close();
        assert_eq!(rest(&mut accepted).await, b"", "round {round}");
        line.proxy.heal();
    }
    let counters = line.proxy.counters();
    assert_eq!((counters.cut, counters.forward_bytes), (300, 4 * 300));
}

/// All kinds of faults happen to a client that dials again and again, and what it receives is right up to each end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_weather_breaks_connections_and_never_changes_bytes() {
    let Line { proxy, listener } = Line::start().await;
    let echo = tokio::spawn(async move {
        loop {
            let (mut accepted, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reads, mut writes) = accepted.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    let short = Duration::from_millis(2);
    proxy.weather(Weather {
        calm: short,
        lasts_max: short,
        delay: (Duration::ZERO..=short).into(),
        ..Weather::default()
    });
    let seen_all = |proxy: &Proxy| {
        let counters = proxy.counters();
        let kinds = [counters.cut - counters.cut_after, counters.cut_after, counters.reset, counters.held];
        kinds.iter().all(|&count| count >= 3) && counters.refused > 0
    };
    soon("every kind of fault happens", async {
        while !seen_all(&proxy) {
            let Ok(mut stream) = TcpStream::connect(proxy.address()).await else { continue };
            for byte in 0..=u8::MAX {
                let Ok(()) = stream.write_all(&[byte; 9]).await else { break };
                let mut answer = [0; 9];
                let Ok(_) = stream.read_exact(&mut answer).await else { break };
                assert_eq!(answer, [byte; 9]);
            }
        }
    })
    .await;
    proxy.heal();
    let faults = proxy.counters().faults;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    for _ in 0..200 {
        send(&mut stream, b"calm").await;
        receive(&mut stream, b"calm").await;
    }
    assert_eq!(proxy.counters().faults, faults);
    echo.abort();
}
