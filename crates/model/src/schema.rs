//! The schema: vertex types, edge types with their inverses, predefined attributes.
//!
//! The default is GraphMeta's Table 1 (section 2.2). Types have fixed numbers, given in order and never
//! reused: keys hold the numbers, so a schema only ever grows.

use crate::codec::{DecodeError, Reader, put_bytes, put_u16, put_varint};
use crate::id::{EdgeTypeId, VertexTypeId};
use crate::limits::{NAME_BYTES_MAX, TYPES_MAX};
use crate::value::ValueKind;

/// A kind of vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexType {
    /// Canonical name, as in `File`; `file:` in vertex names. Names are compared without case.
    pub name: String,
    /// The more general type that this one specialises.
    pub parent: Option<VertexTypeId>,
    /// Predefined (static) attributes, without those of the parent.
    pub attributes: Vec<AttributeDefinition>,
    /// Whether it came with the default schema. Vertices of users' own types must be reachable from these.
    pub builtin: bool,
}

/// A predefined attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeDefinition {
    /// Its name.
    pub name: String,
    /// What it may hold (null always may be held).
    pub kind: ValueKind,
}

/// A kind of edge, in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeType {
    /// Its name, as in `write`.
    pub name: String,
    /// The type of the same relation seen from the other end, as in `wasWrittenBy`; itself if symmetric.
    pub inverse: EdgeTypeId,
    /// What its source must be (or specialise).
    pub source: VertexTypeId,
    /// What its destination must be (or specialise).
    pub destination: VertexTypeId,
    /// Whether it is the direction that was defined; false for the inverse that came with it.
    pub forward: bool,
}

/// All types of one database.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    vertex_types: Vec<VertexType>,
    edge_types: Vec<EdgeType>,
}

/// What can be added to a schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// A vertex type of the user's own.
    VertexType {
        /// Its name.
        name: String,
        /// The type it specialises, by name.
        parent: Option<String>,
        /// Its predefined attributes.
        attributes: Vec<AttributeDefinition>,
    },
    /// A pair of edge types, one the inverse of the other.
    EdgeType {
        /// Its name.
        name: String,
        /// The name of the opposite direction; the same name for a symmetric relation.
        inverse: String,
        /// Source vertex type, by name.
        source: String,
        /// Destination vertex type, by name.
        destination: String,
    },
    /// One more predefined attribute of an existing vertex type.
    Attribute {
        /// The vertex type, by name.
        vertex_type: String,
        /// The attribute.
        attribute: AttributeDefinition,
    },
}

/// A question that the schema answers with no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// No type of that name.
    #[error("unknown {what} `{name}`{}; the schema has: {known}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// `vertex type`, `edge type` or `attribute`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The closest name there is, if one is close.
        nearest: Option<String>,
        /// All names there are.
        known: String,
    },
    /// A name that cannot be one.
    #[error(
        "`{name}` is no name for a {what}: expected a letter, then letters, digits, `_` or `-`, at most 64 bytes"
    )]
    BadName {
        /// What it was to name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The name is taken by something else.
    #[error("{what} `{name}` exists already and differs; a schema only grows")]
    Exists {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An edge between types that its type does not join.
    #[error(
        "edge type `{edge}` joins {source_type} to {destination_type}; got {got_source} to {got_destination}"
    )]
    Ends {
        /// The edge type.
        edge: String,
        /// Its source type.
        source_type: String,
        /// Its destination type.
        destination_type: String,
        /// The source given.
        got_source: String,
        /// The destination given.
        got_destination: String,
    },
    /// Too many types.
    #[error("a schema holds at most {TYPES_MAX} vertex types and {TYPES_MAX} edge types")]
    Full,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default()
}

/// The closest of the names to what was written, if one is close enough to suggest.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    known
        .map(|k| (edit_distance(&lower, &k.to_ascii_lowercase()), k))
        .filter(|(d, k)| *d < k.len() && *d <= 1 + k.len().min(name.len()) / 3)
        .min()
        .map(|(_, k)| k.to_owned())
}

/// Levenshtein distance with neighbouring swaps counted once.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let swap = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j - 1] + swap)
                    .min(rows[i - 1][j] + 1)
                    .min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    let mut bytes = name.bytes();
    let good = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        && name.len() <= 64;
    if good {
        Ok(())
    } else {
        Err(SchemaError::BadName {
            what,
            name: name.to_owned(),
        })
    }
}

