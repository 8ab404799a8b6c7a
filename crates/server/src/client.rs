//! The client of a request: its share of the threads and its quotas.

use crate::settings::{Quota, QuotaKind, Quotas, Settings, ShareSettings};
use crate::shares::Share;
use esker_access::accounts::Accounts;
use esker_model::object::Principal;
use std::collections::HashMap;
use std::sync::Arc;

/// A limit and the key of the configuration that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) most: u64,
    /// Name of the key, such as `quotas.default.queries`.
    pub(crate) key: Arc<str>,
}

/// Limits by their kind, in the order of the kinds.
pub(crate) type LimitsByKind = [Option<Limit>; QuotaKind::ALL.len()];

/// A client with its share and its limits. All connections, keys and tokens of one user are one client.
#[derive(Debug, Default, Clone)]
pub(crate) struct Client {
    pub(crate) share: Share,
    /// Limits of the client; none for the owner of the database and other administrators.
    pub(crate) limits: Arc<LimitsByKind>,
    /// Whether the client is the owner of the database or another administrator.
    pub(crate) is_admin: bool,
    /// User id, if the client is a user.
    pub(crate) user: Option<i64>,
    /// Name for messages.
    name: Arc<str>,
    /// Advice on whom to ask.
    contact: Arc<str>,
}

impl Client {
    /// Limit of a kind, if there is one.
    pub(crate) fn limit(&self, kind: QuotaKind) -> Option<&Limit> {
        self.limits.iter().zip(QuotaKind::ALL).find_map(|(l, k)| {
            let limit = l.as_ref();
            limit.filter(|_| k == kind)
        })
    }

    /// Name of the client for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Message for a query too many.
    pub(crate) fn too_many_queries(&self, limit: &Limit) -> String {
        format!(
            "{} has {} queries in progress, and {} allows {}: wait for one to end, or ask {}",
            self.name, limit.most, limit.key, limit.most, self.contact
        )
    }

    /// Message for a query that took too long.
    pub(crate) fn too_long(&self, limit: &Limit) -> String {
        let most = QuotaKind::QueryTime.text(limit.most);
        format!(
            "a query of {} took longer than the {most} that {} allows: narrow it, or ask {}",
            self.name, limit.key, self.contact
        )
    }

    /// Message for a query that needs too much memory.
    pub(crate) fn too_large(&self, limit: &Limit) -> String {
        let most = QuotaKind::QueryMemory.text(limit.most);
        format!(
            "a query of {} needs more memory than the {most} that {} allows: narrow it, or ask {}",
            self.name, limit.key, self.contact
        )
    }
}

/// Limits of a table, with the names of their keys.
fn limits_of(quota: &Quota, table: &str) -> LimitsByKind {
    QuotaKind::ALL.map(|kind| {
        let most = quota.get(kind)?;
        let key = format!("{table}.{}", kind.name()).into();
        Some(Limit { most, key })
    })
}

/// Tables of one sort of principals by id.
type ById<T> = HashMap<i64, T>;

/// Returns the id of a user or group of this machine; a number is its own id.
fn id_of(name: &str, of_group: bool) -> Option<i64> {
    if let Ok(id) = name.parse::<u32>() {
        return Some(id.into());
    }
    let id = if of_group {
        Accounts::system().group_id(name).ok()?
    } else {
        Accounts::system().by_login(name).ok()?.uid
    };
    Some(id.into())
}

/// Converts a table by names to one by ids. Unknown names are logged.
fn by_id<'a, T: 'a, U>(
    table: impl IntoIterator<Item = (&'a String, &'a T)>,
    of_group: bool,
    convert: impl Fn(&str, &'a T) -> U,
) -> ById<U> {
    let mut ids = HashMap::new();
    for (name, value) in table {
        if let Some(id) = id_of(name, of_group) {
            ids.insert(id, convert(name, value));
        } else {
            let kind = if of_group { "group" } else { "user" };
            tracing::warn!(
                "the configuration names the {kind} `{name}`, which this machine does not know: use its number"
            );
        }
    }
    ids
}

/// Limits of users, groups and projects.
#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    default: LimitsByKind,
    users: ById<LimitsByKind>,
    groups: ById<LimitsByKind>,
    projects: HashMap<String, LimitsByKind>,
    contact: Arc<str>,
}

