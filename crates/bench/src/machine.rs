//! Memory and processor time as reported by the operating system; zero or `None` if it reports nothing.

use std::fs;

/// Resident memory in bytes, now and at its peak since [`reset_peak`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// Resident memory of this process, from `/proc/self/status`.
pub(crate) fn memory() -> Memory {
    memory_of("self")
}

/// Resident memory of another process, by its id.
pub(crate) fn memory_of(process: &str) -> Memory {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    Memory {
        now: kib(&status, "VmRSS:"),
        peak: kib(&status, "VmHWM:"),
    }
}

/// Resets the peak to the current value. Returns false if the system cannot.
pub(crate) fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Memory of this machine, in bytes.
pub(crate) fn total_memory() -> u64 {
    kib(
        &fs::read_to_string("/proc/meminfo").unwrap_or_default(),
        "MemTotal:",
    )
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let number = line
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Number of processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processor time of all threads of this process, in seconds.
pub(crate) fn process_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor time of another process in seconds, from `/proc`, in steps of 10 ms.
pub(crate) fn seconds_of(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before the last parenthesis may contain spaces. The 14th and 15th fields are the 12th and 13th after it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

/// Busy time of all cores of this machine since boot in seconds, from `/proc/stat`.
pub(crate) fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().find_map(|l| l.strip_prefix("cpu "));
    // Fields: user, nice, system, idle, iowait, irq, softirq, steal.
    let ticks = all.unwrap_or("").split_whitespace().take(8).enumerate();
    let busy: u64 = ticks
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .filter_map(|(_, f)| f.parse::<u64>().ok())
        .sum();
    busy as f64 / 100.0
}

/// Processor time of the calling thread in seconds, from `/proc/thread-self/schedstat` (nanoseconds).
pub(crate) fn thread_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat
        .split_whitespace()
        .next()
        .and_then(|n| n.parse::<u64>().ok())
        .unwrap_or(0);
    nanos as f64 / 1e9
}
