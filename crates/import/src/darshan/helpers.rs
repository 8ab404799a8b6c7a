//! Files that a job's libraries made for themselves, and streams that are not files: skipped unless requested.
//!
//! | kind | names | made by |
//! |---|---|---|
//! | standard stream | `<STDIN>`, `<STDOUT>`, `<STDERR>`, also under the ids of these names in anonymised logs | Darshan's names for the terminal's streams |
//! | lock test | `FILE.locktest.RANK` | Open MPI, to find out whether the file system has locks |
//! | shared file pointer | `.FILE.shfp.NUMBER`, `FILE.shfp.NUMBER` | ROMIO, for `MPI_File_write_shared` and similar calls |
//! | shared segment | `…_cid-NUMBER-PID.sm`, and any `*.sm` in an Open MPI session folder (`/ompi.`, `/openmpi-sessions-`) | Open MPI, for a shared file pointer in memory |
//! | device | under `/dev/` (so `/dev/shm/`), `/proc/`, `/sys/` | the kernel: nothing there outlives the job |

/// Record ids of `<STDIN>`, `<STDOUT>` and `<STDERR>`: the hashes of these names. Anonymised logs change only the names.
const STREAM_RECORDS: [u64; 3] = [
    14_734_109_647_742_566_553,
    15_920_181_672_442_173_319,
    7_238_257_241_479_193_519,
];

/// Kind of a helper file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// Standard input, output or error.
    Stream,
    /// Test of whether locks work.
    LockTest,
    /// Storage of MPI-IO's shared file pointer.
    SharedPointer,
    /// A memory segment shared by the processes of a node.
    SharedSegment,
    /// A path below `/dev`, `/proc` or `/sys`.
    Device,
}

/// Returns the kind of helper if a file is one.
pub fn helper(record: u64, path: &str) -> Option<Helper> {
    if STREAM_RECORDS.contains(&record) || matches!(path, "<STDIN>" | "<STDOUT>" | "<STDERR>") {
        return Some(Helper::Stream);
    }
    if ["/dev/", "/proc/", "/sys/"]
        .iter()
        .any(|folder| path.starts_with(folder))
    {
        return Some(Helper::Device);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if numbered(name, ".locktest.") {
        return Some(Helper::LockTest);
    }
    if numbered(name, ".shfp.") {
        return Some(Helper::SharedPointer);
    }
    if let Some(stem) = name.strip_suffix(".sm") {
        let session = path.contains("/ompi.") || path.contains("/openmpi-sessions-");
        let segment = stem.rsplit_once("_cid-").is_some_and(|(_, ids)| {
            !ids.is_empty() && ids.bytes().all(|b| b.is_ascii_digit() || b == b'-')
        });
        if session || segment {
            return Some(Helper::SharedSegment);
        }
    }
    None
}

/// Returns whether a name ends with `mark` and a number.
fn numbered(name: &str, mark: &str) -> bool {
    name.rsplit_once(mark)
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_told_from_files() {
        for (path, expected) in [
            ("<STDOUT>", Some(Helper::Stream)),
            ("/a/C.locktest.0", Some(Helper::LockTest)),
            ("/a/.C.shfp.1234", Some(Helper::SharedPointer)),
            (
                "/tmp/ompi.linux.1000/pid.71320/1/C_cid-0-71326.sm",
                Some(Helper::SharedSegment),
            ),
            ("/scratch/C_cid-0-71326.sm", Some(Helper::SharedSegment)),
            ("/tmp/ompi.n1/x.sm", Some(Helper::SharedSegment)),
            ("/dev/shm/x", Some(Helper::Device)),
            ("/a/C", None),
            ("/a/star.sm", None),
            ("/a/locktest", None),
            ("/a/my.locktest.dat", None),
            ("/a/x.shfp.", None),
            ("/devices/x", None),
        ] {
            assert_eq!(helper(1, path), expected, "{path}");
        }
        assert_eq!(
            helper(STREAM_RECORDS[1], "3710437467"),
            Some(Helper::Stream)
        );
    }
}
