//! Arguments of `import prov` and `export prov`.

use super::{FormatArgs, Target};
use crate::times::parse_as_of;
use clap::{Args, ValueEnum};
use esker_import::prov::Encoding;
use esker_model::Version;
use std::path::PathBuf;

/// What documents are written in.
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

/// What documents are written in by Esker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProvOutput {
    /// PROV-N, for people
    Provn,
    /// PROV-JSON
    Json,
    /// PROV-O as Turtle; as TriG if there are bundles
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
    after_help = "Takes PROV-N, PROV-JSON, PROV-XML and PROV-O (Turtle, N-Triples, JSON-LD), told by the ending or by how a document begins; and the folders \
                  (BagIt) that `cwltool --provenance` writes, after a look at their checksums. Activities become executions, agents users, entities what \
                  they are: `file:///…` the file of that path. All else that a document says is kept, and `esker export prov` says it again. A document \
                  that makes no sense is named with the place where, nothing of it is imported, and the exit code is 1. Importing again changes \
                  nothing.\n\nExamples:\n  \
                  esker import prov lab.esker run.provn\n  \
                  esker import prov lab.esker results/provenance-bag"
)]
pub(crate) struct ImportProvArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Documents, and folders that are bags; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What the documents are written in; of a bag, which of its documents
    #[arg(long, value_enum, value_name = "ENCODING")]
    pub(crate) encoding: Option<ProvEncoding>,
    /// Compare all checksums of a bag, those of its data too
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
    /// Only what these came from, as TYPE:KEY; everything without any
    #[arg(value_name = "VERTEX")]
    pub(crate) vertices: Vec<String>,
    /// Go that many steps at most
    #[arg(long, value_name = "N", requires = "vertices")]
    pub(crate) depth: Option<u32>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// The encoding, where the file's ending does not tell (.provn, .json, .ttl, .trig)
    #[arg(long, value_enum, value_name = "ENCODING")]
    pub(crate) output: Option<ProvOutput>,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) asker: super::object::AskerArg,
}
