//! Metrics of the server, and their output for Prometheus.

use crate::calls::{CALLS, CallKind};
use crate::settings::QuotaKind;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of samples of the call counters, one per second.
const SAMPLES: usize = 10;
/// Calls that change data.
const CHANGING: [&str; 6] = [
    "apply",
    "change_files",
    "tag_where",
    "define",
    "set_index",
    "share",
];
/// Calls that only ask for a server's state.
const STATUS_CALLS: [&str; 2] = ["ping", "cluster"];

/// Activity of the last seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecentActivity {
    pub(crate) calls: u64,
    /// Calls that change data.
    pub(crate) writes: u64,
    /// Length of the period in milliseconds.
    pub(crate) millis: u32,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::AcqRel);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Counts by value, in buckets of doubling bounds.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    /// Upper bound of the first bucket; each other bound is twice the one before.
    first: u64,
    buckets: [Counter; N],
    over: Counter,
    sum: Counter,
}

impl<const N: usize> Histogram<N> {
    pub(crate) fn new(first: u64) -> Self {
        Self {
            first,
            buckets: std::array::from_fn(|_| Counter::default()),
            over: Counter::default(),
            sum: Counter::default(),
        }
    }

    /// Number of recorded values.
    fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum::<u64>() + self.over.get()
    }

    pub(crate) fn record(&self, value: u64) {
        let index = value
            .div_ceil(self.first)
            .max(1)
            .next_power_of_two()
            .trailing_zeros();
        self.buckets
            .get(index as usize)
            .unwrap_or(&self.over)
            .add(1);
        self.sum.add(value);
    }

    /// Writes Prometheus's text format; bounds and sum are divided by `unit`.
    pub(crate) fn write(&self, name: &str, labels: &str, unit: f64, out: &mut String) {
        let (mut total, mut end) = (0, self.first);
        let comma = if labels.is_empty() { "" } else { "," };
        for bucket in &self.buckets {
            total += bucket.get();
            let _ = writeln!(
                out,
                "{name}_bucket{{{labels}{comma}le=\"{}\"}} {total}",
                end as f64 / unit
            );
            end *= 2;
        }
        total += self.over.get();
        let braces = |l: &str| {
            if l.is_empty() {
                String::new()
            } else {
                format!("{{{l}}}")
            }
        };
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {total}");
        let _ = writeln!(
            out,
            "{name}_sum{} {}",
            braces(labels),
            self.sum.get() as f64 / unit
        );
        let _ = writeln!(out, "{name}_count{} {total}", braces(labels));
    }
}

