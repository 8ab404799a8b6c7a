//! Damage to a log, and whether verification notices it.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use esker_audit::verify::verify;
use esker_audit::{Entry, Head, Log, Options, Outcome, Reader, Report, Subject};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY: i64 = 86_400_000_000;

fn entry(time: i64, text: &str) -> Entry {
    let subject = Subject {
        who: text.to_owned(),
        name: None,
        uid: Some(1),
        gids: vec![2],
        proof: "key",
        role: "read",
        peer: "192.0.2.1:7".into(),
    };
    let mut entry = Entry::new("call", "find", Arc::new(subject));
    entry.time = time;
    entry.target(text);
    entry.outcome = Outcome::Failed("NOT_FOUND".into());
    entry
}

fn options(folder: &Path) -> Options {
    Options {
        segment_bytes: 2_000,
        ..Options::new(folder.to_owned(), "test".into())
    }
}

/// Writes a log of `records` records with small segments, and closes it.
fn written(folder: &Path, records: usize) {
    let mut log = Log::open(options(folder), 0).unwrap();
    for n in 0..records {
        log.append(&entry(n as i64, &format!("record {n} \u{fc}\n")));
        log.flush(n as i64).unwrap();
    }
    log.close(records as i64).unwrap();
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    all.sort();
    all
}

fn checked(folder: &Path) -> Report {
    verify(folder, &[]).unwrap()
}

fn rewrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_log_is_intact_and_its_sealed_segments_are_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    written(&folder, 40);
    let report = checked(&folder);
    assert_eq!(report.problems, []);
    assert!(report.segments > 3, "{report:?}");
    // 40 records, the start and the stop, and two lines for each segment but one for the last.
    assert_eq!(report.records, 42 + 2 * report.segments - 1);
    assert_eq!(report.head.unwrap().seq, report.records);
    let all = segments(&folder);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (last, sealed) = all.split_last().unwrap();
    assert_eq!(mode(last), 0o600);
    assert!(sealed.iter().all(|path| mode(path) == 0o400));
    assert_eq!(mode(&folder), 0o700);
    let mut lines = 0;
    let mut reader = Reader::new(&folder);
    reader
        .lines(&mut |_| {
            lines += 1;
            true
        })
        .unwrap();
    assert_eq!(lines, report.records);
    reader
        .lines(&mut |_| {
            lines += 1;
            true
        })
        .unwrap();
    assert_eq!(lines, report.records, "nothing is read twice");
}

#[test]
fn each_changed_byte_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    written(&folder, 5);
    for path in segments(&folder)
        .into_iter()
        .chain([folder.join("head.json")])
    {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= if at % 2 == 0 { 1 } else { 0x20 };
            rewrite(&path, &bytes);
            let report = checked(&folder);
            assert!(!report.is_intact(), "{} byte {at}", path.display());
        }
        rewrite(&path, &whole);
    }
    assert!(checked(&folder).is_intact());
}

#[test]
fn removed_swapped_and_added_lines_are_noticed_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    written(&folder, 12);
    for path in segments(&folder) {
        let whole = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let name = path.file_name().unwrap().to_str().unwrap();
        for at in 0..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            rewrite(&path, format!("{}\n", fewer.join("\n")).as_bytes());
            let report = checked(&folder);
            assert!(!report.is_intact(), "without line {at} of {name}");
            if at > 0 && at + 1 < lines.len() {
                assert_eq!(
                    (&*report.problems[0].file, report.problems[0].line),
                    (name, at as u64 + 1)
                );
            }
            if at > 0 {
                let mut swapped = lines.clone();
                swapped.swap(at - 1, at);
                rewrite(&path, format!("{}\n", swapped.join("\n")).as_bytes());
                assert!(!checked(&folder).is_intact(), "swapped at {at} of {name}");
            }
            let mut twice = lines.clone();
            twice.insert(at, lines[at]);
            rewrite(&path, format!("{}\n", twice.join("\n")).as_bytes());
            assert!(!checked(&folder).is_intact(), "line {at} of {name} twice");
        }
        rewrite(&path, whole.as_bytes());
    }
    assert!(checked(&folder).is_intact());
}

