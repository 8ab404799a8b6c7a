//! Address of the collector.

use std::fmt;

/// Variables that name the collector, the more specific one first.
const VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Error: a variable holds no address of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointError {
    variable: &'static str,
    value: String,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: `{}` is not the address of a collector: expected http://HOST:4317, its port for OTLP over gRPC",
            self.variable, self.value
        )
    }
}

impl std::error::Error for EndpointError {}

/// Whether a text is the address of a collector: `http://HOST:PORT`.
pub fn is_endpoint(text: &str) -> bool {
    let Some(authority) = text.strip_prefix("http://") else {
        return false;
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "4317"));
    !host.is_empty()
        && !authority.contains(['/', '?', '#', '@', ' '])
        && port.parse::<u16>().is_ok()
}

/// Returns the address of the collector: the configured one, else that of the environment; `None` if traces are off.
///
/// # Errors
/// Returns an error that names the variable whose value is no address.
pub fn endpoint(configured: Option<&str>) -> Result<Option<String>, EndpointError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    if let Some(address) = configured {
        return Ok(Some(address.to_owned()));
    }
    for name in VARIABLES {
        let Some(value) = variable(name) else {
            continue;
        };
        if !is_endpoint(&value) {
            return Err(EndpointError {
                variable: name,
                value,
            });
        }
        return Ok(Some(value));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors() {
        for text in [
            "http://127.0.0.1:4317",
            "http://collector:4317/",
            "http://[::1]:4317",
        ] {
            assert!(is_endpoint(text), "{text}");
        }
        for text in [
            "127.0.0.1:4317",
            "ftp://127.0.0.1",
            "https://collector:4317",
            "http://",
            "http://collector:4318/v1/traces",
            "http://user@collector:4317",
            "http://collector:99999",
        ] {
            assert!(!is_endpoint(text), "{text}");
        }
    }
}