impl QuotaTable {
    fn new(quotas: &Quotas) -> Self {
        let projects = quotas.projects.iter();
        Self {
            default: limits_of(&quotas.default, "quotas.default"),
            users: by_id(&quotas.users, false, |name, quota| {
                limits_of(quota, &format!("quotas.users.{name}"))
            }),
            groups: by_id(&quotas.groups, true, |name, quota| {
                limits_of(quota, &format!("quotas.groups.{name}"))
            }),
            projects: projects
                .map(|(name, quota)| {
                    let limits = limits_of(quota, &format!("quotas.projects.{name}"));
                    (name.clone(), limits)
                })
                .collect(),
            contact: match &quotas.contact {
                Some(contact) => contact.as_str().into(),
                None => "the owner of the database".into(),
            },
        }
    }

    /// Person or address to ask for higher limits.
    pub(crate) fn contact(&self) -> &Arc<str> {
        &self.contact
    }

    /// Whether some owner of entries has a limit.
    pub(crate) fn limits_storage(&self) -> bool {
        let tables = self.users.values().chain(self.groups.values());
        let mut all = tables.chain(self.projects.values()).chain([&self.default]);
        all.any(|limits| {
            let each = QuotaKind::ALL.into_iter().zip(limits);
            let mut set = each.filter(|(_, limit)| limit.is_some());
            set.any(|(kind, _)| kind.is_storage())
        })
    }

    /// Limits of what a group owns together.
    pub(crate) fn of_group(&self, group: i64) -> Option<&LimitsByKind> {
        self.groups.get(&group)
    }

    /// Limits of a project.
    pub(crate) fn of_project(&self, project: &str) -> Option<&LimitsByKind> {
        self.projects.get(project)
    }

    /// Limits of a user with these groups: for each kind the user's own, else the largest of its groups, else the default. A group's
    /// limits on entries are those of the group together, not of each member.
    pub(crate) fn of_user(&self, user: Option<i64>, groups: &[i64]) -> LimitsByKind {
        let own = user.and_then(|user| self.users.get(&user));
        let mut limits = self.default.clone();
        for (kind, limit) in QuotaKind::ALL.into_iter().zip(&mut limits) {
            let at = kind as usize;
            let groups: &[i64] = if kind.is_storage() { &[] } else { groups };
            let of = |table: &LimitsByKind| table.get(at).cloned().flatten();
            let of_groups = groups
                .iter()
                .filter_map(|group| of(self.groups.get(group)?));
            let found = own
                .and_then(of)
                .or_else(|| of_groups.max_by_key(|limit| limit.most));
            if found.is_some() {
                *limit = found;
            }
        }
        limits
    }
}

/// Shares and quotas of all clients.
#[derive(Debug)]
pub(crate) struct ClientTable {
    default_weight: u32,
    users: ById<u32>,
    groups: ById<u32>,
    quotas: QuotaTable,
    contact: Arc<str>,
    /// Limits of clients that are no users, and of those without limits.
    anonymous: Arc<LimitsByKind>,
    unlimited: Arc<LimitsByKind>,
}

impl ClientTable {
    pub(crate) fn new(settings: &Settings) -> Self {
        let ShareSettings {
            default,
            users,
            groups,
            ..
        } = &settings.shares;
        let quotas = QuotaTable::new(&settings.quotas);
        Self {
            default_weight: *default,
            users: by_id(users, false, |_, weight| *weight),
            groups: by_id(groups, true, |_, weight| *weight),
            contact: Arc::clone(quotas.contact()),
            anonymous: Arc::new(quotas.of_user(None, &[])),
            unlimited: Arc::default(),
            quotas,
        }
    }

    /// Limits of users, groups and projects.
    pub(crate) fn quotas(&self) -> &QuotaTable {
        &self.quotas
    }

