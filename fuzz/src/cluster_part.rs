//! A participant's part of a batch, as servers send it and as the coordinator stores it: it is decoded or refused; a decoded part is
//! encoded and decoded back.

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
