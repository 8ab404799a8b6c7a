//! The options before a key in `authorized_keys`: `esker-role="write",expiry-time="20270101",from="10.0.0.0/8"`,
//! `esker-user="1002:100,7"`, `principal="ada"`, `cert-authority,principals="ada,bob"`.

use crate::binding::{UserBinding, login_of, numbers_of};
use crate::role::Role;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::net::IpAddr;

/// Options of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Role; `None` if the key is revoked.
    pub(crate) role: Option<Role>,
    /// Expiry time, in seconds since 1970.
    pub(crate) expires: Option<i64>,
    /// Addresses from which the key is allowed.
    pub(crate) from: Option<AddressPatterns>,
    /// User to which the key is bound; `None` if it may read everything.
    pub(crate) user: Option<UserBinding>,
    /// Login names whose certificates the key may sign, if it is that of a certificate authority; empty for all.
    pub(crate) authority: Option<Vec<String>>,
}

/// Options of a key without any: it has role `read`.
impl Default for Options {
    fn default() -> Self {
        Self {
            role: Some(Role::Read),
            expires: None,
            from: None,
            user: None,
            authority: None,
        }
    }
}

/// List of address patterns of option `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressPatterns {
    text: String,
    patterns: Vec<(bool, Pattern)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Network(IpAddr, u8),
    /// Pattern with `*` and `?`.
    Text(String),
}

/// sshd options about terminals and tunnels, which Esker does not have.
const OF_SHELLS: [&str; 14] = [
    "agent-forwarding",
    "no-agent-forwarding",
    "no-port-forwarding",
    "no-pty",
    "no-user-rc",
    "no-x11-forwarding",
    "permitlisten",
    "permitopen",
    "port-forwarding",
    "pty",
    "restrict",
    "tunnel",
    "user-rc",
    "x11-forwarding",
];

/// Splits a line into its options and the rest; `None` if a quote is not closed.
pub(crate) fn split_line(line: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => {
                let (options, rest) = line.split_at(at);
                return Some((options, rest.trim_start_matches([' ', '\t'])));
            }
            _ => {}
        }
    }
    None
}

/// Splits options at commas outside quotes.
fn split_options(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped, mut begin) = (false, false, 0);
    let mut all = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                all.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(text.get(begin..).unwrap_or_default());
    all
}

fn unquoted(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.replace("\\\"", "\""))
}

impl Options {
    /// Parses options; the error names an option that this server cannot enforce.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        let mut principals = None;
        for option in split_options(text) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let lower = name.to_ascii_lowercase();
            if OF_SHELLS.contains(&lower.as_str()) {
                continue;
            }
            let value = || {
                value.and_then(unquoted).ok_or_else(|| {
                    format!("option `{name}` needs a value in quotes, as in {name}=\"…\"")
                })
            };
            match lower.as_str() {
                "esker-role" => {
                    let value = value()?;
                    let role = match value.as_str() {
                        "none" => None,
                        text => Some(Role::parse(text).ok_or_else(|| {
                            format!("there is no role `{text}`: it is {}, or none", Role::NAMES)
                        })?),
                    };
                    options.role = role;
                }
                "expiry-time" => {
                    let time = value()?;
                    let seconds = time_of(&time).ok_or_else(|| {
                        format!("`{time}` is not a time: expected YYYYMMDD or YYYYMMDDHHMM, in UTC")
                    })?;
                    // The earliest of several expiry times applies, as in sshd.
                    options.expires = Some(options.expires.map_or(seconds, |e| e.min(seconds)));
                }
                "from" => options.from = Some(AddressPatterns::parse(&value()?)?),
                "esker-user" => {
                    options.user = Some(UserBinding::Numbers(numbers_of(&value()?)?));
                }
                "principal" => options.user = Some(UserBinding::Login(login_of(&value()?)?)),
                "cert-authority" => options.authority = Some(Vec::new()),
                "principals" => principals = Some(logins_of(&value()?)?),
                "" => return Err("an option is empty".into()),
                _ => {
                    return Err(format!(
                        "option `{name}` is unknown: a key with it gives no access"
                    ));
                }
            }
        }
        if options.user.is_some() && !matches!(options.role, Some(Role::Read) | None) {
            return Err("options `esker-user` and `principal` require esker-role=\"read\": what a user may change is not checked yet".into());
        }
        options.check_authority(principals)?;
        Ok(options)
    }

    /// Stores the login names of a certificate authority, which has no other user.
    fn check_authority(&mut self, principals: Option<Vec<String>>) -> Result<(), String> {
        match (&mut self.authority, principals) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err("option `principals` belongs to `cert-authority`: for one key, write principal=\"LOGIN\"".into());
            }
            (Some(_), _) if self.user.is_some() => {
                return Err("a certificate names its user: leave out `esker-user` and `principal` beside `cert-authority`".into());
            }
            (Some(_), _) if !matches!(self.role, Some(Role::Read) | None) => {
                return Err("option `cert-authority` requires esker-role=\"read\": what a user may change is not checked yet".into());
            }
            (Some(logins), principals) => *logins = principals.unwrap_or_default(),
        }
        Ok(())
    }
}

