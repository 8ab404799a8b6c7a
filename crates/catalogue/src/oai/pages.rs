//! Items of lists, page by page.

use super::Provider;
use super::fault::{Failed, Fault};
use super::list::{List, Position};
use crate::record::Record;
use esker_model::filter::{Comparison, Expr, Term, Test};
use esker_model::object::{Find, Found, ObjectId, ObjectKey, object_ref, object_type};
use esker_model::{
    Error, Value, Version, VersionRange, Vertex, VertexChange, VertexName, VertexSelect,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Largest number of sets.
const SETS_MAX: usize = 10_000;
const SECOND: i64 = 1_000_000_000;

/// An item of a list.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: ObjectId,
    /// Time of the last change or of the deletion, in nanoseconds since 1970.
    pub(super) changed: i64,
    /// Application of the object; empty for none.
    pub(super) application: String,
    /// Record of the object; `None` if it was deleted.
    pub(super) record: Option<Box<Record>>,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Item>,
    /// The list behind the page, if there is more.
    pub(super) next: Option<List>,
}

fn application_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    }
}

fn compare(name: &str, comparison: Comparison, value: impl Into<Value>) -> Expr {
    Expr::Term(Term {
        name: name.to_owned(),
        test: Test::Compare(comparison, value.into()),
    })
}

impl List {
    fn contains(&self, changed: i64) -> bool {
        let second = changed.div_euclid(SECOND);
        self.from.is_none_or(|from| from <= second)
            && self.until.is_none_or(|until| second <= until)
    }

    fn filter(&self, settings: &Expr) -> Expr {
        let mut all = Vec::new();
        if *settings != Expr::All {
            all.push(settings.clone());
        }
        if let Some(from) = self.from {
            let from = Value::Timestamp(from.saturating_mul(SECOND));
            all.push(compare("modified", Comparison::Ge, from));
        }
        if let Some(until) = self.until {
            let end = Value::Timestamp(until.saturating_add(1).saturating_mul(SECOND));
            all.push(compare("modified", Comparison::Lt, end));
        }
        if let Some(set) = &self.set {
            all.push(compare("app", Comparison::Eq, set.as_str()));
        }
        if all.is_empty() {
            Expr::All
        } else {
            Expr::And(all)
        }
    }
}

