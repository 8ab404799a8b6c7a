//! An engine in place of a cluster, which answers correctly or with a chosen fault that the checks must notice.

use super::exec::LocalFuture;
use super::request::{ClientRequest, ClientResponse, Service, call_engine};
use esker_engine::Engine;
use esker_model::{Batch, Commit, EdgeSelect, Result, Version, Versions};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A fault of the engine, which occurs occasionally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineFault {
    /// Without fault: all answers are correct.
    None,
    /// Batches are acknowledged and not applied.
    Lost,
    /// Only a part of a batch is applied.
    Half,
    /// Batches are applied twice.
    Twice,
    /// Refused batches have an effect.
    Residue,
    /// Scans omit an edge.
    Hidden,
    /// Reads of the present return an old state.
    Stale,
    /// Scans return some vertices in an earlier state.
    Torn,
    /// Reads as of a version return a slightly earlier state.
    Unstable,
    /// Responses have an earlier version than the changes took.
    Early,
}

impl EngineFault {
    /// All faults, without `None`.
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

/// A service with a fault that occurs at every fifth opportunity.
pub struct FaultyEngine {
    engine: Arc<Engine>,
    fault: EngineFault,
    calls: Cell<u64>,
    commits: RefCell<Vec<Version>>,
}

impl FaultyEngine {
    /// Creates a service over an engine.
    pub fn new(engine: Arc<Engine>, fault: EngineFault) -> Self {
        Self {
            engine,
            fault,
            calls: Cell::new(0),
            commits: RefCell::default(),
        }
    }

    fn occurs(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        self.calls.get() % 5 == 4
    }

    /// The version of a number of commits ago.
    fn version_before(&self, commits: usize) -> Version {
        let all = self.commits.borrow();
        let at = all.len().saturating_sub(commits + 1);
        all.get(at).copied().unwrap_or(Version::ZERO)
    }

    fn answer(&self, request: ClientRequest) -> Result<ClientResponse> {
        match request {
            ClientRequest::Apply(batch) => {
                let commit = self.apply(batch)?;
                self.commits.borrow_mut().push(commit.version);
                Ok(ClientResponse::Commit(commit))
            }
            ClientRequest::Scan(frontier, select, most) if self.fault == EngineFault::Torn => {
                self.torn(frontier, &select, most)
            }
            ClientRequest::Scan(frontier, select, most) => {
                let select = EdgeSelect {
                    versions: self.effective_versions(select.versions),
                    ..select
                };
                let response =
                    call_engine(&self.engine, ClientRequest::Scan(frontier, select, most))?;
                Ok(match response {
                    ClientResponse::Scanned(mut found) if self.fault == EngineFault::Hidden => {
                        if self.occurs() {
                            found.pop();
                        }
                        ClientResponse::Scanned(found)
                    }
                    response => response,
                })
            }
            ClientRequest::Vertices(ids, as_of) => {
                let as_of = self.time(as_of);
                call_engine(&self.engine, ClientRequest::Vertices(ids, as_of))
            }
            ClientRequest::Edges(keys, as_of) => {
                let as_of = self.time(as_of);
                call_engine(&self.engine, ClientRequest::Edges(keys, as_of))
            }
            request => call_engine(&self.engine, request),
        }
    }

    fn effective_versions(&self, versions: Versions) -> Versions {
        match versions {
            Versions::AsOf(as_of) => Versions::AsOf(self.time(as_of)),
            range @ Versions::Range(_) => range,
        }
    }

    fn time(&self, as_of: Version) -> Version {
        match self.fault {
            EngineFault::Stale if as_of == Version::MAX && self.occurs() => self.version_before(5),
            EngineFault::Unstable if as_of < Version::MAX && self.occurs() => {
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
    ) -> Result<ClientResponse> {
        let now = select.versions == Versions::NOW;
        let mut found = Vec::new();
        for (i, id) in frontier.into_iter().enumerate() {
            let mut select = select.clone();
            if now && i % 2 == 1 {
                select.versions = Versions::AsOf(self.version_before(1));
            }
            let part = ClientRequest::Scan(vec![id], select, usize::MAX);
            if let ClientResponse::Scanned(part) = call_engine(&self.engine, part)? {
                found.extend(part.into_iter().map(|(_, edge)| (i, edge)));
            }
        }
        found.truncate(most);
        Ok(ClientResponse::Scanned(found))
    }

    fn apply(&self, batch: Batch) -> Result<Commit> {
        let apply = |batch: Batch| match call_engine(&self.engine, ClientRequest::Apply(batch))? {
            ClientResponse::Commit(commit) => Ok(commit),
            other => Err(esker_model::Error::Invalid(format!("{other:?}"))),
        };
        let faulty = self.occurs();
        match self.fault {
            EngineFault::Lost if faulty => Ok(Commit {
                version: self.version_before(0).next(),
                applied: true,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            }),
            EngineFault::Half if batch.len() > 3 => {
                let mut half = batch;
                half.mutations.remove(0);
                apply(half)
            }
            EngineFault::Twice if faulty => {
                let again = Batch {
                    idempotency_key: None,
                    ..batch.clone()
                };
                apply(batch)?;
                apply(again)
            }
            EngineFault::Residue => apply(batch.clone()).inspect_err(|_| {
                let mut rest = batch;
                rest.mutations.drain(..rest.mutations.len() - 1);
                let _ = apply(rest);
            }),
            EngineFault::Early => apply(batch).map(|commit| Commit {
                version: Version(commit.version.0 - u64::from(faulty)),
                ..commit
            }),
            _ => apply(batch),
        }
    }
}

impl Service for FaultyEngine {
    fn call(
        &self,
        request: ClientRequest,
        _seen: Version,
    ) -> LocalFuture<'static, Result<ClientResponse>> {
        let response = self.answer(request);
        Box::pin(async move { response })
    }
}
