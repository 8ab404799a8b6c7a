//! Conversion of one row, from any format, to mutations.

use super::columns::Column;
use super::value::{value_from_cell, value_from_json, version_from_text};
use super::{ReadOptions, RecordError, Rows};
use esker_model::id::check_key;
use esker_model::limits::{LIST_DEPTH_MAX, PROPERTIES_MAX, VALUE_BYTES_MAX};
use esker_model::schema::check_attribute_name;
use esker_model::{
    EdgeTypeId, Mutation, Op, Properties, Schema, SchemaError, Value, ValueKind, Version, VertexId,
    VertexName, VertexRef, VertexTypeId,
};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Limit of remembered vertices that are known to exist, so that a hub is not ensured for each edge.
const ENSURED_MAX: usize = 1 << 20;

/// Content of a cell.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    /// Text to be parsed.
    Text(String),
    /// A JSON value.
    Json(Json),
    /// A value typed by the format.
    Typed(Value),
}

impl Cell {
    /// Returns the value: of the declared kind, else of the inferred one; `None` if the cell is empty.
    pub(super) fn value(
        self,
        kind: Option<ValueKind>,
        infer: bool,
    ) -> Result<Option<Value>, String> {
        let value = match self {
            Self::Text(text) => return value_from_cell(&text, kind, infer),
            Self::Json(json) => value_from_json(&json)?,
            Self::Typed(value) => value,
        };
        // Formats without timestamps represent them as text.
        match (kind, value) {
            (_, Value::Null) => Ok(None),
            (Some(kind), Value::String(text))
                if !matches!(kind, ValueKind::String | ValueKind::Any) =>
            {
                value_from_cell(&text, Some(kind), false)
            }
            (_, value) => Ok(Some(value)),
        }
    }
}

/// One record of a table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Line or row, from 1.
    pub(super) line: u64,
    /// Start of the record in bytes.
    pub(super) byte: Option<u64>,
    /// Non-empty cells, with their columns.
    pub(super) cells: Vec<(Arc<Column>, Cell)>,
}

/// Converter of rows to mutations.
pub(super) struct Builder {
    schema: Arc<Schema>,
    options: ReadOptions,
    vertex_type: Option<VertexTypeId>,
    destination_type: Option<VertexTypeId>,
    edge_type: Option<EdgeTypeId>,
    /// Vertices known to exist, with the earliest version at which they were ensured.
    ensured: HashMap<VertexId, Option<Version>>,
}

/// Cells of a row by meaning.
#[derive(Default)]
struct RowCells {
    id: Option<String>,
    source: Option<String>,
    destination: Option<String>,
    type_name: Option<String>,
    version: Option<Version>,
    deleted: bool,
    attributes: Option<Map<String, Json>>,
    user: Option<Map<String, Json>>,
    named: Vec<(String, Option<ValueKind>, Cell)>,
}

struct ParsedName {
    vertex: VertexRef,
    key: String,
}

impl Builder {
    pub(super) fn new(options: &ReadOptions, schema: Arc<Schema>) -> Result<Self, SchemaError> {
        let vertex_type = |name: &Option<String>| -> Result<_, SchemaError> {
            name.as_deref()
                .map(|n| schema.vertex_type_id(n))
                .transpose()
        };
        let edge_type = options.edge_type.as_deref();
        Ok(Self {
            vertex_type: vertex_type(&options.vertex_type)?,
            destination_type: vertex_type(&options.destination_type)?,
            edge_type: edge_type.map(|n| schema.edge_type_id(n)).transpose()?,
            options: options.clone(),
            ensured: HashMap::new(),
            schema,
        })
    }

    /// Appends the row's mutations; on error, appends nothing.
    pub(super) fn build(
        &mut self,
        row: Row,
        out: &mut VecDeque<Mutation>,
    ) -> Result<(), RecordError> {
        let (line, byte) = (row.line, row.byte);
        let built = parts(row).and_then(|parts| match self.options.rows {
            Rows::Vertices => self.vertex(parts),
            Rows::Edges => self.edge(parts),
            Rows::Objects => Err("objects have a reader of their own".to_owned()),
        });
        match built {
            Ok(mutations) => {
                out.extend(mutations);
                Ok(())
            }
            Err(message) => Err(RecordError {
                file: self.options.file.clone(),
                line,
                byte,
                message,
                fatal: false,
            }),
        }
    }

