//! Users and groups of this machine by the names that lists of `NFSv4` have.

use esker_model::namespace::Nfs4Name;
use std::collections::{BTreeSet, HashMap};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// File that says to which domain the users of this machine belong (`idmapd.conf(5)`).
const CONFIGURATION: &str = "/etc/idmapd.conf";

/// Users and groups of this machine, looked up once each.
pub(crate) struct HostPrincipals {
    /// Domain whose users are those of this machine; without one, no name is known.
    domain: Option<String>,
    known: Mutex<HashMap<(String, bool), Option<u32>>>,
}

impl HostPrincipals {
    /// Users and groups of a domain; by default of the one that this machine is configured for.
    pub(crate) fn new(domain: Option<String>) -> Self {
        Self {
            domain: domain.or_else(configured_domain),
            known: Mutex::default(),
        }
    }

    /// Returns the id of a user or group. A number is its own id. A name of another domain is not known.
    pub(crate) fn id_of(&self, name: Nfs4Name<'_>) -> Option<u32> {
        let number = |text: &str| text.parse().ok().filter(|id| *id != u32::MAX);
        if name.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return number(name.text);
        }
        let key = (name.text.to_owned(), name.is_group);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(key).or_insert_with(|| {
            let (local, domain) = name.text.rsplit_once('@')?;
            let own = self.domain.as_deref()?;
            if !own.eq_ignore_ascii_case(domain) {
                return None;
            }
            look_up(local, name.is_group)
        })
    }

    /// Returns the names that were asked for and that this machine does not know.
    pub(crate) fn unknown(&self) -> BTreeSet<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = known.iter().filter(|(_, id)| id.is_none());
        unknown.map(|((name, _), _)| name.clone()).collect()
    }
}

/// Asks the name service of this machine, whatever directories it uses.
fn look_up(name: &str, is_group: bool) -> Option<u32> {
    let database = if is_group { "group" } else { "passwd" };
    let out = Command::new("getent")
        .args(["--", database, name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let mut fields = text.lines().next()?.split(':');
    // A number would find the entry of that id, which has another name.
    let is_same = fields.next()? == name;
    let id = fields.nth(1)?.parse().ok();
    id.filter(|id| is_same && *id != u32::MAX)
}

/// Returns the domain of the configuration, else that of the machine's full name.
fn configured_domain() -> Option<String> {
    let text = std::fs::read_to_string(CONFIGURATION).unwrap_or_default();
    domain_in(&text).or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        let (_, domain) = name.trim().split_once('.')?;
        Some(domain.to_owned())
    })
}

fn domain_in(configuration: &str) -> Option<String> {
    configuration.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim();
        let is_domain = key.trim().eq_ignore_ascii_case("domain") && !value.is_empty();
        is_domain.then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_of_the_domain_are_known() {
        let host = HostPrincipals::new(Some("example.org".into()));
        let id = |text, is_group| host.id_of(Nfs4Name { text, is_group });
        assert_eq!((id("1001", false), id("77", true)), (Some(1001), Some(77)));
        assert_eq!(id("4294967295", false), None);
        assert_eq!(id("root@EXAMPLE.org", false), Some(0));
        assert_eq!(id("root@example.org", true), Some(0));
        for unknown in [
            "root",
            "root@other.org",
            "no-such@example.org",
            "0@example.org",
            "AUTHENTICATED@",
            "-s@example.org",
        ] {
            assert_eq!(id(unknown, false), None, "{unknown}");
        }
        assert!(
            host.unknown().contains("root@other.org")
                && !host.unknown().contains("root@example.org")
        );
    }

    #[test]
    fn the_domain_is_that_of_the_configuration() {
        let text = "[General]\n# Domain = no.org\nVerbosity = 0\nDomain = lab.example\n";
        assert_eq!(domain_in(text).as_deref(), Some("lab.example"));
        assert_eq!(domain_in("Domain =\n"), None);
    }
}
