//! The schema: vertex types, edge types with their inverses, predefined attributes.
//!
//! The default is GraphMeta's Table 1 (section 2.2). Types have fixed numbers, assigned in order and never reused:
//! keys contain the numbers, so types are only added to a schema.

use crate::codec::{DecodeError, Reader, put_bytes, put_u16, put_varint};
use crate::id::{EdgeTypeId, VertexTypeId};
use crate::limits::{NAME_BYTES_MAX, TYPES_MAX};
use crate::value::ValueKind;

/// Definition of a vertex type.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexType {
    /// Canonical name, such as `File`; `file:` in vertex names. Names are compared without regard to case.
    pub name: String,
    /// The more general type that this type specialises.
    pub parent: Option<VertexTypeId>,
    /// Predefined (static) attributes, without those inherited from the parent.
    pub attributes: Vec<AttributeDefinition>,
    /// Whether the type is part of the default schema. Vertices of user-defined types must be reachable from vertices
    /// of these.
    pub builtin: bool,
}

/// Definition of a predefined attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeDefinition {
    /// Name of the attribute.
    pub name: String,
    /// Kind of values that may be stored (null may always be stored).
    pub kind: ValueKind,
}

/// Definition of an edge type in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeType {
    /// Name of the edge type, such as `write`.
    pub name: String,
    /// The edge type of the opposite direction, such as `wasWrittenBy`; the type itself if the relation is symmetric.
    pub inverse: EdgeTypeId,
    /// Type of the source vertex; specialisations are accepted.
    pub source: VertexTypeId,
    /// Type of the destination vertex; specialisations are accepted.
    pub destination: VertexTypeId,
    /// Whether this is the direction that was defined; false for the inverse that was added with it.
    pub forward: bool,
}

/// The vertex and edge types of one database.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    vertex_types: Vec<VertexType>,
    edge_types: Vec<EdgeType>,
}

/// An addition to a schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// A user-defined vertex type.
    VertexType {
        /// Name of the type.
        name: String,
        /// Name of the type that it specialises.
        parent: Option<String>,
        /// Predefined attributes of the type.
        attributes: Vec<AttributeDefinition>,
    },
    /// A pair of edge types, each the inverse of the other.
    EdgeType {
        /// Name of the forward direction.
        name: String,
        /// Name of the opposite direction; the same name for a symmetric relation.
        inverse: String,
        /// Name of the source's vertex type.
        source: String,
        /// Name of the destination's vertex type.
        destination: String,
    },
    /// An additional predefined attribute of an existing vertex type.
    Attribute {
        /// Name of the vertex type.
        vertex_type: String,
        /// Definition of the attribute.
        attribute: AttributeDefinition,
    },
}

/// Errors of looking names up in a schema and of changing it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// No type or attribute has that name.
    #[error("unknown {what} `{name}`{}; the schema has: {known}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// `vertex type`, `edge type` or `attribute`.
        what: &'static str,
        /// The name that was looked up.
        name: String,
        /// The most similar existing name, if one is similar enough.
        nearest: Option<String>,
        /// All existing names, for the message.
        known: String,
    },
    /// A name breaks the rules for names.
    #[error(
        "`{name}` is not a valid name for a {what}: expected a letter, then letters, digits, `_` or `-`, at most 64 bytes"
    )]
    BadName {
        /// Kind of item that was to have the name.
        what: &'static str,
        /// The malformed name.
        name: String,
    },
    /// The name is used by a different definition.
    #[error("{what} `{name}` exists already and differs; a schema only grows")]
    Exists {
        /// Kind of item that has the name.
        what: &'static str,
        /// The name in question.
        name: String,
    },
    /// An edge type does not connect vertices of these types.
    #[error(
        "edge type `{edge}` joins {source_type} to {destination_type}; got {got_source} to {got_destination}"
    )]
    Ends {
        /// Name of the edge type.
        edge: String,
        /// Source type that the edge type requires.
        source_type: String,
        /// Destination type that the edge type requires.
        destination_type: String,
        /// Type of the given source.
        got_source: String,
        /// Type of the given destination.
        got_destination: String,
    },
    /// The schema has the maximum number of types.
    #[error("a schema holds at most {TYPES_MAX} vertex types and {TYPES_MAX} edge types")]
    Full,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default()
}