    fn vertex(&self, parts: RowCells) -> Result<Vec<Mutation>, String> {
        let id = parts.id.as_deref().ok_or("there is no `id`")?;
        let default = match &parts.type_name {
            Some(name) => Some(
                self.schema
                    .vertex_type_id(name)
                    .map_err(|e| e.to_string())?,
            ),
            None => self.vertex_type,
        };
        let ParsedName { vertex, key } = self.name(id, default)?;
        let version = parts.version.or(self.options.version);
        let mutation = |version, op| Mutation { version, op };
        let ensure = || Op::EnsureVertex {
            vertex,
            key: key.clone(),
        };
        if parts.deleted {
            let before = version.map(|v| Version(v.0.saturating_sub(1)));
            return Ok(vec![
                mutation(before, ensure()),
                mutation(version, Op::DeleteVertex { vertex }),
            ]);
        }

        let whole = parts.attributes.is_some();
        let mut attributes = Properties::new();
        for (name, json) in parts.attributes.unwrap_or_default() {
            let value = value_from_json(&json).map_err(|e| format!("attribute `{name}`: {e}"))?;
            attributes.set(name, value);
        }
        let mut user: BTreeMap<Option<Version>, Properties> = BTreeMap::new();
        for (name, json) in parts.user.unwrap_or_default() {
            let (value, at) =
                user_attribute(&json).map_err(|e| format!("attribute `{name}`: {e}"))?;
            user.entry(at.or(version)).or_default().set(name, value);
        }
        for (name, kind, cell) in parts.named {
            let declared = self.schema.attribute(vertex.type_id, &name).map(|a| a.kind);
            let Some(value) = self
                .cell(cell, kind.or(declared))
                .map_err(|e| format!("attribute `{name}`: {e}"))?
            else {
                continue;
            };
            if declared.is_some() {
                attributes.set(name, value);
            } else {
                user.entry(version).or_default().set(name, value);
            }
        }
        for (name, value) in attributes.iter() {
            match self.schema.attribute(vertex.type_id, name) {
                Some(a) if a.kind.accepts(value) => {}
                Some(a) => {
                    return Err(format!(
                        "attribute `{name}` holds {}; got {}",
                        a.kind.name(),
                        value.kind_name()
                    ));
                }
                None => {
                    return Err(format!(
                        "attribute `{name}` is not declared for {}; declare it, or give it under `user`",
                        self.type_name(vertex.type_id)
                    ));
                }
            }
        }
        check_limits(&attributes)?;
        user.values().try_for_each(check_limits)?;

        let mut mutations = Vec::with_capacity(2 + user.len());
        let puts = whole || !attributes.is_empty();
        let first = user.keys().flatten().min().copied();
        // An attribute may be older than the newest version of the vertex, never older than the vertex.
        if first.is_some_and(|first| version.is_some_and(|v| first < v)) {
            mutations.push(mutation(first, ensure()));
        } else if !puts {
            mutations.push(mutation(version, ensure()));
        }
        if puts {
            let key = key.clone();
            mutations.push(mutation(
                version,
                Op::PutVertex {
                    vertex,
                    key,
                    attributes,
                },
            ));
        }
        for (at, set) in user {
            let remove = Vec::new();
            mutations.push(mutation(
                at,
                Op::SetAttributes {
                    vertex,
                    set,
                    remove,
                },
            ));
        }
        Ok(mutations)
    }

