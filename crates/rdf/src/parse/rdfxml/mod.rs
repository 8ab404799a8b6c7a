//! RDF/XML (W3C Recommendation of 2014-02-25), read piece by piece within limits.
//!
//! Each open element of XML has a frame that says what may stand in it: node elements and property elements take turns.
//! Triples are given as soon as they are known, so that memory holds the open elements, the names of `rdf:ID` and one
//! tag or text.

mod canonical;
mod entities;
pub(crate) mod names;

use crate::xml::Counted;
use canonical::Canonical;
use entities::Entities;
use names::{Names, XML, is_nc_name};
use oxiri::Iri;
use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::{HashSet, VecDeque};
use std::io::BufRead;
use std::rc::Rc;

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// How deep elements may stand in each other.
const DEPTH_MAX: usize = 100_000;
/// Bytes of the buffer that is kept between events.
const BUFFER_KEPT: usize = 1 << 20;

/// What is wrong with a document.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Line and column behind what is wrong, from 1.
    pub(crate) at: (u64, u64),
    pub(crate) message: String,
    /// Whether the source failed or has more than is taken.
    pub(crate) io: bool,
}

/// A document as its triples. After an error in a tag the iterator goes on behind that element.
#[derive(Debug)]
pub(crate) struct RdfXml<R> {
    reader: Reader<Counted<R>>,
    buffer: Vec<u8>,
    frames: Vec<Frame>,
    /// Elements of XML that are open, those of XML literals with them.
    depth: usize,
    names: Names,
    entities: Entities,
    /// IRIs that `rdf:ID` gave.
    ids: HashSet<String>,
    unnamed: u64,
    ready: VecDeque<Triple>,
    root_seen: bool,
    ended: bool,
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    base: Option<Rc<Iri<String>>>,
    language: Option<Rc<str>>,
}

#[derive(Debug)]
enum Kind {
    /// Around the root.
    Document,
    /// `rdf:RDF`: node elements.
    Rdf,
    /// A node: property elements.
    Node {
        subject: NamedOrBlankNode,
        /// How many `rdf:li` there were.
        members: u64,
    },
    /// A property whose value is a text or a node element.
    Property {
        statement: Statement,
        datatype: Option<NamedNode>,
        text: String,
    },
    /// A property whose value is known: nothing else may stand in it.
    Told,
    /// A property whose value is a list of node elements.
    Collection {
        statement: Statement,
        last: Option<BlankNode>,
    },
    /// A property whose value is XML.
    Xml {
        statement: Statement,
        content: Canonical,
    },
    /// An element with an error.
    Skipped,
}

/// A triple without its object.
#[derive(Debug, Clone)]
struct Statement {
    subject: NamedOrBlankNode,
    predicate: NamedNode,
    /// What the triple itself is called.
    id: Option<NamedNode>,
}

/// The attributes of an element that RDF/XML gives a meaning, and properties.
#[derive(Debug, Default)]
struct Attributes {
    id: Option<String>,
    node_id: Option<String>,
    about: Option<String>,
    resource: Option<String>,
    datatype: Option<String>,
    parse_type: Option<String>,
    class: Option<String>,
    properties: Vec<(NamedNode, String)>,
}

impl<R: BufRead> RdfXml<R> {
    /// A document, and the IRI that relative ones belong to.
    pub(crate) fn new(from: R, base: Option<Iri<String>>) -> Self {
        let mut reader = Reader::from_reader(Counted::new(from));
        reader.config_mut().expand_empty_elements = true;
        let document = Frame {
            kind: Kind::Document,
            base: base.map(Rc::new),
            language: None,
        };
        Self {
            reader,
            buffer: Vec::new(),
            frames: vec![document],
            depth: 0,
            names: Names::default(),
            entities: Entities::default(),
            ids: HashSet::new(),
            unnamed: 0,
            ready: VecDeque::new(),
            root_seen: false,
            ended: false,
        }
    }

    fn wrong(&self, message: String) -> Wrong {
        let source = self.reader.get_ref();
        Wrong {
            at: (source.line, source.column()),
            message,
            io: false,
        }
    }

