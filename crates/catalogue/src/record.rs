//! The facts of one item, independent of a catalogue's format.

use crate::agent::Agent;
use crate::identifier::License;

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// An object of the flat namespace.
    Object,
    /// A file.
    File,
    /// A directory with the files below it.
    Directory,
    /// A run with the files that it wrote.
    Run,
    /// Any other vertex.
    Other,
}

impl ItemKind {
    /// Short description of the kind, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Object => "Object",
            Self::File => "File",
            Self::Directory => "Directory",
            Self::Run => "Outputs of a run",
            Self::Other => "Item",
        }
    }

    /// Whether the item is a set of files.
    pub const fn is_set(self) -> bool {
        matches!(self, Self::Directory | Self::Run)
    }
}

/// Kind of the values in a column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Texts, and values of several kinds.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers with a fraction.
    Float,
    /// Truth values.
    Bool,
    /// Dates and times.
    Date,
}

/// A file that is a part of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePart {
    /// Name of the file's vertex, such as `file:/scratch/run7/C`.
    pub name: String,
    /// Path of the file, as text for display.
    pub path: String,
    /// Address from which the content can be read; `None` if only the path is known.
    pub url: Option<String>,
    /// Size of the content, in bytes.
    pub size: Option<u64>,
    /// Media type, such as `text/csv`.
    pub media_type: Option<String>,
    /// SHA-256 of the content, in 64 lower-case hexadecimal digits.
    pub sha256: Option<String>,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub modified: Option<i64>,
    /// Names and kinds of the columns, if the file is a table that was read.
    pub columns: Vec<(String, ColumnKind)>,
}

impl FilePart {
    /// Last part of the path.
    pub fn label(&self) -> &str {
        last_part(&self.path)
    }
}

/// Another item to which an item is related.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// Name of the vertex, such as `file:/scratch/in.nc`.
    pub name: String,
    /// Title of the item, for display.
    pub title: String,
    /// DOI of the other item, if it has one.
    pub doi: Option<String>,
}

/// A run that wrote an item, or whose outputs are the item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// Name of the run's vertex, such as `job:71326`.
    pub name: String,
    /// Title of the item, for display.
    pub title: String,
    /// Command line of the run.
    pub command: Option<String>,
    /// Begin, in nanoseconds since 1970.
    pub start: Option<i64>,
    /// End, in nanoseconds since 1970.
    pub end: Option<i64>,
    /// Names of the users who ran it.
    pub users: Vec<String>,
    /// Programs that it executed.
    pub programs: Vec<String>,
}

/// The facts of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Name of the vertex, such as `object:1649186741772673025`.
    pub name: String,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Address of the folder of landing pages, ending in `/`; `None` if there is no server.
    pub base: Option<String>,
    /// Title of the item.
    pub title: String,
    /// Description of the item.
    pub description: Option<String>,
    /// Authors in the given order.
    pub creators: Vec<Agent>,
    /// Others who contributed to the content.
    pub contributors: Vec<Agent>,
    /// Name of the publisher.
    pub publisher: Option<String>,
    /// Licence of the content.
    pub license: Option<License>,
    /// DOI, such as `10.5072/abc`.
    pub doi: Option<String>,
    /// Keywords without any duplicates.
    pub keywords: Vec<String>,
    /// Language of the content, a tag of BCP 47 such as `en`.
    pub language: Option<String>,
    /// Version of the content, such as `1.2`.
    pub version: Option<String>,
    /// Date of publication, as `YYYY`, `YYYY-MM` or `YYYY-MM-DD`.
    pub issued: Option<String>,
    /// Time of creation, in nanoseconds since 1970.
    pub created: Option<i64>,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified: Option<i64>,
    /// Total size of all files, in bytes.
    pub size: Option<u64>,
    /// Files of the item.
    pub files: Vec<FilePart>,
    /// Whether `files` has all files of the item.
    pub all_files: bool,
    /// Runs that wrote the item.
    pub runs: Vec<RunFacts>,
    /// Data that these runs read.
    pub sources: Vec<Related>,
    /// Items that contain this one.
    pub part_of: Vec<Related>,
    /// Tags that no field has, as text.
    pub tags: Vec<(String, String)>,
    /// Problems of the item's tags: which tag, what was expected.
    pub problems: Vec<String>,
}

