//! What one server is to do of a batch, as another sends it and as its coordinator keeps it: read or refused; what is read
//! comes back.

#![no_main]

use esker_cluster::peer::Part;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Part::decode(bytes) {
        Ok(part) => {
            let again = part.encode();
            assert_eq!(Part::decode(&again).as_ref(), Ok(&part));
        }
        Err(error) => assert!(error.at <= bytes.len()),
    }
});
