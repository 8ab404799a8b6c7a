//! Writer thread of RDF data: executes tasks in groups, writes the log, and writes images in the background.

use super::{AddQuads, AddReport, Callback, LiveShared, Task, UpdateOptions, UpdateRequest};
use crate::rdf::MEMORY;
use crate::rdf::disk::{self, Writer};
use crate::rdf::meta::{GRAPH, check_names, check_target, put_in, take_out};
use crate::rdf::rights::{PrincipalGuard, Rights};
use crate::rdf::{LOG_MAX, Rules, UpdateCounts, error, now_and_seed, read_file};
use esker_model::{Error, Result};
use esker_rdf::dictionary::Key;
use esker_rdf::id::UNBOUND;
use esker_rdf::infer::Limits;
use esker_rdf::log::{self, Change};
use esker_rdf::{Dataset, Guard, Load, Options, Term, syntax, update_parsed};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum of updates in one group.
const GROUP_MAX: usize = 4_096;
/// Size in bytes of a group's records from which it is committed.
const GROUP_BYTES: usize = 8 << 20;
/// Record size in bytes above which an image is written instead.
const RECORD_MAX: usize = 256 << 20;
/// Number of quads that are added through the log; for more, an image is written.
const QUADS_MAX: usize = 200_000;

/// State of the writer thread.
pub(super) struct WriterThread {
    shared: Arc<LiveShared>,
    disk: Writer,
    /// Image that is being written in the background.
    background_image: Option<BackgroundImage>,
    drafts: u64,
    image_bytes: u64,
    /// Whether all changes must survive a power failure.
    sync: bool,
}

struct BackgroundImage {
    number: u64,
    draft: PathBuf,
    /// Length of the log that the image includes.
    log_bytes: u64,
    waiting: Vec<Callback<u64>>,
}

/// Updates that are committed together.
struct CommitGroup {
    before: Arc<Dataset>,
    data: Dataset,
    records: Vec<u8>,
    /// Whether the changes are too large for the log, so that an image is written.
    large: bool,
    sync: bool,
    count: usize,
    done: Vec<Box<dyn FnOnce(std::result::Result<(), &Error>) + Send>>,
}

impl CommitGroup {
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