/// Attribute names are freer than type names: `TELESCOP`, `dc:title`, `user.esker.campaign`.
pub fn check_attribute_name(name: &str) -> Result<(), SchemaError> {
    let good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && if name.is_ascii() {
            !name.bytes().any(|b| b.is_ascii_control() || b == b'=')
        } else {
            !name.chars().any(|c| c.is_control() || c == '=')
        };
    if good {
        Ok(())
    } else {
        Err(SchemaError::BadName {
            what: "attribute",
            name: name.to_owned(),
        })
    }
}

impl Default for Schema {
    fn default() -> Self {
        crate::default_schema::default_schema()
    }
}

impl Schema {
    /// A schema with no types at all.
    pub fn empty() -> Self {
        Self {
            vertex_types: Vec::new(),
            edge_types: Vec::new(),
        }
    }

    /// Adds the types that came into the default schema after this one was made; whether there were some.
    pub fn upgrade(&mut self) -> bool {
        crate::default_schema::upgrade(self)
    }

    /// Vertex types with their numbers.
    pub fn vertex_types(&self) -> impl Iterator<Item = (VertexTypeId, &VertexType)> {
        self.vertex_types
            .iter()
            .enumerate()
            .map(|(i, t)| (VertexTypeId(i as u16), t))
    }

    /// Edge types with their numbers, inverses included.
    pub fn edge_types(&self) -> impl Iterator<Item = (EdgeTypeId, &EdgeType)> {
        self.edge_types
            .iter()
            .enumerate()
            .map(|(i, t)| (EdgeTypeId(i as u16), t))
    }

    /// The vertex type with that number.
    pub fn vertex_type(&self, id: VertexTypeId) -> Option<&VertexType> {
        self.vertex_types.get(usize::from(id.0))
    }

    /// The edge type with that number.
    pub fn edge_type(&self, id: EdgeTypeId) -> Option<&EdgeType> {
        self.edge_types.get(usize::from(id.0))
    }

    /// The number of the inverse; the type itself if the schema does not know it.
    pub fn inverse(&self, id: EdgeTypeId) -> EdgeTypeId {
        self.edge_type(id).map_or(id, |t| t.inverse)
    }

    fn find_vertex_type(&self, name: &str) -> Option<VertexTypeId> {
        let mut types = self.vertex_types();
        types
            .find(|(_, t)| t.name.eq_ignore_ascii_case(name))
            .map(|(id, _)| id)
    }

    fn find_edge_type(&self, name: &str) -> Option<EdgeTypeId> {
        let mut types = self.edge_types();
        types
            .find(|(_, t)| t.name.eq_ignore_ascii_case(name))
            .map(|(id, _)| id)
    }

    /// The vertex type of that name, without regard to case.
    pub fn vertex_type_id(&self, name: &str) -> Result<VertexTypeId, SchemaError> {
        self.find_vertex_type(name).ok_or_else(|| {
            unknown(
                "vertex type",
                name,
                self.vertex_types.iter().map(|t| t.name.as_str()),
            )
        })
    }

    /// The edge type of that name, without regard to case.
    pub fn edge_type_id(&self, name: &str) -> Result<EdgeTypeId, SchemaError> {
        self.find_edge_type(name).ok_or_else(|| {
            unknown(
                "edge type",
                name,
                self.edge_types.iter().map(|t| t.name.as_str()),
            )
        })
    }

    /// The lower-case name that vertex names begin with; `type-N` for a number the schema lacks.
    pub fn prefix(&self, id: VertexTypeId) -> String {
        self.vertex_type(id)
            .map_or_else(|| format!("type-{}", id.0), |t| t.name.to_ascii_lowercase())
    }

    /// Whether `id` is `ancestor` or specialises it.
    pub fn is_a(&self, id: VertexTypeId, ancestor: VertexTypeId) -> bool {
        let mut at = Some(id);
        while let Some(t) = at {
            if t == ancestor {
                return true;
            }
            at = self.vertex_type(t).and_then(|v| v.parent);
        }
        false
    }