/// Parses login names that are separated by commas.
fn logins_of(text: &str) -> Result<Vec<String>, String> {
    text.split(',').map(|name| login_of(name.trim())).collect()
}

/// Parses `YYYYMMDD[HHMM[SS]][Z]` in UTC as seconds since 1970.
pub(crate) fn time_of(text: &str) -> Option<i64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    if !text.bytes().all(|b| b.is_ascii_digit()) || !matches!(text.len(), 8 | 12 | 14) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to).map_or(Some(0), |t| t.parse().ok());
    let part = |from, to| number(from, to).and_then(|n: i16| i8::try_from(n).ok());
    let at = DateTime::new(
        number(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?,
        0,
    )
    .ok()?;
    let at = TimeZone::UTC.to_timestamp(at).ok()?;
    Some(at.as_second())
}

/// Formats seconds since 1970 in the form of `expiry-time`.
pub fn time_text(seconds: i64) -> Option<String> {
    let at = jiff::Timestamp::from_second(seconds).ok()?;
    let at = at.to_zoned(TimeZone::UTC);
    Some(at.strftime("%Y%m%d%H%M%SZ").to_string())
}

/// Returns the address in canonical form: IPv4-mapped addresses as IPv4.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl AddressPatterns {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut patterns = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (not, item) = match item.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, item),
            };
            if item.is_empty() {
                return Err("option `from` has an empty pattern".into());
            }
            let pattern = match item.split_once('/') {
                None => Pattern::Text(item.to_ascii_lowercase()),
                Some((address, bits)) => {
                    let network = address.parse::<IpAddr>().ok().zip(bits.parse::<u8>().ok());
                    let fits =
                        network.filter(|(a, bits)| *bits <= if a.is_ipv4() { 32 } else { 128 });
                    let (address, bits) = fits
                        .ok_or_else(|| format!("`{item}` is not a network: expected 10.0.0.0/8"))?;
                    Pattern::Network(address, bits)
                }
            };
            patterns.push((not, pattern));
        }
        Ok(Self {
            text: text.to_owned(),
            patterns,
        })
    }

    /// Whether a client at `address` may use the key. A matching pattern with `!` denies it.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let address = plain(address);
        let fits = |pattern: &Pattern| match pattern {
            Pattern::Network(network, bits) => within(address, *network, *bits),
            Pattern::Text(text) => matches_pattern(text.as_bytes(), address.to_string().as_bytes()),
        };
        if self.patterns.iter().any(|(not, p)| *not && fits(p)) {
            return false;
        }
        self.patterns.iter().any(|(not, p)| !*not && fits(p))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let shifted = |a: u128, width: u32| a.checked_shr(width - u32::from(bits)).unwrap_or(0);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            shifted(a.to_bits().into(), 32) == shifted(n.to_bits().into(), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => shifted(a.to_bits(), 128) == shifted(n.to_bits(), 128),
        _ => false,
    }
}