    fn on_commit<T: Send + 'static>(&mut self, done: Callback<T>, value: T) {
        self.done.push(Box::new(move |written| {
            done(match written {
                Ok(()) => Ok(value),
                Err(e) => Err(not_written(e)),
            });
        }));
    }

    fn update(
        &mut self,
        request: UpdateRequest,
        how: &UpdateOptions,
        seed: u64,
        done: Callback<UpdateCounts>,
    ) {
        self.count += 1;
        if (how.stop)().is_some() {
            return done(Err(Error::Interrupted));
        }
        let request = match request {
            UpdateRequest::Parsed(update) => Ok(*update),
            UpdateRequest::Text(text) => syntax::update(&text, None),
        };
        let (now, _) = now_and_seed();
        let mut options = Options::new(now, seed);
        options.memory = how.memory;
        options.derived = GRAPH;
        options.stop = &*how.stop;
        // The updating thread must not wait for endpoints: their results were fetched in advance.
        options.send_bindings = false;
        let service_results = |endpoint: &str, text: &str| {
            let key = (endpoint.to_owned(), text.to_owned());
            let known = how.service_results.get(&key).cloned();
            known.unwrap_or_else(|| Err("its results were not fetched before the update".into()))
        };
        if !how.service_results.is_empty() {
            options.remote = Some(&service_results);
        }
        let principal = how.principal.as_ref();
        let guard = principal.map(|principal| PrincipalGuard {
            principal,
            stop: &*how.stop,
        });
        options.guard = guard.as_ref().map(|guard| guard as &dyn Guard);
        let asks = !how.meta.is_empty();
        if let Err(e) = put_in(&mut self.data, &how.meta) {
            return done(Err(e));
        }
        let mut documents = how.documents.iter();
        let mut read = |load: &Load<'_>| {
            match documents.next() {
            Some(document) => document.clone(),
            None if how.files => read_file(load),
            None => Err(
                "a server reads no files for its clients, and only documents that it may (--allow-load, or sparql.load in its \
                 configuration); send the file, as `esker rdf load` does"
                    .into(),
            ),
        }
        };
        let outcome = request.and_then(|update| {
            let graphs = how.graphs.as_ref();
            update_parsed(&mut self.data, &update, graphs, &mut read, &options)
        });
        if asks {
            take_out(&mut self.data);
        }
        match outcome {
            Ok((changes, added, removed)) => {
                self.log(&changes, how.sync);
                self.on_commit(done, UpdateCounts { added, removed });
            }
            Err(e) => done(Err(error(e))),
        }
    }

    fn add(&mut self, add: &AddQuads, done: Callback<AddReport>) {
        self.count += 1;
        let targets = add.into.iter().chain(add.instead_of.iter().flatten());
        let refused = targets
            .map(|iri| check_target(iri))
            .chain([check_names(&add.data), self.check_rights(add)])
            .collect::<Result<()>>();
        if let Err(e) = refused {
            return done(Err(e));
        }
        // A failure in the middle is rolled back.
        let before = self.data.clone();
        match self.try_add(add) {
            Ok(added) => self.on_commit(done, added),
            Err(e) => {
                self.data = before;
                done(Err(error(e)));
            }
        }
    }

    /// Refuses to add to, or to replace, a graph that the principal may not change.
    fn check_rights(&self, add: &AddQuads) -> Result<()> {
        let Some(rights) = Rights::of(&self.data, add.principal.as_ref()) else {
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

    fn try_add(&mut self, add: &AddQuads) -> esker_rdf::Result<AddReport> {
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
            // Inference rules are stored in images only.
            let limits = Limits {
                memory: MEMORY,
                stop: &|| None,
            };
            self.data.infer(kind, limits)?;
            self.large = true;
        }
        self.log(&changes, add.sync);
        Ok(AddReport {
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

impl WriterThread {
    pub(super) fn new(shared: Arc<LiveShared>, disk: Writer, sync: bool) -> Self {
        Self {
            shared,
            disk,
            background_image: None,
            drafts: 0,
            image_bytes: 0,
            sync,
        }
    }

    /// Executes tasks until the data is closed.
    pub(super) fn run(&mut self) {
        while let Some(task) = self.shared.next(true) {
            // A panic loses the group, whose callers get an error, but neither the data nor the thread.
            let round = std::panic::AssertUnwindSafe(|| self.round(task));
            let _ = std::panic::catch_unwind(round);
        }
        let _ = self.disk.sync();
    }

    /// Executes a task and all tasks queued behind it.
    fn round(&mut self, first: Task) {
        let mut group = CommitGroup::new(self.shared.snapshot());
        let mut next = Some(first);
        while let Some(task) = next.take() {
            match task {
                Task::Update(request, how, done) => {
                    group.update(request, &how, self.shared.seed(), done);
                }
                Task::AddQuads(add, done) => group.add(&add, done),
                other => {
                    self.commit(group);
                    self.run_exclusive(other);
                    group = CommitGroup::new(self.shared.snapshot());
                }
            }
            if group.is_full() {
                self.commit(group);
                group = CommitGroup::new(self.shared.snapshot());
            }
            next = self.shared.next(false);
        }
        self.commit(group);
        if self.disk.log_bytes > LOG_MAX.max(self.image_bytes / 2)
            && self.background_image.is_none()
        {
            self.begin_image(Vec::new());
        }
    }

    fn commit(&mut self, group: CommitGroup) {
        let written = if group.large {
            self.image_now(&group.data)
        } else if group.records.is_empty() {
            // No change: the copy may contain unused terms.
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

    /// Writes an image while all updates wait.
    fn image_now(&mut self, data: &Dataset) -> Result<()> {
        let mut data = data.clone();
        data.compact();
        let bytes = self.disk.checkpoint(&data)?;
        self.image_bytes = bytes;
        // An image being written in the background has an older state.
        if let Some(background_image) = self.background_image.take() {
            for done in background_image.waiting {
                done(Ok(bytes));
            }
        }
        Ok(())
    }

    fn run_exclusive(&mut self, task: Task) {
        match task {
            Task::Checkpoint(done) => match &mut self.background_image {
                Some(background_image) => background_image.waiting.push(done),
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
            Task::Update(..) | Task::AddQuads(..) => {}
        }
    }

    /// Starts writing an image in the background.
    fn begin_image(&mut self, waiting: Vec<Callback<u64>>) {
        self.drafts += 1;
        let number = self.drafts;
        let draft = self.disk.draft(number);
        let (data, shared, to) = (
            self.shared.snapshot(),
            Arc::clone(&self.shared),
            draft.clone(),
        );
        self.background_image = Some(BackgroundImage {
            number,
            draft,
            log_bytes: self.disk.log_bytes,
            waiting,
        });
        let write = move || {
            let mut settled = (*data).clone();
            drop(data);
            settled.compact();
            let written = disk::write_image(&to, &settled);
            // Ignored once the data is being closed, because the log has all changes.
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
        let Some(background_image) = self.background_image.take_if(|a| a.number == number) else {
            // An image written since then is newer.
            return;
        };
        let switched = written.and_then(|bytes| {
            self.disk
                .switch(&background_image.draft, background_image.log_bytes)?;
            self.image_bytes = bytes;
            self.shared
                .log_bytes
                .store(self.disk.log_bytes, Ordering::Release);
            Ok(bytes)
        });
        for done in background_image.waiting {
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