/// Returns the known name most similar to `name`, if one is similar enough to suggest.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    known
        .map(|k| (edit_distance(&lower, &k.to_ascii_lowercase()), k))
        .filter(|(d, k)| *d < k.len() && *d <= 1 + k.len().min(name.len()) / 3)
        .min()
        .map(|(_, k)| k.to_owned())
}

/// Returns the Levenshtein distance in which a swap of neighbours counts once.
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

/// Checks an attribute's name. Attribute names may have more characters than type names: `TELESCOP`, `dc:title`,
/// `user.esker.campaign`.
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
    /// Creates a schema without types.
    pub fn empty() -> Self {
        Self {
            vertex_types: Vec::new(),
            edge_types: Vec::new(),
        }
    }

    /// Adds the types that the default schema has gained since this one was created. Returns whether there were any.
    pub fn upgrade(&mut self) -> bool {
        crate::default_schema::upgrade(self)
    }

    /// Iterates over vertex types with their numbers.
    pub fn vertex_types(&self) -> impl Iterator<Item = (VertexTypeId, &VertexType)> {
        self.vertex_types
            .iter()
            .enumerate()
            .map(|(i, t)| (VertexTypeId(i as u16), t))
    }

    /// Iterates over edge types with their numbers, inverses included.
    pub fn edge_types(&self) -> impl Iterator<Item = (EdgeTypeId, &EdgeType)> {
        self.edge_types
            .iter()
            .enumerate()
            .map(|(i, t)| (EdgeTypeId(i as u16), t))
    }

    /// Returns the vertex type with that number.
    pub fn vertex_type(&self, id: VertexTypeId) -> Option<&VertexType> {
        self.vertex_types.get(usize::from(id.0))
    }

    /// Returns the edge type with that number.
    pub fn edge_type(&self, id: EdgeTypeId) -> Option<&EdgeType> {
        self.edge_types.get(usize::from(id.0))
    }

    /// Returns the number of the inverse edge type; the type itself if the schema lacks it.
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

    /// Looks up a vertex type by name, without regard to case.
    pub fn vertex_type_id(&self, name: &str) -> Result<VertexTypeId, SchemaError> {
        self.find_vertex_type(name).ok_or_else(|| {
            unknown(
                "vertex type",
                name,
                self.vertex_types.iter().map(|t| t.name.as_str()),
            )
        })
    }

    /// Looks up an edge type by name, without regard to case.
    pub fn edge_type_id(&self, name: &str) -> Result<EdgeTypeId, SchemaError> {
        self.find_edge_type(name).ok_or_else(|| {
            unknown(
                "edge type",
                name,
                self.edge_types.iter().map(|t| t.name.as_str()),
            )
        })
    }

    /// Returns the lower-case type name that vertex names begin with; `type-N` for a number that the schema lacks.
    pub fn prefix(&self, id: VertexTypeId) -> String {
        self.vertex_type(id)
            .map_or_else(|| format!("type-{}", id.0), |t| t.name.to_ascii_lowercase())
    }

    /// Whether the type `id` is `ancestor` or specialises it.
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

    /// Returns the type and all types that specialise it.
    pub fn specialisations(&self, id: VertexTypeId) -> Vec<VertexTypeId> {
        self.vertex_types()
            .map(|(t, _)| t)
            .filter(|t| self.is_a(*t, id))
            .collect()
    }

    /// Returns the predefined attributes of a type, inherited ones first.
    pub fn attributes(&self, id: VertexTypeId) -> Vec<&AttributeDefinition> {
        let Some(t) = self.vertex_type(id) else {
            return Vec::new();
        };
        let mut all = t.parent.map(|p| self.attributes(p)).unwrap_or_default();
        all.extend(&t.attributes);
        all
    }

    /// Returns the predefined attribute of that name, own or inherited.
    pub fn attribute(&self, id: VertexTypeId, name: &str) -> Option<&AttributeDefinition> {
        let t = self.vertex_type(id)?;
        t.attributes
            .iter()
            .find(|a| a.name == name)
            .or_else(|| t.parent.and_then(|p| self.attribute(p, name)))
    }

    /// Checks that an edge of this type may join vertices of these types.
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

    /// Applies one change. Returns false if an equal definition exists already; nothing changes then.
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

    /// Appends the encoded schema.
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

    /// Decodes the output of [`Self::encode`].
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
            // Parents come before their children, so the chain of parents cannot contain a cycle.
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
