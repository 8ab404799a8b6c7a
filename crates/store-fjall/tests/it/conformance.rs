//! fjall passes the conformance suite.

use esker_store::{StoreSettings, conformance};
use esker_store_fjall::FjallStore;

#[test]
fn conformance() {
    let root = tempfile::tempdir().unwrap();
    let settings = StoreSettings {
        memory_bytes: 64 << 20,
        threads: 2,
    };
    conformance::run(root.path(), &mut |path| {
        Ok(Box::new(FjallStore::open(path, &settings, true)?))
    })
    .unwrap();
}
