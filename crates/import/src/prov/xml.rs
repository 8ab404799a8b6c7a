//! Reader of PROV-XML (W3C Working Group Note of 2013-04-30).

use super::model::{Document, Kind, PROV, ProvError, Slot, Statement, Value, time};
use super::names::Scope;
use super::provn::{check, is_name_type, no_time};
use super::skolem;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;
use std::rc::Rc;

const XSI_TYPE: &str = "http://www.w3.org/2001/XMLSchema-instancetype";

/// Elements that stand for a kind with a type.
const KINDS: [(&str, Kind); 10] = [
    ("Person", Kind::Agent),
    ("Organization", Kind::Agent),
    ("SoftwareAgent", Kind::Agent),
    ("Plan", Kind::Entity),
    ("Collection", Kind::Entity),
    ("EmptyCollection", Kind::Entity),
    ("Bundle", Kind::Entity),
    ("Revision", Kind::Derivation),
    ("Quotation", Kind::Derivation),
    ("PrimarySource", Kind::Derivation),
];

fn kind_of(local: &str) -> Option<(Kind, Option<&'static str>)> {
    let class = match local {
        "wasRevisionOf" => "Revision",
        "wasQuotedFrom" => "Quotation",
        "hadPrimarySource" => "PrimarySource",
        other => {
            if let Some(kind) = Kind::of(other) {
                return Some((kind, None));
            }
            let mut known = KINDS.iter().filter(|(_, kind)| *kind != Kind::Derivation);
            let same = |(class, _): &&(&str, Kind)| {
                let mut chars = class.chars();
                let first = chars.next().map(|c| c.to_ascii_lowercase());
                let rest = chars.as_str();
                other.chars().next() == first && other.get(1..) == Some(rest)
            };
            known.find(same)?.0
        }
    };
    let (class, kind) = KINDS.iter().find(|(known, _)| *known == class)?;
    Some((*kind, Some(class)))
}

/// A tag: its name, and the relevant attributes.
struct Tag {
    at: usize,
    iri: String,
    id: Option<String>,
    reference: Option<String>,
    datatype: Option<String>,
    language: Option<String>,
    scope: Rc<Scope>,
}

impl Tag {
    fn local(&self) -> Option<&str> {
        self.iri.strip_prefix(PROV)
    }
}

/// A child element of a statement, with its text so far.
struct Child {
    tag: Tag,
    text: String,
}

struct Xml<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    blank: String,
    document: Document,
    bundle: Option<String>,
    /// The open statement, once for each member.
    open: Option<(Tag, Vec<Statement>)>,
    child: Option<Child>,
    /// Depth of tags inside a skipped element.
    ignored: usize,
}

/// Reads a document.
///
/// # Errors
/// Fails with line and column if the text is not PROV-XML.
pub(super) fn read(text: &str) -> Result<Document, ProvError> {
    let mut xml = Xml {
        text,
        reader: Reader::from_str(text),
        blank: skolem(text),
        document: Document::default(),
        bundle: None,
        open: None,
        child: None,
        ignored: 0,
    };
    xml.reader.config_mut().expand_empty_elements = true;
    xml.document()?;
    Ok(xml.document.normal())
}

