//! NumPy's array file of an embedding: little-endian f32 in C order.

use std::io::{self, Write};

use shardgraph_storage::npy::{Matrix, header};

use super::embedding;
use crate::{Embedding, NodeLabels};

pub(super) fn write(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    out.write_all(&header(embedding.n_nodes(), embedding.dim()))?;
    embedding
        .values()
        .iter()
        .try_for_each(|x| out.write_all(&x.to_le_bytes()))
}

pub(super) fn read(bytes: &[u8], labels: Option<NodeLabels>) -> Result<Embedding, String> {
    let matrix = Matrix::from_bytes(bytes).map_err(|error| error.to_string())?;
    let n_nodes = u32::try_from(matrix.n_rows).map_err(|_| "more than 2^32 rows")?;
    let labels = labels.unwrap_or_else(|| NodeLabels::numbers(n_nodes));
    embedding(matrix.n_columns, matrix.values, labels)
}
