//! Numbers of users and groups by their names on this machine.

use std::io;
use std::process::{Command, Stdio};

/// Returns the number of the user with a login name; `None` for an unknown name.
///
/// # Errors
/// Fails if the system's name service cannot be asked.
pub(crate) fn user_named(name: &str) -> io::Result<Option<u32>> {
    number_in("passwd", name)
}

/// Returns the number of the group with a name; `None` for an unknown name.
///
/// # Errors
/// Fails if the system's name service cannot be asked.
pub(crate) fn group_named(name: &str) -> io::Result<Option<u32>> {
    number_in("group", name)
}

/// Looks a name up in a database of the name service (NSS). The program `getent` loads the modules of the service, which may be
/// those of LDAP or SSSD, so that this process does not.
fn number_in(database: &str, name: &str) -> io::Result<Option<u32>> {
    if name.is_empty() || name.starts_with('-') || name.contains([':', '\0']) {
        return Ok(None);
    }
    let asked = Command::new("getent")
        .args([database, name])
        .stdin(Stdio::null())
        .output()?;
    match asked.status.code() {
        Some(0) => Ok(number_of_line(&String::from_utf8_lossy(&asked.stdout))),
        // The name is not there.
        Some(2) => Ok(None),
        _ => Err(io::Error::other(format!(
            "`getent` ended with {}",
            asked.status
        ))),
    }
}

/// Returns the number in a line of `passwd` or `group`: its third field.
fn number_of_line(line: &str) -> Option<u32> {
    line.lines().next()?.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        assert_eq!(number_of_line("bob:x:1002:1003::/:/bin/sh\n"), Some(1002));
        assert_eq!(number_of_line("climate:x:100:bob,ann\n"), Some(100));
        assert_eq!(number_of_line("broken"), None);
        assert_eq!(user_named("root").unwrap(), Some(0));
        assert_eq!(group_named("no such group").unwrap(), None);
        assert_eq!(user_named("--help").unwrap(), None);
    }
}