impl Xml<'_> {
    fn wrong(&self, at: usize, what: impl Into<String>) -> ProvError {
        ProvError::at(self.text, at, what)
    }

    fn byte_position(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    fn document(&mut self) -> Result<(), ProvError> {
        let mut scopes = vec![Rc::new(Scope::default())];
        let mut seen = false;
        loop {
            let at = self.byte_position();
            let event = self.reader.read_event().map_err(|e| {
                let at = usize::try_from(self.reader.error_position()).unwrap_or(at);
                ProvError::at(self.text, at, e.to_string())
            })?;
            match event {
                Event::Start(start) => {
                    let outer = scopes.last().map(Rc::clone).unwrap_or_default();
                    let tag = self.tag(&start, at, &outer)?;
                    scopes.push(Rc::clone(&tag.scope));
                    if scopes.len() > 64 {
                        return Err(self.wrong(at, "elements nest too deep"));
                    }
                    if seen {
                        self.start(tag)?;
                    } else if tag.local() == Some("document") {
                        seen = true;
                        self.document.prefixes = tag.scope.declared();
                    } else {
                        let what = format!("expected prov:document ({PROV}), found {}", tag.iri);
                        return Err(self.wrong(at, what));
                    }
                }
                Event::End(_) => {
                    scopes.pop();
                    self.end()?;
                }
                Event::Text(text) => {
                    self.add(&text.xml10_content(), at)?;
                }
                Event::GeneralRef(name) => {
                    let text = unescape(&format!("&{};", &*name)).map(Cow::into_owned);
                    self.add(&text.map_err(|e| self.wrong(at, e.to_string()))?, at)?;
                }
                Event::CData(data) => {
                    self.add(&data.xml10_content(), at)?;
                }
                Event::Eof if !seen => {
                    return Err(self.wrong(at, "expected prov:document, found nothing"));
                }
                Event::Eof if scopes.len() > 1 => {
                    return Err(self.wrong(at, "the document ends too early"));
                }
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    fn add(&mut self, text: &str, at: usize) -> Result<(), ProvError> {
        if let Some(child) = &mut self.child {
            child.text.push_str(text);
        } else if self.ignored == 0 && !text.trim().is_empty() {
            let text: String = text.trim().chars().take(40).collect();
            return Err(self.wrong(at, format!("`{text}` is where only elements are allowed")));
        }
        Ok(())
    }

    fn tag(&self, start: &BytesStart<'_>, at: usize, outer: &Rc<Scope>) -> Result<Tag, ProvError> {
        let mut pairs = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|e| self.wrong(at, e.to_string()))?;
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|e| self.wrong(at, e.to_string()))?;
            let name = attribute.key.as_ref().to_owned();
            pairs.push((name, value.into_owned()));
        }
        let mut own = Scope::within(Rc::clone(outer));
        let mut declares = false;
        for (name, value) in &pairs {
            let prefix = match name.split_once(':') {
                None if name == "xmlns" => "",
                Some(("xmlns", prefix)) => prefix,
                _ => continue,
            };
            own.declare(prefix, value);
            declares = true;
        }
        let scope = if declares {
            Rc::new(own)
        } else {
            Rc::clone(outer)
        };
        let name = start.name().as_ref().to_owned();
        // An element without a namespace is not an element of PROV.
        let iri = match scope.expand(&name) {
            Ok(iri) => iri,
            Err(_) if !name.contains(':') => name,
            Err(e) => return Err(self.wrong(at, e)),
        };
        let mut tag = Tag {
            at,
            iri,
            id: None,
            reference: None,
            datatype: None,
            language: None,
            scope,
        };
        for (name, value) in pairs {
            if name == "xml:lang" {
                tag.language = Some(value);
                continue;
            }
            let Ok(iri) = tag.scope.expand(&name) else {
                continue;
            };
            match iri.strip_prefix(PROV) {
                Some("id") => tag.id = Some(value),
                Some("ref") => tag.reference = Some(value),
                _ if iri == XSI_TYPE => tag.datatype = Some(value),
                _ => {}
            }
        }
        Ok(tag)
    }

    fn name(&self, tag: &Tag, name: &str) -> Result<String, ProvError> {
        let name = name.trim();
        match name.strip_prefix("_:") {
            Some(label) => Ok(format!("{}{label}", self.blank)),
            None => tag.scope.expand(name).map_err(|e| self.wrong(tag.at, e)),
        }
    }

    fn start(&mut self, tag: Tag) -> Result<(), ProvError> {
        if self.ignored > 0 {
            self.ignored += 1;
            return Ok(());
        }
        if let Some(child) = &self.child {
            let what = format!("{} has elements in it; expected text", child.tag.iri);
            return Err(self.wrong(tag.at, what));
        }
        if self.open.is_some() {
            self.child = Some(Child {
                tag,
                text: String::new(),
            });
            return Ok(());
        }
        let Some(local) = tag.local() else {
            // The schema allows foreign elements here.
            self.ignored = 1;
            return Ok(());
        };
        if local == "bundleContent" && self.bundle.is_none() {
            let Some(id) = &tag.id else {
                return Err(self.wrong(tag.at, "this bundle has no prov:id"));
            };
            let id = self.name(&tag, id)?;
            self.document.bundles.entry(id.clone()).or_default();
            self.bundle = Some(id);
            return Ok(());
        }
        if local == "other" {
            self.ignored = 1;
            return Ok(());
        }
        let Some((kind, class)) = kind_of(local) else {
            let what = format!(
                "prov:{local} is not a kind of statement: expected prov:entity, prov:activity, prov:agent, prov:used …"
            );
            return Err(self.wrong(tag.at, what));
        };
        let id = tag
            .id
            .as_deref()
            .map(|id| self.name(&tag, id))
            .transpose()?;
        let mut statement = Statement::new(kind, id);
        statement.attributes.extend(
            class.map(|class| (format!("{PROV}type"), Value::Name(format!("{PROV}{class}")))),
        );
        self.open = Some((tag, vec![statement]));
        Ok(())
    }

    fn end(&mut self) -> Result<(), ProvError> {
        if self.ignored > 0 {
            self.ignored -= 1;
        } else if let Some(child) = self.child.take() {
            self.filled(child)?;
        } else if let Some((tag, statements)) = self.open.take() {
            for statement in statements {
                check(&statement).map_err(|e| self.wrong(tag.at, e))?;
                let to = match &self.bundle {
                    Some(bundle) => self.document.bundles.entry(bundle.clone()).or_default(),
                    None => &mut self.document.statements,
                };
                to.push(statement);
            }
        } else {
            // The end of the bundle, or of the document.
            self.bundle = None;
        }
        Ok(())
    }

    /// Applies a finished child element to the open statements.
    fn filled(&mut self, child: Child) -> Result<(), ProvError> {
        let Some((record, mut statements)) = self.open.take() else {
            return Ok(());
        };
        let Child { tag, text } = child;
        let kind = statements.first().map(|s| s.kind);
        let arguments = kind.map_or(&[] as &[_], |kind| kind.form().arguments);
        let at = arguments
            .iter()
            .position(|(name, _)| Some(*name) == tag.local());
        if let Some((at, (name, slot))) = at.and_then(|at| Some((at, arguments.get(at)?))) {
            let stated = if *slot == Slot::Time {
                time(&text).ok_or_else(|| self.wrong(tag.at, no_time(text.trim())))?
            } else {
                match &tag.reference {
                    Some(name) => self.name(&tag, name)?,
                    None => return Err(self.wrong(tag.at, format!("prov:{name} has no prov:ref"))),
                }
            };
            let filled = |s: &Statement| s.argument(at).is_some();
            if statements.iter().all(filled) {
                if kind != Some(Kind::Membership) {
                    let what = format!("prov:{name} is given twice");
                    return Err(self.wrong(tag.at, what));
                }
                let more = statements.first().cloned();
                statements.extend(more);
            }
            let last = statements.len() - 1;
            for (i, statement) in statements.iter_mut().enumerate() {
                let open = i == last || statement.argument(at).is_none();
                if let Some(slot) = statement.arguments.get_mut(at).filter(|_| open) {
                    *slot = Some(stated.clone());
                }
            }
        } else {
            let value = self.value(&tag, text)?;
            for statement in &mut statements {
                statement.attributes.push((tag.iri.clone(), value.clone()));
            }
        }
        self.open = Some((record, statements));
        Ok(())
    }

    fn value(&self, tag: &Tag, text: String) -> Result<Value, ProvError> {
        if let Some(language) = &tag.language {
            return Ok(Value::tagged(text, language));
        }
        if let Some(name) = &tag.reference {
            return Ok(Value::Name(self.name(tag, name)?));
        }
        let Some(datatype) = &tag.datatype else {
            return Ok(Value::string(text));
        };
        let datatype = self.name(tag, datatype)?;
        if is_name_type(&datatype)
            && let Ok(name) = self.name(tag, &text)
        {
            return Ok(Value::Name(name));
        }
        Ok(Value::typed(text, datatype))
    }
}
