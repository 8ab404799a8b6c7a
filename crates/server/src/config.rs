//! Settings from a TOML file. An unknown key, or a value of the wrong kind, is refused with its position in the file.

use crate::config_oidc::{OIDC_KEYS, OidcDraft};
use crate::quota_config;
use crate::settings::{AuditLevel, AuditSync, FullQueue, Loopback, Settings, Tls};
use esker::rdf::Services;
use esker_access::{RoleTable, UserPattern};
use esker_config::{
    COUNT, DeValue, Key, KeySink, SIZE, Source, TIME, count, size, take_by, text, texts, time,
};
use esker_model::filter::Expr;
use esker_model::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings while the file is being read, with the TLS files that must be given together.
pub(crate) struct Draft {
    pub(crate) settings: Settings,
    oidc: OidcDraft,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            oidc: OidcDraft::default(),
            certificate: None,
            key: None,
        }
    }

    /// Completes the section `[oidc]`; the error names the key that it lacks.
    pub(crate) fn finish_oidc(&mut self) -> Result<(), String> {
        let oidc = std::mem::take(&mut self.oidc).finish();
        self.settings.oidc = oidc.map_err(|key| {
            format!("logins by an OpenID provider need an issuer and a client: `{key}` is missing")
        })?;
        Ok(())
    }
}

impl KeySink for Draft {
    fn paths() -> Vec<&'static str> {
        let own = KEYS.iter().map(|k| k.path);
        own.chain(OIDC_KEYS.iter().map(|k| k.path)).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&KEYS, self, path, value)
            .or_else(|| take_by(&OIDC_KEYS, &mut self.oidc, path, value))
            .unwrap_or(Ok(()))
    }
}

/// Longest lease on files: a change to a file waits until the leases on it end.
pub const LEASE_MAX: Duration = Duration::from_mins(1);

