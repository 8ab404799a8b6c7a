//! Reader of objects from tables: a row is an object, with its ID attributes in columns of any names.

use super::columns::Column;
use super::parquet::RowGroups;
use super::record::{Cell, Row, check_limits, object, text};
use super::value::value_from_json;
use super::{Format, ReadOptions, RecordError, RowSource, Rows, file_error, text_rows};
use esker_model::filter::SPECIAL_NAMES;
use esker_model::object::{ID_ATTRIBUTES, Identity, object_type};
use esker_model::{Op, Properties, Schema, Value, ValueKind, VertexTypeId};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Columns computed by Esker itself, which are skipped on import.
const OF_ESKER: [&str; 3] = ["id", "created", "modified"];
/// Limit of cached column roles: a line of NDJSON may contain new columns.
const ROLES_MAX: usize = 4_096;

/// Prefix of the idempotency keys of batches.
const KEY_PREFIX: &[u8] = b"esker-objects/1/";

/// Source of an ID attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdSource {
    /// A column of the table.
    Column(String),
    /// A constant text for all objects.
    Text(String),
}

/// Sources of the four ID attributes, in the order of [`ID_ATTRIBUTES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdColumns(pub [IdSource; 4]);

impl IdColumns {
    /// Parses `COLUMN,COLUMN,…`, up to four in the order name, application, owner, step; or `ATTRIBUTE=COLUMN,…` in any order, with
    /// `ATTRIBUTE=:TEXT` for a constant. Defaults: no application, owner `owner`, step 0.
    ///
    /// # Errors
    /// Returns a message with the error and the expected form.
    pub fn parse(text: &str, owner: i64) -> Result<Self, String> {
        let mut sources = [const { None }; 4];
        for (i, part) in text.split(',').map(str::trim).enumerate() {
            let (at, source) = match part.split_once('=') {
                Some((attribute, source)) => {
                    let attribute = attribute.trim();
                    (ID_ATTRIBUTES.iter().position(|a| *a == attribute), source)
                }
                None => (Some(i), part),
            };
            let Some((place, name)) =
                at.and_then(|at| Some((sources.get_mut(at)?, *ID_ATTRIBUTES.get(at)?)))
            else {
                return Err(format!(
                    "`{part}` does not name an ID attribute; there are four: name, app, owner, \
                     step; expected as in name,app,owner,step or name=file,step=:7"
                ));
            };
            if place.is_some() {
                return Err(format!("`{text}` says twice where the {name} comes from"));
            }
            if source.is_empty() {
                return Err(format!("`{text}` names no column for the {name}"));
            }
            *place = Some(match source.strip_prefix(':') {
                Some(constant) => IdSource::Text(constant.to_owned()),
                None => IdSource::Column(source.to_owned()),
            });
        }
        let [name, app, of, step] = sources;
        let Some(name) = name else {
            return Err(format!(
                "`{text}` does not say which column has the name; expected as in name,app,owner,step or name=file,step=:7"
            ));
        };
        let constant = |text: &str| IdSource::Text(text.to_owned());
        Ok(Self([
            name,
            app.unwrap_or_else(|| constant("")),
            of.unwrap_or_else(|| constant(&owner.to_string())),
            step.unwrap_or_else(|| constant("0")),
        ]))
    }
}

/// Meaning of the columns in a table of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectTable {
    /// Sources of the ID attributes.
    pub id: IdColumns,
    /// Column with the location of the data, if it has another name.
    pub location: Option<String>,
    /// Columns that become tags; `None` for all columns without another meaning.
    pub tags: Option<Vec<String>>,
}

/// An object in a row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectRecord {
    /// Line (text) or row (Parquet), from 1.
    pub line: u64,
    /// Start of the record in bytes, if known.
    pub byte: Option<u64>,
    /// ID attributes of the object.
    pub identity: Identity,
    /// Other predefined attributes of the object.
    pub attributes: Properties,
    /// Tags of the object.
    pub tags: Properties,
}

impl ObjectRecord {
    /// Returns the operation that creates the object.
    pub fn create(&self) -> Op {
        Op::CreateObject {
            identity: self.identity.clone(),
            attributes: self.attributes.clone(),
            tags: self.tags.clone(),
        }
    }

