//! Signals to processes, delivered before the call returns.

use crate::wait::wait_until;
use std::path::Path;
use std::process::Command;

/// Sends a signal (`"STOP"`, `"KILL"`, `"TERM"`, …) to a process. The kernel delivers signals later, on a busy machine
/// much later: after `STOP` the call waits until each thread is stopped, after `KILL` until each thread has ended.
///
/// # Panics
///
/// If there is no such process, or it does not stop.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    let sent = sent.is_ok_and(|status| status.success());
    assert!(sent, "{name} to {pid}");
    let states = match name {
        "STOP" => "TtZX",
        "KILL" => "ZX",
        _ => return,
    };
    wait_until(&format!("process {pid} runs after {name}"), || {
        thread_states(pid).all(|state| states.contains(state))
    });
}

/// Returns whether there is a process of this id. It may have ended unless its parent has waited for it.
pub fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the state of each thread of a process, as `/proc/PID/task/TID/stat` shows it; none after its end.
fn thread_states(pid: u32) -> impl Iterator<Item = char> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
            // The name before it may hold any character.
            stat.rsplit_once(") ")?.1.chars().next()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_signal_is_delivered_before_the_call_returns() {
        let mut child = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        signal(pid, "STOP");
        assert_eq!(thread_states(pid).collect::<String>(), "T");
        signal(pid, "KILL");
        assert_eq!(thread_states(pid).collect::<String>(), "Z");
        child.wait().unwrap();
        assert!(!exists(pid));
    }
}
