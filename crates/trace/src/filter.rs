//! The filter: a BPF program that selects the system calls at which the kernel stops a process. The kind of call is passed with the stop,
//! so that no other code depends on the machine's system call numbers.

use seccompiler::sock_filter;

/// A call that names a file; the kind determines the position of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Call {
    /// `open(path, flags)`.
    Open = 1,
    /// `openat(folder, path, flags)`, `open_by_handle_at(folder, handle, flags)`.
    OpenAt = 2,
    /// `openat2(folder, path, how)`.
    OpenAt2 = 3,
    /// `creat(path)`.
    Creat = 4,
    /// `rename(old, new)`.
    Rename = 5,
    /// `renameat(folder, old, folder, new)`, and `renameat2` with flags.
    RenameAt = 6,
    /// `link(old, new)`.
    Link = 7,
    /// `linkat(folder, old, folder, new)`.
    LinkAt = 8,
    /// `truncate(path)`.
    Truncate = 9,
    /// `renameat2(folder, old, folder, new, flags)`.
    RenameAt2 = 10,
}

/// Flag beside the kind: a call of a 32-bit program.
pub(crate) const COMPAT: u16 = 0x100;

impl Call {
    pub(crate) fn of(data: u16) -> Option<Self> {
        [
            Self::Open,
            Self::OpenAt,
            Self::OpenAt2,
            Self::Creat,
            Self::Rename,
            Self::RenameAt,
            Self::Link,
            Self::LinkAt,
            Self::Truncate,
            Self::RenameAt2,
        ]
        .into_iter()
        .find(|call| *call as u16 == data & !COMPAT)
    }

    /// Returns the index of the argument whose flags may exclude the call: it opens a folder, or only a path.
    fn flags_at(self) -> Option<u32> {
        match self {
            Self::Open => Some(1),
            Self::OpenAt => Some(2),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xC000_00B7;

/// Returns the calls of this machine.
fn native() -> Vec<(i64, Call)> {
    let mut calls = vec![
        (libc::SYS_openat, Call::OpenAt),
        (libc::SYS_open_by_handle_at, Call::OpenAt),
        (libc::SYS_openat2, Call::OpenAt2),
        (libc::SYS_renameat, Call::RenameAt),
        (libc::SYS_renameat2, Call::RenameAt2),
        (libc::SYS_linkat, Call::LinkAt),
        (libc::SYS_truncate, Call::Truncate),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        (libc::SYS_open, Call::Open),
        (libc::SYS_creat, Call::Creat),
        (libc::SYS_rename, Call::Rename),
        (libc::SYS_link, Call::Link),
    ]);
    calls.retain(|(number, _)| *number >= 0);
    calls
}

/// Calls of 32-bit programs on x86-64: `arch/x86/entry/syscalls/syscall_32.tbl`.
#[cfg(target_arch = "x86_64")]
const I386: (u32, [(i64, Call); 12]) = (
    0x4000_0003,
    [
        (5, Call::Open),
        (8, Call::Creat),
        (9, Call::Link),
        (38, Call::Rename),
        (92, Call::Truncate),
        (193, Call::Truncate),
        (295, Call::OpenAt),
        (302, Call::RenameAt),
        (303, Call::LinkAt),
        (342, Call::OpenAt),
        (353, Call::RenameAt2),
        (437, Call::OpenAt2),
    ],
);

/// Offsets in `struct seccomp_data`: the number, the machine, then the arguments, 8 bytes each.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const ARGUMENTS: u32 = 16;

// BPF's codes: load a word, jump if equal, jump if any bit is set, return.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const TRACE: u32 = libc::SECCOMP_RET_TRACE;

fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Returns the filter for one machine's calls: stops at each of them and allows all others.
fn table(calls: &[(i64, Call)], more: u16) -> Vec<sock_filter> {
    let nothing = (libc::O_DIRECTORY | libc::O_PATH).cast_unsigned();
    let mut out = vec![step(LOAD, NUMBER, 0, 0)];
    for (number, call) in calls {
        let stop = step(RETURN, TRACE | u32::from(*call as u16 | more), 0, 0);
        let number = u32::try_from(*number).unwrap_or(u32::MAX);
        match call.flags_at() {
            Some(at) => out.extend([
                step(IF_EQUAL, number, 0, 4),
                step(LOAD, ARGUMENTS + 8 * at, 0, 0),
                step(IF_ANY, nothing, 0, 1),
                step(RETURN, ALLOW, 0, 0),
                stop,
            ]),
            None => out.extend([step(IF_EQUAL, number, 0, 1), stop]),
        }
    }
    out.push(step(RETURN, ALLOW, 0, 0));
    out
}

/// Returns the complete BPF program.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut out = vec![step(LOAD, MACHINE, 0, 0)];
    let native = table(&native(), 0);
    let length = u8::try_from(native.len()).unwrap_or(u8::MAX);
    out.push(step(IF_EQUAL, NATIVE, 0, length));
    out.extend(native);
    #[cfg(target_arch = "x86_64")]
    {
        let (machine, calls) = I386;
        out.push(step(IF_EQUAL, machine, 1, 0));
        out.push(step(RETURN, ALLOW, 0, 0));
        out.extend(table(&calls, COMPAT));
    }
    #[cfg(not(target_arch = "x86_64"))]
    out.push(step(RETURN, ALLOW, 0, 0));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the program like the kernel: only the codes that are used.
    fn answer(machine: u32, number: u32, arguments: [u32; 3]) -> u32 {
        let program = program();
        let (mut at, mut word) = (0, 0);
        loop {
            let s = &program[at];
            at += 1;
            match s.code {
                LOAD => {
                    word = match s.k {
                        NUMBER => number,
                        MACHINE => machine,
                        k => arguments[((k - ARGUMENTS) / 8) as usize],
                    }
                }
                IF_EQUAL => at += usize::from(if word == s.k { s.jt } else { s.jf }),
                IF_ANY => at += usize::from(if word & s.k != 0 { s.jt } else { s.jf }),
                _ => return s.k,
            }
        }
    }

    #[test]
    fn what_names_files_stops_and_nothing_else() {
        let openat = u32::try_from(libc::SYS_openat).unwrap();
        assert_eq!(answer(NATIVE, openat, [0; 3]), TRACE | 2);
        let folder = libc::O_DIRECTORY.cast_unsigned();
        assert_eq!(answer(NATIVE, openat, [0, 0, folder]), ALLOW);
        let read = u32::try_from(libc::SYS_read).unwrap();
        assert_eq!(answer(NATIVE, read, [0; 3]), ALLOW);
        assert_eq!(answer(77, openat, [0; 3]), ALLOW, "a machine nobody knows");
        for (number, call) in native() {
            let number = u32::try_from(number).unwrap();
            assert_eq!(
                answer(NATIVE, number, [0; 3]),
                TRACE | u32::from(call as u16)
            );
            assert_eq!(Call::of(call as u16 | COMPAT), Some(call));
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(answer(I386.0, 5, [0; 3]), TRACE | 0x101);
        assert!(program().len() < 200);
    }
}
