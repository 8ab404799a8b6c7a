//! SPARQL on a command line: the options of a query, and the output of its answer.

use crate::args::{PrincipalArg, RowFormat, Target};
use crate::exit::usage;
use crate::output::{Cell, Rows, Style};
use clap::{Args, ValueEnum};
use esker::rdf::{engine, error};
use esker_rdf::{Answer, Format, Found, Graphs, PlanNode, RdfFormat};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

/// Prefix of a target that names workers.
pub const WORKERS: &str = "workers://";

/// Output format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// Aligned columns; graphs as Turtle
    Table,
    /// SPARQL 1.1 Query Results JSON
    Json,
    /// SPARQL Query Results XML
    Xml,
    /// Comma-separated values: plain text only
    Csv,
    /// Tab-separated values: terms as in Turtle
    Tsv,
    /// Turtle, for CONSTRUCT and DESCRIBE
    Ttl,
    /// N-Triples, for CONSTRUCT and DESCRIBE
    Nt,
    /// RDF/XML, for CONSTRUCT and DESCRIBE
    Rdf,
    /// JSON-LD, for CONSTRUCT and DESCRIBE
    Jsonld,
}

/// Options of `esker sparql`.
#[derive(Debug, Args)]
#[command(
    after_help = "A query reads the default graph; GRAPH reads the named ones. An update is applied completely or not at all.\n\n\
    Examples:\n  \
    esker sparql lab.esker 'SELECT * { ?s ?p ?o } LIMIT 10'\n  \
    esker sparql lab.esker -f query.rq --format json\n  \
    esker sparql lab.esker --update 'INSERT DATA { <http://example.org/x> a <http://example.org/Run> }'\n  \
    esker sparql workers://127.0.0.1:7611,127.0.0.1:7612 -f query.rq"
)]
pub struct SparqlArgs {
    /// The database, or workers
    #[command(flatten)]
    pub target: Target,
    /// The query, or the update
    #[arg(
        value_name = "QUERY",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pub query: Option<String>,
    /// File with the query or the update; - is standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The text is an update
    #[arg(long, short)]
    pub update: bool,
    /// Output format of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Table)]
    pub format: AnswerFormat,
    /// Show the plan with estimates, and do not run the query; with `--format json` as JSON
    #[arg(long, conflicts_with = "update")]
    pub explain: bool,
    /// Print on stderr the plan with what each operator read, gave and chose, and its time; with `--format json` as JSON
    #[arg(long)]
    pub profile: bool,
    /// Graph that is a part of the default graph, overriding FROM
    #[arg(long, value_name = "IRI")]
    pub default_graph: Vec<String>,
    /// Graph that GRAPH may name, overriding FROM NAMED
    #[arg(long, value_name = "IRI")]
    pub named_graph: Vec<String>,
    /// Allow SERVICE to query endpoints whose IRIs begin with this prefix; a server has its own list
    #[arg(long, value_name = "IRI")]
    pub allow_service: Vec<String>,
    /// Allow LOAD to read documents whose IRIs begin with this prefix, besides files; a server has its own list
    #[arg(long, value_name = "IRI", requires = "update")]
    pub allow_load: Vec<String>,
    /// With workers://HOST:PORT,… as the target: file with the workers' secret
    #[arg(long, value_name = "FILE", env = "ESKER_SECRET_FILE")]
    pub secret_file: Option<PathBuf>,
    /// The principal of the query
    #[command(flatten)]
    pub principal: PrincipalArg,
}

