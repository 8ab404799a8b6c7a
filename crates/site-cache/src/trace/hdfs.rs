//! Parser of HDFS audit logs, all versions: `… audit: … ugi=… ip=… cmd=listStatus src=/x dst=null perm=…`.

use super::{Line, Op};

pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let (cmd, src) = (field(text, "cmd"), field(text, "src"));
    let Some(cmd) = cmd else {
        return Err("expected an audit line with `cmd=`".into());
    };
    if field(text, "allowed") == Some("false") {
        return Ok(None);
    }
    let (op, directory) = match cmd.split([' ', '(']).next().unwrap_or_default() {
        "listStatus" | "listing" | "listSnapshottableDirectory" => (Op::List, true),
        "getfileinfo" | "contentSummary" | "getAclStatus" | "getXAttrs" | "listXAttrs"
        | "checkAccess" | "isFileClosed" | "getContentSummary" | "quotaUsage" => (Op::Stat, false),
        "open" => (Op::Open, false),
        "create" | "append" | "createSymlink" | "concat" => (Op::Create, false),
        "mkdirs" => (Op::Create, true),
        "delete" => (Op::Delete, false),
        "rename" => (Op::Rename, false),
        "setPermission" | "setOwner" | "setTimes" | "setReplication" | "setAcl" | "setXAttr"
        | "setStoragePolicy" | "truncate" => (Op::Set, false),
        // Commands without a path: safe mode, tokens, snapshots.
        _ => return Ok(None),
    };
    let t = time(text)?;
    let src = src.ok_or("expected `src=`")?;
    if !src.starts_with('/') {
        return if src == "null" {
            Ok(None)
        } else {
            Err(format!("the path `{src}` does not begin with /"))
        };
    }
    let to = match (op, field(text, "dst")) {
        (Op::Rename, Some(to)) if to.starts_with('/') => Some(to.as_bytes().to_vec()),
        (Op::Rename, _) => return Err("a rename says where to: expected `dst=/…`".into()),
        _ => None,
    };
    let user = field(text, "ugi").unwrap_or_default();
    let ip = field(text, "ip").unwrap_or_default();
    Ok(Some(Line {
        t,
        client: format!("{}@{}", user.split(' ').next().unwrap_or(user), ip),
        op,
        path: src.as_bytes().to_vec(),
        to,
        found: None,
        directory,
    }))
}

/// Keys of an audit line. A value ends at the next tab or, in lines without tabs, at the next of these keys.
const KEYS: [&str; 9] = [
    "allowed",
    "ugi",
    "ip",
    "cmd",
    "src",
    "dst",
    "perm",
    "proto",
    "callerContext",
];

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let begins =
        |at: usize| at == 0 || matches!(text.as_bytes()[at - 1], b' ' | b'\t' | b',' | b':');
    let (start, _) = text
        .match_indices(key)
        .find(|(at, _)| begins(*at) && text[at + key.len()..].starts_with('='))?;
    let rest = &text[start + key.len() + 1..];
    if let Some((value, _)) = rest.split_once('\t') {
        return Some(value.trim_end());
    }
    let mut end = rest.len();
    for (at, _) in rest.match_indices(' ') {
        let next = &rest[at + 1..];
        if KEYS
            .iter()
            .any(|k| next.starts_with(k) && next[k.len()..].starts_with('='))
        {
            end = at;
            break;
        }
    }
    Some(rest[..end].trim_end())
}

/// Parses a leading `2010-03-01 12:34:56,789` as microseconds since 1970.
fn time(text: &str) -> Result<u64, String> {
    let bad = || "expected a time first, as in 2010-03-01 12:34:56,789".to_owned();
    let head = text.trim_start().as_bytes();
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = head.get(from..to)?;
        let digits = std::str::from_utf8(digits).ok()?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let at = |place: usize| head.get(place).copied();
    if at(4) != Some(b'-') || at(7) != Some(b'-') || at(13) != Some(b':') || at(16) != Some(b':') {
        return Err(bad());
    }
    let parse = || {
        let date = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let millis = match at(19) {
            Some(b',' | b'.') => number(20, 23)?,
            _ => 0,
        };
        let seconds = date * 86_400 + hour * 3600 + minute * 60 + second;
        Some(seconds * 1_000_000 + millis * 1000)
    };
    parse().ok_or_else(bad)
}

/// Returns the days since 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // March is the first month here, so that the leap day comes last.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let whole = y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    Some(whole - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_are_read() {
        let old = b"2010-03-01 00:00:01,250 INFO org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit: \
            ugi=alice,users ip=/10.0.0.1 cmd=listStatus src=/user/a b dst=null perm=null";
        let line = parse(old).unwrap().unwrap();
        assert_eq!(line.t, 1_267_401_601_250_000);
        assert_eq!(
            (line.op, &*line.path, &*line.client),
            (Op::List, &b"/user/a b"[..], "alice,users@/10.0.0.1")
        );
        let new = b"2024-01-01 00:00:00,000 INFO FSNamesystem.audit: allowed=true\tugi=root (auth:SIMPLE)\tip=/127.0.0.1\t\
            cmd=rename (options=[TO_TRASH])\tsrc=/a\tdst=/b\tperm=root:x:rw-r--r--\tproto=rpc";
        let line = parse(new).unwrap().unwrap();
        assert_eq!(
            (line.op, line.to.as_deref()),
            (Op::Rename, Some(&b"/b"[..]))
        );
        assert_eq!(line.client, "root@/127.0.0.1");
        let denied = new.to_vec();
        let denied = String::from_utf8(denied)
            .unwrap()
            .replace("=true", "=false");
        assert_eq!(parse(denied.as_bytes()), Ok(None));
    }

    #[test]
    fn broken_lines_say_why() {
        assert!(parse(b"hello").unwrap_err().contains("cmd="));
        assert!(
            parse(b"yesterday cmd=open src=/x")
                .unwrap_err()
                .contains("time")
        );
        let no_source = b"2010-03-01 00:00:01,250 cmd=open";
        assert!(parse(no_source).unwrap_err().contains("src="));
        let nowhere = b"2010-03-01 00:00:01,250 cmd=rename src=/x dst=null";
        assert!(parse(nowhere).unwrap_err().contains("dst="));
        assert!(parse(b"2010-13-01 00:00:01,250 cmd=open src=/x").is_err());
    }
}
