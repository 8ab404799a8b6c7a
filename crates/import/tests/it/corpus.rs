//! Locations of the Darshan logs that these tests read: see `tests/fetch-darshan.sh`.

use std::path::PathBuf;

/// Returns a part of the folder that `tests/fetch-darshan.sh` fills.
#[expect(
    clippy::disallowed_methods,
    reason = "a test may ask where its input lies; the crate does not"
)]
fn part(name: &str) -> PathBuf {
    let folder = std::env::var_os("ESKER_DARSHAN_DIR").map_or_else(
        || std::path::absolute("../../target/darshan").unwrap(),
        PathBuf::from,
    );
    let part = folder.join(name);
    assert!(
        part.join("complete").is_file(),
        "{} is not there: run crates/import/tests/fetch-darshan.sh (needs python3 and PyPI), or set \
         ESKER_DARSHAN_DIR to where it put its files",
        part.display()
    );
    part
}

/// Returns the Python interpreter that has `PyDarshan`.
pub(crate) fn oracle() -> PathBuf {
    part("venv").join("bin/python")
}

/// Returns all logs of the wheel, sorted by path.
pub(crate) fn logs() -> Vec<(PathBuf, Vec<u8>)> {
    let found = logs_in(part("logs"));
    assert_eq!(found.len(), 18, "darshan 3.5.0 ships 18 logs");
    found
}

/// Returns further logs in the folder `ESKER_DARSHAN_MORE`, to compare with the oracle as well.
#[expect(
    clippy::disallowed_methods,
    reason = "a test may ask where its input lies; the crate does not"
)]
pub(crate) fn more_logs() -> Vec<(PathBuf, Vec<u8>)> {
    std::env::var_os("ESKER_DARSHAN_MORE").map_or_else(Vec::new, |folder| logs_in(folder.into()))
}

fn logs_in(folder: PathBuf) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "darshan")
            {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}
