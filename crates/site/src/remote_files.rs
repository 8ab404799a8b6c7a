//! Blocking access to remote files: attributes, listings and subtrees, directly from an origin or through a tier.

use crate::answer::{Refused, TierAnswer};
use crate::client::Client;
use crate::config::Config;
use crate::node::{MetadataQuery, Node};
use crate::upstream::{Origins, Rules, Upstream};
use esker_model::Cancel;
use esker_origin::{OriginUrl, PathMetadata};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use esker_site_cache::predict::PredictorKind;
use esker_site_cache::queue::Class;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Maximum number of directories of a traversal that are listed at once.
const CONCURRENT_MAX: usize = 256;
/// Interval of checks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Requirements on answers to a client.
#[derive(Debug, Clone, Copy)]
pub struct FetchOptions {
    /// Maximum age of an answer.
    pub max_age: Option<Duration>,
    /// Whether an expired answer is acceptable if there is no other.
    pub stale_if_error: bool,
    /// Urgency of the requests.
    pub class: Class,
    /// Whether passwords may be sent to origins in clear text, if the protocol has no other way.
    pub clear_passwords: bool,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            max_age: None,
            stale_if_error: false,
            class: Class::Fetch,
            clear_passwords: false,
        }
    }
}

enum Backend {
    Tier(Client),
    /// A tier within this process.
    Own(Arc<Node>, Arc<Origins>),
}

/// Blocking client for remote files.
pub struct RemoteFiles {
    runtime: Runtime,
    backend: Backend,
    options: FetchOptions,
}

/// Event of a traversal.
#[derive(Debug)]
pub enum TreeEvent<'a> {
    /// A path and its attributes.
    Path(&'a [u8], &'a Attributes),
    /// A directory that could not be listed, and why.
    Problem(&'a [u8], Refused),
    /// A directory has been listed; this many remain.
    Listed(usize),
}

impl RemoteFiles {
    /// Opens access through the tier at `via`, or directly to origins.
    pub fn open(via: Option<&str>, options: FetchOptions) -> io::Result<Result<Self, Refused>> {
        // Answers are cached for the duration of one command.
        let config = Config {
            predictor: PredictorKind::Lru,
            ..Config::default()
        };
        Self::open_with(via, options, &config, false)
    }

    /// Opens access for a long-lived process: with a predictor, and with notifications where origins send them.
    pub fn open_long_lived(
        via: Option<&str>,
        options: FetchOptions,
    ) -> io::Result<Result<Self, Refused>> {
        Self::open_with(via, options, &Config::default(), true)
    }

