//! Transactions: changes that are made only if conditions are met.

use crate::client::put_request;
use crate::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::request_op::Request;
use crate::proto::{Compare, DeleteRangeRequest, RequestOp, TxnRequest};

/// A transaction: if all conditions are met, all changes are made in one revision; otherwise none.
#[derive(Debug, Clone, Default)]
pub struct Txn {
    request: TxnRequest,
}

impl Txn {
    /// A transaction without conditions and changes.
    pub fn new() -> Self {
        Self::default()
    }

    fn when(mut self, key: &str, target: CompareTarget, value: TargetUnion) -> Self {
        self.request.compare.push(Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.into(),
            target_union: Some(value),
        });
        self
    }

    fn then(mut self, request: Request) -> Self {
        let op = RequestOp {
            request: Some(request),
        };
        self.request.success.push(op);
        self
    }

    /// Adds the condition that the key does not exist.
    #[must_use]
    pub fn when_absent(self, key: &str) -> Self {
        self.when(key, CompareTarget::Create, TargetUnion::CreateRevision(0))
    }

    /// Adds the condition that the key was last changed at a revision; 0 for a key that does not exist.
    #[must_use]
    pub fn when_modified_at(self, key: &str, revision: u64) -> Self {
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        self.when(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
    }

    /// Adds the condition that the key is under a lease.
    #[must_use]
    pub fn when_under_lease(self, key: &str, lease: u64) -> Self {
        let lease = i64::try_from(lease).unwrap_or(i64::MAX);
        self.when(key, CompareTarget::Lease, TargetUnion::Lease(lease))
    }

    /// Adds the change that sets a key, under a lease if one is given.
    #[must_use]
    pub fn put(self, key: &str, value: &str, lease: Option<u64>) -> Self {
        self.then(Request::RequestPut(put_request(key, value, lease)))
    }

    /// Adds the change that deletes a key.
    #[must_use]
    pub fn delete(self, key: &str) -> Self {
        let key = key.into();
        self.then(Request::RequestDeleteRange(DeleteRangeRequest { key }))
    }

    pub(crate) fn into_request(self) -> TxnRequest {
        self.request
    }
}