#[test]
fn each_missing_segment_and_each_cut_end_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    written(&folder, 20);
    for path in segments(&folder) {
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!checked(&folder).is_intact(), "without {}", path.display());
        for keep in 0..whole.len() {
            let _ = fs::remove_file(&path);
            fs::write(&path, &whole[..keep]).unwrap();
            assert!(
                !checked(&folder).is_intact(),
                "{keep} bytes of {}",
                path.display()
            );
        }
        rewrite(&path, &whole);
    }
    assert!(checked(&folder).is_intact());
    fs::remove_file(folder.join("head.json")).unwrap();
    assert!(!checked(&folder).is_intact());
}

#[test]
fn a_line_that_a_crash_cut_short_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    let mut log = Log::open(options(&folder), 0).unwrap();
    log.append(&entry(1, "synced"));
    log.sync().unwrap();
    log.append(&entry(2, "written, and not synced"));
    log.flush(2).unwrap();
    // The process ends here.
    drop(log);
    let path = segments(&folder).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let synced = String::from_utf8_lossy(&whole).find("written").unwrap();
    for end in [whole.len() - 1, synced + 1] {
        let copy = dir.path().join(format!("copy{end}"));
        fs::create_dir(&copy).unwrap();
        fs::copy(folder.join("head.json"), copy.join("head.json")).unwrap();
        fs::write(copy.join(path.file_name().unwrap()), &whole[..end]).unwrap();
        let report = checked(&copy);
        assert!(report.is_intact(), "an unfinished line is none: {report:?}");
        assert_eq!(report.notes.len(), 1);
        Log::open(options(&copy), 3).unwrap().close(4).unwrap();
        let report = checked(&copy);
        assert!(report.is_intact(), "{report:?}");
        assert!(
            report.notes[0].contains("a crash had cut the last line"),
            "{report:?}"
        );
        assert!(!copy.join("00000001.torn").exists());
    }
}

#[test]
fn an_end_that_was_cut_before_a_start_stays_visible() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    let wide = || Options::new(folder.clone(), "test".into());
    let mut log = Log::open(wide(), 0).unwrap();
    for n in 0..5 {
        log.append(&entry(n, "x"));
    }
    log.close(6).unwrap();
    let kept = checked(&folder).head.unwrap();
    let path = segments(&folder).pop().unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    fs::write(&path, format!("{}\n", lines[..4].join("\n"))).unwrap();
    Log::open(wide(), 7).unwrap().close(8).unwrap();
    let report = checked(&folder);
    assert_eq!(
        report.problems[0].what,
        "records 5 to 8 are missing before this line"
    );
    assert!(
        report.notes[0].contains("records 5 to 8 were cut off"),
        "{report:?}"
    );
    // All is rewritten by somebody who can write the folder: only the head that was kept elsewhere shows it.
    fs::remove_dir_all(&folder).unwrap();
    let mut log = Log::open(wide(), 0).unwrap();
    for n in 0..20 {
        log.append(&entry(n, "forged"));
    }
    log.close(21).unwrap();
    assert!(checked(&folder).is_intact());
    let report = verify(&folder, &[kept]).unwrap();
    assert!(
        report.problems[0].what.contains("the head that was kept"),
        "{report:?}"
    );
}

#[test]
fn old_segments_are_removed_and_the_chain_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    let keeping = || Options {
        keep_micros: Some(10 * DAY),
        ..Options::new(folder.clone(), "test".into())
    };
    let mut log = Log::open(keeping(), 0).unwrap();
    for day in 0..40 {
        log.append(&entry(day * DAY, "x"));
        log.flush(day * DAY).unwrap();
    }
    log.close(40 * DAY).unwrap();
    let report = checked(&folder);
    assert!(report.is_intact(), "{report:?}");
    assert!(report.removed_to > 20, "{report:?}");
    assert!((9..15).contains(&report.segments), "{report:?}");
    let first = segments(&folder).remove(0);
    fs::remove_file(first).unwrap();
    let report = checked(&folder);
    assert!(
        report.problems[0].what.contains("no record says"),
        "{report:?}"
    );
}

