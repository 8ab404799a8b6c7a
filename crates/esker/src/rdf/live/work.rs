//! The writer of RDF data: tasks in groups, a log, images beside the work.

use super::{Add, Added, Done, How, Request, Shared, Task};
use crate::rdf::MEMORY;
use crate::rdf::disk::{self, Writer};
use crate::rdf::meta::{GRAPH, check_names, check_target, put_in, take_out};
use crate::rdf::rights::{AskerGuard, Rights};
use crate::rdf::{Changed, LOG_MAX, Rules, error, fetch, moment};
use esker_model::{Error, Result};
use esker_rdf::dictionary::Key;
use esker_rdf::id::UNBOUND;
use esker_rdf::infer::Limits;
use esker_rdf::log::{self, Change};
use esker_rdf::{Dataset, Guard, Options, Term, syntax, update_parsed};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Updates of one group.
const GROUP_MAX: usize = 4_096;
/// Bytes of a group's records.
const GROUP_BYTES: usize = 8 << 20;
/// Records of more bytes than this become an image.
const RECORD_MAX: usize = 256 << 20;
/// Quads that are added by the log; more become an image.
const QUADS_MAX: usize = 200_000;

/// What the writer has.
pub(super) struct Work {
    shared: Arc<Shared>,
    disk: Writer,
    /// An image that is being written aside.
    aside: Option<Aside>,
    drafts: u64,
    image_bytes: u64,
    /// Whether all must survive a power failure.
    sync: bool,
}

struct Aside {
    number: u64,
    draft: PathBuf,
    /// How much of the log it holds.
    log_bytes: u64,
    waiting: Vec<Done<u64>>,
}

/// Updates that become durable together.
struct Group {
    before: Arc<Dataset>,
    data: Dataset,
    records: Vec<u8>,
    /// There is more than a log should hold.
    large: bool,
    sync: bool,
    count: usize,
    done: Vec<Box<dyn FnOnce(std::result::Result<(), &Error>) + Send>>,
}

impl Group {
    fn new(before: Arc<Dataset>) -> Self {
        Self {
            data: (*before).clone(),
            before,
            records: Vec::new(),
            large: false,
            sync: false,
            count: 0,
            done: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.count >= GROUP_MAX || self.records.len() > GROUP_BYTES || self.large
    }

    fn log(&mut self, changes: &[Change], sync: bool) {
        if changes.is_empty() {
            return;
        }
        self.sync |= sync;
        let record = log::encode(&self.data, changes);
        if record.len() > RECORD_MAX {
            self.large = true;
            return;
        }
        match disk::framed(&record) {
            Ok(record) => self.records.extend_from_slice(&record),
            Err(_) => self.large = true,
        }
    }

    fn tell<T: Send + 'static>(&mut self, done: Done<T>, value: T) {
        self.done.push(Box::new(move |written| {
            done(match written {
                Ok(()) => Ok(value),
                Err(e) => Err(not_written(e)),
            });
        }));
    }

    fn update(&mut self, request: Request, how: &How, seed: u64, done: Done<Changed>) {
        self.count += 1;
        if (how.stop)().is_some() {
            return done(Err(Error::Interrupted));
        }
        let request = match request {
            Request::Parsed(update) => Ok(*update),
            Request::Text(text) => syntax::update(&text, None),
        };
        let (now, _) = moment();
        let mut options = Options::new(now, seed);
        options.memory = how.memory;
        options.derived = GRAPH;
        options.stop = &*how.stop;
        // The thread that does updates waits for nobody: what is to be heard was heard before.
        options.tells = false;
        let heard = |endpoint: &str, text: &str| {
            let key = (endpoint.to_owned(), text.to_owned());
            let known = how.heard.get(&key).cloned();
            known.unwrap_or_else(|| Err("it was not asked before the update".into()))
        };
        if !how.heard.is_empty() {
            options.remote = Some(&heard);
        }
        let asker = how.asker.as_ref();
        let guard = asker.map(|asker| AskerGuard {
            asker,
            stop: &*how.stop,
        });
        options.guard = guard.as_ref().map(|guard| guard as &dyn Guard);
        let asks = !how.meta.is_empty();
        if let Err(e) = put_in(&mut self.data, &how.meta) {
            return done(Err(e));
        }
        let mut from = |iri: &str| {
            if how.files {
                fetch(iri)
            } else {
                Err("a server reads no files for its clients; send the file, as `esker rdf load` does".into())
            }
        };
        let outcome = request.and_then(|update| {
            let graphs = how.graphs.as_ref();
            update_parsed(&mut self.data, &update, graphs, &mut from, &options)
        });
        if asks {
            take_out(&mut self.data);
        }
        match outcome {
            Ok((changes, added, removed)) => {
                self.log(&changes, how.sync);
                self.tell(done, Changed { added, removed });
            }
            Err(e) => done(Err(error(e))),
        }
    }