    fn edge(&mut self, parts: RowCells) -> Result<Vec<Mutation>, String> {
        let source = parts.source.as_deref().ok_or("there is no `source`")?;
        let destination = parts
            .destination
            .as_deref()
            .ok_or("there is no `destination`")?;
        let edge_type = match &parts.type_name {
            Some(name) => self.schema.edge_type_id(name).map_err(|e| e.to_string())?,
            None => self
                .edge_type
                .ok_or("there is no `type`; give one column, or an edge type for all rows")?,
        };
        let ends = [
            self.name(source, self.vertex_type)?,
            self.name(destination, self.destination_type.or(self.vertex_type))?,
        ];
        let [source, destination] = [ends[0].vertex, ends[1].vertex];
        self.schema
            .check_ends(edge_type, source.type_id, destination.type_id)
            .map_err(|e| e.to_string())?;
        let mut properties = Properties::new();
        for (name, json) in parts.attributes.unwrap_or_default() {
            let value = value_from_json(&json).map_err(|e| format!("property `{name}`: {e}"))?;
            properties.set(name, value);
        }
        for (name, kind, cell) in parts.named {
            if let Some(value) = self
                .cell(cell, kind)
                .map_err(|e| format!("property `{name}`: {e}"))?
            {
                properties.set(name, value);
            }
        }
        check_limits(&properties)?;
        let version = parts.version.or(self.options.version);
        let mut mutations = Vec::with_capacity(3);
        if !self.options.strict {
            for end in ends {
                if self.is_news(end.vertex.id, version) {
                    let ParsedName { vertex, key } = end;
                    let op = Op::EnsureVertex { vertex, key };
                    mutations.push(Mutation { version, op });
                }
            }
        }
        let op = Op::PutEdge {
            source,
            edge_type,
            destination,
            properties,
        };
        mutations.push(Mutation { version, op });
        Ok(mutations)
    }

    /// Returns whether a vertex must be ensured at a version. (No version is the commit's, later than any.)
    fn is_news(&mut self, id: VertexId, version: Option<Version>) -> bool {
        let at = version.unwrap_or(Version::MAX);
        match self.ensured.get(&id) {
            Some(known) if known.unwrap_or(Version::MAX) <= at => false,
            _ => {
                if self.ensured.len() >= ENSURED_MAX {
                    self.ensured.clear();
                }
                self.ensured.insert(id, version);
                true
            }
        }
    }

    fn cell(&self, cell: Cell, kind: Option<ValueKind>) -> Result<Option<Value>, String> {
        cell.value(kind, self.options.infer)
    }

    /// Parses `type:key`, or the key alone if a type is given.
    fn name(&self, text: &str, default: Option<VertexTypeId>) -> Result<ParsedName, String> {
        // Keys may contain colons; approximate matches are used only for messages.
        let known = |name: &str| {
            let mut types = self.schema.vertex_types();
            types.find_map(|(id, t)| t.name.eq_ignore_ascii_case(name).then_some(id))
        };
        let typed = text
            .split_once(':')
            .and_then(|(name, key)| Some((known(name)?, key)));
        let (type_id, key) = match (typed, default) {
            (Some(found), _) => found,
            (None, Some(type_id)) => (type_id, text),
            (None, None) => {
                let name = VertexName::parse(text).map_err(|e| e.to_string())?;
                let error = self.schema.vertex_type_id(&name.type_name).err();
                return Err(error.map(|e| e.to_string()).unwrap_or_default());
            }
        };
        check_key(key).map_err(str::to_owned)?;
        let id = VertexId::of(&self.schema.prefix(type_id), key);
        Ok(ParsedName {
            vertex: VertexRef { id, type_id },
            key: key.to_owned(),
        })
    }

    fn type_name(&self, id: VertexTypeId) -> String {
        self.schema
            .vertex_type(id)
            .map_or_else(|| self.schema.prefix(id), |t| t.name.clone())
    }
}

