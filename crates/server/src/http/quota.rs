//! The rows of `GET /api/v1/quota`: limits and how much of them is used.

use crate::client::{Client, Limit, LimitsByKind};
use crate::settings::QuotaKind;
use crate::storage_quota::Owned;
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn row(owner: &str, kind: QuotaKind, used: Option<u64>, limit: Option<&Limit>) -> Json {
    json!({
        "owner": owner,
        "limit": kind.name(),
        "used": used,
        "most": limit.map(|limit| limit.most),
        "key": limit.map(|limit| &*limit.key),
    })
}

/// Limits and uses of one client.
pub(super) fn rows_of_client(client: &Client, queries: usize, owned: Option<Owned>) -> Vec<Json> {
    let each = QuotaKind::ALL.into_iter().map(|kind| {
        let used = match kind {
            QuotaKind::Queries => Some(queries as u64),
            kind => owned.and_then(|owned| owned.of(kind)),
        };
        (kind, used, client.limit(kind))
    });
    let known = each.filter(|(_, used, limit)| used.is_some() || limit.is_some());
    known
        .map(|(kind, used, limit)| row(client.name(), kind, used, limit))
        .collect()
}

/// Queries in progress by client, and entries of all owners with their limits.
pub(super) fn rows_of_all(
    queries: &[(Arc<str>, usize)],
    owners: &[(String, Owned, LimitsByKind)],
) -> Vec<Json> {
    let queries = queries.iter();
    let mut rows: Vec<Json> = queries
        .map(|(client, n)| row(client, QuotaKind::Queries, Some(*n as u64), None))
        .collect();
    for (owner, owned, limits) in owners {
        for (kind, limit) in QuotaKind::ALL.into_iter().zip(limits) {
            if let Some(used) = owned.of(kind) {
                rows.push(row(owner, kind, Some(used), limit.as_ref()));
            }
        }
    }
    rows
}
