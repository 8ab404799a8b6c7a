//! Shares of lineages, for every role of this process.

use crate::database::Database;
use crate::session::Session;
use crate::wire::request::Request;
use esker_model::sharing::{OpenShares, ShareCall, ShareId, ShareRequest, SharedLineage};
use esker_model::{Cancel, Error, NeverCancel, Result};

impl Database {
    /// Shares a lineage with users and groups: they see its files and objects in the graph although permissions would hide
    /// them. The handle's principal shares only what it owns. Sharing the same again replaces the share.
    ///
    /// # Errors
    /// An error of kind `Invalid` if there is nothing to share, the lineage is too large, or on a cluster.
    pub fn share(&self, request: ShareRequest, cancel: &dyn Cancel) -> Result<SharedLineage> {
        let shares = self.call_shares(&ShareCall::Share(request), cancel)?;
        shares.into_iter().next().ok_or_else(|| {
            Error::OtherRelease(
                "the answer to a share was empty: use the same release on both sides".into(),
            )
        })
    }

    /// Ends a share that the handle's principal made; without a principal, any share. Returns the share; `None` for an unknown number.
    pub fn revoke_share(&self, id: ShareId) -> Result<Option<SharedLineage>> {
        let shares = self.call_shares(&ShareCall::Revoke(id), &NeverCancel)?;
        Ok(shares.into_iter().next())
    }

    /// Returns the shares that the handle's principal made or that are for it; all of them without a principal.
    pub fn shares(&self) -> Result<Vec<SharedLineage>> {
        self.call_shares(&ShareCall::List, &NeverCancel)
    }

    /// Makes a call about shares.
    pub fn call_shares(&self, call: &ShareCall, cancel: &dyn Cancel) -> Result<Vec<SharedLineage>> {
        let principal = self.principal();
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.call_shares(principal, call, cancel)?),
            Session::Attached(r) => r.list(&Request::Share(principal.cloned(), call.clone())),
            Session::Server(c) => Ok(c.call_shares(principal, call)?),
        })
    }

    /// Shares that are open to the handle's principal, for caches of what it sees; empty unless this process owns the database.
    pub fn open_shares(&self) -> Result<OpenShares> {
        match &*self.session()? {
            Session::Owner(owner) => Ok(owner.engine()?.open_shares(self.principal())),
            Session::Attached(_) | Session::Server(_) => Ok(OpenShares::new()),
        }
    }
}
