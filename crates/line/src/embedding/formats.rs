//! Embeddings in files: .npy, .npz, word2vec's text and binary forms, safetensors, CSV; labels are kept in
//! all of them.
//!
//! A .npy file has no place for labels: they stand beside it in `NAME.npy.labels`, one a line.

mod aside;
mod csv;
mod npy;
mod npz;
mod tensors;
#[cfg(test)]
mod tests;
mod word2vec;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use shardgraph_error::words;
use shardgraph_storage::npy::header;
use shardgraph_storage::{StagedFile, read_bounded};

use crate::{Embedding, Error, NodeLabels, Store};
use aside::Aside;

/// Bytes that the labels of a .npy file may have whatever its size.
const LEAST_LABEL_BYTES: u64 = 16 << 20;
/// Bytes that they may have for each byte of it besides: 256 for a row of one number.
const LABEL_BYTES_PER_BYTE: u64 = 64;

/// The form of an embedding file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// NumPy's array, with labels in a file beside it.
    Npy,
    /// NumPy's archive: an array `embedding`, and an array `labels` of texts.
    Npz,
    /// A line `n dim`, then a line for each node: its label and its numbers.
    Word2vecText,
    /// The same with numbers as little-endian f32.
    Word2vecBinary,
    /// A tensor `embedding`, and the labels as bytes with their ends.
    Safetensors,
    /// A table: a header `node,x0,x1,...`, then a line for each node.
    Csv,
}

words!(
    FileFormat, Error, Error::setting, "output_format";
    "npy" => Npy,
    "npz" => Npz,
    "word2vec-text" => Word2vecText,
    "word2vec-binary" => Word2vecBinary,
    "safetensors" => Safetensors,
    "csv" => Csv,
);

impl FileFormat {
    /// By extension: .npy, .npz, .bin, .safetensors, .csv, and word2vec's text for all others.
    #[must_use]
    pub fn from_path(path: &Path) -> FileFormat {
        match path.extension().and_then(OsStr::to_str) {
            Some("npy") => FileFormat::Npy,
            Some("npz") => FileFormat::Npz,
            Some("bin") => FileFormat::Word2vecBinary,
            Some("safetensors") => FileFormat::Safetensors,
            Some("csv") => FileFormat::Csv,
            _ => FileFormat::Word2vecText,
        }
    }
}

/// Writes an embedding; by default its name decides the form. The file appears complete or not at
/// all.
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
/// [`crate::Error::Io`], and those of [`check_labels`].
pub fn write(path: &Path, embedding: &Embedding, format: Option<FileFormat>) -> Result<(), Error> {
    let format = format.unwrap_or_else(|| FileFormat::from_path(path));
    check_labels(path, embedding.labels(), Some(format))?;
    let rows = stage(path, |out| match format {
        FileFormat::Npy => npy::write(out, embedding),
        FileFormat::Npz => npz::write(out, embedding),
        FileFormat::Word2vecText => word2vec::write_text(out, embedding),
        FileFormat::Word2vecBinary => word2vec::write_binary(out, embedding),
        FileFormat::Safetensors => tensors::write(out, embedding),
        FileFormat::Csv => csv::write(out, embedding),
    })?;
    if format != FileFormat::Npy {
        return rows.publish().map_err(|e| Error::io("write", path, e));
    }
    let (labels, labels_path) = (embedding.labels(), labels_path(path));
    let labels = stage(&labels_path, |out| {
        labels.iter().try_for_each(|label| writeln!(out, "{label}"))
    })?;
    publish_with_labels(
        Staged { path, file: rows },
        Staged {
            path: &labels_path,
            file: labels,
        },
    )
}

/// Whether a form can hold these labels, for a check before the work.
///
/// # Errors
/// [`crate::Error::File`] for a label with a blank, which word2vec's forms cannot hold, or with the
/// end of a line, which CSV and the labels beside a .npy file cannot.
pub fn check_labels(
    path: &Path,
    labels: &NodeLabels,
    format: Option<FileFormat>,
) -> Result<(), Error> {
    let format = format.unwrap_or_else(|| FileFormat::from_path(path));
    let (ends_label, name): (fn(char) -> bool, _) = match format {
        FileFormat::Word2vecText | FileFormat::Word2vecBinary => (char::is_whitespace, "a blank"),
        FileFormat::Csv | FileFormat::Npy => (|c| c == '\n' || c == '\r', "the end of a line"),
        FileFormat::Npz | FileFormat::Safetensors => return Ok(()),
    };
    let is_one =
        |label: &&str| (name == "a blank" && label.is_empty()) || label.contains(ends_label);
    match labels.iter().find(is_one) {
        None => Ok(()),
        Some(label) => {
            let what = format_args!(
                "the label `{}` has {name}, which ends a label there: take npz or safetensors",
                label.escape_debug()
            );
            Err(Error::file(path, what))
        }
    }
}

