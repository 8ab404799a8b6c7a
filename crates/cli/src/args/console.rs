//! Arguments of `esker console`.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "A folder is served to this machine for as long as the command runs; one that a server serves is shown by that \
                  server. For a server on another machine, the command opens a local port and forwards it: it authenticates you by your \
                  SSH key, as all commands do, and accepts no other user. Ctrl-C closes the port.\n\nExamples:\n  \
                  esker console lab.esker\n  \
                  esker console esker://login1:7400\n  \
                  esker console esker://login1:7400 --print --port 8080     # then: ssh -L 8080:127.0.0.1:8080 HERE"
)]
pub(crate) struct ConsoleArgs {
    /// The directory that holds the database, or a server: esker://HOST:PORT [default: `$ESKER_TARGET`, or `.esker` here or above]
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Port of the pages on this machine; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Print the address and do not start a browser
    #[arg(long)]
    pub(crate) print: bool,
}
