//! NumPy's array files: little-endian f4 and f8 of two dimensions in C order, and lists of texts.
//!
//! # Source
//! NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays".

use crate::{Error, Number};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Matrix of a NumPy file, with its numbers as f32.
///
/// ```
/// use shardgraph_storage::npy::{Matrix, header};
///
/// let mut file = header(2, 1);
/// file.extend([0.5f32, -1.0].map(f32::to_le_bytes).concat());
/// let matrix = Matrix::from_bytes(&file)?;
/// assert_eq!((matrix.n_rows, matrix.n_columns), (2, 1));
/// assert_eq!(matrix.values, [0.5, -1.0]);
/// # Ok::<(), shardgraph_storage::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub n_rows: usize,
    /// Numbers in a row, at least 1.
    pub n_columns: usize,
    /// All numbers, row by row.
    pub values: Vec<f32>,
}

impl Matrix {
    /// Matrix in the bytes of a whole file; numbers of eight bytes are rounded to f32.
    ///
    /// # Errors
    /// [`Error::Npy`] for other element types and orders, other than two dimensions, and data of another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Matrix, Error> {
        let MatrixHeader {
            n_rows,
            n_columns,
            data_at,
            is_double,
        } = MatrixHeader::from_bytes(bytes)?;
        let data = &bytes[data_at..];
        let size = if is_double { f64::SIZE } else { f32::SIZE };
        let n_bytes = n_rows
            .checked_mul(n_columns)
            .and_then(|n| n.checked_mul(size));
        if n_bytes != Some(data.len()) || n_columns == 0 {
            let found = data.len();
            return Err(refused(format!(
                "{found} bytes of data for shape ({n_rows}, {n_columns}): cut short?"
            )));
        }
        let values = match is_double {
            true => data
                .chunks_exact(size)
                .map(|x| f64::read_le(x) as f32)
                .collect(),
            false => data.chunks_exact(size).map(f32::read_le).collect(),
        };
        Ok(Matrix {
            n_rows,
            n_columns,
            values,
        })
    }
}

/// What the header of a matrix' file says, for readers of single rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixHeader {
    /// Number of rows.
    pub n_rows: usize,
    /// Numbers in a row.
    pub n_columns: usize,
    /// Byte at which the first number begins.
    pub data_at: usize,
    /// True for numbers of eight bytes, false for four.
    pub is_double: bool,
}

impl MatrixHeader {
    /// Bytes from a file's begin that hold every header of a matrix as NumPy writes it.
    pub const MOST_BYTES: usize = 1 << 12;

    /// Header in the first bytes of a file.
    ///
    /// # Errors
    /// [`Error::Npy`] for other element types and orders, and for other than two dimensions.
    pub fn from_bytes(bytes: &[u8]) -> Result<MatrixHeader, Error> {
        let (header, data) = split(bytes).ok_or_else(no_npy)?;
        let is_double = header.contains("'descr': '<f8'");
        if !(is_double || header.contains("'descr': '<f4'"))
            || !header.contains("'fortran_order': False")
        {
            let found = header.trim();
            return Err(refused(format!(
                "expected little-endian f4 or f8 in C order, found {found}"
            )));
        }
        let [n_rows, n_columns] = shape(header).ok_or_else(|| {
            let found = header.trim();
            refused(format!("expected a shape (rows, columns), found {found}"))
        })?;
        Ok(MatrixHeader {
            n_rows,
            n_columns,
            data_at: bytes.len() - data.len(),
            is_double,
        })
    }
}

/// Header of a file of f32 numbers, version 1.0; the numbers follow row by row, in little-endian order.
#[must_use]
pub fn header(n_rows: usize, n_columns: usize) -> Vec<u8> {
    padded(&format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({n_rows}, {n_columns}), }}"
    ))
}

/// Bytes of a file of texts: one dimension, each text as wide as the longest in UTF-32.
///
/// ```
/// use shardgraph_storage::npy::{texts_from_bytes, texts_to_bytes};
///
/// let file = texts_to_bytes(["ann", "bö"]);
/// assert_eq!(texts_from_bytes(&file)?, ["ann", "bö"]);
/// # Ok::<(), shardgraph_storage::Error>(())
/// ```
#[must_use]
pub fn texts_to_bytes<'t>(texts: impl IntoIterator<Item = &'t str> + Clone) -> Vec<u8> {
    let widths = texts.clone().into_iter().map(|text| text.chars().count());
    let (n_texts, width) = widths.fold((0, 1), |(n, most), width| (n + 1, width.max(most)));
    let descr = format!("'descr': '<U{width}', 'fortran_order': False");
    let mut bytes = padded(&format!("{{{descr}, 'shape': ({n_texts},), }}"));
    bytes.reserve(n_texts * width * 4);
    for text in texts {
        let chars = text.chars().map(u32::from).chain(std::iter::repeat(0));
        bytes.extend(chars.take(width).flat_map(u32::to_le_bytes));
    }
    bytes
}

/// Texts of a file of one dimension: those of NumPy's type `<U`, without the zeros at their ends.
///
/// # Errors
/// [`Error::Npy`] for other element types, other than one dimension, data of another length, and
/// what is no character.
pub fn texts_from_bytes(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let (header, data) = split(bytes).ok_or_else(no_npy)?;
    let wrong = |expected: &str| refused(format!("expected {expected}, found {}", header.trim()));
    let width = header
        .split_once("'descr': '<U")
        .and_then(|(_, rest)| rest.split_once('\'')?.0.parse::<usize>().ok())
        .filter(|&width| width > 0)
        .ok_or_else(|| wrong("texts of type <U"))?;
    let [n_texts] = shape(header).ok_or_else(|| wrong("a shape (texts,)"))?;
    let n_bytes = width.checked_mul(4).and_then(|n| n.checked_mul(n_texts));
    if n_bytes != Some(data.len()) {
        let found = data.len();
        return Err(refused(format!(
            "{found} bytes for {n_texts} texts of {width}: cut short?"
        )));
    }
    let text = |cells: &[u8]| {
        let codes = cells.chunks_exact(4).map(u32::read_le);
        let text: Option<String> = codes.map(char::from_u32).collect();
        let text = text.ok_or_else(|| refused("a text has what is no character"))?;
        Ok(text.trim_end_matches('\0').to_owned())
    };
    data.chunks_exact(4 * width).map(text).collect()
}

/// A header with what stands before and behind it.
fn padded(header: &str) -> Vec<u8> {
    // Magic, version and length take 10 bytes, a newline ends the header, and the data begin at a multiple of 64.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((padded as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = padded - 1).bytes());
    bytes
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Npy {
        reason: reason.into(),
    }
}

fn no_npy() -> Error {
    refused("no .npy file: expected NumPy's magic and a header")
}

/// The header's text and the data behind it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
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

fn shape<const N: usize>(header: &str) -> Option<[usize; N]> {
    let inside = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let numbers: Vec<usize> = inside
        .split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}
