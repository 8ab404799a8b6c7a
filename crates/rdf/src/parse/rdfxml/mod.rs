//! Streaming parser of RDF/XML (W3C Recommendation of 2014-02-25, and the draft of RDF 1.2), with limits.
//!
//! Each open XML element has a frame that determines what may follow in it: node elements and property elements alternate. Triples are
//! emitted as soon as they are complete, so that memory holds only the open elements, the names of `rdf:ID` and one tag or text.

mod attributes;
mod canonical;
mod entities;
pub(crate) mod names;

use crate::dictionary::triple;
use crate::xml::Counted;
use attributes::{Attributes, OLD, RDF, SYNTAX, Scope, named, resolve};
use canonical::Canonical;
use entities::Entities;
use names::{Namespaces, is_nc_name};
use oxiri::Iri;
use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::{HashSet, VecDeque};
use std::io::BufRead;
use std::rc::Rc;

/// Limit of nested elements.
const DEPTH_MAX: usize = 100_000;
/// Capacity of the buffer that is kept between events, in bytes.
const BUFFER_KEPT: usize = 1 << 20;

/// An error in a document.
#[derive(Debug)]
pub(crate) struct RdfXmlError {
    /// Line and column just after the error, from 1.
    pub(crate) at: (u64, u64),
    pub(crate) message: String,
    /// Whether the source failed or exceeds a limit.
    pub(crate) io: bool,
}

/// Iterator over the triples of a document. After an error in a tag, iteration continues after that element.
#[derive(Debug)]
pub(crate) struct RdfXml<R> {
    reader: Reader<Counted<R>>,
    buffer: Vec<u8>,
    frames: Vec<Frame>,
    /// Number of open XML elements, including those of XML literals.
    depth: usize,
    names: Namespaces,
    entities: Entities,
    /// IRIs defined by `rdf:ID`.
    ids: HashSet<String>,
    unnamed: u64,
    ready: VecDeque<Triple>,
    /// Triples of the triple terms that are being read, the innermost last: at most two each.
    terms: Vec<Vec<Triple>>,
    root_seen: bool,
    ended: bool,
}

#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    scope: Scope,
}

#[derive(Debug)]
enum FrameKind {
    /// Outside the root element.
    Document,
    /// Inside `rdf:RDF`: node elements.
    Rdf,
    /// A node element: property elements.
    Node {
        subject: NamedOrBlankNode,
        /// Number of `rdf:li` so far.
        members: u64,
    },
    /// A property whose value is a text or a node element.
    Property {
        statement: Statement,
        datatype: Option<NamedNode>,
        text: String,
    },
    /// A property whose value is complete: only white space may follow.
    Complete,
    /// A property whose value is a list of node elements.
    Collection {
        statement: Statement,
        last: Option<BlankNode>,
    },
    /// A property whose value is a triple term: one node element with one property.
    Triple {
        statement: Statement,
        has_node: bool,
    },
    /// A property whose value is an XML literal.
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
    /// IRI of the reified statement.
    id: Option<NamedNode>,
    /// Reifier of the triple.
    reifier: Option<NamedOrBlankNode>,
}

impl<R: BufRead> RdfXml<R> {
    /// Starts reading a document; relative IRIs are resolved against `base`.
    pub(crate) fn new(from: R, base: Option<Iri<String>>) -> Self {
        let mut reader = Reader::from_reader(Counted::new(from));
        reader.config_mut().expand_empty_elements = true;
        let document = Frame {
            kind: FrameKind::Document,
            scope: Scope {
                base: base.map(Rc::new),
                ..Scope::default()
            },
        };
        Self {
            reader,
            buffer: Vec::new(),
            frames: vec![document],
            depth: 0,
            names: Namespaces::default(),
            entities: Entities::default(),
            ids: HashSet::new(),
            unnamed: 0,
            ready: VecDeque::new(),
            terms: Vec::new(),
            root_seen: false,
            ended: false,
        }
    }

    fn wrong(&self, message: String) -> RdfXmlError {
        let source = self.reader.get_ref();
        RdfXmlError {
            at: (source.line, source.column()),
            message,
            io: false,
        }
    }

