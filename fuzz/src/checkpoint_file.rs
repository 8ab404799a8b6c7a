//! A file of a checkpoint: read to its end or refused; what its blocks hold is commits or refused.

use esker_model::codec::DecodeError;
use esker_store::segment::{SegmentError, SegmentReader, commits};

pub(crate) fn check(bytes: &[u8]) {
    let each = |block: &[u8]| {
        let read: Result<(), DecodeError> = commits(block, &mut |_| Ok(()));
        if let Err(error) = read {
            assert!(error.at <= block.len());
        }
    };
    // Past the checksums, too.
    each(bytes);
    let read = || -> Result<(), SegmentError> {
        let mut reader = SegmentReader::begin(bytes)?;
        while let Some(block) = reader.block()? {
            each(&block);
        }
        Ok(())
    };
    if let Err(SegmentError::Damaged { at, .. }) = read() {
        assert!(at <= bytes.len() as u64);
    }
}
