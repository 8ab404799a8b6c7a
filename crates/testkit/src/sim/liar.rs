//! An engine in a cluster's place that answers as it should, or does not: what the checks are there to notice.

use super::ask::{Ask, Service, Told, ask_engine};
use super::exec::LocalFuture;
use esker_engine::Engine;
use esker_model::{Batch, Commit, EdgeSelect, Result, Version, Versions};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What it does wrong now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Nothing.
    None,
    /// Batches are acknowledged and not applied.
    Lost,
    /// Of batches only a part is applied.
    Half,
    /// Batches are applied twice.
    Twice,
    /// Refused batches leave something.
    Residue,
    /// Scans leave out an edge.
    Hidden,
    /// Answers show what was long ago.
    Stale,
    /// Scans show some vertices as they were before.
    Torn,
    /// What was at a time is told as what was a little before.
    Unstable,
    /// Clients are told an earlier version than their changes took.
    Early,
}

impl Lie {
    /// All that are lies.
    pub const ALL: [Self; 9] = [
        Self::Lost,
        Self::Half,
        Self::Twice,
        Self::Residue,
        Self::Hidden,
        Self::Stale,
        Self::Torn,
        Self::Unstable,
        Self::Early,
    ];
}

/// One that lies every few times that it could.
pub struct Liar {
    engine: Arc<Engine>,
    lie: Lie,
    asked: Cell<u64>,
    commits: RefCell<Vec<Version>>,
}

impl Liar {
    /// One over an engine.
    pub fn new(engine: Arc<Engine>, lie: Lie) -> Self {
        Self {
            engine,
            lie,
            asked: Cell::new(0),
            commits: RefCell::default(),
        }
    }

    fn now_and_then(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() % 5 == 4
    }

    /// So many commits ago.
    fn ago(&self, commits: usize) -> Version {
        let all = self.commits.borrow();
        let at = all.len().saturating_sub(commits + 1);
        all.get(at).copied().unwrap_or(Version::ZERO)
    }

    fn answer(&self, ask: Ask) -> Result<Told> {
        match ask {
            Ask::Apply(batch) => {
                let commit = self.apply(batch)?;
                self.commits.borrow_mut().push(commit.version);
                Ok(Told::Commit(commit))
            }
            Ask::Scan(frontier, select, most) if self.lie == Lie::Torn => {
                self.torn(frontier, &select, most)
            }
            Ask::Scan(frontier, select, most) => {
                let select = EdgeSelect {
                    versions: self.shown(select.versions),
                    ..select
                };
                let told = ask_engine(&self.engine, Ask::Scan(frontier, select, most))?;
                Ok(match told {
                    Told::Scanned(mut found) if self.lie == Lie::Hidden => {
                        if self.now_and_then() {
                            found.pop();
                        }
                        Told::Scanned(found)
                    }
                    told => told,
                })
            }
            Ask::Vertices(ids, as_of) => {
                let as_of = self.time(as_of);
                ask_engine(&self.engine, Ask::Vertices(ids, as_of))
            }
            Ask::Edges(keys, as_of) => {
                let as_of = self.time(as_of);
                ask_engine(&self.engine, Ask::Edges(keys, as_of))
            }
            ask => ask_engine(&self.engine, ask),
        }
    }

    fn shown(&self, versions: Versions) -> Versions {
        match versions {
            Versions::AsOf(as_of) => Versions::AsOf(self.time(as_of)),
            range @ Versions::Range(_) => range,
        }
    }

    fn time(&self, as_of: Version) -> Version {
        match self.lie {
            Lie::Stale if as_of == Version::MAX && self.now_and_then() => self.ago(5),
            Lie::Unstable if as_of < Version::MAX && self.now_and_then() => {
                Version(as_of.0.saturating_sub(1 << 18))
            }
            _ => as_of,
        }
    }

    fn torn(
        &self,
        frontier: Vec<esker_model::VertexId>,
        select: &EdgeSelect,
        most: usize,
    ) -> Result<Told> {
        let now = select.versions == Versions::NOW;
        let mut found = Vec::new();
        for (i, id) in frontier.into_iter().enumerate() {
            let mut select = select.clone();
            if now && i % 2 == 1 {
                select.versions = Versions::AsOf(self.ago(1));
            }
            let part = Ask::Scan(vec![id], select, usize::MAX);
            if let Told::Scanned(part) = ask_engine(&self.engine, part)? {
                found.extend(part.into_iter().map(|(_, edge)| (i, edge)));
            }
        }
        found.truncate(most);
        Ok(Told::Scanned(found))
    }

    fn apply(&self, batch: Batch) -> Result<Commit> {
        let apply = |batch: Batch| match ask_engine(&self.engine, Ask::Apply(batch))? {
            Told::Commit(commit) => Ok(commit),
            other => Err(esker_model::Error::Invalid(format!("{other:?}"))),
        };
        let lies = self.now_and_then();
        match self.lie {
            Lie::Lost if lies => Ok(Commit {
                version: self.ago(0).next(),
                applied: true,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            }),
            Lie::Half if batch.len() > 3 => {
                let mut half = batch;
                half.mutations.remove(0);
                apply(half)
            }
            Lie::Twice if lies => {
                let again = Batch {
                    once: None,
                    ..batch.clone()
                };
                apply(batch)?;
                apply(again)
            }
            Lie::Residue => apply(batch.clone()).inspect_err(|_| {
                let mut rest = batch;
                rest.mutations.drain(..rest.mutations.len() - 1);
                let _ = apply(rest);
            }),
            Lie::Early => apply(batch).map(|commit| Commit {
                version: Version(commit.version.0 - u64::from(lies)),
                ..commit
            }),
            _ => apply(batch),
        }
    }
}

impl Service for Liar {
    fn ask(&self, ask: Ask, _seen: Version) -> LocalFuture<'static, Result<Told>> {
        let told = self.answer(ask);
        Box::pin(async move { told })
    }
}
