//! Arguments of `esker harvest`.

use super::{FormatArgs, Target};
use clap::Args;
use esker_terminal::units::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "File formats are detected by their first bytes, not by their names: FITS (packed by gzip or not), HDF5, netCDF (all formats), \
        Zarr stores of both versions. Python reads them, with the libraries of the field: `pip install astropy h5py netCDF4 zarr`; \
        only headers are read. Each file becomes an object with its header's entries as tags, and `file:PATH` leads to it by an edge `has`. \
        Files that have not changed since are not opened again. A file that cannot be read is named and counted, and the exit code is 1.\n\n\
        Examples:\n  \
        esker harvest lab.esker /data/hst /data/runs --jobs 8\n  \
        esker harvest esker://db:7401 . --python ~/astro/bin/python\n  \
        esker harvest lab.esker m31.fits --dry-run --format json\n  \
        esker find lab.esker \"TELESCOP = 'HST' and EXPTIME > 100\""
)]
pub(crate) struct HarvestArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files, Zarr stores, and directories with everything below them
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Files to read at once, each in a process of its own [default: number of cores, at most 16]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: Option<u32>,
    /// Maximum time to read the header of one file
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) file_timeout: Duration,
    /// Maximum address space of one reading process
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub(crate) file_memory: u64,
    /// Maximum number of tags of one file; the tag `esker.harvest.truncated` says that some were left out
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub(crate) max_tags: u32,
    /// Maximum size of one value; longer values are truncated
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_max_value)]
    pub(crate) max_value: u64,
    /// The Python interpreter that has the libraries
    #[arg(long, value_name = "EXE", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// Read files again even if they have not changed
    #[arg(long)]
    pub(crate) again: bool,
    /// Change nothing, and print the tags that each file would get
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

fn parse_max_value(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes @ 16..=262_144 => Ok(bytes),
        _ => Err("expected 16 bytes to 256KiB".to_owned()),
    }
}
