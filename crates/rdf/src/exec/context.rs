//! What a running query has at hand: the data, terms that it computed, what it may use.

use crate::dictionary::{Dictionary, Key, Parts};
use crate::error::{Error, Result};
use crate::given::Given;
use crate::guard::Guard;
use crate::id::{Id, LOCAL, UNBOUND};
use crate::plan::Names;
use crate::quads::{Dataset, Graph};
use crate::remote::Remote;
use oxiri::Iri;
use oxrdf::Term;
use oxsdatatypes::DateTime;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Bytes of a regular expression at most. Reading one takes many times its length.
const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Compiled regular expressions that a query keeps. Each takes up to some megabytes.
const PATTERNS_KEPT: usize = 16;

/// What the host gives a query.
#[derive(Clone)]
pub struct Options<'a> {
    /// Bytes that a query may have in memory: its intermediate results and the terms that it computes.
    pub memory: usize,
    /// Told how many bytes this query has in memory, as that grows; false: the host has no more for it, and the query fails.
    pub grows: &'a (dyn Fn(usize) -> bool + Sync),
    /// Asked now and then: whether to stop, and why.
    pub stop: &'a (dyn Fn() -> Option<&'static str> + Sync),
    /// What `NOW()` says.
    pub now: DateTime,
    /// Where `RAND()`, `UUID()` and new blank nodes begin.
    pub seed: u64,
    /// A graph that no update changes, with those whose names have `?` behind its name; empty: none.
    pub derived: &'a str,
    /// The rights of whoever sends an update; `None`: they may see and change all. A query is given what its sender sees.
    pub guard: Option<&'a dyn Guard>,
    /// Threads that it may run on.
    pub threads: usize,
    /// Rows from which on work is shared out to them.
    pub many: usize,
    /// Asks other endpoints, for `SERVICE`.
    pub remote: Option<&'a Remote<'a>>,
    /// What was found elsewhere for parts of the query ([`Given::pattern`]).
    pub given: &'a [Given],
    /// Whether `SERVICE` tells other endpoints what is known already; else each is asked its whole pattern.
    pub tells: bool,
    /// On: nothing is run; the answer is empty, and its notes say how it would be found.
    pub plan: bool,
    /// Off: patterns in the order in which they are written, nothing pushed down (for tests).
    pub optimise: bool,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("memory", &self.memory)
            .field("seed", &self.seed)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Options<'_> {
    /// 4 GiB, never stopped, on one thread, with that time and seed.
    pub fn new(now: DateTime, seed: u64) -> Self {
        Self {
            memory: 4 << 30,
            grows: &|_| true,
            stop: &|| None,
            now,
            seed,
            derived: "",
            guard: None,
            threads: 1,
            many: 1 << 14,
            remote: None,
            given: &[],
            tells: true,
            plan: false,
            optimise: true,
        }
    }
}

/// A query that runs.
#[derive(Debug)]
pub struct Context<'a> {
    /// The data.
    pub data: &'a Dataset,
    /// What the host gave.
    pub options: &'a Options<'a>,
    /// What relative IRIs of functions are relative to.
    pub base: Option<Iri<String>>,
    local: RefCell<Dictionary>,
    random: Cell<u64>,
    labels: Cell<u64>,
    /// What was done, when somebody wants to see it.
    pub notes: RefCell<Option<Vec<String>>>,
    /// How deep the note that is written stands.
    pub depth: Cell<usize>,
    regexes: RefCell<HashMap<(String, String), Option<regex::Regex>>>,
    pub(super) memory: super::memory::Memory,
    /// The graph that patterns ask, innermost last.
    graphs: RefCell<Vec<Arc<Graph>>>,
    /// The graphs that `GRAPH` may ask.
    pub named: Vec<(Id, Arc<Graph>)>,
    /// The variables' names.
    pub names: OnceCell<Names>,
    /// What other endpoints are asked, as the text was translated.
    pub(crate) services: RefCell<Vec<Arc<crate::plan::Service>>>,
    /// What other endpoints said, by endpoint and query.
    pub(super) asked: RefCell<HashMap<(String, String), super::Table>>,
    /// An error inside an expression that must not pass as a missing value.
    pub failed: RefCell<Option<Error>>,
}

impl<'a> Context<'a> {
    /// For one query.
    pub fn new(data: &'a Dataset, options: &'a Options<'a>, base: Option<Iri<String>>) -> Self {
        let mut ctx = Self {
            data,
            options,
            base,
            local: RefCell::default(),
            random: Cell::new(options.seed),
            labels: Cell::new(0),
            notes: RefCell::new(None),
            depth: Cell::new(0),
            regexes: RefCell::default(),
            memory: super::memory::Memory::default(),
            graphs: RefCell::new(vec![data.graph(UNBOUND).cloned().unwrap_or_default()]),
            named: data
                .names()
                .filter_map(|g| Some((g, data.graph(g)?.clone())))
                .collect(),
            names: OnceCell::new(),
            services: RefCell::default(),
            asked: RefCell::default(),
            failed: RefCell::default(),
        };
        if ctx.is_view() {
            let mut named = std::mem::take(&mut ctx.named);
            named.sort_by(|(a, _), (b, _)| super::sort::by_term(&ctx, *a, *b));
            ctx.named = named;
        }
        ctx
    }

