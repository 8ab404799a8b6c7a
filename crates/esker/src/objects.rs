//! Objects of a database, for every role of this process.

use crate::database::Database;
use crate::limits::{FIND_PAGE_FIRST, FIND_PAGE_MAX};
use crate::remote::Receiver;
use crate::session::Session;
use crate::wire::request::Request;
use esker_model::object::{
    Find, FindReport, Found, FoundColumns, ObjectKey, ObjectRead, ObjectWrite, Principal, TagInfo,
    TagReport, TagWhere, Values,
};
use esker_model::resume::FindResume;
use esker_model::value::ValueView;
use esker_model::wire::Wire as _;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result};
use esker_process::producer::BatchNumber;
use std::ops::ControlFlow;

impl ObjectRead for Database {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.read_objects(keys, principal)?),
            Session::Attached(r) => {
                r.list(&Request::ReadObjects(keys.to_vec(), principal.cloned()))
            }
            Session::Server(c) => Ok(c.read_objects(keys, principal)?),
        })
    }

    /// Through another process, the report of a search that its sink ended covers only the objects that the sink received.
    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        let mut resume = FindResume::new(find);
        self.run(|s| match s {
            Session::Owner(o) => {
                let rest = resume.rest().clone();
                let engine = o.engine()?;
                let report = engine.find(&rest, cancel, &mut |f| resume.pass(f, sink))?;
                Ok(resume.report(report))
            }
            Session::Attached(r) => {
                let request = Request::Find(resume.rest().clone());
                let receiver = Receiver {
                    item: &mut |r| Found::take(r).map(|f| resume.pass(f, sink)),
                    progress: &mut |_| {},
                    cancel: Some(cancel),
                };
                let report: Option<FindReport> = r.call(&request, receiver)?;
                Ok(match report {
                    Some(report) => resume.report(report),
                    None => resume.broken_off(),
                })
            }
            Session::Server(c) => Ok(c.find(find, cancel, sink)?),
        })
    }

    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.tags(principal)?),
            Session::Attached(r) => r.list(&Request::Tags(principal.cloned())),
            Session::Server(c) => Ok(c.tags(principal)?),
        })
    }
}

impl ObjectWrite for Database {
    /// Through another process, a change without an idempotency key gets one, so that it can be sent again if the owner
    /// ends
    /// before it responds.
    fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport> {
        let mut number: Option<BatchNumber> = None;
        let mut change = change.clone();
        let answer = self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.tag_where(&change, cancel)?),
            Session::Attached(r) => {
                if change.idempotency_key.is_none() && !change.dry_run {
                    let next = self.next_number()?;
                    change.idempotency_key = Some(next.idempotency_key());
                    number = Some(next);
                }
                let request = Request::TagWhere(change.clone());
                self.durable(r, r.value(&request, Some(cancel)))
            }
            Session::Server(c) => Ok(c.tag_where_with(&change, self.is_sync(), cancel)?),
        });
        // A caller that gets an error may repeat the change; this one must not be applied later as well.
        if let Some(number) = number {
            number.settle();
        }
        answer
    }

    fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.set_index(name, on)?),
            Session::Attached(r) => {
                let changed = r.value(&Request::SetIndex(name.to_owned(), on), None);
                self.durable(r, changed)
            }
            Session::Server(c) => Ok(c.set_index(name, on)?),
        })
    }
}

