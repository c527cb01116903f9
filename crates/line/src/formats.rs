//! Embeddings in files: .npy, word2vec's text and binary forms, safetensors; labels are kept in all of them.
//!
//! A .npy file has no place for labels: they stand beside it in `NAME.npy.labels`, one a line.

mod npy;
mod tensors;
#[cfg(test)]
mod tests;
mod word2vec;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use shardgraph_graph::write_atomic;

use crate::{Embedding, Error, NodeLabels};

/// The form of an embedding file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// NumPy's array, with labels in a file beside it.
    Npy,
    /// A line `n dim`, then a line for each node: its label and its numbers.
    Word2vecText,
    /// The same with numbers as little-endian f32.
    Word2vecBinary,
    /// A tensor `embedding`, and the labels as bytes with their ends.
    Safetensors,
}

impl FromStr for FileFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<FileFormat, Error> {
        match text {
            "npy" => Ok(FileFormat::Npy),
            "word2vec-text" => Ok(FileFormat::Word2vecText),
            "word2vec-binary" => Ok(FileFormat::Word2vecBinary),
            "safetensors" => Ok(FileFormat::Safetensors),
            _ => {
                let expected = "npy, word2vec-text, word2vec-binary or safetensors";
                Err(Error::config("output_format", text, expected))
            }
        }
    }
}

impl FileFormat {
    /// By extension: .npy, .bin, .safetensors, and word2vec's text for all others.
    #[must_use]
    pub fn from_path(path: &Path) -> FileFormat {
        match path.extension().and_then(OsStr::to_str) {
            Some("npy") => FileFormat::Npy,
            Some("bin") => FileFormat::Word2vecBinary,
            Some("safetensors") => FileFormat::Safetensors,
            _ => FileFormat::Word2vecText,
        }
    }
}

/// Writes an embedding; by default its name decides the form. The file appears complete or not at all.
///
/// ```
/// use shardgraph_line::{Embedding, NodeLabels, formats};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("nodes.vec");
///
/// let embedding = Embedding::new(2, vec![1.0, 0.5, -3.0, 0.1], NodeLabels::new(["ann", "bob"]))?;
/// formats::write(&path, &embedding, None)?;
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "2 2\nann 1 0.5\nbob -3 0.1\n");
/// assert_eq!(formats::read(&path, None)?, embedding);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Io`]; [`crate::ErrorKind::File`] for a label with a blank, which word2vec's forms cannot hold.
pub fn write(path: &Path, embedding: &Embedding, format: Option<FileFormat>) -> Result<(), Error> {
    let format = format.unwrap_or_else(|| FileFormat::from_path(path));
    let is_word2vec = matches!(
        format,
        FileFormat::Word2vecText | FileFormat::Word2vecBinary
    );
    let has_blank = |label: &&str| label.is_empty() || label.contains(char::is_whitespace);
    if let Some(label) = embedding
        .labels()
        .iter()
        .find(has_blank)
        .filter(|_| is_word2vec)
    {
        let what = format_args!(
            "the label `{label}` has a blank, which ends a label there: take npy or safetensors"
        );
        return Err(Error::file(path, what));
    }
    if format == FileFormat::Npy {
        write_labels(path, embedding.labels())?;
    }
    whole(path, |out| match format {
        FileFormat::Npy => npy::write(out, embedding),
        FileFormat::Word2vecText => word2vec::write_text(out, embedding),
        FileFormat::Word2vecBinary => word2vec::write_binary(out, embedding),
        FileFormat::Safetensors => tensors::write(out, embedding),
    })
}

/// Reads an embedding; by default its name decides the form.
///
/// Without a file of labels beside it, the nodes of a .npy file are called 0, 1, ...
///
/// # Errors
/// [`crate::ErrorKind::Io`]; [`crate::ErrorKind::File`] for what is no such file, with what would have been right.
pub fn read(path: &Path, format: Option<FileFormat>) -> Result<Embedding, Error> {
    let bytes = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let read = match format.unwrap_or_else(|| FileFormat::from_path(path)) {
        FileFormat::Npy => npy::read(&bytes, npy_labels(path)?),
        FileFormat::Word2vecText => word2vec::read_text(&bytes),
        FileFormat::Word2vecBinary => word2vec::read_binary(&bytes),
        FileFormat::Safetensors => tensors::read(&bytes),
    };
    read.map_err(|what| Error::file(path, what))
}

/// A .npy file that is written row by row, in any order.
#[derive(Debug)]
pub(crate) struct NpyRows<'f> {
    file: &'f File,
    path: &'f Path,
    start: u64,
    columns: usize,
}

impl NpyRows<'_> {
    /// Writes part of a node's row, from a column on.
    pub(crate) fn put(&self, node: u32, column: usize, values: &[f32]) -> Result<(), Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let at = u64::from(node) * self.columns as u64 + column as u64;
        let written = self.file.write_all_at(&bytes, self.start + 4 * at);
        written.map_err(|e| Error::io("write", self.path, &e))
    }
}

/// Writes a .npy file and its labels through `put`, which must write every row; the file appears complete or not at all.
pub(crate) fn write_npy_rows(
    path: &Path,
    labels: &NodeLabels,
    columns: usize,
    put: impl FnOnce(&NpyRows<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let at = |e: std::io::Error| Error::io("write", &partial, &e);
    let header = npy::header_bytes(labels.len(), columns);
    let file = File::create(&partial).map_err(at)?;
    file.write_all_at(&header, 0).map_err(at)?;
    let rows = NpyRows {
        file: &file,
        path: &partial,
        start: header.len() as u64,
        columns,
    };
    put(&rows)?;
    file.sync_all().map_err(at)?;
    write_labels(path, labels)?;
    fs::rename(&partial, path).map_err(|e| Error::io("write", path, &e))
}

fn write_labels(path: &Path, labels: &NodeLabels) -> Result<(), Error> {
    whole(&labels_path(path), |out| {
        labels.iter().try_for_each(|label| writeln!(out, "{label}"))
    })
}

fn whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    let buffered = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        write(&mut out)?;
        out.flush()
    };
    write_atomic(path, buffered).map_err(|e| Error::io("write", path, &e))
}

fn labels_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".labels");
    name.into()
}

fn npy_labels(path: &Path) -> Result<Option<NodeLabels>, Error> {
    let path = labels_path(path);
    match path.exists() {
        false => Ok(None),
        true => {
            let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))?;
            Ok(Some(NodeLabels::new(text.lines())))
        }
    }
}

/// Little-endian numbers; what is left over is lost, so lengths are checked before.
fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let words = bytes.chunks_exact(4);
    words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// An embedding, or why the lengths do not fit.
fn embedding(dim: usize, values: Vec<f32>, labels: NodeLabels) -> Result<Embedding, String> {
    Embedding::new(dim, values, labels).map_err(|e| e.to_string())
}
