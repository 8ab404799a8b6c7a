//! The tracer of this process.

use crate::limit::TraceLimit;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanData,
    SpanExporter as ExportSpans,
};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time limit of sending one batch of spans.
const SEND_MAX: Duration = Duration::from_secs(2);
/// Time limit of sending the last spans when the process ends.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Options of the tracer.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Address of the collector, as [`crate::endpoint`] returns it.
    pub endpoint: String,
    /// Share of the traces without a parent that are recorded, from 0 to 1.
    pub sample: f64,
    /// Version of this program.
    pub version: &'static str,
}

/// The running tracer of the process.
pub(crate) struct Tracer {
    pub(crate) maker: SdkTracer,
    pub(crate) sample: f64,
    pub(crate) limit: TraceLimit,
    provider: SdkTracerProvider,
    /// Drives the connection to the collector.
    _runtime: Runtime,
}

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Exporter that says in the log when sending begins to fail, and when it works again.
#[derive(Debug)]
struct LoggedExporter {
    inner: SpanExporter,
    endpoint: String,
    fails: AtomicBool,
}

impl ExportSpans for LoggedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let done = self.inner.export(batch).await;
        let failed = self.fails.swap(done.is_err(), Ordering::Relaxed);
        match &done {
            Err(error) if !failed => {
                tracing::warn!(endpoint = self.endpoint, %error, "traces cannot be sent; the server works without them");
            }
            Ok(()) if failed => {
                tracing::info!(endpoint = self.endpoint, "traces are sent again");
            }
            _ => {}
        }
        done
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Number that differs between processes.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Starts the tracer of this process, unless it runs already. The collector may be away: spans are dropped then.
///
/// # Errors
/// Returns the reason why the tracer cannot be set up.
pub fn start(options: &Options) -> Result<(), String> {
    if TRACER.get().is_some() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("esker-trace")
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    let exporter = {
        // The connection belongs to the runtime in which the exporter is made.
        let _inside = runtime.enter();
        SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&options.endpoint)
            .with_timeout(SEND_MAX)
            // The next batch is the next attempt; retries would delay the end of a command.
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|e| e.to_string())?
    };
    let exporter = LoggedExporter {
        inner: exporter,
        endpoint: options.endpoint.clone(),
        fails: AtomicBool::new(false),
    };
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let mut resource = Resource::builder();
    if !named {
        resource = resource.with_service_name("esker");
    }
    let instance = format!("{:016x}-{}", random(), std::process::id());
    let resource = resource
        .with_attributes([
            KeyValue::new("service.version", options.version),
            KeyValue::new("service.instance.id", instance),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).build())
        // Whether a trace is recorded is decided before its span is made.
        .with_sampler(Sampler::AlwaysOn)
        .with_resource(resource)
        .build();
    let started = Tracer {
        maker: provider.tracer("esker"),
        sample: options.sample,
        limit: TraceLimit::new(),
        provider,
        _runtime: runtime,
    };
    // Another thread may have been faster; then this one is dropped.
    let _ = TRACER.set(started);
    Ok(())
}

/// Whether this process makes spans.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

pub(crate) fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

impl Tracer {
    /// Whether a trace without a parent is recorded.
    pub(crate) fn samples(&self) -> bool {
        // The upper 53 bits are a number from 0 to 1, exactly.
        self.sample >= 1.0 || ((random() >> 11) as f64 / (1_u64 << 53) as f64) < self.sample
    }
}

/// Sends the spans that are left, for a limited time. No span is sent after this.
pub fn stop() {
    if let Some(tracer) = TRACER.get() {
        // A collector that is away is no failure of the command.
        let _ = tracer.provider.shutdown_with_timeout(STOP_MAX);
    }
}
