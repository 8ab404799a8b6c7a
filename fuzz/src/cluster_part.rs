//! What one server is to do of a batch, as another sends it and as its coordinator keeps it: read or refused; what is read
//! comes back.

use esker_cluster::peer::Part;

pub(crate) fn check(bytes: &[u8]) {
    match Part::decode(bytes) {
        Ok(part) => {
            let again = part.encode();
            assert_eq!(Part::decode(&again).as_ref(), Ok(&part));
        }
        Err(error) => assert!(error.at <= bytes.len()),
    }
}