    /// The type and everything that specialises it.
    pub fn specialisations(&self, id: VertexTypeId) -> Vec<VertexTypeId> {
        self.vertex_types()
            .map(|(t, _)| t)
            .filter(|t| self.is_a(*t, id))
            .collect()
    }

    /// Predefined attributes of a type, its parents' first.
    pub fn attributes(&self, id: VertexTypeId) -> Vec<&AttributeDefinition> {
        let Some(t) = self.vertex_type(id) else {
            return Vec::new();
        };
        let mut all = t.parent.map(|p| self.attributes(p)).unwrap_or_default();
        all.extend(&t.attributes);
        all
    }

    /// The predefined attribute of that name, the type's own or inherited.
    pub fn attribute(&self, id: VertexTypeId, name: &str) -> Option<&AttributeDefinition> {
        let t = self.vertex_type(id)?;
        t.attributes
            .iter()
            .find(|a| a.name == name)
            .or_else(|| t.parent.and_then(|p| self.attribute(p, name)))
    }

    /// Whether such an edge may join vertices of those types.
    pub fn check_ends(
        &self,
        edge: EdgeTypeId,
        source: VertexTypeId,
        destination: VertexTypeId,
    ) -> Result<(), SchemaError> {
        let Some(t) = self.edge_type(edge) else {
            return Err(unknown(
                "edge type",
                &format!("#{}", edge.0),
                std::iter::empty(),
            ));
        };
        if self.is_a(source, t.source) && self.is_a(destination, t.destination) {
            return Ok(());
        }
        let name = |id| {
            self.vertex_type(id)
                .map_or_else(|| self.prefix(id), |t| t.name.clone())
        };
        Err(SchemaError::Ends {
            edge: t.name.clone(),
            source_type: name(t.source),
            destination_type: name(t.destination),
            got_source: name(source),
            got_destination: name(destination),
        })
    }

    /// Makes one change. Adding what is there already, alike, changes nothing and returns `false`.
    pub fn apply(&mut self, change: &SchemaChange) -> Result<bool, SchemaError> {
        match change {
            SchemaChange::VertexType {
                name,
                parent,
                attributes,
            } => {
                let parent = parent
                    .as_deref()
                    .map(|p| self.vertex_type_id(p))
                    .transpose()?;
                self.add_vertex_type(name, parent, attributes, false)
            }
            SchemaChange::EdgeType {
                name,
                inverse,
                source,
                destination,
            } => {
                let source = self.vertex_type_id(source)?;
                let destination = self.vertex_type_id(destination)?;
                self.add_edge_type(name, inverse, source, destination)
            }
            SchemaChange::Attribute {
                vertex_type,
                attribute,
            } => {
                check_attribute_name(&attribute.name)?;
                let id = self.vertex_type_id(vertex_type)?;
                match self.attribute(id, &attribute.name) {
                    Some(a) if a.kind == attribute.kind => Ok(false),
                    Some(_) => Err(SchemaError::Exists {
                        what: "attribute",
                        name: attribute.name.clone(),
                    }),
                    None => {
                        self.vertex_types[usize::from(id.0)]
                            .attributes
                            .push(attribute.clone());
                        Ok(true)
                    }
                }
            }
        }
    }

    pub(crate) fn add_vertex_type(
        &mut self,
        name: &str,
        parent: Option<VertexTypeId>,
        attributes: &[AttributeDefinition],
        builtin: bool,
    ) -> Result<bool, SchemaError> {
        check_name("vertex type", name)?;
        attributes
            .iter()
            .try_for_each(|a| check_attribute_name(&a.name))?;
        if let Some(id) = self.find_vertex_type(name) {
            let t = &self.vertex_types[usize::from(id.0)];
            let same = t.parent == parent && t.attributes == attributes;
            return if same {
                Ok(false)
            } else {
                Err(SchemaError::Exists {
                    what: "vertex type",
                    name: name.to_owned(),
                })
            };
        }
        if self.vertex_types.len() >= TYPES_MAX {
            return Err(SchemaError::Full);
        }
        self.vertex_types.push(VertexType {
            name: name.to_owned(),
            parent,
            attributes: attributes.to_vec(),
            builtin,
        });
        Ok(true)
    }

