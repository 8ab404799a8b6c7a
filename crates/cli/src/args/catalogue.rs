//! Arguments of exports for data catalogues.

use super::{PrincipalArg, Target};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Encoding of `DataCite`'s metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataciteEncoding {
    /// JSON, for the REST interface of the registry
    Json,
    /// XML, by the schema of kernel 4.6
    Xml,
}

#[derive(Debug, Args)]
pub(crate) struct ExportRecordArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The object, file, directory or run to describe, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Give a field a value, instead of the one in the tags. Fields: title, description, creator, contributor, publisher, license, doi,
    /// keyword, language, version, issued, `media_type`, sha256, url
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,
    /// Address of the server where the landing pages are
    #[arg(long, value_name = "URL")]
    pub(crate) base: Option<String>,
    /// Read the files that are on this machine and have their recorded size: compute missing checksums, and read the columns of tables (CSV,
    /// TSV, Parquet)
    #[arg(long)]
    pub(crate) checksums: bool,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
pub(crate) struct ExportDataciteArgs {
    #[command(flatten)]
    pub(crate) record: ExportRecordArgs,
    /// Encoding [default: XML for a file that ends in .xml, else JSON]
    #[arg(long, value_enum, value_name = "ENCODING")]
    pub(crate) output_format: Option<DataciteEncoding>,
}