/// Whether a text matches a pattern, in which `*` is any text and `?` any byte. Takes time proportional to the product of
/// their lengths at most.
pub(crate) fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b) if *b == b'?' || b == byte => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(
            "no-pty,esker-role=\"write\",EXPIRY-TIME=\"20270102\",from=\"10.0.0.0/8,!10.1.*\"",
        )
        .unwrap();
        assert_eq!(options.role, Some(Role::Write));
        assert_eq!(options.expires, Some(1_798_848_000));
        let from = options.from.unwrap();
        for (address, holds) in [
            ("10.2.3.4", true),
            ("10.1.3.4", false),
            ("11.2.3.4", false),
            ("::ffff:10.2.3.4", true),
            ("fe80::1", false),
        ] {
            assert_eq!(from.allows(address.parse().unwrap()), holds, "{address}");
        }
        assert_eq!(Options::parse("esker-role=\"none\"").unwrap().role, None);
        assert_eq!(Options::parse("no-pty").unwrap().role, Some(Role::Read));
        let bound = Options::parse("esker-user=\"1002:100,7\"").unwrap();
        assert_eq!(bound.role, Some(Role::Read));
        assert_eq!(bound.user.unwrap().to_string(), "1002:100,7");
        let named = Options::parse("principal=\"ada\"").unwrap();
        assert_eq!(named.user, Some(UserBinding::Login("ada".into())));
        let authority = Options::parse("cert-authority,principals=\"ada,bob\"").unwrap();
        assert_eq!(authority.authority.unwrap(), ["ada", "bob"]);
        let all = Options::parse("cert-authority,esker-role=\"read\"").unwrap();
        assert_eq!(all.authority, Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_held_to_opens_nothing() {
        for (text, why) in [
            ("command=\"date\"", "`command` is unknown"),
            ("principals=\"ada\"", "belongs to `cert-authority`"),
            ("cert-authority,principal=\"ada\"", "leave out"),
            (
                "cert-authority,esker-role=\"admin\"",
                "requires esker-role=\"read\"",
            ),
            ("cert-authority,principals=\"ada,\"", "is not a user"),
            ("principal=\"7\"", "expected a login name"),
            ("esker-role=\"root\"", "no role `root`"),
            ("esker-role=read", "in quotes"),
            ("expiry-time=\"20271341\"", "is not a time"),
            ("from=\"10.0.0.0/33\"", "is not a network"),
            ("from=\"\"", "empty pattern"),
            ("no-pty,,restrict", "is empty"),
            ("esker-user=\"ada\"", "`ada` is not a user"),
            ("esker-user=\"0\"", "user 0 sees everything"),
            ("esker-user=\"-5\"", "positive numbers"),
            (
                "esker-user=\"7\",esker-role=\"write\"",
                "require esker-role=\"read\"",
            ),
            (
                "esker-role=\"ingest\",esker-user=\"7\"",
                "require esker-role=\"read\"",
            ),
        ] {
            let refused = Options::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time_of("19700101"), Some(0));
        assert_eq!(time_of("197001010001"), Some(60));
        assert_eq!(time_of("19700101000001Z"), Some(1));
        assert_eq!(time_of("1970010100"), None);
        assert_eq!(time_text(61).as_deref(), Some("19700101000101Z"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = Options::parse(&text);
            let _ = split_line(&text);
            let _ = time_of(&text);
        }

        #[test]
        fn joined_options_split_at_the_same_positions(
            values in proptest::collection::vec("[a-z, #]{0,8}", 1..5),
        ) {
            let options: Vec<String> = values.iter().map(|v| format!("x=\"{v}\"")).collect();
            let text = options.join(",");
            prop_assert_eq!(split_options(&text), options.iter().map(String::as_str).collect::<Vec<_>>());
            let line = format!("{text} rest of it");
            prop_assert_eq!(split_line(&line), Some((text.as_str(), "rest of it")));
        }

        #[test]
        fn times_come_back(seconds in 0_i64..4_000_000_000) {
            prop_assert_eq!(time_of(&time_text(seconds).unwrap()), Some(seconds));
        }

        #[test]
        fn patterns_are_like_what_they_were_made_of(text in "[a-c]{0,12}", cuts in proptest::collection::vec(any::<bool>(), 12)) {
            let mut pattern = Vec::new();
            for (byte, star) in text.bytes().zip(&cuts) {
                if *star { pattern.extend(b"*?*"); } else { pattern.push(byte); }
            }
            prop_assert!(matches_pattern(&pattern, text.as_bytes()));
            let longer = [pattern.as_slice(), b"x"].concat();
            prop_assert!(!matches_pattern(&longer, text.as_bytes()));
        }

        #[test]
        fn networks_hold_what_begins_like_them(a: u32, b: u32, bits in 0_u8..=32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let (x, y) = (IpAddr::V4(a.into()), IpAddr::V4(b.into()));
            prop_assert_eq!(within(x, y, bits), a & mask == b & mask);
        }
    }
}