impl Record {
    /// Address of the item's landing page.
    pub fn page(&self) -> Option<String> {
        self.page_of(&self.name)
    }

    /// Address of the landing page of another vertex on the same server.
    pub fn page_of(&self, name: &str) -> Option<String> {
        let base = self.base.as_deref()?;
        Some(format!("{base}records/{}", crate::encoded(name)))
    }

    /// Identifier of the item: its DOI, its landing page, or a URI that names the vertex and leads nowhere.
    pub fn iri(&self) -> String {
        if let Some(doi) = &self.doi {
            return doi_address(doi);
        }
        self.page().unwrap_or_else(|| iri_of(&self.name))
    }

    /// Identifier of a related vertex, by the same rules.
    pub fn related_iri(&self, name: &str, doi: Option<&str>) -> String {
        if let Some(doi) = doi {
            return doi_address(doi);
        }
        self.page_of(name).unwrap_or_else(|| iri_of(name))
    }

    /// Identifier of a run as an activity. A record of a run's outputs has the page of the run, so the activity itself is a part of it.
    pub(crate) fn run_iri(&self, run: &RunFacts) -> String {
        let own = if run.name == self.name { "#run" } else { "" };
        format!("{}{own}", self.related_iri(&run.name, None))
    }

    /// Address from which a file can be read, or a `file:` URI of its path.
    pub fn file_address(file: &FilePart) -> String {
        match &file.url {
            Some(url) => url.clone(),
            None if file.path.starts_with('/') => {
                format!("file://{}", crate::identifier::encoded_path(&file.path))
            }
            None => iri_of(&file.name),
        }
    }

    /// Text that describes the item: its description, or one made from its kind and name.
    pub fn description_or_made(&self) -> String {
        if let Some(text) = &self.description {
            return text.clone();
        }
        let files = match (self.kind.is_set(), self.files.len(), self.all_files) {
            (false, _, _) => String::new(),
            (true, 1, true) => ", 1 file".to_owned(),
            (true, n, true) => format!(", {n} files"),
            (true, n, false) => format!(", more than {n} files"),
        };
        format!("{}: {}{files}", self.kind.title(), self.name)
    }

    /// Year of publication: of `issued`, else of the creation or of the last change.
    pub fn year(&self) -> Option<String> {
        if let Some(issued) = &self.issued {
            return issued.get(..4).map(str::to_owned);
        }
        let nanos = self.created.or(self.modified)?;
        crate::time::date(nanos).get(..4).map(str::to_owned)
    }

    /// Date of publication: `issued`, else the day of the creation or of the last change.
    pub fn date(&self) -> Option<String> {
        let day = || self.created.or(self.modified).map(crate::time::date);
        self.issued.clone().or_else(day)
    }

    /// Names of the fields that catalogues demand and that are unknown.
    pub fn missing(&self) -> Vec<&'static str> {
        [
            ("creator", self.creators.is_empty()),
            ("publisher", self.publisher.is_none()),
            ("description", self.description.is_none()),
            ("license", self.license.is_none()),
            ("issued", self.issued.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, missing)| missing.then_some(name))
        .collect()
    }
}

/// Address of a DOI.
pub(crate) fn doi_address(doi: &str) -> String {
    format!("https://doi.org/{}", crate::identifier::encoded_path(doi))
}

/// URI of a vertex without a server: the file's own for paths, else a `urn:esker:`.
fn iri_of(name: &str) -> String {
    match name.split_once(':') {
        Some(("file" | "directory", path)) if path.starts_with('/') => {
            format!("file://{}", crate::identifier::encoded_path(path))
        }
        _ => format!("urn:esker:{}", crate::encoded(name)),
    }
}

/// Last part of a path, or the complete text if it is no path.
pub(crate) fn last_part(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(last) if !last.is_empty() => last,
        _ => path,
    }
}
