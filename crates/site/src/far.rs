//! Far files for programs that wait: attributes, listings, and all below a directory, from an origin itself or by way of a
//! tier.

use crate::above::{Above, Origins, Rules};
use crate::client::Client;
use crate::config::Config;
use crate::given::{Given, Refused};
use crate::node::{Asked, Node};
use esker_model::Cancel;
use esker_origin::{Found, Place};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use esker_site_cache::predict::Choice;
use esker_site_cache::queue::Class;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Directories of a walk that are asked for at once.
const TOGETHER: usize = 256;
/// How often somebody who wants to stop is listened to.
const LISTEN: Duration = Duration::from_millis(50);

/// How answers may be.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// How old they may be.
    pub max_age: Option<Duration>,
    /// Whether old ones will do where there are no others.
    pub stale_if_error: bool,
    /// How urgent it is.
    pub class: Class,
    /// Whether passwords go to origins in clear text, where the protocol has no other way.
    pub clear_passwords: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            max_age: None,
            stale_if_error: false,
            class: Class::Fetch,
            clear_passwords: false,
        }
    }
}

enum By {
    Tier(Client),
    /// A tier of this process.
    Own(Arc<Node>, Arc<Origins>),
}

/// Asks for far files.
pub struct Far {
    runtime: Runtime,
    by: By,
    wish: Wish,
}

/// Something in a walk.
#[derive(Debug)]
pub enum Step<'a> {
    /// A path and what is known of it.
    Path(&'a [u8], &'a Attributes),
    /// What could not be listed.
    Problem(&'a [u8], Refused),
    /// A directory has been listed, so many wait.
    Listed(usize),
}

impl Far {
    /// By way of the tier at `via`, or straight from origins.
    pub fn open(via: Option<&str>, wish: Wish) -> io::Result<Result<Self, Refused>> {
        // Answers are kept for as long as one command takes.
        let config = Config {
            predictor: Choice::Lru,
            ..Config::default()
        };
        Self::open_with(via, wish, &config, false)
    }

    /// The same for somebody who stays: with a predictor, and told of changes where origins tell.
    pub fn stay(via: Option<&str>, wish: Wish) -> io::Result<Result<Self, Refused>> {
        Self::open_with(via, wish, &Config::default(), true)
    }

    fn open_with(
        via: Option<&str>,
        wish: Wish,
        config: &Config,
        listens: bool,
    ) -> io::Result<Result<Self, Refused>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("esker-far")
            .enable_all()
            .build()?;
        let by = runtime.block_on(async {
            if let Some(via) = via {
                let name = format!("esker, process {}", std::process::id());
                return Ok(By::Tier(Client::connect(via, &name).await?));
            }
            let rules = Rules {
                allow: vec!["*".into(), "file://".into()],
                // Whoever runs this process named the origin.
                default_login: true,
                clear_passwords: wish
                    .clear_passwords
                    .then(|| "*".to_owned())
                    .into_iter()
                    .collect(),
                ..Rules::default()
            };
            let (origins, news) = Origins::new(rules);
            let node = Node::new(config, origins.clone() as Arc<dyn Above>);
            if listens {
                tokio::spawn(crate::serve::tell(Arc::downgrade(&node), news));
            }
            Ok(By::Own(node, origins))
        });
        Ok(by.map(|by| Self { runtime, by, wish }))
    }

    async fn ask(&self, origin: &str, path: &[u8], wants: Wants) -> Result<Given, Refused> {
        let asked = Asked {
            max_age: self.wish.max_age,
            stale_if_error: self.wish.stale_if_error,
            class: self.wish.class,
            ..Asked::new(origin, path, wants)
        };
        match &self.by {
            By::Tier(client) => client.ask(asked).await,
            By::Own(node, _) => node.ask(0, asked).await,
        }
    }

    /// Waits, and listens meanwhile whether to stop: then nothing.
    fn wait<T>(&self, cancel: &dyn Cancel, what: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async {
            tokio::pin!(what);
            loop {
                let done = tokio::time::timeout(LISTEN, what.as_mut()).await;
                if let Ok(done) = done {
                    return Some(done);
                }
                if cancel.cancelled() {
                    return None;
                }
            }
        })
    }

    /// What there is at a path; nothing if the caller wants to stop.
    pub fn get(
        &self,
        place: &Place,
        path: &[u8],
        wants: Wants,
        cancel: &dyn Cancel,
    ) -> Option<Result<Given, Refused>> {
        let origin = place.to_string();
        self.wait(cancel, self.ask(&origin, path, wants))
    }

    /// Says that a path may have changed.
    pub fn doubt(&self, place: &Place, path: &[u8]) -> Result<(), Refused> {
        let origin = place.to_string();
        match &self.by {
            By::Tier(client) => {
                client.doubt(&origin, path);
                // It is on its way once an answer has come back behind it.
                let asked = Asked {
                    stale_if_error: true,
                    ..Asked::new(&origin, path, Wants::Stat)
                };
                self.runtime.block_on(client.ask(asked)).map(|_| ())
            }
            By::Own(node, _) => node.doubt(&origin, path),
        }
    }

    /// A directory and all below it, up to `depth` names down, in no order; links are not followed. The first error is that of
    /// the root.
    pub fn walk(
        &self,
        place: &Place,
        root: &[u8],
        depth: usize,
        cancel: &dyn Cancel,
        each: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<(), Refused> {
        let origin = place.to_string();
        let walk = async {
            let first = self.ask(&origin, root, Wants::List).await?;
            let mut waiting = Vec::new();
            let begun = match &first.found {
                Found::Absent => {
                    return Err(Refused::Named(
                        format!("`{}`: there is nothing", String::from_utf8_lossy(root)).into(),
                    ));
                }
                Found::Present(of) | Found::Listing { attributes: of, .. } => {
                    each(Step::Path(root, of))
                }
            };
            if begun.is_break() {
                return Ok(());
            }
            if take(root, first.found, depth, &mut waiting, each).is_break() {
                return Ok(());
            }
            let mut running = FuturesUnordered::new();
            loop {
                while running.len() < TOGETHER
                    && let Some((path, depth)) = waiting.pop()
                {
                    let origin = &origin;
                    running.push(async move {
                        let given = self.ask(origin, &path, Wants::List).await;
                        (path, depth, given)
                    });
                }
                let Some((path, depth, given)) = running.next().await else {
                    return Ok(());
                };
                let flow = match given {
                    Ok(given) => take(&path, given.found, depth, &mut waiting, each),
                    Err(refused) => each(Step::Problem(&path, refused)),
                };
                let left = waiting.len() + running.len();
                if flow.is_break() || each(Step::Listed(left)).is_break() {
                    return Ok(());
                }
            }
        };
        self.wait(cancel, walk).unwrap_or(Ok(()))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let By::Own(_, origins) = &self.by {
            let origins = origins.clone();
            let close = async move {
                drop(tokio::time::timeout(Duration::from_secs(1), origins.close()).await);
            };
            self.runtime.block_on(close);
        }
    }
}

/// Shows what stands in a directory, and notes the directories below it.
fn take(
    path: &[u8],
    found: Found,
    depth: usize,
    waiting: &mut Vec<(Vec<u8>, usize)>,
    each: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Found::Listing {
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
        each(Step::Path(&below, &child.attributes))?;
        if matches!(child.attributes.kind, Kind::Directory | Kind::Unknown) && depth > 1 {
            waiting.push((below, depth - 1));
        }
    }
    if !complete {
        let why = "the server does not show all names of it".into();
        each(Step::Problem(path, Refused::Origin(why)))?;
    }
    ControlFlow::Continue(())
}