    fn add(&mut self, add: &Add, done: Done<Added>) {
        self.count += 1;
        let targets = add.into.iter().chain(add.instead_of.iter().flatten());
        let refused = targets
            .map(|iri| check_target(iri))
            .chain([check_names(&add.data), self.check_rights(add)])
            .collect::<Result<()>>();
        if let Err(e) = refused {
            return done(Err(e));
        }
        // What fails in the middle leaves nothing.
        let before = self.data.clone();
        match self.try_add(add) {
            Ok(added) => self.tell(done, added),
            Err(e) => {
                self.data = before;
                done(Err(error(e)));
            }
        }
    }

    /// Refuses what is added to, or takes the place of, a graph that the asker may not change.
    fn check_rights(&self, add: &Add) -> Result<()> {
        let Some(rights) = Rights::of(&self.data, add.asker.as_ref()) else {
            return Ok(());
        };
        if let Some(graph) = &add.instead_of {
            rights.check_name(graph.as_deref())?;
        }
        if add.data.graph(UNBOUND).is_some_and(|g| !g.is_empty()) {
            rights.check_name(None)?;
        }
        for g in add.data.names() {
            if let Some(Term::NamedNode(name)) = add.data.dictionary.term(g) {
                rights.check_name(Some(name.as_str()))?;
            }
        }
        Ok(())
    }

    fn try_add(&mut self, add: &Add) -> esker_rdf::Result<Added> {
        let graph = |data: &Dataset, iri: Option<&str>| match iri {
            None => Some(UNBOUND),
            Some(iri) => data.dictionary.find(&Key::Iri(iri)),
        };
        let size = |data: &Dataset, iri: Option<&str>| {
            let graph = graph(data, iri).and_then(|g| data.graph(g));
            graph.map_or(0, |g| g.len())
        };
        let into = add.into.as_deref();
        let existed = size(&self.data, into) > 0;
        let asserted = |data: &Dataset| data.len() - data.inferred_len();
        let before = asserted(&self.data);
        let mut changes = Vec::new();
        let mut gone = 0;
        if let Some(iri) = &add.instead_of
            && let Some(g) = graph(&self.data, iri.as_deref())
            && size(&self.data, iri.as_deref()) > 0
        {
            self.data.clear(g);
            gone = before - asserted(&self.data);
            changes.push(Change::Clear(g));
        }
        if add.data.len() > QUADS_MAX {
            self.data.merge(&add.data)?;
            self.large = true;
        } else {
            let quads = self.data.numbered(&add.data)?;
            let list: Vec<_> = quads.iter().map(|q| (*q, true)).collect();
            self.data.change(&list);
            changes.extend(quads.into_iter().map(Change::Add));
        }
        if let Rules::Now(kind) = add.infer
            && kind != self.data.inference()
        {
            // Rules stand in images only.
            let limits = Limits {
                memory: MEMORY,
                stop: &|| None,
            };
            self.data.infer(kind, limits)?;
            self.large = true;
        }
        self.log(&changes, add.sync);
        Ok(Added {
            existed,
            new: (asserted(&self.data) + gone).saturating_sub(before),
            before,
        })
    }
}

fn not_written(e: &Error) -> Error {
    Error::io(
        "writing the log of RDF data; nothing of the update was done",
        std::io::Error::other(e.to_string()),
    )
}

impl Work {
    pub(super) fn new(shared: Arc<Shared>, disk: Writer, sync: bool) -> Self {
        Self {
            shared,
            disk,
            aside: None,
            drafts: 0,
            image_bytes: 0,
            sync,
        }
    }

    /// Until all is being closed.
    pub(super) fn run(&mut self) {
        while let Some(task) = self.shared.next(true) {
            // A panic loses the group, whose callers are told by their guards, and neither the data nor the thread.
            let round = std::panic::AssertUnwindSafe(|| self.round(task));
            let _ = std::panic::catch_unwind(round);
        }
        let _ = self.disk.sync();
    }

