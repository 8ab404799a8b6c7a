//! Tests with real packets and a real namespace. Skipped with a message without root or TUN devices.

#![allow(clippy::unwrap_used, reason = "tests")]

use esker_testkit::wait::{HANG, eventually, wait_until};
use esker_wan::Wan;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable that makes a test run as the far side of another test; its value is the far address.
const FAR: &str = "ESKER_WAN_TEST_FAR";

/// A far namespace; `None` if this machine cannot create one.
fn wan(round_trip_ms: u64) -> Option<Wan> {
    match Wan::open(Duration::from_millis(round_trip_ms)) {
        Ok(wan) => Some(wan),
        Err(error) if error.is_unsupported() => {
            let text = format!("left out: {error}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Time until a connection is refused: one round trip, without a program on the far side.
fn round_trip(to: Ipv4Addr) -> Duration {
    let began = Instant::now();
    let error = TcpStream::connect((to, 9)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    began.elapsed()
}

/// Every measured round trip takes at least the configured time, and one of them, once the processors are free, less
/// than `below`.
fn takes(to: Ipv4Addr, least: Duration, below: Duration) {
    wait_until("it takes longer", || {
        let took = round_trip(to);
        assert!(took >= least, "{took:?}");
        took < below
    });
}

#[test]
fn connections_take_a_round_trip() {
    let Some(wan) = wan(32) else { return };
    let millis = Duration::from_millis;
    takes(wan.far_address(), millis(32), millis(40));
    wan.set_round_trip(Duration::ZERO);
    takes(wan.far_address(), Duration::ZERO, millis(8));
    assert!(wan.stats().packets >= 4);
    assert_eq!(wan.stats().lost, 0);
}

#[test]
fn each_has_its_own_and_nothing_is_left() {
    let Some(one) = wan(2) else { return };
    let two = wan(20).unwrap();
    assert_ne!(one.far_address(), two.far_address());
    let millis = Duration::from_millis;
    takes(two.far_address(), millis(20), HANG);
    takes(one.far_address(), millis(2), millis(20));
    let mut asleep = two.command("sleep").arg("600").spawn().unwrap();
    // The namespace must exist before it can be found.
    wait_until("nothing is started", || {
        process_name(asleep.id()) == "sleep"
    });
    let number = two.far_address().octets()[2];
    drop(two);
    assert!(!asleep.wait().unwrap().success(), "it was ended");
    let namespaces = Command::new("ip").arg("netns").output().unwrap().stdout;
    let namespaces = String::from_utf8(namespaces).unwrap();
    let gone = format!("esker-wan-{number}");
    let found = namespaces
        .lines()
        .any(|l| l.split(' ').next() == Some(&gone));
    assert!(!found, "{namespaces}");
}

fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// A test of this program that runs in the far namespace.
struct FarProcess(Child);

impl Drop for FarProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_far(wan: &Wan, test: &str) -> FarProcess {
    let child = wan
        .command(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored"])
        .env(FAR, wan.far_address().to_string())
        .stdout(Stdio::null())
        .spawn();
    FarProcess(child.unwrap())
}

fn connect(to: Ipv4Addr, port: u16) -> TcpStream {
    eventually(|| TcpStream::connect((to, port)))
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

#[test]
#[ignore = "the other side of bytes_come_as_they_went"]
fn echo() {
    let Ok(at) = std::env::var(FAR) else { return };
    let listener = TcpListener::bind((&*at, 7007)).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut back = stream.try_clone().unwrap();
    std::io::copy(&mut stream, &mut back).unwrap();
}

#[test]
fn bytes_come_as_they_went() {
    const LENGTH: usize = 8 << 20;
    let Some(wan) = wan(10) else { return };
    let _other = start_far(&wan, "echo");
    let mut stream = connect(wan.far_address(), 7007);
    let mut to = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let all: Vec<u8> = (0..LENGTH).map(pattern).collect();
        to.write_all(&all).unwrap();
        to.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut all = Vec::with_capacity(LENGTH);
    stream.read_to_end(&mut all).unwrap();
    writer.join().unwrap();
    assert_eq!(all.len(), LENGTH);
    let wrong = all.iter().enumerate().position(|(at, b)| *b != pattern(at));
    assert_eq!(wrong, None);
    assert_eq!(wan.stats().lost, 0);
}

#[test]
#[ignore = "the other side of packets_keep_their_order"]
fn count() {
    let Ok(at) = std::env::var(FAR) else { return };
    let socket = UdpSocket::bind((&*at, 7008)).unwrap();
    let mut packet = [0; 8];
    let (mut next, mut seen) = (0, 0_u64);
    loop {
        let (length, from) = socket.recv_from(&mut packet).unwrap();
        assert_eq!(length, 8);
        let number = u64::from_le_bytes(packet);
        if number == u64::MAX {
            // The peer receives the number of packets; packets out of order would have failed the check.
            socket.send_to(&seen.to_le_bytes(), from).unwrap();
            continue;
        }
        assert!(number >= next, "{number} after {next}");
        next = number + 1;
        seen += 1;
    }
}

#[test]
fn packets_keep_their_order() {
    const PACKETS: u64 = 20_000;
    /// Number of packets that fit into the far socket's buffer, however late it is read.
    const WINDOW: u64 = 100;
    let Some(wan) = wan(10) else { return };
    let _other = start_far(&wan, "count");
    let socket = UdpSocket::bind((wan.near_address(), 0)).unwrap();
    socket.connect((wan.far_address(), 7008)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // Waits until that many have arrived.
    let come = |count: u64| {
        let mut answer = [0; 8];
        let began = Instant::now();
        // Refused until the far side listens.
        let _ = socket.send(&u64::MAX.to_le_bytes());
        while socket.recv(&mut answer).is_err() || u64::from_le_bytes(answer) < count {
            assert!(began.elapsed() < HANG, "{answer:?}");
            std::thread::sleep(Duration::from_millis(1));
            let _ = socket.send(&u64::MAX.to_le_bytes());
        }
    };
    come(0);
    for number in 0..PACKETS {
        socket.send(&number.to_le_bytes()).unwrap();
        if (number + 1).is_multiple_of(WINDOW) {
            come(number + 1);
        }
    }
    assert!(wan.stats().packets >= PACKETS);
    assert_eq!(wan.stats().lost, 0);
}
