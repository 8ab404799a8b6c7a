//! The options before a key in `authorized_keys`: `esker-role="write",expiry-time="20270101",from="10.0.0.0/8"`,
//! `esker-user="1002:100,7"`.

use crate::role::Role;
use esker_model::object::Asker;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::net::IpAddr;

/// What a line says of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// The role; none if the key is revoked.
    pub(crate) role: Option<Role>,
    /// Seconds since 1970 from which it opens nothing.
    pub(crate) expires: Option<i64>,
    /// Where its owner must be.
    pub(crate) from: Option<From>,
    /// As whom it reads; none if nothing is hidden from it.
    pub(crate) user: Option<Asker>,
}

/// Of a key without options: it may read.
impl Default for Options {
    fn default() -> Self {
        Self {
            role: Some(Role::Read),
            expires: None,
            from: None,
            user: None,
        }
    }
}

/// A list of patterns of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct From {
    text: String,
    patterns: Vec<(bool, Pattern)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Network(IpAddr, u8),
    /// With `*` and `?`.
    Text(String),
}

/// Options of sshd that are about terminals and tunnels, which there are none of here.
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

/// Cuts a line into its options and the rest: `None` if a quote is not closed.
pub(crate) fn cut(line: &str) -> Option<(&str, &str)> {
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

/// The options of a text one by one; commas in quotes part nothing.
fn each(text: &str) -> Vec<&str> {
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
    /// Reads them; why not, if they say something that this server cannot hold a client to.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in each(text) {
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
                        format!("`{time}` is no time: expected YYYYMMDD or YYYYMMDDHHMM, in UTC")
                    })?;
                    // The earliest of several holds, as with sshd.
                    options.expires = Some(options.expires.map_or(seconds, |e| e.min(seconds)));
                }
                "from" => options.from = Some(From::parse(&value()?)?),
                "esker-user" => options.user = Some(user_of(&value()?)?),
                "" => return Err("an option is empty".into()),
                _ => {
                    return Err(format!(
                        "option `{name}` is not known here: the key opens nothing with it"
                    ));
                }
            }
        }
        if options.user.is_some() && !matches!(options.role, Some(Role::Read) | None) {
            return Err("option `esker-user` goes with esker-role=\"read\" only: what a user may change is not checked yet".into());
        }
        Ok(options)
    }
}

/// The user that a key or a token is bound to.
pub(crate) fn user_of(text: &str) -> Result<Asker, String> {
    let user: Asker = text.parse()?;
    if user.uid <= 0 {
        return Err(format!(
            "a key cannot be bound to user {}: nothing is hidden from user 0, and others are positive numbers",
            user.uid
        ));
    }
    Ok(user)
}

/// `YYYYMMDD[HHMM[SS]][Z]` as seconds since 1970, in UTC.
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

/// Seconds since 1970 as `expiry-time` has them.
pub fn time_text(seconds: i64) -> Option<String> {
    let at = jiff::Timestamp::from_second(seconds).ok()?;
    let at = at.to_zoned(TimeZone::UTC);
    Some(at.strftime("%Y%m%d%H%M%SZ").to_string())
}

/// An address as people write it: those of version 4 in their own form.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl From {
    fn parse(text: &str) -> Result<Self, String> {
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
                    let (address, bits) =
                        fits.ok_or_else(|| format!("`{item}` is no network: expected 10.0.0.0/8"))?;
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

    /// Whether somebody at that address may use the key. One pattern with `!` that fits says no.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let address = plain(address);
        let fits = |pattern: &Pattern| match pattern {
            Pattern::Network(network, bits) => within(address, *network, *bits),
            Pattern::Text(text) => like(text.as_bytes(), address.to_string().as_bytes()),
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

/// Whether a text is like a pattern, in which `*` is anything and `?` any byte. Takes time in proportion to the product of
/// their lengths at most.
pub(crate) fn like(pattern: &[u8], text: &[u8]) -> bool {
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
            assert_eq!(from.holds(address.parse().unwrap()), holds, "{address}");
        }
        assert_eq!(Options::parse("esker-role=\"none\"").unwrap().role, None);
        assert_eq!(Options::parse("no-pty").unwrap().role, Some(Role::Read));
        let bound = Options::parse("esker-user=\"1002:100,7\"").unwrap();
        assert_eq!(bound.role, Some(Role::Read));
        assert_eq!(bound.user.unwrap().to_string(), "1002:100,7");
    }

    #[test]
    fn what_cannot_be_held_to_opens_nothing() {
        for (text, why) in [
            ("command=\"date\"", "`command` is not known"),
            ("cert-authority", "`cert-authority` is not known"),
            ("esker-role=\"root\"", "no role `root`"),
            ("esker-role=read", "in quotes"),
            ("expiry-time=\"20271341\"", "is no time"),
            ("from=\"10.0.0.0/33\"", "is no network"),
            ("from=\"\"", "empty pattern"),
            ("no-pty,,restrict", "is empty"),
            ("esker-user=\"ada\"", "`ada` is no user"),
            ("esker-user=\"0\"", "nothing is hidden from user 0"),
            ("esker-user=\"-5\"", "positive numbers"),
            (
                "esker-user=\"7\",esker-role=\"write\"",
                "goes with esker-role=\"read\"",
            ),
            (
                "esker-role=\"ingest\",esker-user=\"7\"",
                "goes with esker-role=\"read\"",
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
            let _ = cut(&text);
            let _ = time_of(&text);
        }

        #[test]
        fn options_come_apart_where_they_were_put_together(
            values in proptest::collection::vec("[a-z, #]{0,8}", 1..5),
        ) {
            let options: Vec<String> = values.iter().map(|v| format!("x=\"{v}\"")).collect();
            let text = options.join(",");
            prop_assert_eq!(each(&text), options.iter().map(String::as_str).collect::<Vec<_>>());
            let line = format!("{text} rest of it");
            prop_assert_eq!(cut(&line), Some((text.as_str(), "rest of it")));
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
            prop_assert!(like(&pattern, text.as_bytes()));
            let longer = [pattern.as_slice(), b"x"].concat();
            prop_assert!(!like(&longer, text.as_bytes()));
        }

        #[test]
        fn networks_hold_what_begins_like_them(a: u32, b: u32, bits in 0_u8..=32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let (x, y) = (IpAddr::V4(a.into()), IpAddr::V4(b.into()));
            prop_assert_eq!(within(x, y, bits), a & mask == b & mask);
        }
    }
}
