//! The command line of `esker rdf worker`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Each worker holds in memory the part that `esker rdf load --part` put into its folder, as it is when the worker starts. \
    Workers query each other: each must reach all others by the addresses that queries name. Clients that know the secret may \
    query; without a secret, only processes of the worker's user and of root on the same machine. With a secret, all traffic is \
    encrypted.\n\n\
    Examples:\n  \
    esker rdf load part1.esker data.nt --part 1/2; esker rdf load part2.esker data.nt --part 2/2\n  \
    esker rdf worker part1.esker --listen 127.0.0.1:7611 &\n  \
    esker rdf worker part2.esker --listen 127.0.0.1:7612 &\n  \
    esker sparql workers://127.0.0.1:7611,127.0.0.1:7612 'SELECT * { ?s ?p ?o } LIMIT 10'"
)]
pub(crate) struct RdfWorkerArgs {
    /// The directory that holds the part
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
    /// Address to listen on; port 0 lets the system choose. An address that other machines can reach needs a secret
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7611")]
    pub(crate) listen: String,
    /// File (mode 0600) whose first line is the secret of workers and clients: at least 20 characters that cannot be guessed
    #[arg(long, value_name = "FILE", env = "ESKER_SECRET_FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Write the address to this file once the worker answers, as HOST:PORT and a newline
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// Number of threads for each star of a query [default: number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}