/// Reads an embedding; by default its name decides the form.
///
/// Without a file of labels beside it, the nodes of a .npy file are called 0, 1, ...
///
/// # Errors
/// [`crate::Error::Io`]; [`crate::Error::File`] for what is no such file, with what would have been
/// right.
pub fn read(path: &Path, format: Option<FileFormat>) -> Result<Embedding, Error> {
    let bytes = read_bounded(path, u64::MAX).map_err(|e| Error::io("read", path, e))?;
    let max_label_bytes = LEAST_LABEL_BYTES + LABEL_BYTES_PER_BYTE * bytes.len() as u64;
    let read = match format.unwrap_or_else(|| FileFormat::from_path(path)) {
        FileFormat::Npy => npy::read(&bytes, npy_labels(path, max_label_bytes)?),
        FileFormat::Npz => npz::read(&bytes),
        FileFormat::Word2vecText => word2vec::read_text(&bytes),
        FileFormat::Word2vecBinary => word2vec::read_binary(&bytes),
        FileFormat::Safetensors => tensors::read(&bytes),
        FileFormat::Csv => csv::read(&bytes),
    };
    read.map_err(|what| Error::file(path, what))
}

/// Writes a .npy file of `columns` columns and the store's labels, `n_rows` rows at a time.
///
/// Both files appear complete or not at all. `fill` gets a range of nodes and their rows, which are
/// zeros.
pub(crate) fn write_npy_rows(
    path: &Path,
    store: &Store,
    columns: usize,
    n_rows: u32,
    mut fill: impl FnMut(Range<u32>, &mut [f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let n_nodes = store.n_nodes();
    let mut failed = None;
    let rows = stage(path, |out| {
        out.write_all(&header(n_nodes as usize, columns))?;
        for start in (0..n_nodes).step_by(n_rows.max(1) as usize) {
            let end = start.saturating_add(n_rows.max(1)).min(n_nodes);
            let mut values = vec![0.0f32; (end - start) as usize * columns];
            if let Err(error) = fill(start..end, &mut values) {
                failed = Some(error);
                return Err(io::ErrorKind::Other.into());
            }
            values
                .iter()
                .try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
        }
        Ok(())
    });
    let rows = match failed {
        Some(error) => return Err(error),
        None => rows?,
    };
    let labels_path = labels_path(path);
    let labels = stage(&labels_path, |out| {
        store.each_label(|label| {
            out.write_all(label)?;
            out.write_all(b"\n")
        })
    })?;
    publish_with_labels(
        Staged { path, file: rows },
        Staged {
            path: &labels_path,
            file: labels,
        },
    )
}

/// A file under its temporary name.
struct Staged<'p> {
    path: &'p Path,
    file: StagedFile,
}

impl Staged<'_> {
    fn publish(self) -> Result<(), Error> {
        let published = self.file.publish();
        published.map_err(|e| Error::io("write", self.path, e))
    }
}

/// Gives both files their names; where that fails, the earlier ones are there again.
///
/// Earlier files are put aside first, so that a kill in between leaves no rows, rather than rows
/// with the labels of others.
fn publish_with_labels(rows: Staged<'_>, labels: Staged<'_>) -> Result<(), Error> {
    let put_aside = |path: &Path| Aside::put(path).map_err(|e| Error::io("replace", path, e));
    let (earlier_rows, earlier_labels) = (put_aside(rows.path)?, put_aside(labels.path)?);
    labels.publish()?;
    rows.publish()?;
    let earlier = [earlier_labels, earlier_rows].map(|earlier| earlier.map(Aside::forget));
    earlier.into_iter().flatten().collect()
}

fn stage(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<StagedFile, Error> {
    let buffered = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        write(&mut out)?;
        out.flush()
    };
    StagedFile::write(path, buffered).map_err(|e| Error::io("write", path, e))
}

/// Where the labels of a .npy file stand: beside it; for a symbolic link beside its file, unless
/// the link has labels of its own.
#[must_use]
pub fn labels_path(path: &Path) -> PathBuf {
    let beside = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".labels");
        PathBuf::from(name)
    };
    let own = beside(path);
    match fs::canonicalize(path) {
        Ok(file) if path.is_symlink() && !own.exists() => beside(&file),
        _ => own,
    }
}

fn npy_labels(path: &Path, max_bytes: u64) -> Result<Option<NodeLabels>, Error> {
    let path = labels_path(path);
    match path.exists() {
        false => Ok(None),
        true => {
            let read = read_bounded(&path, max_bytes).and_then(|bytes| {
                let not_text = |_| io::Error::from(io::ErrorKind::InvalidData);
                String::from_utf8(bytes).map_err(not_text)
            });
            let text = read.map_err(|e| Error::io("read", &path, e))?;
            Ok(Some(NodeLabels::new(text.lines())))
        }
    }
}

/// Little-endian numbers; what is left over is lost, so lengths are checked before.
fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let words = bytes.chunks_exact(4);
    words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// An embedding, or why it is none: lengths that do not fit, numbers that are not finite, two rows
/// of one label.
fn embedding(dim: usize, values: Vec<f32>, labels: NodeLabels) -> Result<Embedding, String> {
    if let Some((one, other)) = labels.twins() {
        let label = labels.get(one);
        return Err(format!(
            "rows {one} and {other} are both called `{label}`: expected labels that differ"
        ));
    }
    Embedding::new(dim, values, labels).map_err(|e| e.to_string())
}