pub(crate) const KEYS: [Key<Draft>; 56] = [
    Key {
        path: "listen",
        expected: "\"HOST:PORT\"",
        set: |d, v| text(v).map(|t| t.clone_into(&mut d.settings.listen)),
    },
    Key {
        path: "drain",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.settings.drain = t),
    },
    Key {
        path: "lease",
        expected: "a time up to \"60s\": changes wait for it",
        set: |d, v| {
            d.settings.lease = time(v).filter(|t| *t <= LEASE_MAX)?;
            Some(())
        },
    },
    Key {
        path: "backups",
        expected: "the absolute path of a folder",
        set: |d, v| {
            let folder = text(v).map(PathBuf::from).filter(|p| p.is_absolute())?;
            d.settings.backups = Some(folder);
            Some(())
        },
    },
    Key {
        path: "host_key",
        expected: "the path of a file",
        set: |d, v| text(v).map(|t| d.settings.host_key = Some(t.into())),
    },
    Key {
        path: "spools",
        expected: "a list of absolute paths of folders",
        set: |d, v| {
            let folders: Vec<PathBuf> = texts(v)?.into_iter().map(PathBuf::from).collect();
            if !folders.iter().all(|folder| folder.is_absolute()) {
                return None;
            }
            d.settings.spools = folders;
            Some(())
        },
    },
    Key {
        path: "sites",
        expected: "a list of URLs of site caches' tiers, as \"http://127.0.0.1:PORT\" or \"esker://HOST:PORT\"",
        set: |d, v| {
            let sites = texts(v)?;
            if !sites
                .iter()
                .all(|url| url.starts_with("http://") || esker_rpc::Address::is_address(url))
            {
                return None;
            }
            d.settings.sites = sites;
            Some(())
        },
    },
    Key {
        path: "access.loopback",
        expected: "\"uid\", \"socket\" or \"off\"",
        set: |d, v| {
            d.settings.access.loopback = match text(v)? {
                "uid" => Loopback::Uid,
                "socket" => Loopback::Socket,
                "off" => Loopback::Off,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        path: "access.strict_modes",
        expected: "\"warn\" or \"refuse\"",
        set: |d, v| {
            d.settings.access.strict_modes = match text(v)? {
                "warn" => false,
                "refuse" => true,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        path: "access.conceal_counts",
        expected: "true or false",
        set: |d, v| v.as_bool().map(|on| d.settings.access.conceal_counts = on),
    },
    Key {
        path: "access.local",
        expected: "\"on\" or \"off\": whether other users of this machine need no key",
        set: |d, v| {
            d.settings.access.local = match text(v)? {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        path: "access.munge",
        expected: "true or false: whether credentials of Munge are accepted",
        set: |d, v| v.as_bool().map(|on| d.settings.access.munge = on),
    },
    Key {
        path: "access.munge_socket",
        expected: "the path of munged's socket",
        set: |d, v| text(v).map(|t| d.settings.access.munge_socket = Some(t.into())),
    },
    Key {
        path: "access.roles",
        expected: "a table of login names, \"@GROUP\" or \"*\" with the role \"read\" or \"admin\"; not \"write\": what a user may \
                   change is not checked yet",
        set: |d, v| {
            let mut roles = RoleTable::default();
            for (who, role) in v.as_table()? {
                roles.add(who.get_ref(), text(role.get_ref())?).ok()?;
            }
            d.settings.access.roles = roles;
            Some(())
        },
    },
    Key {
        path: "access.impersonate",
        expected: "a list of login names or \"@GROUP\" that may ask on behalf of other users",
        set: |d, v| {
            let users = texts(v)?
                .into_iter()
                .map(|user| user.parse::<UserPattern>().ok());
            let users: Option<Vec<UserPattern>> = users.collect();
            let users = users.filter(|users| !users.contains(&UserPattern::Everyone))?;
            d.settings.access.impersonate = users;
            Some(())
        },
    },
    Key {
        path: "limits.request",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.limits.request_bytes = n),
    },
    Key {
        path: "limits.frontier",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.frontier = n),
    },
    Key {
        path: "limits.memory",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.limits.memory_bytes = n),
    },
    Key {
        path: "limits.waiting",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.waiting = n),
    },
    Key {
        path: "limits.connections",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.connections = n),
    },
    Key {
        path: "limits.connections_each",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.connections_each = n),
    },
    Key {
        path: "limits.time",
        expected: "a time as in \"60s\", or \"0s\" for none",
        set: |d, v| time(v).map(|t| d.settings.limits.time = Some(t).filter(|t| !t.is_zero())),
    },
    Key {
        path: "tls.certificate",
        expected: "the path of a file",
        set: |d, v| text(v).map(|t| d.certificate = Some(t.into())),
    },
    Key {
        path: "tls.key",
        expected: "the path of a file",
        set: |d, v| text(v).map(|t| d.key = Some(t.into())),
    },
    Key {
        path: "threads.network",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.threads = n),
    },
    Key {
        path: "threads.readers",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.readers = n),
    },
    Key {
        path: "threads.scanners",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.scanners = n),
    },
    Key {
        path: "sparql.threads",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.sparql.threads = n),
    },
    Key {
        path: "sparql.each",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.sparql.each = n),
    },
    Key {
        path: "sparql.memory",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.sparql.memory_bytes = n),
    },
    Key {
        path: "sparql.memory_all",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.sparql.memory_all_bytes = n),
    },
    Key {
        path: "sparql.upload",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.sparql.upload_bytes = n),
    },
    Key {
        path: "sparql.read_origins",
        expected: "a list of origins, as in [\"https://lab.example.org\"], or [\"*\"]",
        set: |d, v| texts(v).map(|list| d.settings.sparql.read_origins = list),
    },
    Key {
        path: "sparql.write_origins",
        expected: "a list of origins, as in [\"https://lab.example.org\"], without \"*\": any page could change data then",
        set: |d, v| {
            let list = texts(v).filter(|list| !list.iter().any(|o| o == "*"))?;
            d.settings.sparql.write_origins = list;
            Some(())
        },
    },
    Key {
        // Replaced by the two keys above; a line of an old file gets this message.
        path: "sparql.origins",
        expected: "nothing any more: `sparql.read_origins` names pages that may read answers, `sparql.write_origins` those that may \
                   change data as well",
        set: |_, _| None,
    },
    Key {
        path: "sparql.services",
        expected: "a list of beginnings of endpoints' IRIs, as in [\"http://lab.example.org/sparql\"]",
        set: |d, v| {
            d.settings.sparql.services = Services::new(texts(v)?).ok()?;
            Some(())
        },
    },
    Key {
        path: "sparql.load",
        expected: "a list of beginnings of documents' IRIs, as in [\"https://lab.example.org/\"]",
        set: |d, v| {
            d.settings.sparql.load = Services::new(texts(v)?).ok()?;
            Some(())
        },
    },
    Key {
        path: "catalogue.address",
        expected: "the address by which others reach this server, as in \"https://data.example.org\"",
        set: |d, v| {
            let address = text(v).filter(|t| is_root(t))?;
            d.settings.catalogue.address = Some(address.to_owned());
            Some(())
        },
    },
    Key {
        path: "catalogue.name",
        expected: "the name of this repository for harvesters",
        set: |d, v| text(v).map(|t| t.clone_into(&mut d.settings.catalogue.name)),
    },
    Key {
        path: "catalogue.admin",
        expected: "a mail address, as in \"data@example.org\"",
        set: |d, v| {
            let (user, host) = text(v)?.split_once('@')?;
            let plain = |t: &str| !t.is_empty() && !t.contains(char::is_whitespace);
            let fits = plain(user) && plain(host) && host.trim_matches('.').contains('.');
            d.settings.catalogue.admin = fits.then(|| format!("{user}@{host}"));
            fits.then_some(())
        },
    },
    Key {
        path: "catalogue.filter",
        expected: "a filter of the objects that are harvested, as in \"published = true\"",
        set: |d, v| {
            d.settings.catalogue.filter = Expr::parse(text(v)?, None).ok()?;
            Some(())
        },
    },
    Key {
        path: "catalogue.page",
        expected: "a number of records up to 1000",
        set: |d, v| {
            d.settings.catalogue.page = count(v).filter(|n| *n <= 1_000)?;
            Some(())
        },
    },
    Key {
        path: "tracing.otlp",
        expected: "the address of a collector for OTLP over gRPC, as in \"http://127.0.0.1:4317\"",
        set: |d, v| {
            let address = text(v).filter(|t| esker_telemetry::is_endpoint(t))?;
            d.settings.tracing.otlp = Some(address.to_owned());
            Some(())
        },
    },
    Key {
        path: "tracing.sample",
        expected: "a number from 0 to 1",
        set: |d, v| {
            let share = match v {
                DeValue::Float(number) => number.as_str().parse::<f64>().ok()?,
                DeValue::Integer(number) => number.as_str().parse::<f64>().ok()?,
                _ => return None,
            };
            d.settings.tracing.sample = Some(share).filter(|s| (0.0..=1.0).contains(s))?;
            Some(())
        },
    },
    Key {
        path: "audit.log",
        expected: "\"all\", \"writes\", \"refused\" or \"off\"",
        set: |d, v| {
            d.settings.audit.log = match text(v)? {
                "all" => AuditLevel::All,
                "writes" => AuditLevel::Writes,
                "refused" => AuditLevel::Refused,
                "off" => AuditLevel::Off,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        path: "audit.folder",
        expected: "the absolute path of a folder",
        set: |d, v| {
            let folder = text(v).map(PathBuf::from).filter(|p| p.is_absolute())?;
            d.settings.audit.folder = Some(folder);
            Some(())
        },
    },
    Key {
        path: "audit.sync",
        expected: "a time, as in \"1s\", or \"always\"",
        set: |d, v| {
            d.settings.audit.sync = match text(v)? {
                "always" => AuditSync::Always,
                _ => AuditSync::Every(time(v).filter(|t| !t.is_zero())?),
            };
            Some(())
        },
    },
    Key {
        path: "audit.full",
        expected: "\"wait\" or \"refuse\"",
        set: |d, v| {
            d.settings.audit.full = match text(v)? {
                "wait" => FullQueue::Wait,
                "refuse" => FullQueue::Refuse,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        path: "audit.keep",
        expected: "a time from a day, as in \"400d\"",
        set: |d, v| {
            let keep = time(v).filter(|t| *t >= Duration::from_hours(24))?;
            d.settings.audit.keep = Some(keep);
            Some(())
        },
    },
    Key {
        path: "audit.segment_bytes",
        expected: "a size from 1MiB",
        set: |d, v| {
            d.settings.audit.segment_bytes = size(v).filter(|bytes| *bytes >= 1 << 20)?;
            Some(())
        },
    },
    Key {
        path: "shares",
        expected: quota_config::SHARES,
        set: |d, v| quota_config::shares(v).map(|shares| d.settings.shares = shares),
    },
    Key {
        path: "quotas.contact",
        expected: "the person or address that messages name",
        set: |d, v| quota_config::contact(v).map(|t| d.settings.quotas.contact = Some(t)),
    },
    Key {
        path: "quotas.default",
        expected: quota_config::LIMITS,
        set: |d, v| quota_config::limits(v).map(|quota| d.settings.quotas.default = quota),
    },
    Key {
        path: "quotas.users",
        expected: quota_config::LIMITS_BY_NAME,
        set: |d, v| quota_config::limits_by_name(v).map(|all| d.settings.quotas.users = all),
    },
    Key {
        path: "quotas.groups",
        expected: quota_config::LIMITS_BY_NAME,
        set: |d, v| quota_config::limits_by_name(v).map(|all| d.settings.quotas.groups = all),
    },
    Key {
        path: "quotas.projects",
        expected: quota_config::LIMITS_BY_PROJECT,
        set: |d, v| quota_config::limits_by_project(v).map(|all| d.settings.quotas.projects = all),
    },
];

/// Whether a text is the address of a server's root: a scheme and a host, without a path or query.
fn is_root(text: &str) -> bool {
    let Ok(uri) = text.parse::<http::Uri>() else {
        return false;
    };
    let http = matches!(uri.scheme_str(), Some("http" | "https"));
    http && uri.host().is_some_and(|host| !host.is_empty())
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
}

impl Settings {
    /// Reads settings from a TOML file; keys that the file does not have keep their defaults.
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
        Self::from_toml(file, &text)
    }

    /// Reads settings from text; `file` is its name in messages.
    pub fn from_toml(file: &Path, text: &str) -> Result<Self> {
        let source = Source { file, text };
        let mut draft = Draft::new();
        source.read(&mut draft)?;
        let finished = draft.finish_oidc();
        finished.map_err(|why| source.error(0..0, &why))?;
        draft.settings.tls = match (draft.certificate, draft.key) {
            (Some(certificate), Some(key)) => Some(Tls { certificate, key }),
            (None, None) => None,
            (certificate, _) => {
                let missing = if certificate.is_none() {
                    "certificate"
                } else {
                    "key"
                };
                return Err(source.error(
                    0..0,
                    &format!("TLS needs both files: `tls.{missing}` is missing"),
                ));
            }
        };
        Ok(draft.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::QuotaKind;
    use crate::settings_oidc::UserClaim;

    fn read(text: &str) -> Result<Settings> {
        Settings::from_toml(Path::new("server.toml"), text)
    }

    fn message(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_given_replaces_the_default() {
        let settings = read(
            "listen = \"0.0.0.0:7\"\ndrain = \"1500ms\"\nlease = \"0s\"\n[limits]\nrequest = \"1MiB\"\nfrontier = 7\n\
             time = \"0s\"\nconnections_each = 9\n\
             [threads]\nreaders = 3\n[sparql]\neach = 5\nmemory_all = \"7GiB\"\nread_origins = [\"*\"]\nservices = [\"http://lab\"]\n\
             [access]\nloopback = \"socket\"\nstrict_modes = \"refuse\"\nlocal = \"on\"\nmunge = true\nimpersonate = [\"svc\", \"@portals\"]\n\
             [access.roles]\nada = \"admin\"\n\"@staff\" = \"read\"\n[tls]\ncertificate = \"a\"\nkey = \"b\"\n",
        )
        .unwrap();
        assert_eq!(settings.listen, "0.0.0.0:7");
        assert_eq!(settings.drain, Duration::from_millis(1_500));
        assert_eq!(settings.lease, Duration::ZERO);
        assert_eq!(settings.limits.request_bytes, 1 << 20);
        assert_eq!(settings.limits.frontier, 7);
        assert_eq!(settings.limits.time, None);
        assert_eq!(settings.limits.connections_each, 9);
        assert_eq!(settings.readers, 3);
        assert_eq!(settings.sparql.memory_all_bytes, 7 << 30);
        assert_eq!(settings.sparql.each, 5);
        assert_eq!(settings.sparql.read_origins, ["*"]);
        assert!(settings.sparql.write_origins.is_empty());
        assert!(!settings.sparql.services.is_empty());
        assert_eq!(settings.access.loopback, Loopback::Socket);
        assert!(settings.access.strict_modes);
        assert!(settings.access.local && settings.access.munge);
        assert_eq!(settings.access.impersonate.len(), 2);
        assert!(!settings.access.roles.is_empty());
        let catalogue = "[catalogue]\naddress = \"https://a.org\"\nadmin = \"a@b.org\"\nfilter = \"doi LIKE '10.%'\"\npage = 7\n";
        let catalogue = read(catalogue).unwrap().catalogue;
        assert_eq!(catalogue.address.as_deref(), Some("https://a.org"));
        assert_eq!(catalogue.admin.as_deref(), Some("a@b.org"));
        assert_eq!((catalogue.page, catalogue.filter == Expr::All), (7, false));
        let quotas = "[shares]\nfair = false\nada = 2\n\"@staff\" = 4\n[quotas.users.ada]\nentries = 10_000_000\nquery_time = \"1500ms\"\n\
            [quotas.projects.vpic]\nbytes = \"2GiB\"\n";
        let quotas = read(quotas).unwrap();
        assert_eq!((quotas.shares.fair, quotas.shares.default), (false, 1));
        assert_eq!(
            (quotas.shares.users["ada"], quotas.shares.groups["staff"]),
            (2, 4)
        );
        let ada = quotas.quotas.users["ada"];
        assert_eq!(ada.get(QuotaKind::Entries), Some(10_000_000));
        assert_eq!(ada.get(QuotaKind::QueryTime), Some(1_500));
        assert_eq!(ada.get(QuotaKind::Queries), None);
        let vpic = quotas.quotas.projects["vpic"];
        assert_eq!(vpic.get(QuotaKind::Bytes), Some(2 << 30));
        assert_eq!(settings.tls.unwrap().key, Path::new("b"));
        assert_eq!(read("").unwrap(), Settings::default());
    }

    #[test]
    fn the_section_audit_is_read() {
        let audit = "[audit]\nlog = \"all\"\nfolder = \"/var/log/esker\"\nsync = \"always\"\nfull = \"refuse\"\nkeep = \"400d\"\n\
                     segment_bytes = \"1MiB\"\n";
        let audit = read(audit).unwrap().audit;
        assert_eq!(
            (audit.log, audit.full),
            (AuditLevel::All, FullQueue::Refuse)
        );
        assert_eq!(audit.folder.as_deref(), Some(Path::new("/var/log/esker")));
        assert_eq!(audit.keep, Some(Duration::from_hours(400 * 24)));
        assert_eq!(
            (audit.sync, audit.segment_bytes),
            (AuditSync::Always, 1 << 20)
        );
        let every = read("[audit]\nsync = \"250ms\"\n").unwrap().audit.sync;
        assert_eq!(every, AuditSync::Every(Duration::from_millis(250)));
        for line in [
            "log = \"reads\"",
            "folder = \"log\"",
            "sync = \"0s\"",
            "full = \"drop\"",
            "keep = \"1h\"",
            "segment_bytes = 7",
        ] {
            let key = line.split(' ').next().unwrap();
            let refused = message(&format!("[audit]\n{line}\n"));
            assert!(
                refused.contains(&format!("`audit.{key}` holds ")),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_provider_of_logins_is_read_and_mistakes_are_named() {
        let minimal = "[oidc]\nissuer = \"https://login.example.org\"\nclient_id = \"esker\"\n";
        assert_eq!(read("").unwrap().oidc, None);
        let oidc = read(minimal).unwrap().oidc.unwrap();
        assert_eq!(
            (oidc.device_client(), oidc.host().as_str()),
            ("esker", "login.example.org")
        );
        assert_eq!(oidc.users, UserClaim::Name("preferred_username".into()));
        let more = "uid_claim = \"uid\"\nsession = \"1h\"\nscopes = [\"openid\", \"email\"]\ndevice_client_id = \"command\"\n";
        let oidc = read(&format!("{minimal}{more}")).unwrap().oidc.unwrap();
        assert_eq!(oidc.users, UserClaim::Uid("uid".into()));
        assert_eq!(
            (oidc.scopes.as_str(), oidc.session),
            ("openid email", Duration::from_hours(1))
        );
        assert_eq!(oidc.device_client(), "command");
        for (line, why) in [
            (
                "issuer = \"http://login.example.org\"",
                "`oidc.issuer` holds the address of an OpenID provider",
            ),
            (
                "issuer = \"https://login.example.org?x\"",
                "`oidc.issuer` holds",
            ),
            ("session = \"9h\"", "`oidc.session` holds a time up to"),
            (
                "scopes = [\"profile\"]",
                "`oidc.scopes` holds a list of scopes with",
            ),
            (
                "redirect = \"https://data.example.org/\"",
                "`oidc.redirect` holds",
            ),
            ("client = \"esker\"", "unknown key `oidc.client`"),
        ] {
            let refused = message(&format!("[oidc]\n{line}\n"));
            assert!(
                refused.starts_with("server.toml:2:") && refused.contains(why),
                "{line}: {refused}"
            );
        }
        let refused = message("[oidc]\nissuer = \"http://127.0.0.1:9\"\n");
        assert!(refused.contains("`oidc.client_id` is missing"), "{refused}");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        assert_eq!(
            message("listen = \"x:1\"\n\n  lisen = 1\n"),
            "server.toml:3:3: unknown key `lisen`; did you mean `listen`?"
        );
        assert_eq!(
            message("[limits]\nfronteer = 3\n"),
            "server.toml:2:1: unknown key `limits.fronteer`; did you mean `limits.frontier`?"
        );
        assert_eq!(
            message("request = 3\n"),
            "server.toml:1:1: unknown key `request`; did you mean `limits.request`?"
        );
        assert_eq!(
            message("[limits]\nrequest = \"big\"\n"),
            "server.toml:2:11: `limits.request` holds a size: a number of bytes, or text as in \"64MiB\""
        );
        assert_eq!(
            message("limits = 3\n"),
            "server.toml:1:10: `limits` is a section: write [limits]"
        );
        assert_eq!(
            message("[tls]\nkey = \"a\"\n"),
            "server.toml:1:1: TLS needs both files: `tls.certificate` is missing"
        );
        assert!(message("listen = \n").starts_with("server.toml:1:"));
        assert!(message("completely = 1\n").contains("the keys are listen, drain"));
        assert!(message("[sparql]\nservices = [\"ftp://x\"]\n").contains("a list of beginnings"));
        assert!(
            message("[access]\nloopback = \"on\"\n").contains("\"uid\", \"socket\" or \"off\"")
        );
        let writes = message("[access.roles]\nada = \"write\"\n");
        assert!(writes.contains("is not checked yet"), "{writes}");
        assert!(message("[access]\nimpersonate = [\"*\"]\n").contains("a list of login names"));
        assert!(message("[access]\nlocal = true\n").contains("\"on\" or \"off\""));
        assert!(
            message("[sparql]\nwrite_origins = [\"*\"]\n").contains("any page could change data")
        );
        assert!(
            message("[sparql]\norigins = [\"*\"]\n").contains("`sparql.read_origins` names pages")
        );
        for (line, expected) in [
            ("[shares]\nada = 0", "`shares` holds a section"),
            ("[shares]\nfair = 1", "`shares` holds a section"),
            (
                "[quotas.default]\nquerys = 1",
                "`quotas.default` holds a section",
            ),
            (
                "[quotas.default]\nqueries = 0",
                "`quotas.default` holds a section",
            ),
            (
                "[quotas.users]\nada = 7",
                "`quotas.users` holds a section for each name",
            ),
            (
                "[quotas.projects.a]\nqueries = 7",
                "`quotas.projects` holds a section for each value",
            ),
        ] {
            let refused = message(line);
            assert!(refused.contains(expected), "{line}: {refused}");
        }
        for line in [
            "address = \"data.example.org\"",
            "address = \"https://data.example.org/x\"",
            "admin = \"root@localhost\"",
            "filter = \"published =\"",
            "page = 1001",
        ] {
            let key = line.split(' ').next().unwrap();
            let expected = format!("`catalogue.{key}` holds ");
            let refused = message(&format!("[catalogue]\n{line}\n"));
            assert!(refused.contains(&expected), "{line}: {refused}");
        }
        assert!(message("[limits]\nfrontier = 0\n").contains("a whole number from 1"));
    }
}
