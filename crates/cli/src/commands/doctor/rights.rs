//! Whom keys and tokens let in, and for how long.

use super::{Finding, State};
use crate::exit::message_of;
use crate::units::counted;
use esker::rpc::{Address, Grants};
use esker_access::grants::{self, Listed};
use esker_access::rights;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Days after which a token should have ended: whoever finds it can use it until then.
const TOKEN_DAYS_MAX: i64 = 90;
const DAY: i64 = 86_400;

/// Everybody's rights, and what is wrong in the files that say them.
fn listed(target: &str) -> anyhow::Result<(Vec<Listed>, Vec<String>)> {
    if !Address::is_address(target) {
        return Ok(grants::list(Path::new(target))?);
    }
    let told = Grants::of(&Address::parse(target)?).list()?;
    let lines = told.lines.into_iter().map(Listed::from);
    Ok((lines.collect(), told.mistakes))
}

/// The rights that a folder or a server gives.
pub(super) fn look(target: &str, out: &mut Vec<Finding>) {
    let is_server = Address::is_address(target);
    if !is_server && !super::folder::is_database(Path::new(target)) {
        return;
    }
    let (lines, mistakes) = match listed(target) {
        Ok(listed) => listed,
        Err(e) if is_server => {
            let found = format!("not told: {}", message_of(&e));
            let remedy = "only an admin sees who has rights";
            return out.push(Finding::absent("keys", found, remedy));
        }
        Err(e) => {
            return out.push(Finding::open(
                "keys",
                State::Wrong,
                message_of(&e),
                "the rights in that file count for nothing: also those that were taken",
                "do what the message says",
            ));
        }
    };
    for mistake in mistakes {
        out.push(Finding::open(
            "keys",
            State::Wrong,
            mistake,
            "the rights in it count for nothing: also those that were taken",
            format!("mend it, and look again: esker grant {target} --list"),
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
                    "a token opens the database for whoever has it, from anywhere",
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
            "a key that is lost opens the database until somebody notices",
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

/// A time as `expiry-time` has it, in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let time = jiff::tz::TimeZone::UTC.to_timestamp(time).ok()?;
    Some(time.as_second())
}

/// The folder that opens all of a user's databases.
pub(super) fn of_user(out: &mut Vec<Finding>) {
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
            "whoever writes there gives themselves rights in all of your databases; nothing in it is read as long as that is so",
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