/// All metrics of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Latency by call in microseconds, from arrival to the last answer.
    latency: [Histogram<20>; CALLS.len()],
    failed: [Counter; CALLS.len()],
    /// Requests that were rejected because of load.
    pub(crate) shed: Counter,
    /// Number of requests in progress.
    pub(crate) in_flight: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) received: Counter,
    pub(crate) sent: Arc<Counter>,
    /// Batches in one group commit.
    pub(crate) groups: Histogram<13>,
    /// Mutations in one batch.
    pub(crate) batches: Histogram<17>,
    pub(crate) http: Counter,
    /// Counters of runs from spools.
    pub(crate) spool: crate::spool::Counts,
    /// Refusals for lack of rights, by reason.
    refused: Mutex<BTreeMap<&'static str, u64>>,
    /// Requests refused by quotas, by kind of limit.
    quota_refused: [Counter; QuotaKind::ALL.len()],
    /// Time, number of calls and number of changing calls, at times in the last seconds.
    samples: Mutex<VecDeque<(Instant, u64, u64)>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            latency: std::array::from_fn(|_| Histogram::new(16)),
            failed: std::array::from_fn(|_| Counter::default()),
            shed: Counter::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            received: Counter::default(),
            sent: Arc::new(Counter::default()),
            groups: Histogram::new(1),
            batches: Histogram::new(1),
            http: Counter::default(),
            spool: crate::spool::Counts::default(),
            refused: Mutex::default(),
            quota_refused: std::array::from_fn(|_| Counter::default()),
            samples: Mutex::default(),
        }
    }

    /// Counts a refusal by its reason.
    pub(crate) fn refused(&self, why: &'static str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(why).or_default() += 1;
    }

    /// Counts a request that a quota refused.
    pub(crate) fn quota_refused(&self, kind: QuotaKind) {
        if let Some(counter) = self.quota_refused.get(kind as usize) {
            counter.add(1);
        }
    }

    /// Records an answered call.
    pub(crate) fn answered(&self, call: usize, took: Duration, failed: bool) {
        if let Some(latency) = self.latency.get(call) {
            latency.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
        if failed && let Some(counter) = self.failed.get(call) {
            counter.add(1);
        }
    }

    /// Number of clients' calls so far, and of those that change data.
    pub(crate) fn calls(&self) -> (u64, u64) {
        let (mut calls, mut writes) = (0, 0);
        for (CallKind { name, .. }, latency) in CALLS.iter().zip(&self.latency) {
            if STATUS_CALLS.contains(name) {
                continue;
            }
            let count = latency.count();
            calls += count;
            if CHANGING.contains(name) {
                writes += count;
            }
        }
        (calls, writes)
    }

    /// Number of mutations so far, over all batches.
    pub(crate) fn mutations(&self) -> u64 {
        self.batches.sum.get()
    }

    /// Takes a sample of the call counters.
    pub(crate) fn sample(&self) {
        let (calls, writes) = self.calls();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((Instant::now(), calls, writes));
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
    }

    /// Activity of the last seconds.
    pub(crate) fn recent_activity(&self) -> RecentActivity {
        let (calls, writes) = self.calls();
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, before, written)) = samples.front() else {
            return RecentActivity::default();
        };
        RecentActivity {
            calls: calls.saturating_sub(*before),
            writes: writes.saturating_sub(*written),
            millis: u32::try_from(at.elapsed().as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// Writes the server's metrics as text.
    pub(crate) fn write(&self, out: &mut String) {
        head(
            out,
            "esker_request_seconds",
            "histogram",
            "Time from a request's arrival to its last answer, by call.",
        );
        for (CallKind { name, .. }, latency) in CALLS.iter().zip(&self.latency) {
            if latency.buckets.iter().any(|b| b.get() > 0) || latency.over.get() > 0 {
                latency.write(
                    "esker_request_seconds",
                    &format!("call=\"{name}\""),
                    1e6,
                    out,
                );
            }
        }
        head(
            out,
            "esker_request_failures_total",
            "counter",
            "Requests answered with an error, by call.",
        );
        for (CallKind { name, .. }, failed) in CALLS.iter().zip(&self.failed) {
            let _ = writeln!(
                out,
                "esker_request_failures_total{{call=\"{name}\"}} {}",
                failed.get()
            );
        }
        head(
            out,
            "esker_refused_total",
            "counter",
            "Requests refused for lack of access, by reason.",
        );
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        for (why, count) in &*refused {
            let _ = writeln!(out, "esker_refused_total{{why=\"{why}\"}} {count}");
        }
        drop(refused);
        head(
            out,
            "esker_quota_refused_total",
            "counter",
            "Requests refused or ended by quotas, by limit.",
        );
        for (kind, count) in QuotaKind::ALL.into_iter().zip(&self.quota_refused) {
            let (name, count) = (kind.name(), count.get());
            let _ = writeln!(out, "esker_quota_refused_total{{limit=\"{name}\"}} {count}");
        }
        head(
            out,
            "esker_group_batches",
            "histogram",
            "Batches applied in one group commit.",
        );
        self.groups.write("esker_group_batches", "", 1.0, out);
        head(
            out,
            "esker_batch_mutations",
            "histogram",
            "Mutations in one batch.",
        );
        self.batches.write("esker_batch_mutations", "", 1.0, out);
        for (name, help, value) in [
            (
                "esker_shed_total",
                "Requests turned away because the server was overloaded.",
                self.shed.get(),
            ),
            (
                "esker_received_bytes_total",
                "Bytes of requests.",
                self.received.get(),
            ),
            (
                "esker_sent_bytes_total",
                "Bytes of answers on Exchange streams.",
                self.sent.get(),
            ),
            (
                "esker_connections_refused_total",
                "Connections turned away because there were too many.",
                self.connections_refused.get(),
            ),
            (
                "esker_http_requests_total",
                "Requests to the HTTP API.",
                self.http.get(),
            ),
            (
                "esker_spool_runs_total",
                "Runs merged from spools.",
                self.spool.runs.get(),
            ),
            (
                "esker_spool_aside_total",
                "Files of spools that were moved aside.",
                self.spool.aside.get(),
            ),
            (
                "esker_spool_failures_total",
                "Scans of spools that failed.",
                self.spool.failures.get(),
            ),
        ] {
            value_of(out, name, "counter", help, value as f64);
        }
        value_of(
            out,
            "esker_spool_waiting",
            "gauge",
            "Runs in spools that go on, or wait.",
            *self
                .spool
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner) as f64,
        );
        value_of(
            out,
            "esker_in_flight",
            "gauge",
            "Requests in progress.",
            self.in_flight.get() as f64,
        );
        value_of(
            out,
            "esker_connections",
            "gauge",
            "Open connections.",
            self.connections.get() as f64,
        );
    }
}

pub(crate) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes a metric with a single value.
pub(crate) fn value_of(out: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_is_at_most_their_bound() {
        let histogram = Histogram::<3>::new(10);
        for value in [0, 1, 10, 11, 20, 21, 40, 41, 1_000] {
            histogram.record(value);
        }
        let mut out = String::new();
        histogram.write("x", "call=\"a\"", 1.0, &mut out);
        assert_eq!(
            out,
            "x_bucket{call=\"a\",le=\"10\"} 3\nx_bucket{call=\"a\",le=\"20\"} 5\nx_bucket{call=\"a\",le=\"40\"} 7\n\
             x_bucket{call=\"a\",le=\"+Inf\"} 9\nx_sum{call=\"a\"} 1144\nx_count{call=\"a\"} 9\n"
        );
    }
}
