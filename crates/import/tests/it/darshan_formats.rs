//! Formats that the current library refuses or that are not among the wheel's logs: 1.x and 2.x, big-endian, bzip2, plain, older record
//! versions.

use esker_import::darshan::{ByteOrder, Compression, Log, Module, ParseOptions, parse};

use crate::corpus;
use crate::old_log::{OldFile, OldLog, cp};
use crate::rewrite::{Coat, rewrite, widen};

pub(crate) fn sample(version: &'static str, big: bool) -> OldLog {
    OldLog {
        version,
        big,
        uid: 1001,
        start: 1_357_000_000,
        end: 1_357_000_600,
        processes: 4096,
        job: 178_062,
        metadata: "lib_ver=2.3.1\nh=a=b;c=d\n",
        tail: "/home/u/ior -a MPIIO -o /intrepid-fs0/u/out\n13\tgpfs\t/intrepid-fs0\n3\text3\t/\n",
        files: vec![
            OldFile {
                hash: 0xfedc_ba98_7654_3210,
                rank: -1,
                suffix: "/u/testfile",
                counters: vec![
                    (cp::INDEP_OPENS, 4096),
                    (cp::COLL_WRITES, 40),
                    (cp::POSIX_OPENS, 4096),
                    (cp::POSIX_WRITES, 80),
                    (cp::POSIX_STATS, 7),
                    (cp::BYTES_WRITTEN, 5_000_000_000),
                    (cp::MAX_BYTE_WRITTEN, 4_999_999_999),
                ],
                floats: vec![
                    (cp::F_WRITE_START, 1.5),
                    (cp::F_WRITE_END, 9.25),
                    (cp::F_CLOSE, 9.5),
                ],
            },
            OldFile {
                hash: 7,
                rank: 3,
                suffix: "in.dat",
                counters: vec![
                    (cp::POSIX_FOPENS, 1),
                    (cp::POSIX_FWRITES, 2),
                    (cp::POSIX_READS, 3),
                    (cp::BYTES_READ, 300),
                    (cp::BYTES_WRITTEN, 20),
                ],
                floats: vec![(cp::F_READ_START, 0.5), (cp::F_READ_END, 0.75)],
            },
        ],
    }
}

fn check(bytes: &[u8], written: &OldLog, compression: Compression) {
    let log = parse(bytes, &ParseOptions::default()).unwrap();
    let one = written.version.starts_with("1.");
    assert_eq!(log.version, written.version);
    assert_eq!(log.compression, compression);
    assert_eq!(
        log.order,
        if written.big {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        }
    );
    assert_eq!(log.damages, []);
    assert!(!log.has_whole_names());
    assert_eq!(log.times_are_relative, written.version >= "2.03");
    let job = &log.job;
    assert_eq!((job.uid, job.processes), (1001, 4096));
    assert_eq!(
        (job.start.seconds, job.end.seconds),
        (1_357_000_000, 1_357_000_600)
    );
    assert_eq!(job.job_id, if one { 0 } else { 178_062 });
    assert_eq!(job.executable(), Some("/home/u/ior"));
    assert_eq!(job.arguments(), "-a MPIIO -o /intrepid-fs0/u/out");
    assert_eq!(job.mounts[0].path, "/intrepid-fs0");
    assert_eq!(job.mounts[0].kind, "gpfs");
    if written.version >= "2.01" {
        assert_eq!(job.metadata[1], ("h".to_owned(), "a=b;c=d".to_owned()));
    }
    assert_eq!(log.names.get(0xfedc_ba98_7654_3210), Some("/u/testfile"));
    assert_eq!(log.names.get(7), Some("in.dat"));
    assert_eq!(log.modules[0].records, Some(2));
    let [shared, mpi, own] = log.records.as_slice() else {
        panic!("{:?}", log.records)
    };
    assert_eq!(
        (shared.module, shared.record, shared.rank),
        (Module::Posix, 0xfedc_ba98_7654_3210, -1)
    );
    assert_eq!(
        (shared.opens, shared.writes, shared.reads, shared.stats),
        (4096, 80, 0, 7)
    );
    assert_eq!(
        (shared.bytes_written, shared.max_byte_written),
        (5_000_000_000, 4_999_999_999)
    );
    assert_eq!(
        (shared.write.start, shared.write.end, shared.close.end),
        (1.5, 9.25, 9.5)
    );
    assert_eq!(
        (mpi.module, mpi.opens, mpi.writes, mpi.bytes_written),
        (Module::MpiIo, 4096, 40, -1)
    );
    assert_eq!((own.module, own.rank, own.opens), (Module::Posix, 3, 1));
    assert_eq!(
        (own.reads, own.writes, own.bytes_read, own.bytes_written),
        (3, 2, 300, 20)
    );
    assert_eq!((own.read.start, own.read.end), (0.5, 0.75));
}

