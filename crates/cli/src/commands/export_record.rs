//! `esker export datacite|schema-org|croissant|dcat`: describes one item for a data catalogue.

use super::export_ro_crate::files::Rules;
use super::note_if_stopped;
use super::run::deliver::open_with_runs;
use crate::args::{DataciteEncoding, ExportDataciteArgs, ExportRecordArgs};
use crate::graph::NamedVertex;
use crate::near;
use anyhow::Context as _;
use esker_catalogue::{
    Collector, ColumnKind, FilePart, Format, Overrides, Record, croissant, datacite, dcat, is_url,
    schema_org,
};
use esker_import::table;
use esker_model::namespace::display;
use esker_model::{Cancel as _, GraphRead as _, ValueKind};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::progress::Progress;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Bytes that are read from a file at once.
const READ_BYTES: usize = 1 << 20;

/// Runs `esker export datacite`.
pub(crate) fn datacite(
    args: &ExportDataciteArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let is_xml = args.record.file.extension().is_some_and(|e| e == "xml");
    let format = match args.output_format {
        Some(DataciteEncoding::Xml) => Format::DataciteXml,
        None if is_xml => Format::DataciteXml,
        Some(DataciteEncoding::Json) | None => Format::Datacite,
    };
    run(&args.record, format, context)
}

/// Runs the export in a format.
pub(crate) fn run(
    args: &ExportRecordArgs,
    format: Format,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let stdout = args.file == Path::new("-");
    if !stdout && args.file.exists() && !args.force {
        return Err(usage(format!(
            "{} exists already; --force replaces it",
            args.file.display()
        )));
    }
    let mut overrides = Overrides::default();
    for field in &args.fields {
        overrides
            .add(field)
            .map_err(|why| usage(format!("--set: {why}")))?;
    }
    let base = args.base.as_deref().map(root_of).transpose()?;
    let principal = args.principal.principal.as_ref();
    let database = open_with_runs(context, &args.target)?.on_behalf_of(principal);
    let schema = database.schema()?;
    let named = NamedVertex::find(&args.vertex, &database, &schema)?;
    let collector = Collector {
        graph: &database,
        names: &database,
        principal,
        base: base.as_deref(),
        overrides: &overrides,
        cancel: &context.interrupt,
    };
    let found = collector.collect(&named.name, named.vertex)?;
    let mut record = found.ok_or_else(|| near::missing(&named, "", &database, &schema))?;
    if args.checksums {
        read_files(&mut record, context);
    }
    if context.interrupt.cancelled() {
        return Ok(note_if_stopped(context));
    }
    let text = match format {
        Format::DataciteXml => datacite::xml(&record),
        Format::Croissant => format!("{:#}\n", croissant::json(&record)),
        Format::Dcat => format!("{:#}\n", dcat::json(&record)),
        Format::SchemaOrg => format!("{:#}\n", schema_org::json(&record)),
        _ => format!("{:#}\n", datacite::json(&record)),
    };
    if stdout {
        context.out.write_all(text.as_bytes())?;
        context.out.flush()?;
    } else {
        write_file(&args.file, &text)?;
        context.note(&format!("wrote {}", args.file.display()));
    }
    remarks(&record, format, args.checksums, context);
    Ok(Outcome::partly_if(!record.all_files))
}

/// Checks the address of a server; returns it with a final slash.
fn root_of(text: &str) -> anyhow::Result<String> {
    if !is_url(text) || text.contains(['?', '#']) {
        return Err(usage(format!(
            "--base `{text}`: expected the address of a server, such as https://data.example.org"
        )));
    }
    Ok(format!("{}/", text.trim_end_matches('/')))
}

/// Says which problems the tags have, and which fields a catalogue will ask for.
fn remarks(record: &Record, format: Format, checksums: bool, context: &Context) {
    for problem in &record.problems {
        context.warn(problem);
    }
    if !record.all_files {
        let shown = record.files.len();
        context.warn(&format!(
            "only {shown} files are listed; describe a smaller directory"
        ));
    }
    let missing = record.missing();
    if let Some(first) = missing.first() {
        context.note(&format!(
            "unknown: {}; catalogues ask for them: tag the item (`{first}=…`), or give --set {first}=…",
            missing.join(", ")
        ));
    }
    let without = record.files.iter().filter(|f| f.sha256.is_none()).count();
    if format == Format::Croissant && without > 0 && !checksums {
        context.note(&format!(
            "{without} of {} files have no checksum, so programs cannot check what they load: --checksums reads the files",
            record.files.len()
        ));
    }
}

/// Computes missing checksums of files on this machine, and reads the columns of tables.
fn read_files(record: &mut Record, context: &Context) {
    let rules = Rules::new(false, true);
    let progress = Progress::files(context.globals.quiet, "files");
    progress.expect(record.files.len() as u64);
    for part in &mut record.files {
        if context.interrupt.cancelled() {
            return;
        }
        if part.path.starts_with('/')
            && let Err(why) = read_file(part, &rules, context)
        {
            let path = display(part.path.as_bytes());
            context.warn(&format!("{path}: {why}; its checksum is left out"));
        }
        progress.advance(1);
    }
}

fn read_file(part: &mut FilePart, rules: &Rules, context: &Context) -> Result<(), String> {
    let known = part.size.and_then(|size| i64::try_from(size).ok());
    let opened = rules.open(&part.path, known)?;
    part.size.get_or_insert(opened.size);
    let mut file = opened.into_file();
    if part.sha256.is_none() {
        part.sha256 = checksum(&mut file, context)?;
    }
    let packed = Path::new(&part.path)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    let format = table::Format::of_file_name(&part.path).filter(|_| !packed);
    if let Some(format) = format {
        file.rewind().map_err(|e| e.to_string())?;
        match table::outline(file, format) {
            Ok(columns) => {
                let columns = columns.into_iter();
                part.columns = columns
                    .map(|(name, kind)| (name, column_kind(kind)))
                    .collect();
            }
            // A file whose name has the ending of a table need not be one.
            Err(why) => {
                let path = display(part.path.as_bytes());
                context.note(&format!("{path}: {why}; its columns are left out"));
            }
        }
    }
    Ok(())
}

const fn column_kind(kind: ValueKind) -> ColumnKind {
    match kind {
        ValueKind::I64 => ColumnKind::Integer,
        ValueKind::F64 => ColumnKind::Float,
        ValueKind::Bool => ColumnKind::Bool,
        ValueKind::Timestamp => ColumnKind::Date,
        _ => ColumnKind::Text,
    }
}

/// Computes the SHA-256 of a file; `None` if the user interrupts it.
fn checksum(file: &mut File, context: &Context) -> Result<Option<String>, String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if context.interrupt.cancelled() {
            return Ok(None);
        }
        let n = file.read(&mut buffer).map_err(|e| e.to_string())?;
        if n == 0 {
            break;
        }
        digest.update(buffer.get(..n).unwrap_or_default());
    }
    let mut text = String::with_capacity(64);
    for byte in digest.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Some(text))
}

/// Writes to a temporary file and renames it at the end, so that a file of this name is complete.
fn write_file(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, file));
    if written.is_err() {
        // The error is reported; the incomplete file is of no use.
        let _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("writing {}", file.display()))
}
