//! NumPy's array file, version 1.0: little-endian f32 in C order.
//!
//! # Source
//! NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays".

use std::io::{self, Write};

use super::{embedding, floats};
use crate::{Embedding, NodeLabels};

const MAGIC: &[u8] = b"\x93NUMPY";

pub(super) fn write(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    out.write_all(&header_bytes(embedding.n_nodes(), embedding.dim()))?;
    embedding
        .values()
        .iter()
        .try_for_each(|x| out.write_all(&x.to_le_bytes()))
}

/// All that comes before the numbers.
pub(super) fn header_bytes(n: usize, dim: usize) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n}, {dim}), }}");
    // Magic, version and length take 10 bytes, a newline ends the header, and the data begin at a multiple of 64.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((padded as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = padded - 1).bytes());
    bytes
}

pub(super) fn read(bytes: &[u8], labels: Option<NodeLabels>) -> Result<Embedding, String> {
    let (header, data) =
        header(bytes).ok_or("no .npy file: expected NumPy's magic and a header")?;
    if !header.contains("'descr': '<f4'") || !header.contains("'fortran_order': False") {
        return Err(format!(
            "expected little-endian f32 in C order, found {}",
            header.trim()
        ));
    }
    let shape = shape(header)
        .ok_or_else(|| format!("expected a shape (n, dim), found {}", header.trim()))?;
    let n_bytes = shape[0]
        .checked_mul(shape[1])
        .and_then(|n| n.checked_mul(4));
    if n_bytes != Some(data.len()) || shape[1] == 0 {
        return Err(format!(
            "{} bytes of data for shape ({}, {}): cut short?",
            data.len(),
            shape[0],
            shape[1]
        ));
    }
    let n_nodes = u32::try_from(shape[0]).map_err(|_| "more than 2^32 rows")?;
    let labels = labels.unwrap_or_else(|| NodeLabels::numbers(n_nodes));
    embedding(shape[1], floats(data).collect(), labels)
}

/// The header's text and what follows it.
fn header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>()?;
    let (len, rest) = match major {
        1 => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

fn shape(header: &str) -> Option<[usize; 2]> {
    let inside = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let numbers: Vec<usize> = inside
        .split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}