    /// Does a task and those that wait with it.
    fn round(&mut self, first: Task) {
        let mut group = Group::new(self.shared.snapshot());
        let mut next = Some(first);
        while let Some(task) = next.take() {
            match task {
                Task::Update(request, how, done) => {
                    group.update(request, &how, self.shared.seed(), done);
                }
                Task::Add(add, done) => group.add(&add, done),
                other => {
                    self.commit(group);
                    self.alone(other);
                    group = Group::new(self.shared.snapshot());
                }
            }
            if group.is_full() {
                self.commit(group);
                group = Group::new(self.shared.snapshot());
            }
            next = self.shared.next(false);
        }
        self.commit(group);
        if self.disk.log_bytes > LOG_MAX.max(self.image_bytes / 2) && self.aside.is_none() {
            self.begin_image(Vec::new());
        }
    }

    fn commit(&mut self, group: Group) {
        let written = if group.large {
            self.image_now(&group.data)
        } else if group.records.is_empty() {
            // Nothing changed: the copy may have terms that nobody uses.
            for done in group.done {
                done(Ok(()));
            }
            return;
        } else {
            self.disk
                .append_records(&group.records, group.sync || self.sync)
        };
        drop(group.before);
        match written {
            Ok(()) => {
                self.shared.publish(group.data, self.disk.log_bytes);
                for done in group.done {
                    done(Ok(()));
                }
            }
            Err(e) => {
                for done in group.done {
                    done(Err(&e));
                }
            }
        }
    }

    /// Writes an image while everything waits that changes the data.
    fn image_now(&mut self, data: &Dataset) -> Result<()> {
        let mut data = data.clone();
        data.settle();
        let bytes = self.disk.checkpoint(&data)?;
        self.image_bytes = bytes;
        // One that is being written aside is of an older state.
        if let Some(aside) = self.aside.take() {
            for done in aside.waiting {
                done(Ok(bytes));
            }
        }
        Ok(())
    }

    fn alone(&mut self, task: Task) {
        match task {
            Task::Checkpoint(done) => match &mut self.aside {
                Some(aside) => aside.waiting.push(done),
                None => self.begin_image(vec![done]),
            },
            Task::Drop(done) => {
                let before = self.shared.snapshot().len();
                let dropped = self.image_now(&Dataset::default()).map(|()| {
                    self.shared.publish(Dataset::default(), 0);
                    before
                });
                done(dropped);
            }
            Task::Lend(give, take) => {
                let data = (*self.shared.snapshot()).clone();
                if give.send(data).is_ok()
                    && let Ok(data) = take.recv()
                {
                    let log_bytes = self.shared.log_bytes.load(Ordering::Acquire);
                    self.shared.publish(data, log_bytes);
                }
            }
            Task::Image(number, written) => self.end_image(number, written),
            Task::Update(..) | Task::Add(..) => {}
        }
    }

    /// Begins to write an image beside everything else.
    fn begin_image(&mut self, waiting: Vec<Done<u64>>) {
        self.drafts += 1;
        let number = self.drafts;
        let draft = self.disk.draft(number);
        let (data, shared, to) = (
            self.shared.snapshot(),
            Arc::clone(&self.shared),
            draft.clone(),
        );
        self.aside = Some(Aside {
            number,
            draft,
            log_bytes: self.disk.log_bytes,
            waiting,
        });
        let write = move || {
            let mut settled = (*data).clone();
            drop(data);
            settled.settle();
            let written = disk::write_image(&to, &settled);
            // Once all is being closed nobody needs it: the log has everything.
            let _ = shared.push(Task::Image(number, written));
        };
        let started = std::thread::Builder::new()
            .name("esker-rdf-image".into())
            .spawn(write);
        if let Err(e) = started {
            let e = Error::io("starting the thread that writes an image of RDF data", e);
            self.end_image(number, Err(e));
        }
    }

    fn end_image(&mut self, number: u64, written: Result<u64>) {
        let Some(aside) = self.aside.take_if(|a| a.number == number) else {
            // What was written meanwhile holds more.
            return;
        };
        let switched = written.and_then(|bytes| {
            self.disk.switch(&aside.draft, aside.log_bytes)?;
            self.image_bytes = bytes;
            self.shared
                .log_bytes
                .store(self.disk.log_bytes, Ordering::Release);
            Ok(bytes)
        });
        for done in aside.waiting {
            done(match &switched {
                Ok(bytes) => Ok(*bytes),
                Err(e) => Err(Error::io(
                    "writing an image of RDF data",
                    std::io::Error::other(e.to_string()),
                )),
            });
        }
    }
}