    /// Returns the digest of the record with its position in the table: equal records in the same line have equal digests. Also returns the
    /// size of the record in bytes.
    pub fn digest(&self) -> ([u8; 16], usize) {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&self.line.to_be_bytes());
        bytes.extend_from_slice(&self.identity.hash());
        self.attributes.encode(&mut bytes);
        self.tags.encode(&mut bytes);
        let mut digest = [0; 16];
        blake3::Hasher::new()
            .update(&bytes)
            .finalize_xof()
            .fill(&mut digest);
        let id = self.identity.name.len() + self.identity.app.len();
        (digest, bytes.len() + id)
    }

    /// Returns the idempotency key of a batch of records with these digests, so that the batch applies once. Another salt makes it another
    /// batch.
    pub fn idempotency_key(salt: &[u8], digests: impl Iterator<Item = [u8; 16]>) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&(salt.len() as u64).to_be_bytes())
            .update(salt);
        for digest in digests {
            hasher.update(&digest);
        }
        let mut key = vec![0; KEY_PREFIX.len() + 16];
        let (head, tail) = key.split_at_mut(KEY_PREFIX.len());
        head.copy_from_slice(KEY_PREFIX);
        hasher.finalize_xof().fill(tail);
        key
    }
}

/// Role of a column in an object.
#[derive(Debug, Clone)]
enum Role {
    /// ID attributes, by index.
    Id(Vec<usize>),
    /// A predefined attribute.
    Attribute(String, ValueKind),
    /// A user-defined tag.
    Tag(String, Option<ValueKind>),
    /// Several predefined attributes, as a JSON object.
    Attributes,
    /// Several tags, as a JSON object.
    Tags,
    /// A skipped column.
    Ignored,
    /// An invalid column.
    Refused(String),
}

/// Reads a table as objects: an iterator over records, and errors with their locations.
pub struct ObjectReader {
    rows: Box<dyn RowSource>,
    options: ReadOptions,
    table: ObjectTable,
    schema: Arc<Schema>,
    type_id: VertexTypeId,
    roles: HashMap<String, Arc<Role>>,
    failed: bool,
}

