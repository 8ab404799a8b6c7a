//! Databases that a server has open.

use crate::backup::BackupReport;
use crate::database::Submitted;
use crate::engine::{CheckOptions, CheckReport, CompactReport, Stats};
use esker_model::namespace::{AppliedChange, Change, Namespace};
use esker_model::object::{ObjectWrite, Principal, TagReport, TagWhere};
use esker_model::sharing::{ShareCall, SharedLineage};
use esker_model::{Batch, Cancel, Commit, Result, Schema, SchemaChange, Version};
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "remote")]
mod client;

/// The client of a server. The feature `remote` has the one implementation.
pub(crate) trait ServerClient: ObjectWrite + Namespace {
    /// Returns a client on this connection that calls for a principal.
    fn on_behalf_of(&self, principal: Option<&Principal>) -> Box<dyn ServerClient>;

    /// Address of the server.
    fn address(&self) -> String;

    /// Process id of the server, on its machine.
    fn pid(&self) -> u32;

    /// Release of the server and its clock in milliseconds since 1970.
    fn about(&self) -> Result<(String, u64)>;

    /// Whether the server is one of a cluster.
    fn is_cluster(&self) -> Result<bool>;

    /// Counts, sizes and cache statistics.
    fn stats(&self) -> Result<Stats>;

    /// Checks the consistency of all rows.
    fn check(
        &self,
        options: CheckOptions,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport>;

    /// Moves superseded versions to the archive.
    fn compact(&self, retain_after: Option<Version>, cancel: &dyn Cancel) -> Result<CompactReport>;

    /// Copies the database on the server's machine.
    fn backup(&self, directory: &Path) -> Result<BackupReport>;

    /// Applies a batch; with `sync` it is durable when this returns. So are the changes of the next three calls.
    fn apply_with(&self, batch: Batch, sync: bool) -> Result<Commit>;

    /// Starts applying a batch.
    fn submit(&self, batch: Batch, sync: bool) -> Result<Submitted>;

    /// Changes the schema.
    fn define_with(&self, changes: &[SchemaChange], sync: bool) -> Result<Arc<Schema>>;

    /// Changes the tags of all objects that match a filter.
    fn tag_where_with(
        &self,
        change: &TagWhere,
        sync: bool,
        cancel: &dyn Cancel,
    ) -> Result<TagReport>;

    /// Changes files.
    fn change_with(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>>;

    /// Makes a call about shares of lineages.
    fn call_shares(
        &self,
        principal: Option<&Principal>,
        call: &ShareCall,
    ) -> Result<Vec<SharedLineage>>;

    /// Syncs all earlier writes to disk.
    fn persist(&self) -> Result<()>;

    /// Waits until the writes of this client no longer depend on it.
    fn flush(&self) -> Result<()>;
}

/// Whether a target is the address of a server rather than a folder.
pub(crate) fn is_address(target: &str) -> bool {
    target.starts_with("esker://")
}

/// Connects to the server at an address.
#[cfg(feature = "remote")]
pub(crate) fn connect(target: &str) -> Result<Box<dyn ServerClient>> {
    esker_rpc::oidc::stored::use_stored_logins();
    let address = esker_rpc::Address::parse(target)?;
    Ok(Box::new(esker_rpc::Client::connect(&address)?))
}

/// Refuses addresses of servers.
#[cfg(not(feature = "remote"))]
pub(crate) fn connect(target: &str) -> Result<Box<dyn ServerClient>> {
    Err(crate::left_out(
        "remote",
        &format!("`{target}` is a server"),
    ))
}