    /// Reads one tag or text.
    fn step(&mut self) -> Result<(), RdfXmlError> {
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
            Event::End(tag) => self.end(tag.name().as_ref()),
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
                if let Some(FrameKind::Xml { content, .. }) = self.top() {
                    content.comment(&comment.xml10_content());
                }
                Ok(())
            }
            Event::PI(instruction) => {
                if let Some(FrameKind::Xml { content, .. }) = self.top() {
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
                    Err("a document type follows the first element".into())
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

    fn top(&mut self) -> Option<&mut FrameKind> {
        self.frames.last_mut().map(|frame| &mut frame.kind)
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.ended = true;
            return Err(format!("elements are nested more than {DEPTH_MAX} deep"));
        }
        let attributes = match self.attributes(tag) {
            Ok(attributes) => attributes,
            Err(e) => {
                // The unreadable attribute may have declared a namespace, so reading ends.
                self.ended = true;
                return Err(e);
            }
        };
        let name = tag.name();
        let mut frame = Frame {
            kind: FrameKind::Skipped,
            scope: Scope::default(),
        };
        match self.frames.last_mut() {
            Some(Frame {
                kind: FrameKind::Xml { content, .. },
                ..
            }) => return content.start(name.as_ref(), &attributes, &self.names),
            Some(parent) => frame.scope = parent.scope.clone(),
            None => {}
        }
        let skip = matches!(self.top(), Some(FrameKind::Skipped));
        let opened = if skip {
            Ok(FrameKind::Skipped)
        } else {
            self.element(name.as_ref(), attributes, &mut frame)
        };
        self.root_seen = true;
        let done = opened.map(|kind| frame.kind = kind);
        self.frames.push(frame);
        done
    }

    /// Returns the attributes of a tag with references expanded, after applying its namespace declarations.
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

    /// Starts an RDF element; `frame` has the inherited base and language.
    fn element(
        &mut self,
        name: &str,
        attributes: Vec<(String, String)>,
        frame: &mut Frame,
    ) -> Result<FrameKind, String> {
        let (namespace, local) = self.names.split(name, true)?;
        let attributes = Attributes::of(&self.names, attributes, &mut frame.scope)?;
        let iri = format!("{}{local}", namespace.unwrap_or_default());
        let term = iri.strip_prefix(RDF);
        let root_seen = self.root_seen;
        let parent = match self.top() {
            Some(FrameKind::Document) if root_seen => {
                return Err(format!("`{name}` is a second root"));
            }
            Some(FrameKind::Document) if term == Some("RDF") => return Ok(FrameKind::Rdf),
            Some(FrameKind::Document | FrameKind::Rdf) | None => None,
            Some(FrameKind::Node { subject, members }) => {
                let subject = subject.clone();
                let predicate = if term == Some("li") {
                    *members += 1;
                    NamedNode::new_unchecked(format!("{RDF}_{members}"))
                } else {
                    named(iri, &[SYNTAX, &["Description"], OLD])?
                };
                return self.property(subject, predicate, attributes, frame);
            }
            Some(FrameKind::Property {
                statement,
                datatype: None,
                text,
            }) if text.trim_matches(is_space).is_empty() => Some((statement.clone(), false)),
            Some(FrameKind::Collection { statement, .. }) => Some((statement.clone(), true)),
            Some(FrameKind::Triple { has_node, .. }) if !*has_node => {
                *has_node = true;
                None
            }
            Some(_) => return Err(format!("the element `{name}` is where none is allowed")),
        };
        let class = named(iri, &[SYNTAX, &["li"], OLD])?;
        let node = self.node(class, attributes, frame)?;
        if let Some((statement, collection)) = parent {
            self.value(&statement, collection, &node);
        }
        Ok(FrameKind::Node {
            subject: node,
            members: 0,
        })
    }

    /// Returns the node of a node element, after emitting the triples of its attributes.
    fn node(
        &mut self,
        class: NamedNode,
        attributes: Attributes,
        frame: &Frame,
    ) -> Result<NamedOrBlankNode, String> {
        if attributes.resource.is_some()
            || attributes.datatype.is_some()
            || attributes.parse_type.is_some()
            || attributes.annotation.is_some()
            || attributes.annotation_node_id.is_some()
        {
            return Err(
                "a node has rdf:resource, rdf:datatype, rdf:parseType, rdf:annotation or rdf:annotationNodeID, which are for properties"
                    .into(),
            );
        }
        let node = match (attributes.id, attributes.node_id, attributes.about) {
            (Some(id), None, None) => self.id(&id, frame)?.into(),
            (None, Some(label), None) => labelled(&label)?.into(),
            (None, None, Some(about)) => {
                NamedNode::from(resolve(frame.scope.base.as_deref(), &about)?).into()
            }
            (None, None, None) => self.unnamed().into(),
            _ => return Err("a node has more than one of rdf:ID, rdf:nodeID and rdf:about".into()),
        };
        if class.as_str().strip_prefix(RDF) != Some("Description") {
            self.emit(node_type(&node, class));
        }
        self.emit_properties(&node, attributes.class, attributes.properties, frame)?;
        Ok(node)
    }

    /// Emits the class and the properties given by attributes of a node.
    fn emit_properties(
        &mut self,
        node: &NamedOrBlankNode,
        class: Option<String>,
        properties: Vec<(NamedNode, String)>,
        frame: &Frame,
    ) -> Result<(), String> {
        if let Some(class) = class {
            let class = NamedNode::from(resolve(frame.scope.base.as_deref(), &class)?);
            self.emit(node_type(node, class));
        }
        for (property, value) in properties {
            self.emit(Triple::new(node.clone(), property, frame.scope.text(value)));
        }
        Ok(())
    }

    fn property(
        &mut self,
        subject: NamedOrBlankNode,
        predicate: NamedNode,
        attributes: Attributes,
        frame: &Frame,
    ) -> Result<FrameKind, String> {
        let Attributes {
            id,
            node_id,
            about,
            resource,
            datatype,
            parse_type,
            class,
            annotation,
            annotation_node_id,
            properties,
        } = attributes;
        if about.is_some() {
            return Err("a property has rdf:about, which is for nodes".into());
        }
        let id = id.map(|id| self.id(&id, frame)).transpose()?;
        let reifier = match (annotation, annotation_node_id) {
            (None, None) => None,
            (Some(iri), None) => {
                Some(NamedNode::from(resolve(frame.scope.base.as_deref(), &iri)?).into())
            }
            (None, Some(label)) => Some(labelled(&label)?.into()),
            _ => {
                return Err("a property has both rdf:annotation and rdf:annotationNodeID".into());
            }
        };
        let statement = Statement {
            subject,
            predicate,
            id,
            reifier,
        };
        let says = node_id.is_some() || resource.is_some() || class.is_some();
        let says = says || !properties.is_empty();
        if let Some(parse_type) = parse_type {
            if says || datatype.is_some() {
                return Err(
                    "a property with rdf:parseType may have no attributes but rdf:ID and annotations"
                        .into(),
                );
            }
            return Ok(match parse_type.as_str() {
                "Resource" => {
                    let node = self.unnamed();
                    self.emit_statement(&statement, node.clone().into());
                    FrameKind::Node {
                        subject: node.into(),
                        members: 0,
                    }
                }
                "Collection" => FrameKind::Collection {
                    statement,
                    last: None,
                },
                // The draft ignores triple terms in documents of other versions.
                "Triple" if !frame.scope.is_1_2 => FrameKind::Skipped,
                "Triple" => {
                    if self.terms.len() == triple::NESTED_MAX {
                        self.ended = true;
                        return Err(crate::Error::Nested(triple::NESTED_MAX).to_string());
                    }
                    self.terms.push(Vec::new());
                    FrameKind::Triple {
                        statement,
                        has_node: false,
                    }
                }
                _ => FrameKind::Xml {
                    statement,
                    content: Canonical::default(),
                },
            });
        }
        let datatype = match datatype {
            Some(iri) => Some(NamedNode::from(resolve(frame.scope.base.as_deref(), &iri)?)),
            None => None,
        };
        if !says {
            return Ok(FrameKind::Property {
                statement,
                datatype,
                text: String::new(),
            });
        }
        if datatype.is_some() {
            return Err("a property with rdf:datatype has a node as its value as well".into());
        }
        let object: NamedOrBlankNode = match (resource, node_id) {
            (Some(iri), None) => {
                NamedNode::from(resolve(frame.scope.base.as_deref(), &iri)?).into()
            }
            (None, Some(label)) => labelled(&label)?.into(),
            (None, None) => self.unnamed().into(),
            _ => return Err("a property has both rdf:resource and rdf:nodeID".into()),
        };
        self.emit_statement(&statement, object.clone().into());
        self.emit_properties(&object, class, properties, frame)?;
        Ok(FrameKind::Complete)
    }

    /// Makes a node element the value of the enclosing property, or the next item of its list.
    fn value(&mut self, statement: &Statement, collection: bool, node: &NamedOrBlankNode) {
        if !collection {
            self.emit_statement(statement, node.clone().into());
            if let Some(kind) = self.top() {
                *kind = FrameKind::Complete;
            }
            return;
        }
        let cell = self.unnamed();
        let before = match self.top() {
            Some(FrameKind::Collection { last, .. }) => last.replace(cell.clone()),
            _ => None,
        };
        match before {
            Some(before) => {
                self.emit(Triple::new(
                    before,
                    rdf::REST.into_owned(),
                    Term::from(cell.clone()),
                ));
            }
            None => self.emit_statement(statement, cell.clone().into()),
        }
        self.emit(Triple::new(cell, rdf::FIRST.into_owned(), node.clone()));
    }

    fn end(&mut self, name: &str) -> Result<(), String> {
        self.names.close(self.depth);
        self.depth = self.depth.saturating_sub(1);
        if let Some(FrameKind::Xml { content, .. }) = self.top()
            && content.depth() > 0
        {
            content.end(name);
            return Ok(());
        }
        let Some(mut frame) = self.frames.pop() else {
            return Ok(());
        };
        match std::mem::replace(&mut frame.kind, FrameKind::Complete) {
            FrameKind::Property {
                statement,
                datatype,
                text,
            } => {
                let value = match datatype {
                    Some(datatype) => Literal::new_typed_literal(text, datatype),
                    None => frame.scope.text(text),
                };
                self.emit_statement(&statement, value.into());
            }
            FrameKind::Triple { statement, .. } => {
                let mut inner = self.terms.pop().unwrap_or_default();
                match (inner.pop(), inner.pop()) {
                    (Some(triple), None) => self.emit_statement(&statement, triple.into()),
                    _ => return Err("expected one triple in rdf:parseType=\"Triple\"".into()),
                }
            }
            FrameKind::Collection { statement, last } => match last {
                Some(last) => self.emit(Triple::new(
                    last,
                    rdf::REST.into_owned(),
                    rdf::NIL.into_owned(),
                )),
                None => self.emit_statement(&statement, rdf::NIL.into_owned().into()),
            },
            FrameKind::Xml { statement, content } => {
                let text = content.into_text();
                let value = Literal::new_typed_literal(text, rdf::XML_LITERAL.into_owned());
                self.emit_statement(&statement, value.into());
            }
            FrameKind::Document
            | FrameKind::Rdf
            | FrameKind::Node { .. }
            | FrameKind::Complete
            | FrameKind::Skipped => {}
        }
        Ok(())
    }

    fn text(&mut self, piece: &str) -> Result<(), String> {
        match self.top() {
            Some(FrameKind::Property { text, .. }) => text.push_str(piece),
            Some(FrameKind::Xml { content, .. }) => content.text(piece),
            Some(FrameKind::Skipped) => {}
            _ if piece.chars().all(is_space) => {}
            _ => {
                let begin: String = piece.trim().chars().take(40).collect();
                return Err(format!("the text `{begin}` is where none is allowed"));
            }
        }
        Ok(())
    }

    fn emit(&mut self, triple: Triple) {
        match self.terms.last_mut() {
            Some(term) if term.len() < 2 => term.push(triple),
            Some(_) => {}
            None => self.ready.push_back(triple),
        }
    }

    /// Emits a statement with its object, and its reification if it has an `rdf:ID`.
    fn emit_statement(&mut self, statement: &Statement, object: Term) {
        let Statement {
            subject,
            predicate,
            id,
            reifier,
        } = statement;
        if let Some(id) = id {
            let parts: [(_, Term); 4] = [
                (rdf::TYPE, rdf::STATEMENT.into_owned().into()),
                (rdf::SUBJECT, subject.clone().into()),
                (rdf::PREDICATE, predicate.clone().into()),
                (rdf::OBJECT, object.clone()),
            ];
            for (property, value) in parts {
                self.emit(Triple::new(id.clone(), property.into_owned(), value));
            }
        }
        let triple = Triple::new(subject.clone(), predicate.clone(), object);
        if let Some(reifier) = reifier {
            let reified = Term::from(triple.clone());
            self.emit(Triple::new(
                reifier.clone(),
                rdf::REIFIES.into_owned(),
                reified,
            ));
        }
        self.emit(triple);
    }

    /// Returns an unlabelled blank node. No label in a document begins with a digit.
    fn unnamed(&mut self) -> BlankNode {
        self.unnamed += 1;
        BlankNode::new_unchecked(format!("{}u", self.unnamed))
    }

    /// Returns the IRI of an `rdf:ID`, which must be unique in the document.
    fn id(&mut self, id: &str, frame: &Frame) -> Result<NamedNode, String> {
        if !is_nc_name(id) {
            return Err(format!("rdf:ID=\"{id}\" is not a name"));
        }
        let iri = resolve(frame.scope.base.as_deref(), &format!("#{id}"))?;
        if !self.ids.insert(iri.as_str().to_owned()) {
            return Err(format!("rdf:ID=\"{id}\" is given twice"));
        }
        Ok(NamedNode::from(iri))
    }
}

impl<R: BufRead> Iterator for RdfXml<R> {
    type Item = Result<Triple, RdfXmlError>;

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

fn labelled(label: &str) -> Result<BlankNode, String> {
    if is_nc_name(label) {
        Ok(BlankNode::new_unchecked(label))
    } else {
        Err(format!("rdf:nodeID=\"{label}\" is not a name"))
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
