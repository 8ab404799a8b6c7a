//! Checks of the rights of keys and tokens, and of their lifetimes.

use super::{Finding, State};
use esker::rpc::{Address, Grants};
use esker_access::grants::{self, RightsEntry};
use esker_access::rights;
use esker_terminal::exit::message_of;
use esker_terminal::units::counted;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum lifetime of a token in days; a stolen token is valid until its end.
const TOKEN_DAYS_MAX: i64 = 90;
const DAY: i64 = 86_400;

/// Returns all rights, and errors in the files that grant them.
fn listed(target: &str) -> anyhow::Result<(Vec<RightsEntry>, Vec<String>)> {
    if !Address::is_address(target) {
        return Ok(grants::list(Path::new(target))?);
    }
    let told = Grants::of(&Address::parse(target)?).list()?;
    let lines = told.lines.into_iter().map(RightsEntry::from);
    Ok((lines.collect(), told.mistakes))
}

/// Checks the rights that a folder or a server grants.
pub(super) fn check(target: &str, out: &mut Vec<Finding>) {
    let is_server = Address::is_address(target);
    if !is_server && !super::folder::is_database(Path::new(target)) {
        return;
    }
    let (lines, mistakes) = match listed(target) {
        Ok(listed) => listed,
        Err(e) if is_server => {
            let found = format!("not shown: {}", message_of(&e));
            let remedy = "only an admin sees who has rights";
            return out.push(Finding::absent("keys", found, remedy));
        }
        Err(e) => {
            return out.push(Finding::open(
                "keys",
                State::Wrong,
                message_of(&e),
                "the grants and revocations in that file have no effect",
                "do what the message says",
            ));
        }
    };
    for mistake in mistakes {
        out.push(Finding::open(
            "keys",
            State::Wrong,
            mistake,
            "its grants and revocations have no effect",
            format!("correct it, and check again: esker grant {target} --list"),
        ));
    }
    let now = rights::now();
    let lines = lines.iter().filter(|l| !l.role.is_empty());
    let (mut tokens, mut keys) = (0, 0);
    for line in lines {
        let end = seconds(&line.expires);
        if end.is_some_and(|end| end <= now) {
            continue;
        }
        let name = format!("{} {} ({})", line.fingerprint, line.comment, line.role);
        if line.fingerprint.starts_with("token:") {
            tokens += 1;
            let days = end.map(|end| (end - now) / DAY);
            if days.is_none_or(|days| days >= TOKEN_DAYS_MAX) {
                let until = days.map_or("has no end".to_owned(), |d| format!("ends in {d} days"));
                out.push(Finding::open(
                    "tokens",
                    State::Warning,
                    format!("{name} {until}"),
                    "a token opens the database for anyone who has it, from anywhere",
                    format!("esker revoke {target} --key {}; then esker grant {target} --token --for 30d", line.fingerprint),
                ));
            }
            continue;
        }
        keys += 1;
        let lacks = match (end, line.from.is_empty()) {
            (None, true) => "has no end, and opens from everywhere",
            (None, false) => "has no end",
            (Some(_), true) => "opens from everywhere",
            (Some(_), false) => continue,
        };
        out.push(Finding::open(
            "keys",
            State::Note,
            format!("{name} {lacks}"),
            "a lost key opens the database until the loss is noticed",
            format!(
                "esker grant {target} --key KEY --role {} --for 365d --from NETWORK",
                line.role
            ),
        ));
    }
    let keys = counted(keys, "key has", "keys have");
    let tokens = counted(tokens, "token opens", "tokens open");
    out.push(Finding::fine("rights", format!("{keys} rights, {tokens}")));
}

/// Parses a time in the form of `expiry-time`, as seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let time = jiff::tz::TimeZone::UTC.to_timestamp(time).ok()?;
    Some(time.as_second())
}

/// Checks the folder that grants rights on all databases of a user.
pub(super) fn check_user_folder(out: &mut Vec<Finding>) {
    let Some(folder) = esker_access::home() else {
        return;
    };
    let Ok(metadata) = std::fs::metadata(&folder) else {
        return;
    };
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        out.push(Finding::open(
            "keys",
            State::Wrong,
            format!("{}: mode {mode:o}", folder.display()),
            "anyone who writes there can give themselves rights in all of your databases; nothing in it is read as long as that is so",
            format!("chmod go-w {}", folder.display()),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_lists() {
        assert_eq!(seconds("19700102000001Z"), Some(DAY + 1));
        assert_eq!(seconds(""), None);
        assert_eq!(seconds("never"), None);
    }
}
