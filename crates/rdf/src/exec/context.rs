//! Context of a running query: the data, computed terms, options and limits.

use crate::algebra::{Node, Service, VariableNames};
use crate::dictionary::triple::{self, Kind};
use crate::dictionary::{Dictionary, Key, Parts};
use crate::error::{Error, Result};
use crate::expr::CompiledPattern;
use crate::guard::Guard;
use crate::id::{Id, LOCAL, UNBOUND};
use crate::input_bindings::InputBindings;
use crate::quads::{Dataset, Graph};
use crate::remote::Remote;
use oxiri::Iri;
use oxrdf::Term;
use oxsdatatypes::DateTime;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Limit of a regular expression, in bytes. Compiling takes many times its length.
const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Limit of compiled regular expressions that a query caches. Each takes up to some megabytes.
const PATTERNS_KEPT: usize = 16;

/// Options of a query, given by the host.
#[derive(Clone)]
pub struct Options<'a> {
    /// Memory limit of a query in bytes: intermediate results and computed terms.
    pub memory: usize,
    /// Callback with the query's memory in bytes as that grows; `false` makes the query fail because the host has no more memory.
    pub on_growth: &'a (dyn Fn(usize) -> bool + Sync),
    /// Cancellation check: returns the reason to stop, or `None`.
    pub stop: &'a (dyn Fn() -> Option<&'static str> + Sync),
    /// Value of `NOW()`.
    pub now: DateTime,
    /// Seed of `RAND()`, `UUID()` and new blank nodes.
    pub seed: u64,
    /// IRI of a graph that no update changes, including graphs whose IRI continues with `?`; empty: none.
    pub derived: &'a str,
    /// Rights of an update's principal; `None` allows seeing and changing everything. A query is given the visible data.
    pub guard: Option<&'a dyn Guard>,
    /// Threads that the query may use.
    pub threads: usize,
    /// Number of rows from which work is divided among threads.
    pub parallel_rows: usize,
    /// Client of other endpoints, for `SERVICE`.
    pub remote: Option<&'a Remote<'a>>,
    /// Input bindings for parts of the query ([`InputBindings::pattern`]).
    pub input_bindings: &'a [InputBindings],
    /// Whether `SERVICE` sends known bindings to endpoints; otherwise each gets its whole pattern.
    pub send_bindings: bool,
    /// Whether to only explain: nothing is run, the answer is empty and has the plan.
    pub explain_only: bool,
    /// Monotonic clock in nanoseconds, for the times of a profile.
    pub clock: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// Whether the optimiser is on. If off, patterns run in their written order and nothing is pushed down (for tests).
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
    /// Returns default options: 4 GiB of memory, no cancellation, one thread.
    pub fn new(now: DateTime, seed: u64) -> Self {
        Self {
            memory: 4 << 30,
            on_growth: &|_| true,
            stop: &|| None,
            now,
            seed,
            derived: "",
            guard: None,
            threads: 1,
            parallel_rows: 1 << 14,
            remote: None,
            input_bindings: &[],
            send_bindings: true,
            explain_only: false,
            clock: None,
            optimise: true,
        }
    }
}

/// Returns whether a pattern has a solution with the values of a row; `None` after an error, which the context keeps.
pub(crate) type Exists = fn(&Context<'_>, &Node, super::Row<'_>) -> Option<bool>;

/// State of a running query.
#[derive(Debug)]
pub struct Context<'a> {
    /// Data that the query reads.
    pub data: &'a Dataset,
    /// Options from the host.
    pub options: &'a Options<'a>,
    /// Base IRI for functions.
    pub base: Option<Iri<String>>,
    local: RefCell<Dictionary>,
    random: Cell<u64>,
    labels: Cell<u64>,
    /// Whether the executor records what it does in the slots of the plan.
    pub(crate) profile: bool,
    /// Number of solutions that an enclosing UNION or GRAPH still needs, at least 1.
    pub(super) rows_left: Cell<usize>,
    /// Evaluation of EXISTS, set by the executor.
    pub(crate) exists: Cell<Option<Exists>>,
    /// Compiled regular expressions by text and flags; `None` for invalid ones.
    patterns: RefCell<Vec<((String, String), Option<CompiledPattern>)>>,
    pub(super) memory: super::memory::Memory,
    /// Stack of active graphs, the innermost last.
    graphs: RefCell<Vec<Arc<Graph>>>,
    /// Named graphs that `GRAPH` may match.
    pub named: Vec<(Id, Arc<Graph>)>,
    /// Names of the variables.
    pub names: OnceCell<VariableNames>,
    /// `SERVICE` patterns, in the order of translation.
    pub(crate) services: RefCell<Vec<Arc<Service>>>,
    /// Results of other endpoints, by endpoint and query.
    pub(super) service_results: RefCell<HashMap<(String, String), super::Table>>,
    /// An error inside an expression that must not become an unbound value.
    pub failed: RefCell<Option<Error>>,
}