    /// Reads one tag or text.
    fn step(&mut self) -> Result<(), Wrong> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.reader.get_mut().begin();
        let done = match self.reader.read_event_into(&mut buffer) {
            Ok(event) => {
                self.entities.read = self.reader.get_ref().bytes;
                self.event(&event)
            }
            Err(quick_xml::Error::Io(e)) => {
                self.ended = true;
                let mut wrong = self.wrong(e.to_string());
                wrong.io = true;
                return Err(wrong);
            }
            Err(e) => {
                self.ended = true;
                Err(e.to_string())
            }
        };
        if buffer.capacity() <= BUFFER_KEPT {
            self.buffer = buffer;
        }
        done.map_err(|message| self.wrong(message))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => {
                self.end(tag.name().as_ref());
                Ok(())
            }
            Event::Text(text) => self.text(&text.xml10_content()),
            Event::CData(text) => self.text(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let mut text = String::new();
                let resolved = self.entities.resolve(reference, &mut text);
                self.ended |= resolved.is_err();
                resolved?;
                self.text(&text)
            }
            Event::Comment(comment) => {
                if let Some(Kind::Xml { content, .. }) = self.top() {
                    content.comment(&comment.xml10_content());
                }
                Ok(())
            }
            Event::PI(instruction) => {
                if let Some(Kind::Xml { content, .. }) = self.top() {
                    content.instruction(instruction);
                }
                Ok(())
            }
            Event::Decl(declaration) => match declaration.encoding() {
                Some(Ok(encoding)) if !is_utf8(&encoding) => {
                    self.ended = true;
                    Err(format!(
                        "the encoding {encoding} is not read; expected UTF-8"
                    ))
                }
                _ => Ok(()),
            },
            Event::DocType(doctype) => {
                let declared = if self.root_seen {
                    Err("a document type stands behind the first element".into())
                } else {
                    self.entities.declare(doctype)
                };
                self.ended |= declared.is_err();
                declared
            }
            Event::Eof => {
                self.ended = true;
                if self.depth > 0 {
                    return Err("the document ends within an element".into());
                }
                if !self.root_seen {
                    return Err("expected an element, found nothing".into());
                }
                Ok(())
            }
            Event::Empty(_) => Ok(()),
        }
    }

    fn top(&mut self) -> Option<&mut Kind> {
        self.frames.last_mut().map(|frame| &mut frame.kind)
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.ended = true;
            return Err(format!("elements stand more than {DEPTH_MAX} deep"));
        }
        let attributes = match self.attributes(tag) {
            Ok(attributes) => attributes,
            Err(e) => {
                // An attribute that cannot be read may declare a namespace.
                self.ended = true;
                return Err(e);
            }
        };
        let name = tag.name();
        let (base, language) = match self.frames.last_mut() {
            Some(Frame {
                kind: Kind::Xml { content, .. },
                ..
            }) => return content.start(name.as_ref(), &attributes, &self.names),
            Some(frame) => (frame.base.clone(), frame.language.clone()),
            None => (None, None),
        };
        let mut frame = Frame {
            kind: Kind::Skipped,
            base,
            language,
        };
        let skip = matches!(self.top(), Some(Kind::Skipped));
        let opened = if skip {
            Ok(Kind::Skipped)
        } else {
            self.element(name.as_ref(), attributes, &mut frame)
        };
        self.root_seen = true;
        let done = opened.map(|kind| frame.kind = kind);
        self.frames.push(frame);
        done
    }

    /// The attributes of a tag, resolved, after its declarations of namespaces took effect.
    fn attributes(&mut self, tag: &BytesStart<'_>) -> Result<Vec<(String, String)>, String> {
        let mut attributes = Vec::new();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|e| e.to_string())?;
            let name = attribute.key.as_ref();
            let value = self.entities.attribute(&attribute.value)?;
            if name == "xmlns" {
                self.names.declare(self.depth, "", &value);
            } else if let Some(prefix) = name.strip_prefix("xmlns:") {
                self.names.declare(self.depth, prefix, &value);
            } else {
                attributes.push((name.to_owned(), value));
            }
        }
        Ok(attributes)
    }

    /// Begins an element of RDF; what it inherits is in `frame`.
    fn element(
        &mut self,
        name: &str,
        attributes: Vec<(String, String)>,
        frame: &mut Frame,
    ) -> Result<Kind, String> {
        let (namespace, local) = self.names.split(name, true)?;
        let attributes = self.meanings(attributes, frame)?;
        let iri = format!("{}{local}", namespace.unwrap_or_default());
        let term = iri.strip_prefix(RDF);
        let root_seen = self.root_seen;
        let parent = match self.top() {
            Some(Kind::Document) if root_seen => {
                return Err(format!("`{name}` is a second root"));
            }
            Some(Kind::Document) if term == Some("RDF") => return Ok(Kind::Rdf),
            Some(Kind::Document | Kind::Rdf) | None => None,
            Some(Kind::Node { subject, members }) => {
                let subject = subject.clone();
                let predicate = if term == Some("li") {
                    *members += 1;
                    NamedNode::new_unchecked(format!("{RDF}_{members}"))
                } else {
                    named(iri, &[SYNTAX, &["Description"], OLD])?
                };
                return self.property(subject, predicate, attributes, frame);
            }
            Some(Kind::Property {
                statement,
                datatype: None,
                text,
            }) if text.trim_matches(is_space).is_empty() => Some((statement.clone(), false)),
            Some(Kind::Collection { statement, .. }) => Some((statement.clone(), true)),
            Some(_) => return Err(format!("the element `{name}` stands where none may stand")),
        };
        let class = named(iri, &[SYNTAX, &["li"], OLD])?;
        let node = self.node(class, attributes, frame)?;
        if let Some((statement, collection)) = parent {
            self.value(&statement, collection, &node);
        }
        Ok(Kind::Node {
            subject: node,
            members: 0,
        })
    }

    /// What attributes mean.
    fn meanings(
        &mut self,
        attributes: Vec<(String, String)>,
        frame: &mut Frame,
    ) -> Result<Attributes, String> {
        let mut all = Attributes::default();
        let mut properties = Vec::new();
        for (name, value) in attributes {
            let (namespace, local) = self.names.split(&name, false)?;
            if namespace.as_deref() == Some(XML) {
                match local {
                    "lang" if value.is_empty() => frame.language = None,
                    "lang" => {
                        let literal = Literal::new_language_tagged_literal("", &value);
                        let literal =
                            literal.map_err(|e| format!("the language `{value}` is wrong: {e}"))?;
                        frame.language = literal.language().map(Into::into);
                    }
                    "base" => {
                        let base = resolve(frame.base.as_deref(), &value)?;
                        frame.base = Some(Rc::new(base));
                    }
                    _ => {}
                }
                continue;
            }
            // Names that begin so are reserved.
            if name.starts_with("xml") {
                continue;
            }
            let iri = match &namespace {
                Some(namespace) => format!("{namespace}{local}"),
                None if matches!(local, "ID" | "about" | "resource" | "parseType" | "type") => {
                    format!("{RDF}{local}")
                }
                None => return Err(format!("the attribute `{name}` has no namespace")),
            };
            let slot = match iri.strip_prefix(RDF) {
                Some("ID") => &mut all.id,
                Some("nodeID") => &mut all.node_id,
                Some("about") => &mut all.about,
                Some("resource") => &mut all.resource,
                Some("datatype") => &mut all.datatype,
                Some("parseType") => &mut all.parse_type,
                Some("type") => &mut all.class,
                _ => {
                    properties.push((iri, value));
                    continue;
                }
            };
            if slot.replace(value).is_some() {
                return Err(format!("the attribute `{name}` is there twice"));
            }
        }
        for (iri, value) in properties {
            let property = named(iri, &[SYNTAX, &["Description", "li"], OLD])?;
            all.properties.push((property, value));
        }
        Ok(all)
    }

    /// The node that a node element is, after what its attributes say of it.
    fn node(
        &mut self,
        class: NamedNode,
        attributes: Attributes,
        frame: &Frame,
    ) -> Result<NamedOrBlankNode, String> {
        if attributes.resource.is_some()
            || attributes.datatype.is_some()
            || attributes.parse_type.is_some()
        {
            return Err(
                "a node has rdf:resource, rdf:datatype or rdf:parseType, which are for properties"
                    .into(),
            );
        }
        let node = match (attributes.id, attributes.node_id, attributes.about) {
            (Some(id), None, None) => self.id(&id, frame)?.into(),
            (None, Some(label), None) => labelled(&label)?.into(),
            (None, None, Some(about)) => {
                NamedNode::from(resolve(frame.base.as_deref(), &about)?).into()
            }
            (None, None, None) => self.unnamed().into(),
            _ => return Err("a node has more than one of rdf:ID, rdf:nodeID and rdf:about".into()),
        };
        if class.as_str().strip_prefix(RDF) != Some("Description") {
            self.give(node_type(&node, class));
        }
        self.said(&node, attributes.class, attributes.properties, frame)?;
        Ok(node)
    }

    /// Gives the class and the properties that attributes say of a node.
    fn said(
        &mut self,
        node: &NamedOrBlankNode,
        class: Option<String>,
        properties: Vec<(NamedNode, String)>,
        frame: &Frame,
    ) -> Result<(), String> {
        if let Some(class) = class {
            let class = NamedNode::from(resolve(frame.base.as_deref(), &class)?);
            self.give(node_type(node, class));
        }
        for (property, value) in properties {
            let value = literal(value, None, frame.language.as_deref());
            self.give(Triple::new(node.clone(), property, value));
        }
        Ok(())
    }

    fn property(
        &mut self,
        subject: NamedOrBlankNode,
        predicate: NamedNode,
        attributes: Attributes,
        frame: &Frame,
    ) -> Result<Kind, String> {
        let Attributes {
            id,
            node_id,
            about,
            resource,
            datatype,
            parse_type,
            class,
            properties,
        } = attributes;
        if about.is_some() {
            return Err("a property has rdf:about, which is for nodes".into());
        }
        let id = id.map(|id| self.id(&id, frame)).transpose()?;
        let statement = Statement {
            subject,
            predicate,
            id,
        };
        let says = node_id.is_some() || resource.is_some() || class.is_some();
        let says = says || !properties.is_empty();
        if let Some(parse_type) = parse_type {
            if says || datatype.is_some() {
                return Err(
                    "a property with rdf:parseType may have no attributes but rdf:ID".into(),
                );
            }
            return Ok(match parse_type.as_str() {
                "Resource" => {
                    let node = self.unnamed();
                    self.tell(&statement, node.clone().into());
                    Kind::Node {
                        subject: node.into(),
                        members: 0,
                    }
                }
                "Collection" => Kind::Collection {
                    statement,
                    last: None,
                },
                _ => Kind::Xml {
                    statement,
                    content: Canonical::default(),
                },
            });
        }
        let datatype = match datatype {
            Some(iri) => Some(NamedNode::from(resolve(frame.base.as_deref(), &iri)?)),
            None => None,
        };
        if !says {
            return Ok(Kind::Property {
                statement,
                datatype,
                text: String::new(),
            });
        }
        if datatype.is_some() {
            return Err("a property with rdf:datatype has a node as its value as well".into());
        }
        let object: NamedOrBlankNode = match (resource, node_id) {
            (Some(iri), None) => NamedNode::from(resolve(frame.base.as_deref(), &iri)?).into(),
            (None, Some(label)) => labelled(&label)?.into(),
            (None, None) => self.unnamed().into(),
            _ => return Err("a property has both rdf:resource and rdf:nodeID".into()),
        };
        self.tell(&statement, object.clone().into());
        self.said(&object, class, properties, frame)?;
        Ok(Kind::Told)
    }

    /// A node element is the value of the property around it, or the next item of its list.
    fn value(&mut self, statement: &Statement, collection: bool, node: &NamedOrBlankNode) {
        if !collection {
            self.tell(statement, node.clone().into());
            if let Some(kind) = self.top() {
                *kind = Kind::Told;
            }
            return;
        }
        let cell = self.unnamed();
        let before = match self.top() {
            Some(Kind::Collection { last, .. }) => last.replace(cell.clone()),
            _ => None,
        };
        match before {
            Some(before) => {
                self.give(Triple::new(
                    before,
                    rdf::REST.into_owned(),
                    Term::from(cell.clone()),
                ));
            }
            None => self.tell(statement, cell.clone().into()),
        }
        self.give(Triple::new(cell, rdf::FIRST.into_owned(), node.clone()));
    }

    fn end(&mut self, name: &str) {
        self.names.close(self.depth);
        self.depth = self.depth.saturating_sub(1);
        if let Some(Kind::Xml { content, .. }) = self.top()
            && content.depth() > 0
        {
            content.end(name);
            return;
        }
        let Some(frame) = self.frames.pop() else {
            return;
        };
        match frame.kind {
            Kind::Property {
                statement,
                datatype,
                text,
            } => {
                let value = literal(text, datatype, frame.language.as_deref());
                self.tell(&statement, value.into());
            }
            Kind::Collection { statement, last } => match last {
                Some(last) => self.give(Triple::new(
                    last,
                    rdf::REST.into_owned(),
                    rdf::NIL.into_owned(),
                )),
                None => self.tell(&statement, rdf::NIL.into_owned().into()),
            },
            Kind::Xml { statement, content } => {
                let text = content.into_text();
                let value = Literal::new_typed_literal(text, rdf::XML_LITERAL.into_owned());
                self.tell(&statement, value.into());
            }
            Kind::Document | Kind::Rdf | Kind::Node { .. } | Kind::Told | Kind::Skipped => {}
        }
    }

    fn text(&mut self, piece: &str) -> Result<(), String> {
        match self.top() {
            Some(Kind::Property { text, .. }) => text.push_str(piece),
            Some(Kind::Xml { content, .. }) => content.text(piece),
            Some(Kind::Skipped) => {}
            _ if piece.chars().all(is_space) => {}
            _ => {
                let begin: String = piece.trim().chars().take(40).collect();
                return Err(format!("the text `{begin}` stands where none may stand"));
            }
        }
        Ok(())
    }

    fn give(&mut self, triple: Triple) {
        self.ready.push_back(triple);
    }

    /// Gives a statement with its object, and what its name says of it.
    fn tell(&mut self, statement: &Statement, object: Term) {
        let Statement {
            subject,
            predicate,
            id,
        } = statement;
        if let Some(id) = id {
            let parts: [(_, Term); 4] = [
                (rdf::TYPE, rdf::STATEMENT.into_owned().into()),
                (rdf::SUBJECT, subject.clone().into()),
                (rdf::PREDICATE, predicate.clone().into()),
                (rdf::OBJECT, object.clone()),
            ];
            for (property, value) in parts {
                self.give(Triple::new(id.clone(), property.into_owned(), value));
            }
        }
        self.give(Triple::new(subject.clone(), predicate.clone(), object));
    }

    /// A node without a name. No label in a document begins with a digit.
    fn unnamed(&mut self) -> BlankNode {
        self.unnamed += 1;
        BlankNode::new_unchecked(format!("{}u", self.unnamed))
    }

    /// The IRI of `rdf:ID`, which may be given once.
    fn id(&mut self, id: &str, frame: &Frame) -> Result<NamedNode, String> {
        if !is_nc_name(id) {
            return Err(format!("rdf:ID=\"{id}\" is no name"));
        }
        let iri = resolve(frame.base.as_deref(), &format!("#{id}"))?;
        if !self.ids.insert(iri.as_str().to_owned()) {
            return Err(format!("rdf:ID=\"{id}\" is there twice"));
        }
        Ok(NamedNode::from(iri))
    }
}