#[test]
fn old_formats_in_either_byte_order() {
    for version in ["2.00", "2.01", "2.02", "2.03", "2.04", "2.05", "2.06"] {
        for big in [false, true] {
            let mut log = sample(version, big);
            if version < "2.01" {
                log.metadata = "";
            }
            check(&log.gzip(), &log, Compression::Gzip);
            check(&log.bzip2(), &log, Compression::Bzip2);
            check(&log.plain(), &log, Compression::Plain);
        }
    }
    for version in ["1.21", "1.22", "1.23", "1.24"] {
        let log = OldLog {
            metadata: "",
            ..sample(version, true)
        };
        check(&log.gzip(), &log, Compression::Gzip);
    }
}

#[test]
fn foreign_files_are_named_as_such() {
    let message = |bytes: &[u8]| {
        parse(bytes, &ParseOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert!(message(b"").contains("empty"));
    assert!(message(b"\x7fELF\x02\x01").contains("not a Darshan log"));
    assert!(message(b"\x7fELF\x02\x01").contains("\\x7fELF"));
    assert!(message(b"3.41").contains("byte 4, header: the file ends early: expected 1328 bytes"));
    assert!(message(&[b"3.10\0\0\0\0".as_slice(), &[9; 400]].concat()).contains("bad magic"));
    assert!(message(b"2.07\0\0\0\0........").contains("format 2.07 is not known"));
    assert!(message(b"1.4\0\0\0\0\0........").contains("format 1.4 is not known"));
    assert!(message(b"3.4x\0\0\0\0........").contains("format 3.4x is not known"));
    let other = OldLog {
        version: "tarball",
        ..sample("2.06", false)
    };
    let error = message(&other.gzip());
    assert!(
        error.contains("not a Darshan log") && error.contains("inside a compressed stream"),
        "{error}"
    );
    let whole = sample("2.06", true).gzip();
    let cut = message(&whole[..60]);
    assert!(cut.contains("job region") && cut.contains("byte "), "{cut}");
}

/// Real logs rewritten with another compression, byte order and number of streams have unchanged contents.
#[test]
fn a_log_in_another_coat_is_the_same_log() {
    for (path, bytes) in corpus::logs() {
        if bytes.len() > 400_000 {
            continue;
        }
        let original = parse(&bytes, &ParseOptions::default()).unwrap();
        let coats = [
            (0, Compression::Zlib, false, 3),
            (0, Compression::Zlib, true, 1),
            (1, Compression::Bzip2, false, 1),
            (1, Compression::Bzip2, true, 4),
            (2, Compression::Plain, false, 1),
            (2, Compression::Plain, true, 1),
        ];
        for (compression, expected, big, streams) in coats {
            let coat = Coat {
                compression,
                big,
                streams,
            };
            let mut log = parse(&rewrite(&bytes, coat), &ParseOptions::default()).unwrap();
            assert_eq!(log.compression, expected);
            assert_eq!(
                log.order,
                if big {
                    ByteOrder::Big
                } else {
                    ByteOrder::Little
                }
            );
            for (new, old) in log.modules.iter_mut().zip(&original.modules) {
                (new.offset, new.len) = (old.offset, old.len);
            }
            (log.compression, log.order) = (original.compression, original.order);
            assert!(log == original, "{} in {coat:?}", path.display());
        }
    }
}

/// Format 3.41 renumbers the modules, has 64 of them, and has the job's times in nanoseconds.
#[test]
fn the_wide_header_is_read() {
    for (path, bytes) in corpus::logs() {
        let original = parse(&bytes, &ParseOptions::default()).unwrap();
        let log = parse(&widen(&bytes), &ParseOptions::default()).unwrap();
        assert_eq!(log.version, "3.41");
        assert_eq!(log.damages, [], "{}", path.display());
        assert_eq!(
            (log.job.start.nanoseconds, log.job.end.nanoseconds),
            (123_456_789, 987_654_321)
        );
        assert_eq!(log.job.resolution_ms, 0);
        // The job record stays at 4,096 bytes, so the nanoseconds may truncate a long command line.
        assert!(original.job.command.starts_with(&log.job.command));
        assert!(log.job.command.len() + 16 >= original.job.command.len());
        assert_eq!(log.job.metadata, original.job.metadata);
        assert_eq!(
            (log.job.job_id, log.job.processes),
            (original.job.job_id, original.job.processes)
        );
        assert!(
            log.records == original.records && log.names == original.names,
            "{}",
            path.display()
        );
        let ids = |log: &Log| {
            log.modules
                .iter()
                .map(|m| (m.id, m.record_version, m.partial))
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&log), ids(&original));
    }
    // A newer format is read as the newest known one, with a damage entry.
    let (_, bytes) = corpus::logs().swap_remove(0);
    let mut newer = widen(&bytes);
    newer[..4].copy_from_slice(b"3.52");
    let log = parse(&newer, &ParseOptions::default()).unwrap();
    assert!(
        log.damages[0].to_string().contains("newer than 3.41"),
        "{:?}",
        log.damages
    );
    // A newer record version is skipped, with a damage entry.
    let mut newer = widen(&bytes);
    newer[1072 + 4] = 9;
    let log = parse(&newer, &ParseOptions::default()).unwrap();
    assert!(
        log.damages[0]
            .to_string()
            .contains("POSIX region: record version 9 is not known; expected 1 to 4")
    );
    assert!(
        log.records
            .iter()
            .all(|record| record.module != Module::Posix)
    );
}