impl SparqlArgs {
    /// Returns the text of the query or update, from the command line or the file.
    ///
    /// # Errors
    ///
    /// A usage error if the file cannot be read or is not UTF-8.
    pub fn text(&self) -> anyhow::Result<String> {
        let Some(path) = &self.file else {
            return Ok(self.query.clone().unwrap_or_default());
        };
        let mut bytes = Vec::new();
        let name = path.display().to_string();
        let read = if name == "-" {
            std::io::stdin().read_to_end(&mut bytes)
        } else {
            std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes))
        };
        read.map_err(|e| usage(format!("reading `{name}`: {e}")))?;
        String::from_utf8(bytes).map_err(|e| {
            usage(format!(
                "`{name}` is not UTF-8 at byte {}",
                e.utf8_error().valid_up_to()
            ))
        })
    }

    /// Returns the graphs that the options name, if any.
    pub fn graphs(&self) -> Option<Graphs> {
        (!self.default_graph.is_empty() || !self.named_graph.is_empty()).then(|| Graphs {
            default: self.default_graph.clone(),
            named: self.named_graph.clone(),
        })
    }
}

/// Returns the error of a command for a failed query.
pub fn refused(text: &str, e: engine::Error) -> anyhow::Error {
    match e {
        // An update in place of a query is a common mistake.
        engine::Error::Syntax(_) if engine::syntax::update(text, None).is_ok() => {
            usage("this is an update, not a query: use --update")
        }
        engine::Error::Stopped(_) => anyhow::anyhow!("{e}"),
        e => error(e).into(),
    }
}

/// Returns a plan as lines: text, or one line of JSON where the answer's format is JSON.
pub fn plan_lines(plan: &PlanNode, format: AnswerFormat) -> Vec<String> {
    match format {
        AnswerFormat::Json => vec![plan.json()],
        _ => plan.lines(),
    }
}

/// Prints an answer in a format.
///
/// # Errors
///
/// A usage error if the format is for graphs and the answer is a table.
pub fn print(
    answer: &Answer<'_>,
    format: AnswerFormat,
    style: Style,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let graph = match format {
        AnswerFormat::Table | AnswerFormat::Ttl => RdfFormat::Turtle,
        AnswerFormat::Rdf | AnswerFormat::Xml => RdfFormat::RdfXml,
        AnswerFormat::Jsonld | AnswerFormat::Json => RdfFormat::JsonLd {
            profile: engine::JsonLdProfileSet::default(),
        },
        AnswerFormat::Nt | AnswerFormat::Csv | AnswerFormat::Tsv => RdfFormat::NTriples,
    };
    let rows = match format {
        AnswerFormat::Json => Some(Format::Json),
        AnswerFormat::Xml => Some(Format::Xml),
        AnswerFormat::Csv => Some(Format::Csv),
        AnswerFormat::Tsv => Some(Format::Tsv),
        _ => None,
    };
    match (&answer.found, rows) {
        (Found::Triples(_), _) => answer.write_graph(graph, out)?,
        (Found::Boolean(b), None) => writeln!(out, "{b}")?,
        (_, Some(format)) => {
            answer.write(format, out)?;
            if !out.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
        (Found::Solutions(names, table), None) => {
            if format != AnswerFormat::Table {
                return Err(usage(
                    "that format is for graphs, which CONSTRUCT and DESCRIBE give; expected table, json, xml, csv or tsv",
                ));
            }
            let columns = names.iter().map(|n| n.clone().into()).collect();
            let mut rows = Rows::named(out, RowFormat::Table, style, columns);
            for r in 0..table.len() {
                let cells = table
                    .columns()
                    .iter()
                    .map(|c| {
                        answer
                            .term(c[r])
                            .map_or(Cell::Empty, |t| Cell::Text(term_text(&t)))
                    })
                    .collect();
                rows.row(cells)?;
            }
            rows.finish()?;
        }
    }
    Ok(())
}

/// Formats a term for users: numbers and booleans without their types.
pub fn term_text(term: &engine::Term) -> String {
    if let engine::Term::Literal(l) = term {
        let datatype = l.datatype();
        let local = datatype
            .as_str()
            .strip_prefix(engine::id::XSD)
            .unwrap_or_default();
        if matches!(
            local,
            "integer"
                | "decimal"
                | "double"
                | "float"
                | "boolean"
                | "dateTime"
                | "date"
                | "int"
                | "long"
        ) {
            return l.value().to_owned();
        }
    }
    term.to_string()
}
