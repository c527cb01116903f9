//! A safetensors file: `embedding` [n, dim] in f32, `label_text` in u8, `label_ends` [n] in u64.

use std::io::{self, Write};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::{embedding as new_embedding, floats};
use crate::{Embedding, NodeLabels};

pub(super) fn write(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    let (n, dim) = (embedding.n_nodes(), embedding.dim());
    let rows: Vec<u8> = embedding
        .values()
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let mut labels = Vec::new();
    embedding.labels().write(&mut labels)?;
    let (ends, text) = labels.split_at(8 * n);
    let view = |dtype, shape, bytes| TensorView::new(dtype, shape, bytes).map_err(io::Error::other);
    let tensors = [
        ("embedding", view(Dtype::F32, vec![n, dim], &rows)?),
        ("label_ends", view(Dtype::U64, vec![n], ends)?),
        ("label_text", view(Dtype::U8, vec![text.len()], text)?),
    ];
    let bytes = safetensors::serialize(tensors, None).map_err(io::Error::other)?;
    out.write_all(&bytes)
}

pub(super) fn read(bytes: &[u8]) -> Result<Embedding, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| format!("no safetensors file: {e}"))?;
    let tensor = |name: &str, dtype: Dtype| match file.tensor(name) {
        Ok(tensor) if tensor.dtype() == dtype => Ok(tensor),
        Ok(tensor) => Err(format!(
            "`{name}`: expected {dtype:?}, found {:?}",
            tensor.dtype()
        )),
        Err(_) => Err(format!(
            "no tensor `{name}`: not an embedding of this program"
        )),
    };
    let rows = tensor("embedding", Dtype::F32)?;
    let &[n, dim] = rows.shape() else {
        return Err(format!(
            "`embedding`: expected a shape [n, dim], found {:?}",
            rows.shape()
        ));
    };
    let labels = [
        tensor("label_ends", Dtype::U64)?.data(),
        tensor("label_text", Dtype::U8)?.data(),
    ]
    .concat();
    let n = u32::try_from(n).map_err(|_| "more than 2^32 rows")?;
    let labels = NodeLabels::read(n, &labels).ok_or("the labels are damaged")?;
    new_embedding(dim, floats(rows.data()).collect(), labels)
}