impl std::fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectReader")
            .field("file", &self.options.file)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl ObjectReader {
    /// Reads any format except Parquet and edge lists, compressed by gzip or not.
    ///
    /// # Errors
    /// Fails if a named column is missing, or a column cannot have the role in its heading.
    pub fn text(
        input: impl Read + Send + 'static,
        format: Format,
        file: &str,
        table: ObjectTable,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        let options = read_options(file, &table)?;
        let rows = text_rows(input, format, &options)?;
        Self::new(rows, options, table, schema)
    }

    /// Reads a Parquet file.
    ///
    /// # Errors
    /// Fails if it is not a Parquet file, or for the reasons of [`Self::text`].
    pub fn parquet(
        input: File,
        file: &str,
        table: ObjectTable,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        let options = read_options(file, &table)?;
        let rows = Box::new(RowGroups::new(input, &options)?);
        Self::new(rows, options, table, schema)
    }

    fn new(
        rows: Box<dyn RowSource>,
        options: ReadOptions,
        table: ObjectTable,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        let type_id = object_type(&schema)
            .ok_or_else(|| file_error(&options, "this database has a type `Object` of its own"))?;
        let mut reader = Self {
            rows,
            options,
            table,
            schema,
            type_id,
            roles: HashMap::new(),
            failed: false,
        };
        // An invalid heading is reported before the first row is read.
        for name in reader.rows.headings() {
            if let Role::Refused(why) = &*reader.role(&name, None) {
                return Err(file_error(&reader.options, why));
            }
        }
        reader.roles.clear();
        Ok(reader)
    }

    fn role(&mut self, name: &str, kind: Option<ValueKind>) -> Arc<Role> {
        if let Some(role) = self.roles.get(name) {
            return Arc::clone(role);
        }
        let role = Arc::new(self.new_role(name, kind));
        if self.roles.len() < ROLES_MAX {
            self.roles.insert(name.to_owned(), Arc::clone(&role));
        }
        role
    }

    fn new_role(&self, name: &str, kind: Option<ValueKind>) -> Role {
        let id: Vec<usize> = (0..4)
            .filter(|i| matches!(self.table.id.0.get(*i), Some(IdSource::Column(c)) if c == name))
            .collect();
        if !id.is_empty() {
            return Role::Id(id);
        }
        if self.table.location.as_deref() == Some(name) {
            return Role::Attribute("location".to_owned(), ValueKind::String);
        }
        let chosen = self
            .table
            .tags
            .as_ref()
            .map(|t| t.iter().any(|t| t == name));
        let declared = self.schema.attribute(self.type_id, name);
        let is_id = ID_ATTRIBUTES.contains(&name);
        match (chosen, declared) {
            (Some(true), Some(_)) => Role::Refused(format!(
                "column `{name}` cannot become a tag: objects have a predefined attribute of that name"
            )),
            (None, Some(_)) if is_id => Role::Refused(format!(
                "column `{name}` has the name of an ID attribute that does not come from it; take it with --id, or choose \
                 columns with --tags"
            )),
            (Some(false), Some(_)) if is_id => Role::Ignored,
            (None, None) if OF_ESKER.contains(&name) => Role::Ignored,
            (Some(true) | None, None) if SPECIAL_NAMES.contains(&name) => Role::Refused(format!(
                "column `{name}` cannot become a tag: in filters that name means something else; give it another, or \
                 choose columns with --tags"
            )),
            (_, Some(a)) => Role::Attribute(name.to_owned(), a.kind),
            (Some(false), None) => Role::Ignored,
            (None, None) if name == "attributes" => Role::Attributes,
            (None, None) if name == "tags" => Role::Tags,
            (Some(true) | None, None) => Role::Tag(name.to_owned(), kind),
        }
    }

    fn build(&mut self, row: Row) -> Result<ObjectRecord, String> {
        let mut id: [Option<Cell>; 4] = [None, None, None, None];
        let (mut attributes, mut tags) = (Properties::new(), Properties::new());
        for (column, cell) in row.cells {
            let Column::Named(name, kind) = &*column else {
                continue;
            };
            match &*self.role(name, *kind) {
                Role::Id(places) => {
                    for place in places {
                        if let Some(to) = id.get_mut(*place) {
                            *to = Some(cell.clone());
                        }
                    }
                }
                Role::Attribute(name, kind) => {
                    let value = cell.value(Some(*kind), true);
                    if let Some(value) = value.map_err(|e| format!("attribute `{name}`: {e}"))? {
                        set_attribute(&mut attributes, name, *kind, value)?;
                    }
                }
                Role::Tag(name, kind) => {
                    // An explicit null is a tag without a value; an absent value is no tag.
                    if matches!(cell, Cell::Json(Json::Null)) {
                        tags.set(name, Value::Null);
                        continue;
                    }
                    let value = cell.value(*kind, self.options.infer);
                    if let Some(value) = value.map_err(|e| format!("tag `{name}`: {e}"))? {
                        tags.set(name, value);
                    }
                }
                Role::Attributes => {
                    let map = object(cell, "attributes")?.unwrap_or_default();
                    self.all_attributes(map, &mut attributes, &mut id)?;
                }
                Role::Tags => {
                    for (name, json) in object(cell, "tags")?.unwrap_or_default() {
                        if self.schema.attribute(self.type_id, &name).is_some() {
                            return Err(format!("`{name}` is a predefined attribute, not a tag"));
                        }
                        let value =
                            value_from_json(&json).map_err(|e| format!("tag `{name}`: {e}"))?;
                        tags.set(name, value);
                    }
                }
                Role::Ignored => {}
                Role::Refused(why) => return Err(why.clone()),
            }
        }
        check_limits(&attributes)?;
        check_limits(&tags)?;
        Ok(ObjectRecord {
            line: row.line,
            byte: row.byte,
            identity: self.identity(id)?,
            attributes,
            tags,
        })
    }

    fn all_attributes(
        &self,
        map: Map<String, Json>,
        attributes: &mut Properties,
        id: &mut [Option<Cell>; 4],
    ) -> Result<(), String> {
        for (name, json) in map {
            let Some(declared) = self.schema.attribute(self.type_id, &name) else {
                return Err(format!("`{name}` is not a predefined attribute of objects"));
            };
            // Esker's own JSON has the ID attributes here; separate columns take precedence.
            if let Some(place) = ID_ATTRIBUTES.iter().position(|a| *a == name) {
                if let Some(empty @ None) = id.get_mut(place) {
                    *empty = Some(Cell::Json(json));
                }
                continue;
            }
            let value = Cell::Json(json).value(Some(declared.kind), true);
            if let Some(value) = value.map_err(|e| format!("attribute `{name}`: {e}"))? {
                set_attribute(attributes, &name, declared.kind, value)?;
            }
        }
        Ok(())
    }

    fn identity(&self, cells: [Option<Cell>; 4]) -> Result<Identity, String> {
        let [name, app, owner, step] = cells;
        let [of_name, of_app, of_owner, of_step] = &self.table.id.0;
        let name = id_text(name, of_name, "name")?;
        if name.is_empty() {
            return Err(missing(of_name, "name"));
        }
        let owner = id_number(owner, of_owner, "owner")?;
        Ok(Identity {
            name,
            app: id_text(app, of_app, "app")?,
            owner: owner.ok_or_else(|| missing(of_owner, "owner"))?,
            step: id_number(step, of_step, "step")?.unwrap_or(0),
        })
    }
}

