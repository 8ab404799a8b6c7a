//! The rows that hold markers of repeated requests ([`esker_rpc::marker`]), for those who forget old ones.

use crate::clock::SystemClock;
use crate::engine::Clock;
use esker_model::Result;
use esker_rpc::marker::PREFIX;
use esker_store::KeyRange;

/// A marker that no other request has.
pub(crate) fn new() -> Result<Vec<u8>> {
    esker_rpc::marker::new(SystemClock.now_millis())
}

/// The rows of table `meta` that hold markers made before that time: `once/` and the marker, as the engine keeps them.
pub(crate) fn rows_before(millis: u64) -> KeyRange {
    let first = [b"once/", PREFIX].concat();
    KeyRange::between(&first, &[first.as_slice(), &millis.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::session::Session;
    use esker_model::{Batch, Flow, GraphWrite, Op, VertexId, VertexRef, VertexTypeId};
    use esker_store::Table;

    /// A write through another process leaves a marker; an owner forgets it once it is old, and not before.
    #[test]
    fn old_markers_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("lab.esker");
        let open = || {
            OpenOptions::new()
                .create(true)
                .open(target.to_str().unwrap())
                .unwrap()
        };
        let (owner, attached) = (open(), open());
        let mut batch = Batch::new();
        let vertex = VertexRef {
            id: VertexId::of("User", "1"),
            type_id: VertexTypeId(0),
        };
        batch.push(Op::EnsureVertex {
            vertex,
            key: "1".into(),
        });
        assert!(attached.apply(batch).unwrap().applied);
        let session = owner.session().unwrap();
        let Session::Owner(owner) = &*session else {
            panic!("it opened first")
        };
        let core = owner.operations().unwrap();
        let now = SystemClock.now_millis();
        let markers = || {
            let mut count = 0;
            let range = rows_before(now + 1_000);
            core.store
                .scan(Table::Meta, &range, &mut |_, _| {
                    count += 1;
                    Flow::Continue(())
                })
                .unwrap();
            count
        };
        assert_eq!(markers(), 1);
        core.forget_old_requests(now).unwrap();
        assert_eq!(markers(), 1);
        core.forget_old_requests(now + 2 * 3_600_000).unwrap();
        assert_eq!(markers(), 0);
    }
}
