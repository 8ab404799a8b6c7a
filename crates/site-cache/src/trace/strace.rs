//! Parser of the output of `strace -f -ttt -y`. Calls in two parts (`<unfinished ...>`) are joined.

use super::{Line, Op};
use crate::path::lexical;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Maximum number of unfinished calls.
const UNFINISHED_MAX: usize = 1 << 16;

/// Parser state kept between lines.
#[derive(Debug)]
pub(super) struct Strace {
    unfinished: HashMap<u64, (u64, Vec<u8>), FixedState>,
    /// Working directories by process.
    directories: HashMap<u64, Vec<u8>, FixedState>,
    /// Working directory of the first process.
    directory: Option<Vec<u8>>,
}

/// An argument of a call.
#[derive(Debug, PartialEq, Eq)]
enum Argument {
    /// A quoted string.
    Text(Vec<u8>),
    /// A file descriptor or `AT_FDCWD`, with its path if strace prints it.
    Descriptor(bool, Option<Vec<u8>>),
    /// Any other argument, verbatim.
    Other(Vec<u8>),
}

impl Strace {
    pub(super) fn new(directory: Option<&[u8]>) -> Self {
        Self {
            unfinished: HashMap::with_hasher(FixedState::with_seed(5)),
            directories: HashMap::with_hasher(FixedState::with_seed(6)),
            directory: directory.map(<[u8]>::to_vec),
        }
    }