fn set_attribute(
    attributes: &mut Properties,
    name: &str,
    kind: ValueKind,
    value: Value,
) -> Result<(), String> {
    if !kind.accepts(&value) {
        return Err(format!(
            "attribute `{name}` holds {}; got {}",
            kind.name(),
            value.kind_name()
        ));
    }
    attributes.set(name, value);
    Ok(())
}

fn missing(source: &IdSource, attribute: &str) -> String {
    match source {
        IdSource::Column(column) if column != attribute => {
            format!("there is no `{column}`, which is to be the {attribute}")
        }
        IdSource::Column(_) | IdSource::Text(_) => format!("there is no `{attribute}`"),
    }
}

fn id_text(cell: Option<Cell>, source: &IdSource, what: &str) -> Result<String, String> {
    match (source, cell) {
        (IdSource::Text(constant), _) => Ok(constant.clone()),
        (IdSource::Column(_), None | Some(Cell::Json(Json::Null))) => Ok(String::new()),
        (IdSource::Column(_), Some(cell)) => text(cell).map_err(|e| format!("{what}: {e}")),
    }
}

fn id_number(cell: Option<Cell>, source: &IdSource, what: &str) -> Result<Option<i64>, String> {
    let cell = match (source, cell) {
        (IdSource::Text(constant), _) => Cell::Text(constant.clone()),
        (IdSource::Column(_), None) => return Ok(None),
        (IdSource::Column(_), Some(cell)) => cell,
    };
    let value = cell
        .value(Some(ValueKind::I64), false)
        .map_err(|e| format!("{what}: {e}"))?;
    match value {
        None => Ok(None),
        Some(Value::I64(n)) => Ok(Some(n)),
        // Programs without nullable integers write 7.0 for 7.
        Some(Value::F64(x)) if x.fract() == 0.0 && x.abs() < 9e15 => Ok(Some(x as i64)),
        Some(other) => Err(format!(
            "{what}: expected an integer, not a {}",
            other.kind_name()
        )),
    }
}

fn read_options(file: &str, table: &ObjectTable) -> Result<ReadOptions, RecordError> {
    let mut options = ReadOptions::new(file, Rows::Objects);
    let id = table.id.0.iter().filter_map(|source| match source {
        IdSource::Column(column) => Some(column),
        IdSource::Text(_) => None,
    });
    options.needed = id
        .chain(&table.location)
        .chain(table.tags.iter().flatten())
        .cloned()
        .collect();
    if let IdColumns([_, _, IdSource::Text(owner), _]) = &table.id
        && owner.parse::<i64>().is_err()
    {
        return Err(file_error(
            &options,
            &format!("`{owner}` is not an owner: expected a user id, as in owner=:1001"),
        ));
    }
    if let IdColumns([_, _, _, IdSource::Text(step)]) = &table.id
        && step.parse::<i64>().is_err()
    {
        return Err(file_error(
            &options,
            &format!("`{step}` is not a step: expected an integer, as in step=:7"),
        ));
    }
    Ok(options)
}

impl Iterator for ObjectReader {
    type Item = Result<ObjectRecord, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.rows.next_row()?.and_then(|row| {
            let (line, byte) = (row.line, row.byte);
            self.build(row).map_err(|message| RecordError {
                file: self.options.file.clone(),
                line,
                byte,
                message,
                fatal: false,
            })
        });
        if let Err(error) = &read {
            self.failed = error.fatal;
        }
        Some(read)
    }
}
