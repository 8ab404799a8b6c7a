//! The sections `[shares]` and `[quotas]` of the configuration, whose keys are names of users, groups and projects.

use crate::settings::{Quota, QuotaKind, ShareSettings};
use crate::shares::WEIGHT_MAX;
use esker_config::{DeValue, integer, size, text, time};
use std::collections::BTreeMap;

/// Description of the section `[shares]`.
pub(crate) const SHARES: &str = "a section with `fair = true` or `false`, and weights from 1 to 1000: of clients without one (`default`), of \
     users (`ada` or `1001`), of members of groups (`\"@staff\"`)";
/// Description of a table of limits.
pub(crate) const LIMITS: &str = "a section with some of `queries`, `entries` (whole numbers), `query_time` (as in \"60s\"), `query_memory` and `bytes` (as in \
     \"1GiB\")";
/// Description of the tables of limits by name.
pub(crate) const LIMITS_BY_NAME: &str = "a section for each name or id, as in [quotas.users.ada], with some of `queries`, `query_time`, `query_memory`, `entries` and `bytes`";
/// Description of the tables of limits by project.
pub(crate) const LIMITS_BY_PROJECT: &str = "a section for each value of the attribute `app` of objects, as in [quotas.projects.vpic], with `entries`, `bytes` or both";

fn weight(value: &DeValue<'_>) -> Option<u32> {
    let weight = integer(value).and_then(|n| u32::try_from(n).ok())?;
    (1..=WEIGHT_MAX).contains(&weight).then_some(weight)
}

/// Reads the section `[shares]`.
pub(crate) fn shares(value: &DeValue<'_>) -> Option<ShareSettings> {
    let mut shares = ShareSettings::default();
    for (name, value) in value.as_table()? {
        let value = value.get_ref();
        match name.get_ref().as_ref() {
            "fair" => shares.fair = value.as_bool()?,
            "default" => shares.default = weight(value)?,
            name => match name.strip_prefix('@') {
                Some(group) => shares.groups.insert(group.to_owned(), weight(value)?),
                None => shares.users.insert(name.to_owned(), weight(value)?),
            }
            .map_or((), drop),
        }
    }
    Some(shares)
}

/// Reads a table of limits.
pub(crate) fn limits(value: &DeValue<'_>) -> Option<Quota> {
    let mut quota = Quota::default();
    for (name, value) in value.as_table()? {
        let kind = QuotaKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name.get_ref().as_ref())?;
        let value = value.get_ref();
        let most = match kind {
            QuotaKind::Queries => integer(value).filter(|n| *n > 0)?,
            QuotaKind::Entries => integer(value)?,
            QuotaKind::QueryTime => {
                let millis = u64::try_from(time(value)?.as_millis()).ok()?;
                Some(millis).filter(|n| *n > 0)?
            }
            QuotaKind::QueryMemory | QuotaKind::Bytes => size(value)? as u64,
        };
        quota = quota.with(kind, most);
    }
    Some(quota)
}

/// Reads the tables of limits by name.
pub(crate) fn limits_by_name(value: &DeValue<'_>) -> Option<BTreeMap<String, Quota>> {
    let tables = value.as_table()?.iter();
    tables
        .map(|(name, value)| Some((name.get_ref().as_ref().to_owned(), limits(value.get_ref())?)))
        .collect()
}

/// Reads the tables of limits by project. A query belongs to no project.
pub(crate) fn limits_by_project(value: &DeValue<'_>) -> Option<BTreeMap<String, Quota>> {
    let of_storage = |quota: &Quota| {
        let mut set = QuotaKind::ALL
            .into_iter()
            .filter(|kind| quota.get(*kind).is_some());
        set.all(QuotaKind::is_storage)
    };
    limits_by_name(value).filter(|tables| tables.values().all(of_storage))
}

/// Reads the person or address to ask.
pub(crate) fn contact(value: &DeValue<'_>) -> Option<String> {
    let line = text(value).filter(|t| !t.chars().any(char::is_control))?;
    Some(line.to_owned())
}
