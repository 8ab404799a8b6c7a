//! The catalog: what a database records about itself in its `meta` table.
//!
//! ```text
//!  format              u32, the number of the layout that model::key describes
//!  schema              model::Schema
//!  newest              u64, upper bound of all versions assigned (together with the `pending` rows)
//!  retained            u64, reads as of this version or later need only the live store: see compact
//!  bulk                present during a bulk load: counters must be recounted
//!  subtree             ids of directories whose rows are stored but not linked yet: they must be removed on recovery
//!  arriving            key ranges of `names` whose rows come from another engine and are not owned yet: they must be removed on recovery
//!  once/<key>          u64 version: idempotency keys of applied batches
//!  once/<producer>     numbers of a producer's applied batches: `txn::idempotency`
//!  pending/<slot 4>    counter changes of one commit, to be merged into `counts`, and its rows of `names`
//!  feed                present while the change feed is enabled: `feed::persist`
//!  feed/<place 8>      vertices and edges touched by one commit
//!  share/, shared/      shares of lineages: `shares`
//!  merged              u64, pending rows of this version or before are in `counts`
//! ```

use esker_model::codec::{Reader, put_u32, put_u64};
use esker_model::{Error, Flow, Result, Schema, Version};
use esker_store::{KeyRange, Store, Table, WriteBatch};

/// The layout that this build writes and reads. 2: there may be objects; 3: there may be named files; 4: a file's id determines
/// the location of its entries, and vnodes are numbered by the first bits of an id, the lowest first. Opening converts an
/// earlier database to this layout if it is empty.
pub const FORMAT: u32 = 4;

pub(crate) const FORMAT_KEY: &[u8] = b"format";
pub(crate) const SCHEMA_KEY: &[u8] = b"schema";
pub(crate) const NEWEST_KEY: &[u8] = b"newest";
pub(crate) const RETAINED_KEY: &[u8] = b"retained";
pub(crate) const BULK_KEY: &[u8] = b"bulk";
pub(crate) const SUBTREE_KEY: &[u8] = b"subtree";
pub(crate) const INGEST_KEY: &[u8] = b"arriving";
pub(crate) const MERGED_KEY: &[u8] = b"merged";
pub(crate) const PENDING_PREFIX: &[u8] = b"pending/";

/// Returns the key of a batch's idempotency key in `meta`.
pub fn idempotency_row_key(idempotency_key: &[u8]) -> Vec<u8> {
    [b"once/", idempotency_key].concat()
}

/// Returns the key of one commit's counter changes.
pub(crate) fn pending_key(slot: u32) -> Vec<u8> {
    [PENDING_PREFIX, &slot.to_be_bytes()].concat()
}

pub(crate) fn encode_schema(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    schema.encode(&mut out);
    out
}

/// Reads a version under a key of `meta`.
pub(crate) fn read_version(store: &dyn Store, key: &[u8]) -> Result<Option<Version>> {
    let Some(bytes) = store.get(Table::Meta, key)? else {
        return Ok(None);
    };
    let version = Reader::new(&bytes).u64("a version");
    version
        .map(|v| Some(Version(v)))
        .map_err(|e| Error::corrupt("a row of table `meta`", e))
}

/// Encodes a version as a value.
pub(crate) fn version_value(version: Version) -> Vec<u8> {
    let mut out = Vec::with_capacity(8);
    put_u64(&mut out, version.0);
    out
}

/// Reads the schema of a database and its layout number; `None` if the store is empty.
pub(crate) fn load(store: &dyn Store) -> Result<Option<(Schema, u32)>> {
    let Some(format) = store.get(Table::Meta, FORMAT_KEY)? else {
        return Ok(None);
    };
    let format = Reader::new(&format)
        .u32("a format number")
        .map_err(|e| Error::corrupt("row `format` of table `meta`", e))?;
    if format > FORMAT {
        return Err(Error::Target(format!(
            "the database was written by a newer Esker (format {format}; this build reads up to {FORMAT}): upgrade Esker"
        )));
    }
    if format < FORMAT && holds_data(store)? {
        return Err(Error::Target(format!(
            "the database was written by an earlier Esker (format {format}; this build reads \
             {FORMAT}), which gave files other ids: read it with that release, or make a new \
             database from the original data"
        )));
    }
    let schema = store.get(Table::Meta, SCHEMA_KEY)?.unwrap_or_default();
    let mut r = Reader::new(&schema);
    let schema = Schema::decode(&mut r).and_then(|s| r.finish().map(|()| s));
    schema
        .map(|schema| Some((schema, format)))
        .map_err(|e| Error::corrupt("row `schema` of table `meta`", e))
}

/// Whether the store has more than the rows of a new database.
fn holds_data(store: &dyn Store) -> Result<bool> {
    for table in Table::ALL {
        let range = match table {
            // Rows of `names` are first stored in pending rows.
            Table::Meta => KeyRange::prefix(PENDING_PREFIX),
            _ => KeyRange::ALL,
        };
        let mut found = false;
        store.scan(table, &range, &mut |_, _| {
            found = true;
            Flow::Break(())
        })?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the rows of a new database; an upgrade to this layout writes them, too.
pub(crate) fn create(schema: &Schema) -> WriteBatch {
    let mut batch = WriteBatch::default();
    let mut format = Vec::new();
    put_u32(&mut format, FORMAT);
    batch.put(Table::Meta, FORMAT_KEY, format);
    batch.put(Table::Meta, SCHEMA_KEY, encode_schema(schema));
    batch
}
