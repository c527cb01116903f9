//! The file formats, and the choice among them by a file's name.

use crate::{Error, ErrorKind};
use std::{ffi::OsStr, fmt, path::Path, str::FromStr};

use shardgraph_storage::Compression;

/// A graph file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Matrix Market coordinate files: pattern, real or integer; symmetric or general.
    MatrixMarket,
    /// One edge per line, integer or text ids, `#` and `%` comments: SNAP, KONECT, Network Repository, simple CSV.
    #[default]
    EdgeList,
    /// DIMACS clique, colouring and independent-set files: `p edge n m` or `p col n m`, then `e u v`.
    Dimacs,
    /// METIS adjacency files: one line per node.
    Metis,
    /// PACE challenge files: `p td n m`, `p vc n m` or a bare `n m`, then `u v`.
    Pace,
    /// Gset and rudy files: `n m`, then m lines `u v weight` with ids from 1.
    Gset,
    /// ML4CO text: one graph a line, `u v u v ... label l l l ...` with ids from 0 and a label for each node.
    Ml4co,
    /// GraphML: XML with nodes, edges and their data, as NetworkX, igraph and Gephi write it.
    GraphMl,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::MatrixMarket,
        Format::EdgeList,
        Format::Dimacs,
        Format::Metis,
        Format::Pace,
        Format::Gset,
        Format::Ml4co,
        Format::GraphMl,
    ];

    /// The name that [`Format::from_str`] takes, as on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::MatrixMarket => "matrix-market",
            Format::EdgeList => "edge-list",
            Format::Dimacs => "dimacs",
            Format::Metis => "metis",
            Format::Pace => "pace",
            Format::Gset => "gset",
            Format::Ml4co => "ml4co",
            Format::GraphMl => "graphml",
        }
    }

    /// Format by extension, after `.gz` or `.zst` is taken off; `None` for `.txt` and anything unknown.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Format> {
        match inner_extension(path)?.as_str() {
            "mtx" | "mm" => Some(Format::MatrixMarket),
            "snap" | "edges" | "edgelist" | "edge-list" | "el" | "csv" | "tsv" => {
                Some(Format::EdgeList)
            }
            "clq" | "col" | "mis" | "dimacs" => Some(Format::Dimacs),
            "metis" | "graph" => Some(Format::Metis),
            "gr" | "pace" | "td" | "vc" => Some(Format::Pace),
            "gset" | "rud" | "mc" => Some(Format::Gset),
            "ml4co" => Some(Format::Ml4co),
            "graphml" => Some(Format::GraphMl),
            _ => None,
        }
    }

    /// Format of a file to write: by extension, an edge list for `.txt` and where there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for an extension that says no format.
    pub fn of_output(path: &Path) -> Result<Format, Error> {
        let extension = match (Format::from_path(path), inner_extension(path)) {
            (Some(format), _) => return Ok(format),
            (None, Some(extension)) if extension != "txt" => extension,
            (None, _) => return Ok(Format::EdgeList),
        };
        let message = format!(
            "{}: `.{extension}` says no format of graphs: expected .mtx, .txt, .el, .csv, .clq, .graph, .gr or .graphml, with .gz or .zst after it to pack",
            path.display()
        );
        Err(Error::new(ErrorKind::Argument, message))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::MatrixMarket => "Matrix Market",
            Format::EdgeList => "edge list",
            Format::Dimacs => "DIMACS",
            Format::Metis => "METIS",
            Format::Pace => "PACE",
            Format::Gset => "Gset",
            Format::Ml4co => "ML4CO",
            Format::GraphMl => "GraphML",
        })
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found
            .or(match name {
                "mtx" | "mm" => Some(Format::MatrixMarket),
                "snap" | "edges" => Some(Format::EdgeList),
                _ => None,
            })
            .ok_or_else(|| {
                let names = Format::ALL.map(Format::name).join(", ");
                let message = format!("unknown graph format `{name}`: expected one of {names}");
                Error::new(ErrorKind::Argument, message)
            })
    }
}

/// The extension in small letters, after `.gz` or `.zst` is taken off.
pub(crate) fn inner_extension(path: &Path) -> Option<String> {
    let inner = match Compression::from_path(path) {
        Compression::None => path.as_os_str(),
        _ => path.file_stem()?,
    };
    Path::new(inner)
        .extension()
        .and_then(OsStr::to_str)
        .map(str::to_ascii_lowercase)
}