fn parts(row: Row) -> Result<RowCells, String> {
    let mut parts = RowCells::default();
    for (column, cell) in row.cells {
        match &*column {
            Column::Id => parts.id = Some(text(cell)?),
            Column::Source => parts.source = Some(text(cell)?),
            Column::Destination => parts.destination = Some(text(cell)?),
            Column::Type => parts.type_name = Some(text(cell)?),
            Column::Version => parts.version = version(cell)?,
            Column::Deleted => {
                parts.deleted = match cell {
                    Cell::Typed(Value::Bool(b)) | Cell::Json(Json::Bool(b)) => b,
                    Cell::Typed(Value::Null) | Cell::Json(Json::Null) => false,
                    other => {
                        let value = value_from_cell(&text(other)?, Some(ValueKind::Bool), false);
                        value.map_err(|e| format!("deleted: {e}"))? == Some(Value::Bool(true))
                    }
                };
            }
            Column::Attributes | Column::Properties => {
                parts.attributes = object(cell, "attributes")?;
            }
            Column::Passed => {}
            Column::User => parts.user = object(cell, "user")?,
            Column::Named(name, kind) => parts.named.push((name.clone(), *kind, cell)),
        }
    }
    Ok(parts)
}

fn version(cell: Cell) -> Result<Option<Version>, String> {
    match cell {
        Cell::Json(Json::Null) | Cell::Typed(Value::Null) => Ok(None),
        Cell::Typed(Value::Timestamp(nanos)) => u64::try_from(nanos / 1_000_000)
            .map(|ms| Some(Version::new(ms, 0)))
            .map_err(|_| "version: a time before 1970".to_owned()),
        other => version_from_text(&text(other)?)
            .map(Some)
            .map_err(|e| format!("version: {e}")),
    }
}

/// Returns the text of a cell that names something; numbers are accepted.
pub(super) fn text(cell: Cell) -> Result<String, String> {
    match cell {
        Cell::Text(t) | Cell::Json(Json::String(t)) | Cell::Typed(Value::String(t)) => Ok(t),
        Cell::Json(Json::Number(n)) => Ok(n.to_string()),
        Cell::Typed(Value::I64(n)) => Ok(n.to_string()),
        Cell::Json(other) => Err(format!("expected a string, not {other}")),
        Cell::Typed(other) => Err(format!("expected a string, not a {}", other.kind_name())),
    }
}

pub(super) fn object(cell: Cell, what: &str) -> Result<Option<Map<String, Json>>, String> {
    let json = match cell {
        Cell::Json(json) => json,
        Cell::Typed(Value::Null) => Json::Null,
        other => {
            serde_json::from_str(&text(other)?).map_err(|e| format!("{what}: invalid JSON: {e}"))?
        }
    };
    match json {
        Json::Object(map) => Ok(Some(map)),
        Json::Null => Ok(None),
        _ => Err(format!("{what}: expected an object in JSON")),
    }
}

/// Parses `{"value":…,"version":…}`, or the value alone.
fn user_attribute(json: &Json) -> Result<(Value, Option<Version>), String> {
    if let Json::Object(map) = json
        && let Some(value) = map.get("value")
    {
        let at = match map.get("version") {
            None | Some(Json::Null) => None,
            Some(Json::String(text)) => Some(version_from_text(text)?),
            Some(other) => return Err(format!("expected a version, not {other}")),
        };
        return Ok((value_from_json(value)?, at));
    }
    Ok((value_from_json(json)?, None))
}

pub(super) fn check_limits(properties: &Properties) -> Result<(), String> {
    if properties.len() > PROPERTIES_MAX {
        return Err(format!(
            "{} properties; the limit is {PROPERTIES_MAX}",
            properties.len()
        ));
    }
    for (name, value) in properties.iter() {
        check_attribute_name(name).map_err(|e| e.to_string())?;
        if value.depth() > LIST_DEPTH_MAX {
            return Err(format!("`{name}`: lists nest deeper than {LIST_DEPTH_MAX}"));
        }
        let mut encoded = Vec::new();
        if !matches!(
            value,
            Value::Null | Value::Bool(_) | Value::I64(_) | Value::F64(_) | Value::Timestamp(_)
        ) {
            value.encode(&mut encoded);
        }
        if encoded.len() > VALUE_BYTES_MAX {
            return Err(format!(
                "`{name}` takes {} bytes; the limit is {VALUE_BYTES_MAX}",
                encoded.len()
            ));
        }
    }
    Ok(())
}