impl<R: BufRead> Iterator for RdfXml<R> {
    type Item = Result<Triple, Wrong>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(triple) = self.ready.pop_front() {
                return Some(Ok(triple));
            }
            if self.ended {
                return None;
            }
            if let Err(wrong) = self.step() {
                return Some(Err(wrong));
            }
        }
    }
}

/// Names of RDF that are syntax, and no class or property.
const SYNTAX: &[&str] = &[
    "RDF",
    "ID",
    "about",
    "parseType",
    "resource",
    "nodeID",
    "datatype",
];
/// Names of RDF that were taken out of it.
const OLD: &[&str] = &["aboutEach", "aboutEachPrefix", "bagID"];

/// An IRI that a class or property may have here.
fn named(iri: String, forbidden: &[&[&str]]) -> Result<NamedNode, String> {
    if let Some(term) = iri.strip_prefix(RDF)
        && forbidden.iter().any(|terms| terms.contains(&term))
    {
        return Err(format!("rdf:{term} may not stand here"));
    }
    match Iri::parse(iri.as_str()) {
        Ok(_) => Ok(NamedNode::new_unchecked(iri)),
        Err(e) => Err(format!("the name <{iri}> is no IRI: {e}")),
    }
}

fn resolve(base: Option<&Iri<String>>, iri: &str) -> Result<Iri<String>, String> {
    let resolved = match base {
        Some(base) => base.resolve(iri),
        None => Iri::parse(iri.to_owned()),
    };
    resolved.map_err(|e| format!("<{iri}> is no IRI: {e}"))
}

fn labelled(label: &str) -> Result<BlankNode, String> {
    if is_nc_name(label) {
        Ok(BlankNode::new_unchecked(label))
    } else {
        Err(format!("rdf:nodeID=\"{label}\" is no name"))
    }
}

fn literal(text: String, datatype: Option<NamedNode>, language: Option<&str>) -> Literal {
    match (datatype, language) {
        (Some(datatype), _) => Literal::new_typed_literal(text, datatype),
        (None, Some(language)) => Literal::new_language_tagged_literal_unchecked(text, language),
        (None, None) => Literal::new_simple_literal(text),
    }
}

fn node_type(node: &NamedOrBlankNode, class: NamedNode) -> Triple {
    Triple::new(node.clone(), rdf::TYPE.into_owned(), class)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_utf8(encoding: &str) -> bool {
    ["utf-8", "utf8", "us-ascii", "ascii"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(encoding))
}
