//! Darshan logs of any format: a log is parsed or refused; parsed records are summed per file. Limits on region size and records keep a
//! compression bomb from taking all the time.

use esker_import::darshan::{ParseOptions, file_accesses, parse};

pub(crate) fn check(bytes: &[u8]) {
    let options = ParseOptions {
        region_bytes_max: 4 << 20,
        records_max: 10_000,
    };
    match parse(bytes, &options) {
        Ok(log) => {
            assert!(log.records.len() <= options.records_max);
            for damage in &log.damages {
                let _ = damage.to_string();
            }
            let _ = file_accesses(&log.records);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
