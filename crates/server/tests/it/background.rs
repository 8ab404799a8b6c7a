//! Threads with long jobs have a tenth of the normal weight, so that short calls get a processor while many queries run.

use crate::common::{Served, filled, settings};
use esker::CheckOptions;
use esker_model::NeverCancel;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Expected niceness of background threads.
const NICER: i32 = 10;
const NICE_MOST: i32 = 19;

/// Names and niceness of this process's threads.
fn threads() -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let about = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread that has just ended.
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // The state is the third field, the niceness the nineteenth.
        let nice = rest.split_ascii_whitespace().nth(16)?.parse().ok()?;
        Some((name.to_owned(), nice))
    };
    tasks.filter_map(about).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn long_calls_run_at_a_lower_priority() {
    let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let rest = own.rsplit_once(')').unwrap().1;
    let own: i32 = rest
        .split_ascii_whitespace()
        .nth(16)
        .unwrap()
        .parse()
        .unwrap();
    let served = Served::start(settings());
    filled(&served)
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    // A query that runs as long as its client waits.
    let values: Vec<String> = (0..4_000).map(|n| n.to_string()).collect();
    let values = values.join(" ");
    let query = format!(
        "SELECT (COUNT(*) AS ?n) {{ VALUES ?a {{ {values} }} VALUES ?b {{ {values} }} VALUES ?c {{ {values} }} }}"
    );
    let mut asking = TcpStream::connect(served.server.address()).unwrap();
    let head = format!(
        "POST /sparql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/sparql-query\r\ncontent-length: {}\r\n\r\n",
        query.len()
    );
    asking.write_all(head.as_bytes()).unwrap();
    asking.write_all(query.as_bytes()).unwrap();
    // Servers of other tests have such threads in this process, which may have just started.
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        let all = threads();
        let of = |name: &str| -> Vec<i32> {
            let named = all.iter().filter(|(n, _)| n == name);
            named.map(|(_, nice)| *nice).collect()
        };
        let (long, queries) = (of("esker-scan"), of("esker-sparql"));
        let lower = (own + NICER).min(NICE_MOST);
        let settled = long.iter().chain(&queries).all(|nice| *nice == lower);
        if !long.is_empty() && !queries.is_empty() && settled {
            // Threads of short calls and network I/O have the normal weight.
            assert!(of("esker-net").iter().all(|nice| *nice == own), "{all:?}");
            assert!(of("esker-write").iter().all(|nice| *nice == own), "{all:?}");
            break;
        }
        assert!(Instant::now() < until, "{all:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The client goes away, which cancels the query.
    let _ = asking.shutdown(std::net::Shutdown::Both);
    let _ = asking.read(&mut [0]);
}
