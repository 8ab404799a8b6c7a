//! A provider of OAI-PMH 2.0 (<https://www.openarchives.org/OAI/openarchivesprotocol.html>): catalogues harvest the records of objects.
//!
//! Each object is an item. Its datestamp is the time of its last change, and its set is its application. Deleted objects are reported as
//! long as the database keeps their history. A list is answered in pages; the resumption token holds all of the request, so that the
//! server stores nothing between two pages.

mod fault;
mod list;
mod pages;
mod request;
mod respond;
mod token;

use crate::collect::Collector;
use esker_model::Result;
use esker_model::filter::Expr;
use fault::{Failed, Fault};
use request::Verb;

/// Settings of a provider.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the provider, such as `https://data.example.org/oai`.
    pub address: String,
    /// Name of the repository.
    pub name: String,
    /// Mail addresses of administrators.
    pub admin: String,
    /// Host name in identifiers `oai:HOST:object:NUMBER`.
    pub host: String,
    /// Condition on the objects that are harvested.
    pub filter: Expr,
    /// Records in a page.
    pub page: usize,
}

/// Host name in the address of a server, for identifiers.
pub fn host_of(address: &str) -> String {
    let url = url::Url::parse(address).ok();
    let host = url.and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| "localhost".into())
}

/// Provider over one database.
pub struct Provider<'a> {
    /// Reads records of the database.
    pub collector: Collector<'a>,
    /// Settings of the provider.
    pub settings: &'a Settings,
    /// Present time, in nanoseconds since 1970.
    pub now: i64,
}

impl Provider<'_> {
    /// Answers a request with its arguments, decoded and in the order in which they were given. Errors of the protocol are answers, too.
    ///
    /// # Errors
    /// Fails if the database cannot be read, or the request is cancelled.
    pub fn answer(&self, arguments: &[(String, String)]) -> Result<String> {
        let verb = Verb::parse(arguments, &self.settings.host);
        let done = match &verb {
            Ok(verb) => self.run(verb),
            Err(fault) => Err(fault.clone().into()),
        };
        match done {
            Ok(body) => Ok(respond::document(
                self.settings,
                self.now,
                Some(arguments),
                &body,
            )),
            Err(Failed::Fault(fault)) => {
                // Arguments that are wrong are not repeated (section 3.2).
                let repeat = !matches!(fault.code, "badVerb" | "badArgument");
                let arguments = repeat.then_some(arguments);
                let body = respond::fault(&fault);
                Ok(respond::document(self.settings, self.now, arguments, &body))
            }
            Err(Failed::Engine(e)) => Err(e),
        }
    }

    fn run(&self, verb: &Verb) -> std::result::Result<String, Failed> {
        match verb {
            Verb::Identify => Ok(respond::identify(self.settings)),
            Verb::ListMetadataFormats(None) => Ok(respond::formats()),
            Verb::ListMetadataFormats(Some(id)) => {
                self.item(*id)?;
                Ok(respond::formats())
            }
            Verb::ListSets => {
                let sets = self.sets()?;
                if sets.is_empty() {
                    let message = "this repository has no sets: no object has an application";
                    return Err(Fault::new("noSetHierarchy", message).into());
                }
                Ok(respond::sets(&sets))
            }
            Verb::GetRecord(id, prefix) => {
                let item = self.item(*id)?;
                Ok(respond::record(&self.settings.host, &item, *prefix))
            }
            Verb::List(list) => {
                let page = self.page(list)?;
                Ok(respond::list(&self.settings.host, list, &page))
            }
        }
    }
}
