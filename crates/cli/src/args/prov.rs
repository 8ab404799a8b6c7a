//! Arguments of `esker import prov` and `esker export prov`.

use super::{FormatArgs, Target};
use crate::times::parse_as_of;
use clap::{Args, ValueEnum};
use esker_import::prov::Encoding;
use esker_model::Version;
use std::path::PathBuf;

/// Encoding of a PROV document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProvEncoding {
    /// PROV-N
    Provn,
    /// PROV-JSON
    Json,
    /// PROV-XML
    Xml,
    /// PROV-O as Turtle or TriG
    Turtle,
    /// PROV-O as N-Triples or N-Quads
    Ntriples,
    /// PROV-O as JSON-LD
    Jsonld,
}

impl ProvEncoding {
    pub(crate) const fn encoding(self) -> Encoding {
        match self {
            Self::Provn => Encoding::Provn,
            Self::Json => Encoding::Json,
            Self::Xml => Encoding::Xml,
            Self::Turtle => Encoding::Turtle,
            Self::Ntriples => Encoding::NTriples,
            Self::Jsonld => Encoding::JsonLd,
        }
    }
}

/// Encoding of a PROV document that Esker writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProvOutput {
    /// PROV-N, the notation for human readers
    Provn,
    /// PROV-JSON
    Json,
    /// PROV-O as Turtle, or as TriG if there are bundles
    Turtle,
}

impl ProvOutput {
    pub(crate) const fn encoding(self) -> Encoding {
        match self {
            Self::Provn => Encoding::Provn,
            Self::Json => Encoding::Json,
            Self::Turtle => Encoding::Turtle,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes PROV-N, PROV-JSON, PROV-XML and PROV-O (Turtle, N-Triples, JSON-LD), detected by the ending or the beginning of a document; and the folders \
                  (BagIt) that `cwltool --provenance` writes, after verification of their checksums. Activities become executions, agents users, and entities \
                  files or other vertices: `file:///…` is the file of that path. All other statements are kept for `esker export prov`. A malformed \
                  document is reported with the position of the error, nothing of it is imported, and the exit code is 1. Importing again changes \
                  nothing.\n\nExamples:\n  \
                  esker import prov lab.esker run.provn\n  \
                  esker import prov lab.esker results/provenance-bag"
)]
pub(crate) struct ImportProvArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// PROV documents and folders that are bags; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Encoding of the documents; for a bag, the encoding of the document to read from it
    #[arg(long, value_enum, value_name = "ENCODING")]
    pub(crate) encoding: Option<ProvEncoding>,
    /// Verify all checksums of a bag, including those of its data
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportProvArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Vertices whose lineage to export, as TYPE:KEY or the path of a file [default: export everything]
    #[arg(value_name = "VERTEX")]
    pub(crate) vertices: Vec<String>,
    /// Maximum number of steps
    #[arg(long, value_name = "N", requires = "vertices")]
    pub(crate) depth: Option<u32>,
    /// Export the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Encoding [default: by the file's ending: .provn, .json, .ttl, .trig]
    #[arg(long, aliases = ["output", "encoding"], value_enum, value_name = "ENCODING")]
    pub(crate) output_format: Option<ProvOutput>,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) principal: super::PrincipalArg,
}