    fn open_with(
        via: Option<&str>,
        options: FetchOptions,
        config: &Config,
        listens: bool,
    ) -> io::Result<Result<Self, Refused>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("esker-far")
            .enable_all()
            .build()?;
        let backend = runtime.block_on(async {
            if let Some(via) = via {
                let name = format!("esker, process {}", std::process::id());
                return Ok(Backend::Tier(Client::connect(via, &name).await?));
            }
            let rules = Rules {
                allow: vec!["*".into(), "file://".into()],
                // The user of this process named the origin.
                default_login: true,
                clear_passwords: options
                    .clear_passwords
                    .then(|| "*".to_owned())
                    .into_iter()
                    .collect(),
                ..Rules::default()
            };
            let (origins, events) = Origins::new(rules);
            let node = Node::new(config, origins.clone() as Arc<dyn Upstream>);
            if listens {
                tokio::spawn(crate::serve::forward_events(Arc::downgrade(&node), events));
            }
            Ok(Backend::Own(node, origins))
        });
        Ok(backend.map(|backend| Self {
            runtime,
            backend,
            options,
        }))
    }

    async fn query(&self, origin: &str, path: &[u8], wants: Wants) -> Result<TierAnswer, Refused> {
        let asked = MetadataQuery {
            max_age: self.options.max_age,
            stale_if_error: self.options.stale_if_error,
            class: self.options.class,
            ..MetadataQuery::new(origin, path, wants)
        };
        match &self.backend {
            Backend::Tier(client) => client.query(asked).await,
            Backend::Own(node, _) => node.query(0, asked).await,
        }
    }

    /// Waits for a future; `None` if cancelled meanwhile.
    fn wait<T>(&self, cancel: &dyn Cancel, what: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async {
            tokio::pin!(what);
            loop {
                let done = tokio::time::timeout(CANCEL_POLL, what.as_mut()).await;
                if let Ok(done) = done {
                    return Some(done);
                }
                if cancel.cancelled() {
                    return None;
                }
            }
        })
    }

    /// Fetches the metadata of a path; `None` if cancelled.
    pub fn get(
        &self,
        place: &OriginUrl,
        path: &[u8],
        wants: Wants,
        cancel: &dyn Cancel,
    ) -> Option<Result<TierAnswer, Refused>> {
        let origin = place.to_string();
        self.wait(cancel, self.query(&origin, path, wants))
    }

    /// Notifies the tier that a path may have changed.
    pub fn invalidate(&self, place: &OriginUrl, path: &[u8]) -> Result<(), Refused> {
        let origin = place.to_string();
        match &self.backend {
            Backend::Tier(client) => {
                client.invalidate(&origin, path);
                // An answer to a later request shows that the notification has arrived.
                let asked = MetadataQuery {
                    stale_if_error: true,
                    ..MetadataQuery::new(&origin, path, Wants::Stat)
                };
                self.runtime.block_on(client.query(asked)).map(|_| ())
            }
            Backend::Own(node, _) => node.invalidate(&origin, path),
        }
    }

    /// Visits a directory and its subtree, up to `depth` names deep, in no order; links are not followed. Fails only if the root
    /// cannot be listed.
    pub fn visit_tree(
        &self,
        place: &OriginUrl,
        root: &[u8],
        depth: usize,
        cancel: &dyn Cancel,
        each: &mut dyn FnMut(TreeEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), Refused> {
        let origin = place.to_string();
        let walk = async {
            let first = self.query(&origin, root, Wants::List).await?;
            let mut waiting = Vec::new();
            let begun = match &first.found {
                PathMetadata::Absent => {
                    return Err(Refused::Named(
                        format!(
                            "`{}` does not exist at the origin: check the path",
                            String::from_utf8_lossy(root)
                        )
                        .into(),
                    ));
                }
                PathMetadata::Present(of) | PathMetadata::Listing { attributes: of, .. } => {
                    each(TreeEvent::Path(root, of))
                }
            };
            if begun.is_break() {
                return Ok(());
            }
            if visit_directory(root, first.found, depth, &mut waiting, each).is_break() {
                return Ok(());
            }
            let mut running = FuturesUnordered::new();
            loop {
                while running.len() < CONCURRENT_MAX
                    && let Some((path, depth)) = waiting.pop()
                {
                    let origin = &origin;
                    running.push(async move {
                        let given = self.query(origin, &path, Wants::List).await;
                        (path, depth, given)
                    });
                }
                let Some((path, depth, given)) = running.next().await else {
                    return Ok(());
                };
                let flow = match given {
                    Ok(given) => visit_directory(&path, given.found, depth, &mut waiting, each),
                    Err(refused) => each(TreeEvent::Problem(&path, refused)),
                };
                let left = waiting.len() + running.len();
                if flow.is_break() || each(TreeEvent::Listed(left)).is_break() {
                    return Ok(());
                }
            }
        };
        self.wait(cancel, walk).unwrap_or(Ok(()))
    }
}

impl Drop for RemoteFiles {
    fn drop(&mut self) {
        if let Backend::Own(_, origins) = &self.backend {
            let origins = origins.clone();
            let close = async move {
                drop(tokio::time::timeout(Duration::from_secs(1), origins.close()).await);
            };
            self.runtime.block_on(close);
        }
    }
}

/// Visits the entries of a directory and appends its subdirectories to `waiting`.
fn visit_directory(
    path: &[u8],
    found: PathMetadata,
    depth: usize,
    waiting: &mut Vec<(Vec<u8>, usize)>,
    each: &mut dyn FnMut(TreeEvent<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let PathMetadata::Listing {
        mut children,
        complete,
        ..
    } = found
    else {
        return ControlFlow::Continue(());
    };
    if depth == 0 {
        return ControlFlow::Continue(());
    }
    children.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    for child in children {
        let mut below = path.to_vec();
        if below.last() != Some(&b'/') {
            below.push(b'/');
        }
        below.extend_from_slice(&child.name);
        each(TreeEvent::Path(&below, &child.attributes))?;
        if matches!(child.attributes.kind, Kind::Directory | Kind::Unknown) && depth > 1 {
            waiting.push((below, depth - 1));
        }
    }
    if !complete {
        let why = "the server does not show all names of it".into();
        each(TreeEvent::Problem(path, Refused::Origin(why)))?;
    }
    ControlFlow::Continue(())
}