#[test]
fn a_server_that_ends_while_it_seals_a_segment_continues_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    written(&folder, 10);
    // The next segment was not created, or is still empty.
    let last = segments(&folder).pop().unwrap();
    let sealed = checked(&folder).segments - 1;
    fs::remove_file(&last).unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(&last, "").unwrap();
        }
        let before = fs::read_to_string(segments(&folder).remove(sealed as usize - 1)).unwrap();
        let seal = before.lines().next_back().unwrap();
        let seq = serde_json::from_str::<serde_json::Value>(seal).unwrap()["seq"]
            .as_u64()
            .unwrap();
        let head = Head {
            seq,
            hash: esker_audit::chain::LineHash::of(seal.as_bytes()),
        };
        fs::write(folder.join("head.json"), head.to_json()).unwrap();
        Log::open(options(&folder), 50).unwrap().close(51).unwrap();
        let report = checked(&folder);
        assert!(report.is_intact(), "{report:?}");
        assert_eq!((report.segments, report.notes.len()), (sealed + 1, 0));
        fs::remove_file(&last).unwrap();
    }
}

#[test]
fn a_folder_has_one_server() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    let log = Log::open(options(&folder), 0).unwrap();
    let second = Log::open(options(&folder), 0).unwrap_err();
    assert!(
        second.to_string().contains("another server writes"),
        "{second}"
    );
    drop(log);
    Log::open(options(&folder), 0).unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Append(String),
    Flush,
    Sync,
    Lost(u64),
    /// The process ends, and the last bytes that were not synced are lost.
    Crash(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => "\\PC{0,80}".prop_map(Step::Append),
        4 => Just(Step::Flush),
        2 => Just(Step::Sync),
        1 => (1..9_u64).prop_map(Step::Lost),
        1 => (0..400_usize).prop_map(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After any calls and any end of a server, its log is intact, and no synced record is lost.
    #[test]
    fn any_history_leaves_an_intact_log(steps in proptest::collection::vec(step(), 0..60)) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("audit");
        let mut log = Log::open(options(&folder), 0).unwrap();
        let mut synced = log.head();
        for (n, step) in steps.into_iter().enumerate() {
            let now = n as i64;
            match step {
                Step::Append(text) => log.append(&entry(now, &text)),
                Step::Flush => log.flush(now).unwrap(),
                Step::Sync => {
                    log.sync().unwrap();
                    synced = log.head();
                }
                Step::Lost(count) => log.record_lost(count, now),
                Step::Crash(bytes) => {
                    drop(log);
                    let head = Head::from_json(&fs::read_to_string(folder.join("head.json")).unwrap()).unwrap();
                    let path = segments(&folder).pop().unwrap();
                    let text = fs::read(&path).unwrap();
                    // Only bytes behind the line that the head names can be lost.
                    let mut kept = 0;
                    for line in text.split_inclusive(|b| *b == b'\n') {
                        let json: serde_json::Value = serde_json::from_slice(line).unwrap();
                        if json["seq"].as_u64().unwrap() <= head.seq {
                            kept += line.len();
                        }
                    }
                    let left = text.len().saturating_sub(bytes).max(kept);
                    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left as u64).unwrap();
                    log = Log::open(options(&folder), now).unwrap();
                    synced = log.head();
                }
                Step::Restart => {
                    log.close(now).unwrap();
                    log = Log::open(options(&folder), now).unwrap();
                    synced = log.head();
                }
            }
            let report = verify(&folder, &[synced]).unwrap();
            prop_assert!(report.is_intact(), "{:?}", report);
        }
    }

    /// No bytes in place of a log make its readers panic, and none pass for the log.
    #[test]
    fn any_bytes_in_place_of_a_segment_are_noticed(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("audit");
        written(&folder, 8);
        let all = segments(&folder);
        let path = at.get(&all);
        let whole = fs::read(path).unwrap();
        rewrite(path, &bytes);
        prop_assert!(!checked(&folder).is_intact());
        // The beginning of the bytes replaced inside of the segment.
        let mut mixed = whole.clone();
        let start = at.index(mixed.len());
        let end = (start + bytes.len()).min(mixed.len());
        mixed[start..end].copy_from_slice(&bytes[..end - start]);
        rewrite(path, &mixed);
        prop_assert_eq!(checked(&folder).is_intact(), mixed == whole);
        Log::open(options(&folder), 9).unwrap().close(9).unwrap();
        let mut reader = Reader::new(&folder);
        reader.lines(&mut |_| true).unwrap();
    }
}