    /// The same query for another thread: it sees the terms that were computed so far; those that it computes
    /// itself are its own, so only work that gives no new terms may be done with it.
    pub(crate) fn fork(&self) -> Context<'a> {
        Context {
            data: self.data,
            options: self.options,
            base: self.base.clone(),
            local: RefCell::new(self.local.borrow().clone()),
            memory: self.memory.clone(),
            random: Cell::new(self.random.get()),
            labels: Cell::new(self.labels.get()),
            notes: RefCell::new(None),
            depth: Cell::new(0),
            regexes: RefCell::default(),
            graphs: RefCell::new(vec![self.graph()]),
            named: self.named.clone(),
            names: OnceCell::new(),
            services: RefCell::default(),
            asked: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// Whether the numbers of terms must not show in the answer ([`Dataset::make_view`]).
    pub(crate) const fn is_view(&self) -> bool {
        self.data.is_view()
    }

    /// The graph that patterns ask.
    pub fn graph(&self) -> Arc<Graph> {
        self.graphs.borrow().last().cloned().unwrap_or_default()
    }

    /// Asks that graph from now on.
    pub fn set_graph(&mut self, graph: Arc<Graph>) {
        *self.graphs.borrow_mut() = vec![graph];
    }

    /// Asks another graph while something is done.
    pub fn within<T>(&self, graph: Arc<Graph>, run: impl FnOnce() -> T) -> T {
        self.graphs.borrow_mut().push(graph);
        let result = run();
        self.graphs.borrow_mut().pop();
        result
    }

    /// The name of a variable.
    pub fn name(&self, var: super::Var) -> String {
        self.names
            .get()
            .map_or_else(|| format!("?{var}"), |n| n.show(var))
    }

    /// Stops if the host says so, or if an expression has failed for want of memory.
    pub fn check(&self) -> Result<()> {
        if let Some(error) = self.failed.borrow_mut().take() {
            return Err(error);
        }
        (self.options.stop)().map_or(Ok(()), |why| Err(Error::Stopped(why)))
    }

    /// The number of a term: the dictionary's, else one of this query's own.
    pub fn number(&self, term: &Term) -> Id {
        self.number_key(&Key::of(term.as_ref()))
    }

    /// As [`Self::number`].
    pub fn number_key(&self, key: &Key<'_>) -> Id {
        if let Some(id) = self.data.dictionary.find(key) {
            return id;
        }
        // The query's own dictionary numbers from 1.
        let mut local = self.local.borrow_mut();
        if let Some(n) = local.find(key) {
            return LOCAL + n;
        }
        let number = self.keep(key.bytes()).and_then(|()| local.intern(key));
        self.or_fail(number).map_or(UNBOUND, |n| LOCAL + n)
    }

    /// Shows a term's parts to a function.
    pub fn with_parts<T>(&self, id: Id, show: impl FnOnce(Parts<'_>) -> T) -> Option<T> {
        if is_local(id) {
            let local = self.local.borrow();
            local.parts(id - LOCAL).map(show)
        } else {
            self.data.dictionary.parts(id).map(show)
        }
    }

    /// The term of a number.
    pub fn term(&self, id: Id) -> Option<Term> {
        if id == UNBOUND {
            return None;
        }
        self.with_parts(id, |p: Parts<'_>| p.to_term())
    }

    /// The next random number.
    pub fn random(&self) -> u64 {
        // SplitMix64.
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The label of a blank node that nothing else has.
    pub fn fresh_label(&self) -> String {
        let n = self.labels.get();
        self.labels.set(n + 1);
        format!("q{:016x}{n}", self.options.seed)
    }

    /// The blank node of a label in one solution.
    pub fn labelled(&self, label: &str, row: super::Row<'_>) -> oxrdf::BlankNode {
        let mut text = format!("q{:016x}r{}x", self.options.seed, row.at);
        for byte in label.bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        oxrdf::BlankNode::new_unchecked(text)
    }

    /// A compiled regular expression.
    pub fn regex<T>(
        &self,
        pattern: &str,
        flags: &str,
        run: impl FnOnce(&regex::Regex) -> T,
    ) -> Option<T> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return self.or_fail(Err(Error::LongPattern {
                bytes: pattern.len(),
                limit: PATTERN_BYTES_MAX,
            }));
        }
        let mut known = self.regexes.borrow_mut();
        // Patterns may be computed, each row its own.
        if known.len() >= PATTERNS_KEPT {
            known.clear();
        }
        known
            .entry((pattern.to_owned(), flags.to_owned()))
            .or_insert_with(|| crate::expr::regex(pattern, flags))
            .as_ref()
            .map(run)
    }

    /// Writes down what is done, if that is wanted.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if let Some(notes) = self.notes.borrow_mut().as_mut() {
            notes.push(format!("{}{}", "  ".repeat(self.depth.get()), text()));
        }
    }
}

/// Whether a query computed that term.
pub(crate) const fn is_local(id: Id) -> bool {
    id >= LOCAL && id < crate::id::INLINE
}
