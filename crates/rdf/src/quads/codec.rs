//! Encoding of a dataset as an image.

use super::{Arc, Dataset, Dictionary, Graph, Predicate};
use crate::codec::{Reader, put_u32, put_u64};
use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::infer::{Inference, Layer};

/// Magic number of an image; the last two bytes are the format version.
const MAGIC: &[u8; 8] = b"ESKRDF01";

impl Dataset {
    /// Encodes the dataset as an image.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(self.dictionary.bytes() + self.quad_bytes() + 1024);
        to.extend_from_slice(MAGIC);
        self.dictionary.encode(&mut to);
        put_u64(1 + self.named.len() as u64, &mut to);
        let graphs = std::iter::once((UNBOUND, &self.default))
            .chain(self.named.iter().map(|(g, graph)| (*g, graph)));
        for (g, graph) in graphs {
            graph.encode(g, &mut to);
        }
        // Inferred triples come last; without inference this section is absent.
        if let Some(layer) = &self.inferred {
            to.push(layer.kind.code());
            put_u64(layer.graphs.len() as u64, &mut to);
            for (g, graph) in &layer.graphs {
                graph.encode(*g, &mut to);
            }
        }
        to
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new(bytes);
        if from.take(MAGIC.len())? != MAGIC {
            return Err(Error::Corrupt(
                "this is not an image of RDF data, or one of a later version of Esker".into(),
            ));
        }
        let mut dataset = Self {
            dictionary: Dictionary::decode(&mut from)?,
            ..Self::default()
        };
        for _ in 0..from.len(12)? {
            let (g, graph) = Graph::decode(&mut from)?;
            if g == UNBOUND {
                dataset.default = Arc::new(graph);
            } else {
                dataset.named.insert(g, Arc::new(graph));
            }
        }
        if !from.is_empty() {
            let mut layer = Layer::new(Inference::of_code(from.u8()?)?);
            for _ in 0..from.len(12)? {
                let (g, graph) = Graph::decode(&mut from)?;
                layer.graphs.insert(g, Arc::new(graph));
            }
            dataset.inferred = Some(Arc::new(layer));
        }
        if !from.is_empty() {
            return Err(Error::Corrupt(
                "bytes follow the last graph of the image".into(),
            ));
        }
        Ok(dataset)
    }
}

impl Graph {
    fn encode(&self, g: Id, to: &mut Vec<u8>) {
        put_u32(g, to);
        put_u64(self.predicates.len() as u64, to);
        for (p, predicate) in &self.predicates {
            put_u32(*p, to);
            predicate.encode(to);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<(Id, Self)> {
        let g = from.u32()?;
        let mut graph = Self::default();
        for _ in 0..from.len(4)? {
            let p = from.u32()?;
            graph.predicates.insert(p, Predicate::decode(from)?);
        }
        graph.relist();
        Ok((g, graph))
    }
}
