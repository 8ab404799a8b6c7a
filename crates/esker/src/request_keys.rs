//! Rows with idempotency keys of single requests, which earlier builds wrote and this build only deletes. Requests are now
//! numbered per producer ([`esker_model::idempotency`]), and the engine forgets the producers.
//!
//! ```text
//!  [00]esker-request/[milliseconds since 1970, 8][random 16]
//! ```

use esker_model::idempotency::REQUEST_PREFIX as PREFIX;
use esker_store::KeyRange;

/// Rows of table `meta` whose idempotency keys were made before `millis`: `once/` and the key, as the engine stores them.
pub(crate) fn rows_before(millis: u64) -> KeyRange {
    let first = [b"once/", PREFIX].concat();
    KeyRange::between(&first, &[first.as_slice(), &millis.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::Clock;
    use crate::owner::core::Core;
    use crate::session::Session;
    use crate::{Database, OpenOptions};
    use esker_model::idempotency::{PRODUCER_PREFIX, PRODUCER_RETENTION_MILLIS};
    use esker_model::{Batch, Flow, GraphWrite, Op, VertexId, VertexRef, VertexTypeId};
    use esker_store::{Durability, Table, WriteBatch};

    fn write(database: &Database, key: &str) {
        let mut batch = Batch::new();
        let vertex = VertexRef {
            id: VertexId::of("User", key),
            type_id: VertexTypeId(0),
        };
        batch.push(Op::EnsureVertex {
            vertex,
            key: key.into(),
        });
        assert!(database.apply(batch).unwrap().applied);
    }

    fn rows(core: &Core, prefix: &[u8]) -> usize {
        let mut count = 0;
        let range = KeyRange::prefix(&[b"once/", prefix].concat());
        core.store
            .scan(Table::Meta, &range, &mut |_, _| {
                count += 1;
                Flow::Continue(())
            })
            .unwrap();
        count
    }

    /// A process that writes through another one leaves one row, however many batches it sends. An owner deletes the
    /// row once it
    /// is old, and not before; the same applies to rows that earlier builds left.
    #[test]
    fn what_is_kept_of_requests_is_little_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("lab.esker");
        let open = || {
            OpenOptions::new()
                .create(true)
                .open(target.to_str().unwrap())
                .unwrap()
        };
        let (owner, attached) = (open(), open());
        for n in 0..50 {
            write(&attached, &n.to_string());
        }
        let session = owner.session().unwrap();
        let Session::Owner(owner) = &*session else {
            panic!("it opened first")
        };
        let core = owner.operations().unwrap();
        let now = SystemClock.now_millis();
        let old = [b"once/", PREFIX, &now.to_be_bytes(), &[7; 16]].concat();
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, old, [0; 8]);
        core.store.commit(batch, Durability::Relaxed).unwrap();
        for (hours, left) in [(0, (1, 1)), (2, (1, 0)), (23, (1, 0))] {
            core.forget_old_requests(now + hours * 3_600_000).unwrap();
            assert_eq!((rows(core, PRODUCER_PREFIX), rows(core, PREFIX)), left);
        }
        core.forget_old_requests(now + PRODUCER_RETENTION_MILLIS + 60_000)
            .unwrap();
        assert_eq!(rows(core, PRODUCER_PREFIX), 0);
        // A producer that writes again gets a row again.
        write(&attached, "again");
        assert_eq!(rows(core, PRODUCER_PREFIX), 1);
    }
}