    /// Parses a line: returns a request, `None` for irrelevant lines, or an error.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, String> {
        let line = line.trim_ascii();
        if line.starts_with(b"strace: ") || line.starts_with(b"/usr/bin/strace: ") {
            return Ok(None);
        }
        let (process, rest) = process(line);
        let (t, rest) =
            time(rest).ok_or("expected a time before the call, as `strace -f -ttt` prints it")?;
        if rest.starts_with(b"+++") || rest.starts_with(b"---") {
            return Ok(None);
        }
        if let Some(resumed) = rest.strip_prefix(b"<... ") {
            let at = find(resumed, b" resumed>").ok_or("expected `resumed>`")?;
            let more = &resumed[at + b" resumed>".len()..];
            let Some((began, mut call)) = self.unfinished.remove(&process) else {
                // It began before the recording did.
                return Ok(None);
            };
            call.extend_from_slice(more);
            return self.call(process, began, &call);
        }
        let open = find(rest, b"(").ok_or("expected a call: `name(arguments) = result`")?;
        if !rest[..open]
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        {
            return Err("expected a call: `name(arguments) = result`".into());
        }
        if let Some(begun) = rest.strip_suffix(b"<unfinished ...>") {
            if self.unfinished.len() < UNFINISHED_MAX {
                self.unfinished
                    .insert(process, (t, begun.trim_ascii_end().to_vec()));
            }
            return Ok(None);
        }
        self.call(process, t, rest)
    }

    fn call(&mut self, process: u64, t: u64, call: &[u8]) -> Result<Option<Line>, String> {
        let open = find(call, b"(").ok_or("expected `(`")?;
        let name = std::str::from_utf8(&call[..open]).map_err(|_| "expected the name of a call")?;
        if !TRACED_CALLS.contains(&name) {
            return Ok(None);
        }
        let (arguments, rest) = arguments(&call[open + 1..])?;
        let result = rest
            .trim_ascii_start()
            .strip_prefix(b"=")
            .ok_or("expected ` = ` and the result of the call")?
            .trim_ascii();
        if result.starts_with(b"?") {
            return Ok(None);
        }
        let failed = result.starts_with(b"-1");
        let missing =
            failed && (find(result, b"ENOENT").is_some() || find(result, b"ENOTDIR").is_some());
        if matches!(name, "clone" | "clone3" | "fork" | "vfork") {
            if let Some(child) = leading_number(result)
                && let Some(directory) = self.directories.get(&process).cloned()
            {
                self.directories.insert(child, directory);
            }
            return Ok(None);
        }
        let Some(call_on_path) = self.path_call(process, name, &arguments, failed)? else {
            return Ok(None);
        };
        if name == "chdir" && !failed {
            self.directories.insert(process, call_on_path.path.clone());
        }
        // A failed change changes nothing, but it read attributes.
        let op = if failed && !call_on_path.op.reads() {
            Op::Stat
        } else {
            call_on_path.op
        };
        let exists = find(result, b"EEXIST").is_some();
        if failed && !missing && !exists && !call_on_path.op.reads() {
            return Ok(None);
        }
        if op == Op::List && !result.starts_with(b"0") {
            // The last part of a directory: returns no more entries.
            return Ok(None);
        }
        Ok(Some(Line {
            t,
            client: process.to_string(),
            op,
            path: call_on_path.path,
            to: call_on_path.to.filter(|_| op == Op::Rename),
            found: op.reads().then_some(!missing),
            directory: call_on_path.directory && !missing,
        }))
    }

    fn path_call(
        &mut self,
        process: u64,
        name: &str,
        arguments: &[Argument],
        failed: bool,
    ) -> Result<Option<PathCall>, String> {
        let plain = |op, directory| Some((op, directory, 0, false));
        let at = |op, directory| Some((op, directory, 0, true));
        let has = |place: usize, flag: &[u8]| match arguments.get(place) {
            Some(Argument::Other(text)) => find(text, flag).is_some(),
            _ => false,
        };
        let opens = |flags: usize| {
            let makes = has(flags, b"O_CREAT") && !has(flags, b"O_DIRECTORY");
            if makes && !failed {
                Op::Create
            } else {
                Op::Open
            }
        };
        // Operation, whether on a directory, index of the path argument, whether a descriptor precedes it.
        let how = match name {
            "open" => plain(opens(1), has(1, b"O_DIRECTORY")),
            "openat" => at(opens(2), has(2, b"O_DIRECTORY")),
            "creat" | "mknod" => plain(Op::Create, false),
            "mknodat" => at(Op::Create, false),
            "stat" | "lstat" | "access" | "readlink" | "execve" | "getxattr" | "lgetxattr"
            | "statfs" => plain(Op::Stat, false),
            "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" | "readlinkat"
            | "execveat" => at(Op::Stat, false),
            "chdir" => plain(Op::Stat, true),
            "mkdir" => plain(Op::Create, true),
            "mkdirat" => at(Op::Create, true),
            "unlink" | "rmdir" => plain(Op::Delete, false),
            "unlinkat" => at(Op::Delete, false),
            "rename" => plain(Op::Rename, false),
            "renameat" | "renameat2" => at(Op::Rename, false),
            "symlink" | "link" => Some((Op::Create, false, 1, false)),
            "symlinkat" => Some((Op::Create, false, 1, true)),
            "linkat" => Some((Op::Create, false, 2, true)),
            "chmod" | "chown" | "lchown" | "truncate" | "utime" | "utimes" => plain(Op::Set, false),
            "fchmodat" | "fchownat" | "utimensat" => at(Op::Set, false),
            "getdents64" | "getdents" => {
                let Some(Argument::Descriptor(_, Some(path))) = arguments.first() else {
                    return Ok(None);
                };
                let path = path.clone();
                return Ok(Some(PathCall {
                    op: Op::List,
                    path,
                    to: None,
                    directory: true,
                }));
            }
            _ => None,
        };
        let Some((op, directory, place, after)) = how else {
            return Ok(None);
        };
        let Some(path) = self.path(process, arguments, place, after)? else {
            return Ok(None);
        };
        let to = if op == Op::Rename {
            let place = if after { 2 } else { 1 };
            match self.path(process, arguments, place, after)? {
                Some(to) => Some(to),
                None => return Ok(None),
            }
        } else {
            None
        };
        Ok(Some(PathCall {
            op,
            path,
            to,
            directory,
        }))
    }

    /// Returns the path at an argument, or of the descriptor and the text after it; `None` if the call is about an open file.
    fn path(
        &mut self,
        process: u64,
        arguments: &[Argument],
        place: usize,
        after: bool,
    ) -> Result<Option<Vec<u8>>, String> {
        let mut directory = None;
        let mut place = place;
        if after {
            match arguments.get(place) {
                Some(Argument::Descriptor(current, path)) => {
                    if *current && let Some(path) = path {
                        self.directories.insert(process, path.clone());
                        self.directory.get_or_insert_with(|| path.clone());
                    }
                    directory.clone_from(path);
                }
                Some(_) => {}
                None => return Err("the call has too few arguments".into()),
            }
            place += 1;
        }
        let text = match arguments.get(place) {
            Some(Argument::Text(text)) => text,
            // A null pointer, or a string that strace could not read.
            Some(_) => return Ok(None),
            None => return Err("the call has too few arguments".into()),
        };
        if text.is_empty() {
            return Ok(None);
        }
        if text.first() == Some(&b'/') {
            return Ok(Some(lexical(b"/", text)));
        }
        let known = directory
            .or_else(|| self.directories.get(&process).cloned())
            .or_else(|| self.directory.clone());
        Ok(known
            .filter(|d| d.first() == Some(&b'/'))
            .map(|d| lexical(&d, text)))
    }
}

struct PathCall {
    op: Op,
    path: Vec<u8>,
    to: Option<Vec<u8>>,
    directory: bool,
}

