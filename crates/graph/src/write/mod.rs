//! Writing graphs in every format, packed or plain, so that a failed write leaves nothing behind.

mod formats;

use shardgraph_storage::{Compression, write_atomic};

use crate::{Error, ErrorKind, Format, Graph, Labels, WriteReport};
use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

/// Options of writing a file; the default takes both from the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// The format; by default the extension decides, and `.txt` or none is an edge list.
    pub format: Option<Format>,
    /// The compression; by default `.gz` and `.zst` decide.
    pub compression: Option<Compression>,
}

/// Writes `graph` to `path` by [`write_atomic`].
///
/// Nodes are written by their `labels` in an edge list and in GraphML (numbers from 0 when there are none), and as 1
/// to n in the other formats, which prescribe that. A `.csv` file has commas and a header `source,target`. What the format cannot hold is left out and reported.
///
/// ```
/// use shardgraph_graph::{ReadOptions, WriteOptions, builtin, read_graph, write_graph};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("karate.mtx.gz");
///
/// let karate = builtin::by_name("karate").unwrap();
/// let lost = write_graph(&path, &karate, None, WriteOptions::default())?;
/// assert_eq!(lost.to_string(), "");
/// assert_eq!(read_graph(&path, &ReadOptions::default())?.graph, karate);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The system's, and [`ErrorKind::Unsupported`] for METIS when a weight is no positive whole number, for an edge list when a
/// label has a quote.
pub fn write_graph(
    path: &Path,
    graph: &Graph,
    labels: Option<&Labels>,
    options: WriteOptions,
) -> Result<WriteReport, Error> {
    let format = match options.format {
        Some(format) => format,
        None => Format::of_output(path)?,
    };
    let compression = options
        .compression
        .unwrap_or_else(|| Compression::from_path(path));
    let checked = match format {
        Format::Metis => formats::check_metis_weights(graph),
        Format::EdgeList => formats::check_names(labels),
        _ => Ok(()),
    };
    checked.map_err(|e| e.or_at(&path.display().to_string(), 0, 0))?;
    let is_csv = crate::format::inner_extension(path).is_some_and(|extension| extension == "csv");
    write_atomic(path, |out| {
        let out = BufWriter::with_capacity(1 << 16, out);
        pack(out, compression, |out| {
            formats::write(out, graph, labels, format, is_csv)
        })
    })
    .map_err(|e| Error::io("write", path, e))?;
    Ok(report(graph, labels, format, compression))
}

fn pack<W: Write>(
    mut out: W,
    compression: Compression,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match compression {
        Compression::None => write(&mut out)?,
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
            write(&mut encoder)?;
            encoder.finish()?;
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut out, 3)?;
            encoder.include_checksum(true)?;
            write(&mut encoder)?;
            encoder.finish()?;
        }
    }
    out.flush()
}

fn report(
    graph: &Graph,
    labels: Option<&Labels>,
    format: Format,
    compression: Compression,
) -> WriteReport {
    let is_list = format == Format::EdgeList;
    let holds_labels = is_list || format == Format::GraphMl;
    let n_isolated = (0..graph.n_nodes())
        .filter(|&v| graph.degree(v) == 0)
        .count() as u64;
    let is_numbered = labels.is_none_or(|labels| *labels == Labels::offset(1, graph.n_nodes()));
    WriteReport {
        format,
        compression,
        isolated_nodes_left_out: if is_list { n_isolated } else { 0 },
        weights_left_out: graph.weights().is_some()
            && matches!(format, Format::Dimacs | Format::Pace | Format::Ml4co),
        labels_left_out: !holds_labels && !is_numbered,
    }
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}
