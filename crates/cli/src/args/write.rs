//! Arguments of the commands that change vertices, edges and the schema.

use super::{FormatArgs, RowFormat, Target};
use crate::times::parse_at;
use crate::values::{Assignment, parse_attribute};
use clap::{Args, Subcommand};
use esker_model::{AttributeDefinition, Version};

const VALUES: &str = "Values: a predefined attribute has the kind that the schema says. The kind of any other follows from its form \
    (42, 0.5, true, 2026-03-01T12:00:00Z, [1,2], null, else text); NAME:KIND=VALUE sets it (run:string=42).";

#[derive(Debug, Args)]
#[command(
    after_help = format!("Predefined attributes become exactly those given; `set` changes single ones.\n{VALUES}\n\n\
        Examples:\n  esker put lab.esker user:1001 name=ada\n  \
        esker put lab.esker file:/scratch/a.h5 size=42 campaign=spring --at 2026-03-01T12:00:00Z")
)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// Attributes of the vertex
    #[arg(value_name = "NAME=VALUE", value_parser = Assignment::parse)]
    pub(crate) values: Vec<Assignment>,
    /// Time from which the change is valid [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("Both ends must exist, unless --create is given. The inverse edge is kept too.\n{VALUES}\n\n\
        Examples:\n  esker link lab.esker job:4711 write file:/scratch/a.h5 bytes=4096\n  \
        esker link lab.esker user:1001 run job:4711 --create")
)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Source of the edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// Type of the edge
    #[arg(value_name = "EDGETYPE")]
    pub(crate) edge_type: String,
    /// Destination of the edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: String,
    /// Properties of the edge
    #[arg(value_name = "NAME=VALUE", value_parser = Assignment::parse)]
    pub(crate) values: Vec<Assignment>,
    /// Time from which the edge is valid [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    /// Insert source and destination if they do not exist
    #[arg(long)]
    pub(crate) create: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("Changes only the attributes named, predefined or user-defined.\n{VALUES}\n\nExamples:\n  \
        esker set lab.esker file:/scratch/a.h5 campaign=spring quality:f64=1\n  \
        esker set lab.esker file:/scratch/a.h5 --remove campaign")
)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// Attributes to set or replace
    #[arg(value_name = "NAME=VALUE", value_parser = Assignment::parse, required_unless_present = "remove")]
    pub(crate) values: Vec<Assignment>,
    /// An attribute to remove (may be given again)
    #[arg(long, value_name = "NAME")]
    pub(crate) remove: Vec<String>,
    /// Time from which the change is valid [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A deletion is a version: reads as of an earlier time still return the item, and so does `history`. \
                  The edges of a deleted vertex stay, as facts about the past.\n\nExamples:\n  \
                  esker delete lab.esker file:/scratch/a.h5\n  \
                  esker delete lab.esker job:4711 write file:/scratch/a.h5"
)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// A vertex, or the source of an edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The type of the edge
    #[arg(value_name = "EDGETYPE", requires = "destination")]
    pub(crate) edge_type: Option<String>,
    /// The destination of the edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: Option<String>,
    /// Time from which the deletion is valid [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A schema only grows: types and attributes are added, never changed or removed.\n\nExamples:\n  \
                  esker schema lab.esker\n  \
                  esker schema lab.esker add-vertex-type Dataset --parent DataObject doi:string\n  \
                  esker schema lab.esker add-edge-type cites --inverse citedBy --from Dataset --to Dataset\n  \
                  esker schema lab.esker add-attribute Job queue:string"
)]
pub(crate) struct SchemaArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(subcommand)]
    pub(crate) command: Option<SchemaCommand>,
    /// Output format of the schema
    #[arg(long, value_enum, global = true, default_value_t = RowFormat::Table)]
    pub(crate) format: RowFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Show all types (the default)
    #[command(after_help = "Examples:\n  \
            esker schema lab.esker show\n  \
            esker schema esker://lab-server:7400 show --format json")]
    Show,
    /// Add a vertex type
    #[command(after_help = "Examples:\n  \
        esker schema lab.esker add-vertex-type Dataset --parent DataObject doi:string\n  \
        esker schema lab.esker add-vertex-type Instrument serial:string installed:timestamp")]
    AddVertexType {
        /// Name of the type: a letter, then letters, digits, `_` or `-`
        name: String,
        /// The type that the new one specialises
        #[arg(long, value_name = "TYPE")]
        parent: Option<String>,
        /// Predefined attributes; kinds are bool, i64, f64, string, bytes, timestamp, list, any
        #[arg(value_name = "ATTRIBUTE:KIND", value_parser = parse_attribute)]
        attributes: Vec<AttributeDefinition>,
    },
    /// Add a pair of edge types, one the inverse of the other
    #[command(after_help = "Examples:\n  \
        esker schema lab.esker add-edge-type cites --inverse citedBy --from Dataset --to Dataset\n  \
        esker schema lab.esker add-edge-type sameAs --inverse sameAs --from Dataset --to Dataset")]
    AddEdgeType {
        /// Name of the type: a letter, then letters, digits, `_` or `-`
        name: String,
        /// Name of the opposite direction; the same name for a symmetric relation
        #[arg(long, value_name = "NAME")]
        inverse: String,
        /// Vertex type of the source
        #[arg(long, value_name = "TYPE")]
        from: String,
        /// Vertex type of the destination
        #[arg(long, value_name = "TYPE")]
        to: String,
    },
    /// Add a predefined attribute to a vertex type
    #[command(after_help = "Examples:\n  \
            esker schema lab.esker add-attribute Job queue:string\n  \
            esker schema esker://lab-server:7400 add-attribute Dataset published:timestamp")]
    AddAttribute {
        /// The vertex type
        #[arg(value_name = "TYPE")]
        vertex_type: String,
        /// The attribute and its kind
        #[arg(value_name = "ATTRIBUTE:KIND", value_parser = parse_attribute)]
        attribute: AttributeDefinition,
    },
}