/// Calls that are evaluated.
const TRACED_CALLS: [&str; 48] = [
    "open",
    "openat",
    "creat",
    "mknod",
    "mknodat",
    "stat",
    "lstat",
    "access",
    "readlink",
    "execve",
    "getxattr",
    "lgetxattr",
    "statfs",
    "newfstatat",
    "fstatat64",
    "statx",
    "faccessat",
    "faccessat2",
    "readlinkat",
    "execveat",
    "chdir",
    "mkdir",
    "mkdirat",
    "unlink",
    "rmdir",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "symlink",
    "link",
    "symlinkat",
    "linkat",
    "chmod",
    "chown",
    "lchown",
    "truncate",
    "utime",
    "utimes",
    "fchmodat",
    "fchownat",
    "utimensat",
    "getdents64",
    "getdents",
    "clone",
    "clone3",
    "fork",
    "vfork",
];

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Splits off a leading `123 ` or `[pid  123] `; zero without either.
fn process(line: &[u8]) -> (u64, &[u8]) {
    if let Some(rest) = line.strip_prefix(b"[pid") {
        let rest = rest.trim_ascii_start();
        if let (Some(number), Some(end)) = (leading_number(rest), find(rest, b"]")) {
            return (number, rest[end + 1..].trim_ascii_start());
        }
        return (0, line);
    }
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    match (leading_number(line), line.get(digits)) {
        (Some(number), Some(b' ' | b'\t')) => (number, line[digits..].trim_ascii_start()),
        _ => (0, line),
    }
}

/// Splits off a leading `1700000000.123456 `, in microseconds.
fn time(line: &[u8]) -> Option<(u64, &[u8])> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    let text = std::str::from_utf8(&line[..end]).ok()?;
    let (seconds, fraction) = text.split_once('.')?;
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') || fraction.len() > 9 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok().filter(|s| *s <= 9_000_000_000_000)?;
    let micros: u64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let t = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some((t, line[end..].trim_ascii_start()))
}

/// Parses arguments up to the closing bracket of the call, and returns the rest of the line.
fn arguments(text: &[u8]) -> Result<(Vec<Argument>, &[u8]), String> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        while matches!(text.get(at), Some(b' ' | b',')) {
            at += 1;
        }
        match text.get(at) {
            None => return Err("the call does not end: expected `)`".into()),
            Some(b')') => return Ok((found, &text[at + 1..])),
            Some(b'"') => {
                let (string, end) = quoted(text, at + 1)?;
                at = end;
                found.push(Argument::Text(string));
                // Skips the marks after a truncated string.
                while text.get(at).is_some_and(|b| !matches!(b, b',' | b')')) {
                    at += 1;
                }
            }
            Some(_) => {
                let (argument, end) = other_argument(text, at)?;
                at = end;
                found.push(argument);
            }
        }
    }
}

/// Parses a quoted string with escapes, starting after its first quote.
fn quoted(text: &[u8], mut at: usize) -> Result<(Vec<u8>, usize), String> {
    let mut string = Vec::new();
    loop {
        match text.get(at) {
            None => return Err("a text does not end: expected `\"`".into()),
            Some(b'"') => return Ok((string, at + 1)),
            Some(b'\\') => at = escape(text, at, &mut string)?,
            Some(byte) => {
                string.push(*byte);
                at += 1;
            }
        }
    }
}

/// Decodes a backslash escape; returns the offset after it.
fn escape(text: &[u8], at: usize, string: &mut Vec<u8>) -> Result<usize, String> {
    let byte = *text.get(at + 1).ok_or("a text ends with a backslash")?;
    let plain = match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 11,
        b'f' => 12,
        b'0'..=b'7' => {
            let digits = text[at + 1..].iter().take(3);
            let digits: Vec<u32> = digits
                .take_while(|b| (b'0'..=b'7').contains(*b))
                .map(|b| u32::from(b - b'0'))
                .collect();
            let value = digits.iter().fold(0, |sum, d| sum * 8 + d);
            string.push(value as u8);
            return Ok(at + 1 + digits.len());
        }
        b'x' => {
            let hex = text
                .get(at + 2..at + 4)
                .and_then(|h| std::str::from_utf8(h).ok());
            let value = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
            string.push(value.ok_or("`\\x` without two digits")?);
            return Ok(at + 4);
        }
        other => other,
    };
    string.push(plain);
    Ok(at + 2)
}