impl Provider<'_> {
    /// Reads the page at the position of a list.
    pub(super) fn page(&self, list: &List) -> Result<Page, Failed> {
        let mut list = list.clone();
        // Later changes belong to the next harvest, so that the pages of this one fit together.
        list.until.get_or_insert(self.now.div_euclid(SECOND));
        // One more item tells whether there is another page.
        let wanted = self.settings.page + 1;
        let mut items = Vec::new();
        if let Position::Objects(after) = list.after {
            self.objects(&list, after, wanted, &mut items)?;
        }
        if items.len() < wanted {
            let after = match list.after {
                Position::Objects(_) => None,
                Position::Deleted(after) => after,
            };
            self.deleted(&list, after, wanted, &mut items)?;
        }
        if self.collector.cancel.cancelled() {
            return Err(Error::Interrupted.into());
        }
        let more = items.len() == wanted;
        items.truncate(self.settings.page);
        let Some(last) = items.last() else {
            let message = "no object matches these arguments";
            return Err(Fault::new("noRecordsMatch", message).into());
        };
        let next = more.then(|| List {
            after: if last.record.is_some() {
                Position::Objects(Some(last.id))
            } else {
                Position::Deleted(Some(last.id))
            },
            done: list.done + items.len() as u64,
            ..list.clone()
        });
        Ok(Page { items, next })
    }

    fn objects(
        &self,
        list: &List,
        after: Option<ObjectId>,
        wanted: usize,
        items: &mut Vec<Item>,
    ) -> Result<(), Failed> {
        let find = Find {
            limit: Some(wanted as u64),
            after,
            principal: self.collector.principal.cloned(),
            ..Find::all(list.filter(&self.settings.filter))
        };
        let mut found = Vec::new();
        self.collector
            .graph
            .find(&find, self.collector.cancel, &mut |one| {
                found.push(one);
                ControlFlow::Continue(())
            })?;
        items.extend(found.iter().map(|one| self.item_of(one)));
        Ok(())
    }

    fn item_of(&self, found: &Found) -> Item {
        let name = format!("object:{}", found.id);
        Item {
            id: found.id,
            changed: found.modified.nanos(),
            application: application_of(found.attributes.get("app")),
            record: Some(Box::new(self.collector.of_object(name, found))),
        }
    }

    fn deleted(
        &self,
        list: &List,
        after: Option<ObjectId>,
        wanted: usize,
        items: &mut Vec<Item>,
    ) -> Result<(), Failed> {
        let collector = &self.collector;
        let Some(type_id) = object_type(&*collector.graph.schema()?) else {
            return Ok(());
        };
        let mut after = after.map(|id| (type_id, id.vertex()));
        while items.len() < wanted && !collector.cancel.cancelled() {
            let select = VertexSelect {
                type_id,
                after,
                as_of: Version::MAX,
                deleted: true,
            };
            let mut found: Vec<Vertex> = Vec::new();
            let mut last = None;
            let room = wanted - items.len();
            collector.graph.scan_vertices(&select, &mut |vertex| {
                last = Some((vertex.type_id, vertex.id));
                if vertex.deleted && list.contains(vertex.version.nanos()) {
                    found.push(vertex);
                }
                if found.len() == room || collector.cancel.cancelled() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            let complete = found.len() < room;
            for vertex in found {
                let Some(id) = ObjectId::of_vertex(vertex.id) else {
                    continue;
                };
                let application = self.last_application(&vertex)?;
                if list.set.as_ref().is_none_or(|set| *set == application) {
                    items.push(Item {
                        id,
                        changed: vertex.version.nanos(),
                        application,
                        record: None,
                    });
                }
            }
            if complete || last.is_none() {
                break;
            }
            after = last;
        }
        Ok(())
    }

    /// Application of a deleted object, from its history.
    fn last_application(&self, vertex: &Vertex) -> Result<String, Failed> {
        let all = VersionRange {
            from: Version::ZERO,
            until: Version::MAX,
        };
        let events = self.collector.graph.vertex_history(vertex.id, all)?;
        let last = events.iter().find_map(|event| match &event.change {
            VertexChange::Put(attributes) => Some(attributes),
            _ => None,
        });
        Ok(application_of(
            last.and_then(|attributes| attributes.get("app")),
        ))
    }

    /// Reads one item with all its relations.
    pub(super) fn item(&self, id: ObjectId) -> Result<Item, Failed> {
        let missing = || {
            let host = &self.settings.host;
            let id = super::request::identifier_of(id, host);
            Fault::new("idDoesNotExist", format!("no item `{id}`"))
        };
        let collector = &self.collector;
        let schema = collector.graph.schema()?;
        let keys = [ObjectKey::Id(id)];
        let read = collector.graph.read_objects(&keys, collector.principal)?;
        let Some(found) = read.into_iter().next().flatten() else {
            let read = collector
                .graph
                .read_vertices(&[id.vertex()], Version::MAX)?;
            let vertex = read.into_iter().next().flatten().filter(|v| v.deleted);
            let vertex = vertex.ok_or_else(missing)?;
            return Ok(Item {
                id,
                changed: vertex.version.nanos(),
                application: self.last_application(&vertex)?,
                record: None,
            });
        };
        if !self.harvested(id)? {
            return Err(missing().into());
        }
        let mut item = self.item_of(&found);
        let name = VertexName::parse(&format!("object:{id}"))?;
        let vertex = object_ref(&schema, id).ok_or_else(missing)?;
        if let Some(record) = collector.collect(&name, vertex)? {
            item.record = Some(Box::new(record));
        }
        Ok(item)
    }

    /// Whether the condition of the provider holds for an object.
    fn harvested(&self, id: ObjectId) -> Result<bool, Failed> {
        if self.settings.filter == Expr::All {
            return Ok(true);
        }
        let number = i64::try_from(id.0).unwrap_or(i64::MAX);
        let only = compare("id", Comparison::Eq, number);
        let find = Find {
            limit: Some(1),
            select: Some(Vec::new()),
            principal: self.collector.principal.cloned(),
            ..Find::all(Expr::And(vec![self.settings.filter.clone(), only]))
        };
        let mut found = false;
        self.collector
            .graph
            .find(&find, self.collector.cancel, &mut |_| {
                found = true;
                ControlFlow::Continue(())
            })?;
        Ok(found)
    }

    /// Reads the applications of all objects.
    pub(super) fn sets(&self) -> Result<BTreeSet<String>, Failed> {
        let find = Find {
            select: Some(vec!["app".into()]),
            principal: self.collector.principal.cloned(),
            ..Find::all(self.settings.filter.clone())
        };
        let mut sets = BTreeSet::new();
        self.collector
            .graph
            .find(&find, self.collector.cancel, &mut |found| {
                let name = application_of(found.attributes.get("app"));
                if !name.is_empty() {
                    sets.insert(name);
                }
                if sets.len() == SETS_MAX {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        if self.collector.cancel.cancelled() {
            return Err(Error::Interrupted.into());
        }
        Ok(sets)
    }
}
