//! Asks a tier, as a program does.

use crate::above::{Fetch, Got, Link};
use crate::address::KeyFiles;
use crate::given::{Given, Refused};
use crate::node::Asked;
use tokio::sync::mpsc;

/// A link to a tier, for clients.
#[derive(Debug, Clone)]
pub struct Client {
    link: Link,
}

impl Client {
    /// Links to the tier at an address (`http://127.0.0.1:PORT`, `unix:/PATH`, `esker://HOST:PORT`); `name` is told to it, for
    /// people.
    pub async fn connect(via: &str, name: &str) -> Result<Self, Refused> {
        let (events, _) = mpsc::unbounded_channel();
        let link = Link::open(via, &KeyFiles::default(), false, name, events).await?;
        Ok(Self { link })
    }

    /// Asks. Many questions may be open at once.
    pub async fn ask(&self, asked: Asked<'_>) -> Result<Given, Refused> {
        let fetch = Fetch {
            origin: asked.origin.into(),
            path: asked.path.into(),
            wants: asked.wants,
            class: asked.class,
            max_age: asked.max_age,
            kept: None,
        };
        let linked = self.link.ask(fetch, asked.stale_if_error).await?;
        match linked.got? {
            Got::Found { found, age, told } => Ok(Given {
                found,
                age,
                told,
                hit: linked.hit,
            }),
            Got::Same { .. } => Err(Refused::Origin(
                "the tier says that nothing changed, but nothing was kept".into(),
            )),
        }
    }

    /// Says that a path may have changed.
    pub fn doubt(&self, origin: &str, path: &[u8]) {
        self.link.doubt(origin, path);
    }
}
