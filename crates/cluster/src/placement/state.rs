//! The row `cluster/split/<vertex id>`: how a vertex has split, with what the bitmap means.
//!
//! A vertex that never split has no such row.
//!
//! ```text
//!  0      1        2            4
//!  +------+--------+------------+--------------- - -
//!  | 01   | scheme | places - 1 | bitmap
//!  | u8   | u8     | u16 BE     | 1 to 8,192 bytes
//!  +------+--------+------------+--------------- - -
//!
//!  01       the format
//!  scheme   1 GIGA+   2 DIDO, the paper's tree   3 DIDO, the tree in the order of numbers
//!  bitmap   partition 8 j + i is bit i, from the lowest, of byte j; the last byte is not zero
//! ```
//!
//! One state has one encoding.

use super::{Kind, Order, Partition, Splits, Tree};
use esker_model::codec::{DecodeError, Reader, put_u16};

const FORMAT: u8 = 1;

/// The stored state of a vertex that has split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitState {
    kind: Kind,
    tree: Tree,
    splits: Splits,
}

impl SplitState {
    /// Creates the state of a vertex under a placement that splits. Returns `None` for a placement that does not
    /// split, or for a bitmap that is impossible in `tree`.
    pub fn new(kind: Kind, tree: Tree, splits: Splits) -> Option<Self> {
        let known = scheme(kind, tree.order()).is_some() && splits.first_invalid(tree).is_none();
        known.then_some(Self { kind, tree, splits })
    }

    /// Returns the placement rule that the state belongs to.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the tree along which the vertex splits.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// Returns the partitions that exist.
    pub fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Encodes the value of the row.
    pub fn encode(&self) -> Vec<u8> {
        // `new` and `decode` guarantee that a scheme exists.
        let scheme = scheme(self.kind, self.tree.order()).unwrap_or_default();
        let mut out = vec![FORMAT, scheme];
        put_u16(&mut out, (self.tree.shards() - 1) as u16);
        out.extend(self.splits.bytes());
        out
    }

    /// Decodes what [`Self::encode`] wrote. Anything else is refused, since a wrong bitmap would hide edges.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let error = |at, expected| DecodeError { at, expected };
        if reader.u8("the format of a split state, 1")? != FORMAT {
            return Err(error(0, "the format of a split state, 1"));
        }
        let (kind, order) = match reader.u8("a scheme, 1 to 3")? {
            1 => (Kind::GigaPlus, Order::Numbers),
            2 => (Kind::Dido, Order::Nodes),
            3 => (Kind::Dido, Order::Numbers),
            _ => return Err(error(1, "a scheme, 1 to 3")),
        };
        let shards = u32::from(reader.u16("the number of shards, less one")?) + 1;
        let tree = Tree::new(shards, order)
            .map_err(|_| error(2, "a number of shards over which edges can be distributed"))?;
        let start = reader.position();
        let bitmap = reader.take_rest();
        if bitmap.len() > shards.div_ceil(8) as usize {
            return Err(error(start, "a bitmap of at most one bit per shard"));
        }
        if bitmap.first().is_none_or(|b| b & 1 == 0) {
            return Err(error(start, "a bitmap with partition 0"));
        }
        if bitmap.last() == Some(&0) {
            return Err(error(bytes.len() - 1, "a last byte that is not zero"));
        }
        let splits = Splits::from_bytes(bitmap);
        match splits.first_invalid(tree) {
            Some(Partition(p)) => Err(error(
                start + (p / 8) as usize,
                "partitions with all their ancestors",
            )),
            None => Ok(Self { kind, tree, splits }),
        }
    }
}

fn scheme(kind: Kind, order: Order) -> Option<u8> {
    match (kind, order) {
        (Kind::GigaPlus, Order::Numbers) => Some(1),
        (Kind::Dido, Order::Nodes) => Some(2),
        (Kind::Dido, Order::Numbers) => Some(3),
        (Kind::GigaPlus, Order::Nodes) | (Kind::EdgeCut | Kind::VertexCut, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> SplitState {
        let tree = Tree::new(32, Order::Nodes).unwrap();
        let splits = [1, 2, 3, 4].map(Partition).into_iter().collect();
        SplitState::new(Kind::Dido, tree, splits).unwrap()
    }

    #[test]
    fn the_encoding_is_stable() {
        assert_eq!(state().encode(), [1, 2, 0, 31, 0b1_1111]);
        let tree = Tree::new(65_536, Order::Numbers).unwrap();
        let full = SplitState::new(Kind::GigaPlus, tree, Splits::full(tree)).unwrap();
        let bytes = full.encode();
        assert_eq!(bytes.len(), 4 + 8192);
        assert_eq!(bytes[..5], [1, 1, 0xff, 0xff, 0xff]);
        assert_eq!(SplitState::decode(&bytes), Ok(full));
    }

    #[test]
    fn garbage_is_refused_where_it_lies() {
        let at = |bytes: &[u8]| SplitState::decode(bytes).map_err(|e| e.at);
        assert_eq!(at(&[1, 2, 0, 31, 0b1_1111]), Ok(state()));
        assert_eq!(at(&[]), Err(0));
        assert_eq!(at(&[2, 2, 0, 31, 1]), Err(0));
        assert_eq!(at(&[1, 0, 0, 31, 1]), Err(1));
        assert_eq!(at(&[1, 4, 0, 31, 1]), Err(1));
        assert_eq!(at(&[1, 2, 0]), Err(2));
        assert_eq!(at(&[1, 2, 0, 31]), Err(4), "no bitmap");
        assert_eq!(at(&[1, 2, 0, 31, 0b10]), Err(4), "nothing at home");
        assert_eq!(at(&[1, 2, 0, 31, 1, 0]), Err(5), "a zero at the end");
        assert_eq!(at(&[1, 2, 0, 31, 1, 1]), Err(5), "8 without 2 and 4");
        assert_eq!(at(&[1, 2, 0, 3, 0b1_1111]), Err(4), "4 of 4 places");
        assert_eq!(at(&[1, 2, 0, 31, 1, 1, 1, 1, 1]), Err(4), "too long");
    }

    #[test]
    fn placements_that_do_not_split_have_no_state() {
        let tree = Tree::new(8, Order::Nodes).unwrap();
        for kind in [Kind::EdgeCut, Kind::VertexCut, Kind::GigaPlus] {
            assert_eq!(SplitState::new(kind, tree, Splits::default()), None);
        }
    }
}
