//! Checkpoint files: a file is read to its end or refused; its blocks are commits or refused.

use esker_model::codec::DecodeError;
use esker_store::segment::{SegmentError, SegmentReader, commits};

pub(crate) fn check(bytes: &[u8]) {
    let check_block = |block: &[u8]| {
        let read: Result<(), DecodeError> = commits(block, &mut |_| Ok(()));
        if let Err(error) = read {
            assert!(error.at <= block.len());
        }
    };
    // The input as one block, so that the check reaches the code behind the checksums.
    check_block(bytes);
    let read = || -> Result<(), SegmentError> {
        let mut reader = SegmentReader::begin(bytes)?;
        while let Some(block) = reader.block()? {
            check_block(&block);
        }
        Ok(())
    };
    if let Err(SegmentError::Damaged { at, .. }) = read() {
        assert!(at <= bytes.len() as u64);
    }
}
