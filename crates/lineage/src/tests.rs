//! Lineage and impact, tested against a list of events in memory.

mod cases;
mod oracle;
mod recorded;
#[expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes them so"
)]
mod rendering;