/// Parses any argument that is not a string: up to a comma or bracket on the same level.
fn other_argument(text: &[u8], start: usize) -> Result<(Argument, usize), String> {
    let rest = &text[start..];
    let word = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .count();
    let current = &rest[..word] == b"AT_FDCWD";
    let number = word > 0 && rest[..word].iter().all(u8::is_ascii_digit);
    if current || number {
        if rest.get(word) != Some(&b'<') {
            return Ok((Argument::Descriptor(current, None), start + word));
        }
        let mut path = Vec::new();
        let mut at = start + word + 1;
        loop {
            match text.get(at) {
                None => return Err("a descriptor's path does not end: expected `>`".into()),
                Some(b'>') => break,
                Some(b'\\') => at = escape(text, at, &mut path)?,
                Some(byte) => {
                    path.push(*byte);
                    at += 1;
                }
            }
        }
        // The open file may have been deleted.
        let path = path
            .strip_suffix(b" (deleted)")
            .map_or_else(|| path.clone(), <[u8]>::to_vec);
        let path = (path.first() == Some(&b'/')).then_some(path);
        return Ok((Argument::Descriptor(current, path), at + 1));
    }
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        match text.get(at) {
            None => return Err("the call does not end: expected `)`".into()),
            Some(b'"') => {
                at = quoted(text, at + 1)?.1;
                continue;
            }
            Some(b'{' | b'[' | b'(') => depth += 1,
            Some(b',' | b')') if depth == 0 => break,
            Some(b'}' | b']' | b')') => depth = depth.saturating_sub(1),
            Some(_) => {}
        }
        at += 1;
    }
    Ok((Argument::Other(text[start..at].to_vec()), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<Line> {
        Strace::new(Some(b"/work")).parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn calls_about_paths() {
        let line = one(r#"17 1700000000.250000 openat(AT_FDCWD</home/a>, "lib/../x.h", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)"#)
            .unwrap();
        assert_eq!((line.op, &*line.path), (Op::Open, &b"/home/a/x.h"[..]));
        assert_eq!(
            (line.t, line.found, &*line.client),
            (1_700_000_000_250_000, Some(false), "17")
        );
        let line =
            one(r#"1700000000.25 stat("a\"\303\244", {st_mode=S_IFREG|0644, st_size=1, ...}) = 0"#)
                .unwrap();
        assert_eq!((line.op, &*line.path), (Op::Stat, "/work/a\"ä".as_bytes()));
        let line =
            one(r#"[pid   9] 1.5 renameat2(AT_FDCWD</w>, "a", 5</d>, "b", RENAME_NOREPLACE) = 0"#)
                .unwrap();
        assert_eq!(
            (line.op, &*line.path, line.to.as_deref()),
            (Op::Rename, &b"/w/a"[..], Some(&b"/d/b"[..]))
        );
        let line =
            one("3 1.5 getdents64(3</usr/include>, 0x55 /* 0 entries */, 32768) = 0").unwrap();
        assert_eq!((line.op, &*line.path), (Op::List, &b"/usr/include"[..]));
        assert_eq!(
            one("3 1.5 getdents64(3</usr/include>, 0x55 /* 9 entries */, 32768) = 280"),
            None
        );
        let line =
            one(r#"3 1.5 openat(AT_FDCWD, "/t/o", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4</t/o>"#)
                .unwrap();
        assert_eq!((line.op, line.found), (Op::Create, None));
        let line = one(r#"3 1.5 mkdir("/t", 0777) = -1 EEXIST (File exists)"#).unwrap();
        assert_eq!((line.op, line.found), (Op::Stat, Some(true)));
        assert_eq!(
            one(r#"3 1.5 newfstatat(3</t/o>, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0"#),
            None
        );
        assert_eq!(one("3 1.5 +++ exited with 0 +++"), None);
        assert_eq!(one("3 1.5 brk(NULL) = 0x5"), None);
    }

    #[test]
    fn calls_in_two_parts_and_directories() {
        let mut strace = Strace::new(None);
        let mut parse = |line: &str| strace.parse(line.as_bytes()).unwrap();
        assert_eq!(parse(r#"5 1.0 chdir("/a") = 0"#).unwrap().op, Op::Stat);
        assert_eq!(parse(r#"5 2.0 access("b", F_OK <unfinished ...>"#), None);
        assert_eq!(parse(r#"6 2.1 access("c", F_OK) = 0"#), None);
        let line = parse("5 3.0 <... access resumed>) = 0").unwrap();
        assert_eq!((&*line.path, line.t), (&b"/a/b"[..], 2_000_000));
        assert_eq!(
            parse("5 4.0 clone(child_stack=NULL, flags=SIGCHLD) = 6"),
            None
        );
        assert_eq!(
            &*parse(r#"6 5.0 access("c", F_OK) = 0"#).unwrap().path,
            b"/a/c"
        );
    }

    #[test]
    fn broken_lines_say_why() {
        for (line, expected) in [
            ("hello", "time"),
            ("1 1.5 what is this", "call"),
            (r#"1 1.5 stat("/x"#, "end"),
            (r#"1 1.5 stat("/x", 0x1)"#, "result"),
            (r#"1 1.5 openat(3</x, "/y") = 0"#, "end"),
            (r#"1 1.5 stat("/x\xg", 0x1) = 0"#, "digits"),
            (r#"1 1.5 rename("/x") = 0"#, "few"),
        ] {
            let error = Strace::new(None).parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
