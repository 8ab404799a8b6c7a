//! Arguments about far files.

use clap::Args;
use std::time::Duration;

/// How far files are asked for, where TARGET is an origin: SCHEME://[USER@]HOST[:PORT]/PATH.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Far files (TARGET is an URL as sftp://HOST/PATH)")]
pub(crate) struct FarArgs {
    /// By way of the site cache at that address: http://127.0.0.1:PORT, unix:PATH or esker://HOST:PORT
    #[arg(long, value_name = "URL", env = "ESKER_VIA")]
    pub(crate) via: Option<String>,
    /// How old answers of a site cache may be, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) max_age: Option<Duration>,
    /// Take an old answer of a site cache where there is no other
    #[arg(long)]
    pub(crate) stale_if_error: bool,
    /// Let passwords of ~/.netrc go over the network in clear text, where the protocol has no other way (ftp://)
    #[arg(long)]
    pub(crate) clear_passwords: bool,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: Option<f64> = text.parse().ok();
    let time = number.and_then(|n| Duration::try_from_secs_f64(n).ok());
    time.ok_or_else(|| "expected seconds, as in 2.5".into())
}