    pub(crate) fn add_edge_type(
        &mut self,
        name: &str,
        inverse: &str,
        source: VertexTypeId,
        destination: VertexTypeId,
    ) -> Result<bool, SchemaError> {
        check_name("edge type", name)?;
        check_name("edge type", inverse)?;
        let symmetric = name.eq_ignore_ascii_case(inverse);
        let exists = |n: &str| SchemaError::Exists {
            what: "edge type",
            name: n.to_owned(),
        };
        if symmetric && source != destination {
            return Err(exists(name));
        }
        match (self.find_edge_type(name), self.find_edge_type(inverse)) {
            (Some(a), Some(b)) => {
                let t = &self.edge_types[usize::from(a.0)];
                let same = t.inverse == b && t.source == source && t.destination == destination;
                return if same { Ok(false) } else { Err(exists(name)) };
            }
            (Some(_), None) => return Err(exists(name)),
            (None, Some(_)) => return Err(exists(inverse)),
            (None, None) => {}
        }
        if self.edge_types.len() + 2 > TYPES_MAX {
            return Err(SchemaError::Full);
        }
        let id = self.edge_types.len() as u16;
        let other = if symmetric { id } else { id + 1 };
        let forward = |name: &str, inverse, source, destination, forward| EdgeType {
            name: name.to_owned(),
            inverse: EdgeTypeId(inverse),
            source,
            destination,
            forward,
        };
        self.edge_types
            .push(forward(name, other, source, destination, true));
        if !symmetric {
            self.edge_types
                .push(forward(inverse, id, destination, source, false));
        }
        Ok(true)
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.vertex_types.len() as u64);
        for t in &self.vertex_types {
            put_bytes(out, t.name.as_bytes());
            put_u16(out, t.parent.map_or(u16::MAX, |p| p.0));
            out.push(u8::from(t.builtin));
            put_varint(out, t.attributes.len() as u64);
            for a in &t.attributes {
                put_bytes(out, a.name.as_bytes());
                out.push(a.kind.code());
            }
        }
        put_varint(out, self.edge_types.len() as u64);
        for t in &self.edge_types {
            put_bytes(out, t.name.as_bytes());
            put_u16(out, t.inverse.0);
            put_u16(out, t.source.0);
            put_u16(out, t.destination.0);
            out.push(u8::from(t.forward));
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut schema = Self::empty();
        let vertex_types = r.count(5, "a count of vertex types")?;
        for _ in 0..vertex_types {
            let name = r.str("a vertex type's name")?.to_owned();
            let parent = r.u16("a parent type")?;
            let builtin = r.u8("a flag")? != 0;
            let mut attributes = Vec::new();
            for _ in 0..r.count(2, "a count of attributes")? {
                let name = r.str("an attribute's name")?.to_owned();
                let kind = ValueKind::from_code(r.u8("a value kind")?)
                    .ok_or_else(|| r.error("a value kind (0 to 7)"))?;
                attributes.push(AttributeDefinition { name, kind });
            }
            // Parents come before children, so that no chain can close on itself.
            let parent = match parent {
                u16::MAX => None,
                p if usize::from(p) < schema.vertex_types.len() => Some(VertexTypeId(p)),
                _ => return Err(r.error("a parent type defined before its child")),
            };
            schema.vertex_types.push(VertexType {
                name,
                parent,
                attributes,
                builtin,
            });
        }
        let edge_types = r.count(8, "a count of edge types")?;
        for _ in 0..edge_types {
            let name = r.str("an edge type's name")?.to_owned();
            let inverse = r.u16("an inverse edge type")?;
            let source = VertexTypeId(r.u16("a source type")?);
            let destination = VertexTypeId(r.u16("a destination type")?);
            let forward = r.u8("a flag")? != 0;
            if usize::from(inverse) >= edge_types {
                return Err(r.error("an inverse edge type that exists"));
            }
            let inverse = EdgeTypeId(inverse);
            schema.edge_types.push(EdgeType {
                name,
                inverse,
                source,
                destination,
                forward,
            });
        }
        Ok(schema)
    }
}

fn unknown<'a>(
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> SchemaError {
    SchemaError::Unknown {
        what,
        name: name.to_owned(),
        nearest: nearest(name, known.clone()),
        known: known.collect::<Vec<_>>().join(", "),
    }
}
