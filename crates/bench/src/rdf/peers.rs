//! Other stores for comparison: commands that load the same files and answer the same queries.

use anyhow::{Context as _, bail};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The results of one store.
#[derive(Debug, Default)]
pub(super) struct RdfPeer {
    pub(super) name: String,
    /// Processor time of loading, in seconds.
    pub(super) load: Option<f64>,
    pub(super) answers: BTreeMap<String, Answer>,
}

/// The result of one query.
#[derive(Debug)]
pub(super) enum Answer {
    /// Milliseconds of processor time, and the number of rows if counted.
    Took(f64, Option<u64>),
    /// The reason why there is no figure.
    Failed(String),
}

/// Runs a peer until it ends.
pub(super) fn run(
    (name, command): &(String, String),
    data: &[PathBuf],
    queries: &[PathBuf],
    (runs, seconds): (u32, u32),
    mut check_interrupt: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<RdfPeer> {
    let lines = |paths: &[PathBuf]| {
        let all: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        all.join("\n")
    };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("ESKER_BENCH_DATA", lines(data))
        .env("ESKER_BENCH_QUERIES", lines(queries))
        .env("ESKER_BENCH_RUNS", runs.to_string())
        .env("ESKER_BENCH_SECONDS", seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting peer {name}: `{command}`"))?;
    let mut peer = RdfPeer {
        name: name.clone(),
        ..RdfPeer::default()
    };
    let said = child.stdout.take().context("a peer without an output")?;
    for line in BufReader::new(said).lines() {
        let read = line
            .map_err(anyhow::Error::from)
            .and_then(|line| peer.add(&line))
            .and_then(|()| check_interrupt());
        if let Err(error) = read {
            // The process is useless after an error; it may have ended already.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("peer {name} ended with {status}: `{command}`");
    }
    Ok(peer)
}

impl RdfPeer {
    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let expected = || {
            format!(
                "peer {} printed `{line}`; expected {{\"load\": true, \"cpu_s\": …}} or {{\"query\": \"name\", \"cpu_ms\": …, \
                 \"rows\": …}}, one object a line",
                self.name
            )
        };
        let json: Json = serde_json::from_str(line).with_context(expected)?;
        if json["load"].as_bool() == Some(true) {
            self.load = Some(json["cpu_s"].as_f64().with_context(expected)?);
            return Ok(());
        }
        let query = json["query"].as_str().with_context(expected)?;
        let answer = match json["error"].as_str() {
            Some(why) => Answer::Failed(why.to_owned()),
            None => Answer::Took(
                json["cpu_ms"].as_f64().with_context(expected)?,
                json["rows"].as_u64(),
            ),
        };
        self.answers.insert(query.to_owned(), answer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_is_read_or_refused() {
        let peer = ("p".to_owned(), "printf '%s\\n' '{\"load\":true,\"cpu_s\":1.5}' '{\"query\":\"a\",\"cpu_ms\":2,\"rows\":3}' \
             '{\"query\":\"b\",\"error\":\"too long\"}'".to_owned());
        let said = run(&peer, &[], &[], (1, 1), || Ok(())).unwrap();
        assert_eq!(said.load, Some(1.5));
        assert!(matches!(said.answers["a"], Answer::Took(ms, Some(3)) if (ms - 2.0).abs() < 1e-9));
        assert!(matches!(&said.answers["b"], Answer::Failed(why) if why == "too long"));
        let peer = ("p".to_owned(), "echo loading".to_owned());
        let error = run(&peer, &[], &[], (1, 1), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("printed `loading`"), "{error}");
        let peer = ("p".to_owned(), "exit 3".to_owned());
        let error = run(&peer, &[], &[], (1, 1), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }
}