    /// Returns the client of a request. `sender` identifies its sender; a request on behalf of a user is one of that user, however it was
    /// sent. Administrators have no limits.
    pub(crate) fn client(
        &self,
        sender: Arc<str>,
        user: Option<&Principal>,
        name: Option<&str>,
        is_admin: bool,
    ) -> Client {
        let (identity, shown) = match (user, name) {
            (Some(user), name) => {
                let identity: Arc<str> = format!("user {}", user.uid).into();
                let shown = name.map(|name| format!("user {name}").into());
                (Arc::clone(&identity), shown.unwrap_or(identity))
            }
            (None, _) if sender.starts_with("token ") => (sender, "this token".into()),
            (None, _) if sender.starts_with("session ") => (sender, "this session".into()),
            (None, _) => (Arc::clone(&sender), sender),
        };
        let groups = user.map_or(&[][..], |user| &user.gids);
        let limits = match user {
            _ if is_admin => Arc::clone(&self.unlimited),
            None => Arc::clone(&self.anonymous),
            Some(user) => Arc::new(self.quotas.of_user(Some(user.uid), groups)),
        };
        // A process of the owner is no principal, and has its weight by user id all the same.
        let uid = match user {
            Some(user) => Some(user.uid),
            None => identity
                .strip_prefix("user ")
                .and_then(|id| id.parse().ok()),
        };
        Client {
            share: Share {
                weight: self.weight(uid, groups),
                client: identity,
            },
            limits,
            is_admin,
            user: uid,
            name: shown,
            contact: Arc::clone(&self.contact),
        }
    }

    fn weight(&self, user: Option<i64>, groups: &[i64]) -> u32 {
        let own = user.and_then(|user| self.users.get(&user)).copied();
        let of_groups = groups.iter().filter_map(|group| self.groups.get(group));
        own.or_else(|| of_groups.max().copied())
            .unwrap_or(self.default_weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let text = "[shares]\ndefault = 2\n\"@7\" = 5\n\"@8\" = 4\n1001 = 9\n\
            [quotas]\ncontact = \"storage@example.org\"\n\
            [quotas.default]\nqueries = 16\nquery_time = \"60s\"\nquery_memory = \"1536MiB\"\n\
            [quotas.users.1001]\nqueries = 3\n\
            [quotas.groups.7]\nqueries = 20\nquery_time = \"2m\"\n\
            [quotas.groups.8]\nqueries = 40\n";
        Settings::from_toml(std::path::Path::new("server.toml"), text).unwrap()
    }

    fn client(user: Option<(i64, &[i64])>, is_admin: bool) -> Client {
        let table = ClientTable::new(&settings());
        let user = user.map(|(uid, gids)| Principal {
            uid,
            gids: gids.to_vec(),
        });
        table.client("key SHA256:x".into(), user.as_ref(), None, is_admin)
    }

    /// The user's own limit counts before that of its groups, of which the largest counts, and both before the default.
    #[test]
    fn the_most_specific_limit_counts() {
        let most = |client: &Client, kind| client.limit(kind).map(|limit| limit.most);
        let groups: &[i64] = &[7, 8];
        for (user, queries, seconds) in [
            (None, 16, 60),
            (Some((1002, &[][..])), 16, 60),
            (Some((1002, groups)), 40, 120),
            (Some((1001, groups)), 3, 120),
        ] {
            let client = client(user, false);
            assert_eq!(most(&client, QuotaKind::Queries), Some(queries), "{user:?}");
            let time = most(&client, QuotaKind::QueryTime);
            assert_eq!(time, Some(seconds * 1_000), "{user:?}");
            assert_eq!(most(&client, QuotaKind::Entries), None);
        }
        let admin = client(Some((1001, groups)), true);
        assert_eq!(*admin.limits, LimitsByKind::default());
    }

    #[test]
    fn one_user_is_one_client_with_its_weight() {
        for (user, identity, weight) in [
            (None, "key SHA256:x", 2),
            (Some((1002, &[][..])), "user 1002", 2),
            (Some((1002, &[7, 8])), "user 1002", 5),
            (Some((1001, &[7])), "user 1001", 9),
        ] {
            let share = client(user, false).share;
            assert_eq!((&*share.client, share.weight), (identity, weight));
        }
    }

    #[test]
    fn messages_name_the_limit_and_the_contact() {
        let client = client(Some((1002, &[])), false);
        let queries = client.limit(QuotaKind::Queries).unwrap();
        assert_eq!(
            client.too_many_queries(queries),
            "user 1002 has 16 queries in progress, and quotas.default.queries allows 16: wait for one to end, or ask storage@example.org"
        );
        let time = client.limit(QuotaKind::QueryTime).unwrap();
        assert_eq!(
            client.too_long(time),
            "a query of user 1002 took longer than the 60 s that quotas.default.query_time allows: narrow it, or ask storage@example.org"
        );
        let memory = client.limit(QuotaKind::QueryMemory).unwrap();
        assert!(
            client
                .too_large(memory)
                .contains("the 1536 MiB that quotas.default.query_memory"),
            "{}",
            client.too_large(memory)
        );
    }
}