impl<'a> Context<'a> {
    /// Creates the context of one query.
    pub fn new(data: &'a Dataset, options: &'a Options<'a>, base: Option<Iri<String>>) -> Self {
        let mut ctx = Self {
            data,
            options,
            base,
            local: RefCell::default(),
            random: Cell::new(options.seed),
            labels: Cell::new(0),
            profile: false,
            rows_left: Cell::new(usize::MAX),
            exists: Cell::new(None),
            patterns: RefCell::default(),
            memory: super::memory::Memory::default(),
            graphs: RefCell::new(vec![data.graph(UNBOUND).cloned().unwrap_or_default()]),
            named: data
                .names()
                .filter_map(|g| Some((g, data.graph(g)?.clone())))
                .collect(),
            names: OnceCell::new(),
            services: RefCell::default(),
            service_results: RefCell::default(),
            failed: RefCell::default(),
        };
        if ctx.is_view() {
            let mut named = std::mem::take(&mut ctx.named);
            named.sort_by(|(a, _), (b, _)| super::sort::by_term(&ctx, *a, *b));
            ctx.named = named;
        }
        ctx
    }

    /// Returns a context of the same query for another thread. It sees the terms computed so far; terms that it computes are private to it,
    /// so it may only do work that computes no new terms.
    pub(crate) fn fork(&self) -> Context<'a> {
        Context {
            data: self.data,
            options: self.options,
            base: self.base.clone(),
            local: RefCell::new(self.local.borrow().clone()),
            memory: self.memory.clone(),
            random: Cell::new(self.random.get()),
            labels: Cell::new(self.labels.get()),
            profile: self.profile,
            rows_left: Cell::new(usize::MAX),
            exists: Cell::new(self.exists.get()),
            patterns: RefCell::default(),
            graphs: RefCell::new(vec![self.graph()]),
            named: self.named.clone(),
            names: OnceCell::new(),
            services: RefCell::default(),
            service_results: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// Returns whether term ids must not influence the answer ([`Dataset::make_view`]).
    pub(crate) const fn is_view(&self) -> bool {
        self.data.is_view()
    }

    /// Returns the active graph.
    pub fn graph(&self) -> Arc<Graph> {
        self.graphs.borrow().last().cloned().unwrap_or_default()
    }

    /// Replaces the active graph.
    pub fn set_graph(&mut self, graph: Arc<Graph>) {
        *self.graphs.borrow_mut() = vec![graph];
    }

    /// Runs a function with another active graph.
    pub fn within<T>(&self, graph: Arc<Graph>, run: impl FnOnce() -> T) -> T {
        self.graphs.borrow_mut().push(graph);
        let result = run();
        self.graphs.borrow_mut().pop();
        result
    }

    /// Returns the name of a variable.
    pub fn name(&self, var: super::Var) -> String {
        self.names
            .get()
            .map_or_else(|| format!("?{var}"), |n| n.show(var))
    }

    /// Returns a term as text for users.
    pub(crate) fn show_term(&self, id: Id) -> String {
        self.term(id).map_or_else(|| "?".into(), |t| t.to_string())
    }

    /// Fails if the host cancels, or if an expression has exceeded the memory limit.
    pub fn check(&self) -> Result<()> {
        if let Some(error) = self.failed.borrow_mut().take() {
            return Err(error);
        }
        (self.options.stop)().map_or(Ok(()), |why| Err(Error::Stopped(why)))
    }

    /// Returns the id of a term: the dictionary's, else one local to this query.
    pub fn number(&self, term: &Term) -> Id {
        Key::with(term.as_ref(), |key| self.number_key(key))
    }

    /// Returns the id of a term given as a key.
    pub fn number_key(&self, key: &Key<'_>) -> Id {
        if let Key::Triple(text) = key {
            return self
                .or_fail(Key::levels(text))
                .map_or(UNBOUND, |(outer, inner)| {
                    let inner = self.number_key(&inner);
                    outer.iter().rev().fold(inner, |o, [s, p]| {
                        self.number_triple([self.number_key(s), self.number_key(p), o])
                    })
                });
        }
        if let Some(id) = key.inline() {
            return id;
        }
        let hash = key.hash();
        if let Some(id) = self.data.dictionary.find_hashed(key, hash) {
            return id;
        }
        // The query's local dictionary numbers from 1.
        let mut local = self.local.borrow_mut();
        if let Some(n) = local.find_hashed(key, hash) {
            return LOCAL + n;
        }
        let number = self
            .reserve_term(key.bytes())
            .and_then(|()| local.add_hashed(key, hash));
        self.or_fail(number).map_or(UNBOUND, |n| LOCAL + n)
    }

    /// Returns the ids of terms like [`Self::number_key`], and the number of terms that are new. None may be a triple term or an inline value.
    pub(crate) fn number_keys(&self, keys: &[Key<'_>]) -> (Vec<Id>, usize) {
        let hashes: Vec<u64> = keys.iter().map(Key::hash).collect();
        let mut ids = Vec::with_capacity(keys.len());
        self.data.dictionary.find_many(keys, &hashes, &mut ids);
        let mut local = self.local.borrow_mut();
        local.prefetch(&hashes);
        let mut new = 0;
        for ((key, hash), id) in keys.iter().zip(hashes).zip(&mut ids) {
            if *id == UNBOUND {
                let found = local.find_hashed(key, hash);
                new += usize::from(found.is_none());
                let number = found.or_else(|| {
                    let reserved = self.reserve_term(key.bytes());
                    self.or_fail(reserved.and_then(|()| local.add_hashed(key, hash)))
                });
                *id = number.map_or(UNBOUND, |n| LOCAL + n);
            }
        }
        (ids, new)
    }

    /// Makes room for new terms, if the memory limit permits it.
    pub(crate) fn reserve_terms(&self, terms: usize) {
        if self.fits(terms, 4).is_ok() {
            self.local.borrow_mut().reserve(terms);
        }
    }

    /// Returns the id of the triple term with these parts; unbound if a part is unbound or they form no triple.
    pub(crate) fn number_triple(&self, parts: [Id; 3]) -> Id {
        let [s, p, o] = parts;
        if !self.is_triple((s, p, o)) {
            return UNBOUND;
        }
        self.or_fail(triple::check_depth(o, |id| self.triple(id)))
            .map_or(UNBOUND, |()| {
                self.number_key(&Key::TripleIds(&triple::tail(parts)))
            })
    }

    /// Returns whether three terms form a valid triple.
    pub(crate) fn is_triple(&self, (s, p, o): (Id, Id, Id)) -> bool {
        let kind = |id: Id| self.with_parts(id, |parts| parts.kind());
        [s, p, o].iter().all(|id| *id != UNBOUND)
            && matches!(kind(s), Some(Kind::Iri | Kind::Blank))
            && kind(p) == Some(Kind::Iri)
    }

    /// Returns the ids of the subject, predicate and object of a triple term; `None` for other terms.
    pub(crate) fn triple(&self, id: Id) -> Option<[Id; 3]> {
        self.with_parts(id, |parts| parts.triple()).flatten()
    }

    /// Appends a term's text ([`Key::put`]); returns `false` if the id has no term.
    pub(crate) fn put(&self, id: Id, to: &mut String) -> bool {
        self.with_parts(id, |parts| parts.put(to, &|part, to| self.put(part, to))) == Some(true)
    }

    /// Calls a function with a term's parts.
    pub fn with_parts<T>(&self, id: Id, show: impl FnOnce(Parts<'_>) -> T) -> Option<T> {
        if is_local(id) {
            let local = self.local.borrow();
            local.parts(id - LOCAL).map(show)
        } else {
            self.data.dictionary.parts(id).map(show)
        }
    }

    /// Returns the term with an id.
    pub fn term(&self, id: Id) -> Option<Term> {
        if id == UNBOUND {
            return None;
        }
        self.with_parts(id, |p: Parts<'_>| p.to_term(&|part| self.term(part)))
            .flatten()
    }

    /// Returns the next random number (`SplitMix64`).
    pub fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns an unused blank node label.
    pub fn fresh_label(&self) -> String {
        let n = self.labels.get();
        self.labels.set(n + 1);
        format!("q{:016x}{n}", self.options.seed)
    }

    /// Returns the blank node for a label in one solution.
    pub fn labelled(&self, label: &str, row: super::Row<'_>) -> oxrdf::BlankNode {
        let mut text = format!("q{:016x}r{}x", self.options.seed, row.at);
        for byte in label.bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        oxrdf::BlankNode::new_unchecked(text)
    }

    /// Runs a function with a compiled regular expression; `None` if the expression or a flag is invalid.
    pub(crate) fn regex<T>(
        &self,
        pattern: &str,
        flags: &str,
        run: impl FnOnce(&CompiledPattern) -> T,
    ) -> Option<T> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return self.or_fail(Err(Error::LongPattern {
                bytes: pattern.len(),
                limit: PATTERN_BYTES_MAX,
            }));
        }
        let mut patterns = self.patterns.borrow_mut();
        let is_it = |((p, f), _): &&((String, String), _)| p == pattern && f == flags;
        if let Some((_, compiled)) = patterns.iter().find(is_it) {
            return compiled.as_ref().map(run);
        }
        // Regular expressions may be computed, a different one for each row.
        if patterns.len() >= PATTERNS_KEPT {
            patterns.clear();
        }
        let compiled = CompiledPattern::compile(pattern, flags);
        let result = compiled.as_ref().map(run);
        patterns.push(((pattern.to_owned(), flags.to_owned()), compiled));
        result
    }
}

/// Returns whether a query computed the term.
pub(crate) const fn is_local(id: Id) -> bool {
    id >= LOCAL && id < crate::id::INLINE
}