impl Database {
    /// Whether a search of a database that this process owns is known in advance to touch only a few objects and not to
    /// block. For threads that must not wait.
    pub fn finds_few(&self, find: &Find) -> bool {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.engine().is_ok_and(|e| e.finds_few(find)),
            _ => false,
        }
    }

    /// Searches for objects and returns the results as columns of one snapshot: one column per selected name, none without
    /// a selection. Some ten times as fast as [`ObjectRead::find`] if this process owns the database; otherwise the columns
    /// are built from the objects that the owner sends.
    ///
    /// ```no_run
    /// use esker::OpenOptions;
    /// use esker::model::NeverCancel;
    /// use esker::model::filter::Expr;
    /// use esker::model::object::{Find, Values};
    /// let db = OpenOptions::new().open("lab.esker")?;
    /// let find = Find {
    ///     select: Some(vec!["step".into(), "energy".into()]),
    ///     ..Find::all(Expr::parse("Name = 'VPIC'", None)?)
    /// };
    /// let found = db.find_columns(&find, &NeverCancel)?;
    /// if let Some(Values::I64(steps)) = found.column("step") {
    ///     println!("{} objects, {} steps", found.ids.len(), steps.len());
    /// }
    /// # Ok::<(), esker::Error>(())
    /// ```
    pub fn find_columns(&self, find: &Find, cancel: &dyn Cancel) -> Result<FoundColumns> {
        if let Session::Owner(owner) = &*self.session()? {
            return owner.engine()?.find_columns(find, cancel);
        }
        let names = find.select.clone().unwrap_or_default();
        let find = Find {
            select: Some(names.clone()),
            ..find.clone()
        };
        let mut ids = Vec::new();
        let named = |name| (name, Values::default());
        let mut columns: Vec<_> = names.into_iter().map(named).collect();
        let report = self.find(&find, cancel, &mut |found| {
            ids.push(found.id);
            for (name, values) in &mut columns {
                let value = found.get(name).or_else(|| {
                    let mut all = found.attributes.iter();
                    let alike = all.find(|(n, _)| n.eq_ignore_ascii_case(name));
                    alike.map(|(_, value)| value)
                });
                values.push(value.map(ValueView::from).as_ref());
            }
            ControlFlow::Continue(())
        })?;
        Ok(FoundColumns {
            ids,
            columns,
            report,
        })
    }

    /// Searches for objects lazily, page by page. Each page is one snapshot. [`FindIter::report`] has the counts and
    /// the plan;
    /// `count` and `explain` are ignored, and the objects are always returned.
    ///
    /// ```no_run
    /// use esker::OpenOptions;
    /// use esker::model::filter::Expr;
    /// use esker::model::object::Find;
    /// let db = OpenOptions::new().open("lab.esker")?;
    /// let filter = Expr::parse("Name = 'VPIC' AND energy > 2", None)?;
    /// for object in db.find_iter(Find::all(filter)) {
    ///     println!("{}", object?.id);
    /// }
    /// # Ok::<(), esker::Error>(())
    /// ```
    pub fn find_iter(&self, find: Find) -> FindIter {
        FindIter {
            database: self.clone(),
            left: find.limit,
            find: Find {
                count: false,
                explain: false,
                ..find
            },
            page: Vec::new().into_iter(),
            size: FIND_PAGE_FIRST,
            report: None,
            ended: false,
            missing_reported: false,
        }
    }
}

/// Iterator over the objects that match a search ([`Database::find_iter`]).
#[derive(Debug)]
pub struct FindIter {
    database: Database,
    find: Find,
    page: std::vec::IntoIter<Found>,
    /// Maximum of objects in the next page.
    size: u64,
    /// Objects left until the limit; `None` without a limit.
    left: Option<u64>,
    report: Option<FindReport>,
    /// Whether no further page will be requested.
    ended: bool,
    /// Whether missing servers have been reported.
    missing_reported: bool,
}

impl FindIter {
    /// Report of the search so far; `None` before the first page. Its plan and its unknown names are those of the first
    /// page.
    pub fn report(&self) -> Option<&FindReport> {
        self.report.as_ref()
    }

    /// Requests the next page.
    fn next_page(&mut self) -> Result<()> {
        let limit = self.left.map_or(self.size, |left| left.min(self.size));
        self.find.limit = Some(limit);
        let mut page = Vec::new();
        let done = self.database.find(&self.find, &NeverCancel, &mut |f| {
            page.push(f);
            ControlFlow::Continue(())
        })?;
        self.size = (self.size * 4).min(FIND_PAGE_MAX);
        if let Some(last) = page.last() {
            self.find.after = Some(last.id);
        }
        let count = page.len() as u64;
        self.left = self.left.map(|left| left.saturating_sub(count));
        // At the limit there may be more objects, and the report cannot always tell.
        self.ended = done.complete || count == 0 || self.left == Some(0);
        match &mut self.report {
            None => self.report = Some(done),
            Some(report) => {
                report.matches += done.matches;
                report.complete = done.complete;
                report.missing.extend(done.missing);
                report.missing.sort_unstable();
                report.missing.dedup();
            }
        }
        self.page = page.into_iter();
        Ok(())
    }

    /// Error about servers whose objects are missing, returned once.
    fn missing_error(&mut self) -> Option<Error> {
        let missing = &self.report.as_ref()?.missing;
        if std::mem::replace(&mut self.missing_reported, true) || missing.is_empty() {
            return None;
        }
        let names: Vec<_> = missing.iter().map(|s| format!("server {s}")).collect();
        Some(Error::Unavailable(format!(
            "the objects of {} are missing here, because it did not answer: repeat the search once it is back",
            names.join(", ")
        )))
    }
}

/// After an error the iterator ends. A result without the objects of some server ends with an error.
impl Iterator for FindIter {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.page.next() {
                return Some(Ok(found));
            }
            if self.ended {
                return self.missing_error().map(Err);
            }
            if let Err(e) = self.next_page() {
                (self.ended, self.missing_reported) = (true, true);
                return Some(Err(e));
            }
        }
    }
}
