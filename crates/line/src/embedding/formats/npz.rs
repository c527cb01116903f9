//! NumPy's archive of an embedding: `embedding` [n, dim] in f32, and `labels` [n] as texts.
//!
//! # Source
//! NumPy's `savez`: a zip file of .npy files.

use std::io::{self, Cursor, Read, Write};

use shardgraph_storage::npy::{texts_from_bytes, texts_to_bytes};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::{Embedding, NodeLabels};

const EMBEDDING: &str = "embedding.npy";
const LABELS: &str = "labels.npy";

pub(super) fn write(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    let mut archive = ZipWriter::new_stream(out);
    let stored = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(true);
    archive.start_file(EMBEDDING, stored)?;
    super::npy::write(&mut archive, embedding)?;
    archive.start_file(LABELS, stored)?;
    archive.write_all(&texts_to_bytes(embedding.labels().iter()))?;
    archive.finish()?;
    Ok(())
}

pub(super) fn read(bytes: &[u8]) -> Result<Embedding, String> {
    let archive = ZipArchive::new(Cursor::new(bytes));
    let mut archive = archive.map_err(|error| format!("no .npz file: {error}"))?;
    let mut array = |name: &str| match archive.by_name(name) {
        Err(ZipError::FileNotFound) => Ok(None),
        Err(error) => Err(format!("`{name}`: {error}")),
        Ok(file) => {
            // No more than it says: what is compressed may unpack to anything.
            let (mut found, size) = (Vec::new(), file.size());
            let read = file.take(size).read_to_end(&mut found);
            read.map_err(|error| format!("`{name}`: {error}"))?;
            Ok(Some(found))
        }
    };
    let rows = array(EMBEDDING)?.ok_or("expected an array `embedding` [n, dim]")?;
    let labels = match array(LABELS)? {
        None => None,
        Some(labels) => Some(texts_from_bytes(&labels).map_err(|e| format!("`labels`: {e}"))?),
    };
    let labels = labels.map(|labels| NodeLabels::new(labels.iter().map(String::as_str)));
    super::npy::read(&rows, labels).map_err(|error| format!("`embedding`: {error}"))
}
