//! Arguments about remote files.

use clap::Args;
use std::time::Duration;

/// Access to remote files, where TARGET is an origin: SCHEME://[USER@]HOST[:PORT]/PATH.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Remote files (TARGET is a URL as sftp://HOST/PATH)")]
pub(crate) struct RemoteArgs {
    /// Ask through the site cache at this address: http://127.0.0.1:PORT, unix:PATH or esker://HOST:PORT
    #[arg(long, value_name = "URL", env = "ESKER_VIA")]
    pub(crate) via: Option<String>,
    /// Maximum age of answers of a site cache, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) max_age: Option<Duration>,
    /// Accept an older answer of a site cache if the origin cannot be reached
    #[arg(long)]
    pub(crate) stale_if_error: bool,
    /// Allow passwords of ~/.netrc to be sent in clear text, where the protocol offers nothing else (ftp://)
    #[arg(long)]
    pub(crate) clear_passwords: bool,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: Option<f64> = text.parse().ok();
    let time = number.and_then(|n| Duration::try_from_secs_f64(n).ok());
    time.ok_or_else(|| "expected seconds, as in 2.5".into())
}
