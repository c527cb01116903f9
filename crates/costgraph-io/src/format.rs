//! The seven file formats and how a file says which one it is in: its name first, then its first bytes.

use shardgraph_costgraph::{Error, ErrorKind};
use std::{ffi::OsStr, fmt, path::Path, str::FromStr};

/// A file format for computation graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// TensorFlow's `CostGraphDef` as binary protobuf.
    CostGraph,
    /// TensorFlow's `CostGraphDef` in protobuf's text form.
    CostGraphText,
    /// An ONNX model; costs are estimated, see [`Roofline`](crate::Roofline).
    Onnx,
    /// One JSON object a line, each a graph: `{name, ops, tensors, ...}`.
    Jsonl,
    /// PipeDream's profile, `graph.txt`.
    PipeDream,
    /// The JSON of msr-fiddle/dnn-partitioning: `{nodes, edges, ...}`.
    Msr,
    /// A graph of the Standard Task Graph set: a line a task.
    Stg,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 7] = [
        Format::CostGraph,
        Format::CostGraphText,
        Format::Onnx,
        Format::Jsonl,
        Format::PipeDream,
        Format::Msr,
        Format::Stg,
    ];

    /// The name that [`Format::from_str`] takes, as on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::CostGraph => "cost-graph",
            Format::CostGraphText => "cost-graph-text",
            Format::Onnx => "onnx",
            Format::Jsonl => "jsonl",
            Format::PipeDream => "pipedream",
            Format::Msr => "msr",
            Format::Stg => "stg",
        }
    }

    /// What the extension says, after `.gz` or `.zst` is taken off; `None` for `.json`, `.txt` and anything unknown.
    ///
    /// ```
    /// use shardgraph_costgraph_io::Format;
    /// assert_eq!(Format::from_path("nets/VGG16.pb.gz".as_ref()), Some(Format::CostGraph));
    /// assert_eq!(Format::from_path("profile/graph.txt".as_ref()), None);
    /// ```
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Format> {
        match extension(Path::new(unpacked_name(path)))?.as_str() {
            "pb" => Some(Format::CostGraph),
            "pbtxt" | "textproto" | "prototxt" => Some(Format::CostGraphText),
            "onnx" => Some(Format::Onnx),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            "stg" => Some(Format::Stg),
            _ => None,
        }
    }

    /// What the content looks like; `None` when it looks like none of the formats.
    #[must_use]
    pub fn from_content(content: &[u8]) -> Option<Format> {
        let start = content.iter().position(|b| !b.is_ascii_whitespace());
        let text = &content[start.unwrap_or(content.len())..];
        match content.first()? {
            // ModelProto begins with its field 1, ir_version, a small varint; CostGraphDef with its field 1, a message. Text may
            // begin with a newline (10), but no text of ours goes on with a length and the tag of a node's name.
            8 if content.get(1).is_some_and(|&version| version < 32) => Some(Format::Onnx),
            10 if !is_text(content) => Some(Format::CostGraph),
            _ if text.starts_with(b"{") => Some(json_kind(content)),
            _ if text.starts_with(b"node") && is_proto_text(text) => Some(Format::CostGraphText),
            _ if text.starts_with(b"#") => Some(Format::CostGraphText),
            _ if first_line(text).windows(4).any(|w| w == b" -- ") => Some(Format::PipeDream),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::CostGraph => "CostGraphDef",
            Format::CostGraphText => "CostGraphDef text",
            Format::Onnx => "ONNX",
            Format::Jsonl => "JSON lines",
            Format::PipeDream => "PipeDream profile",
            Format::Msr => "dnn-partitioning JSON",
            Format::Stg => "Standard Task Graph",
        })
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let names = Format::ALL.map(Format::name).join(", ");
            let message = format!("unknown graph format `{name}`: expected one of {names}");
            Error::new(ErrorKind::Argument, message)
        })
    }
}

/// The file's name without `.gz` or `.zst`.
pub(crate) fn unpacked_name(path: &Path) -> &OsStr {
    let name = path.file_name().unwrap_or_default();
    match extension(path).as_deref() {
        Some("gz" | "zst" | "zstd") => path.file_stem().unwrap_or(name),
        _ => name,
    }
}

pub(crate) fn extension(path: &Path) -> Option<String> {
    path.extension()
        .and_then(OsStr::to_str)
        .map(str::to_ascii_lowercase)
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|&b| b == b'\n').next().unwrap_or_default()
}

/// Neither control characters nor broken UTF-8 in the first bytes.
fn is_text(content: &[u8]) -> bool {
    let head = &content[..content.len().min(256)];
    head.iter()
        .all(|&b| b >= 32 || matches!(b, b'\n' | b'\r' | b'\t'))
}

/// `node` followed by `{`, `<` or a colon.
fn is_proto_text(text: &[u8]) -> bool {
    let rest = text["node".len()..].iter();
    let mut rest = rest.skip_while(|b| b.is_ascii_whitespace());
    matches!(rest.next(), Some(b'{' | b'<' | b':'))
}

/// Both are JSON objects; only dnn-partitioning's has edges, only ours has tensors.
fn json_kind(content: &[u8]) -> Format {
    let line = first_line(content);
    let has = |key: &[u8]| line.windows(key.len()).any(|w| w == key);
    if has(b"\"tensors\"") || has(b"\"ops\"") {
        return Format::Jsonl;
    }
    let has = |key: &[u8]| content.windows(key.len()).any(|w| w == key);
    if has(b"\"edges\"") && has(b"\"nodes\"") {
        Format::Msr
    } else {
        Format::Jsonl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
        }
        let error = "tflite".parse::<Format>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains("cost-graph-text"), "{error}");
    }

    #[test]
    fn content_decides_without_a_name() {
        let found = |content: &[u8]| Format::from_content(content);
        assert_eq!(found(b"\n\x05\n\x03abc"), Some(Format::CostGraph));
        assert_eq!(found(b"\x08\x07\x12\x04test"), Some(Format::Onnx));
        assert_eq!(
            found(b"\nnode {\n  name: \"a\" }"),
            Some(Format::CostGraphText)
        );
        assert_eq!(
            found(b"# made by hand\nnode {}"),
            Some(Format::CostGraphText)
        );
        assert_eq!(found(b"{\"name\":\"x\",\"ops\":[]}"), Some(Format::Jsonl));
        assert_eq!(
            found(b"{\n\"nodes\": [],\n\"edges\": []}"),
            Some(Format::Msr)
        );
        assert_eq!(found(b"node1 -- Input -- forward"), Some(Format::PipeDream));
        assert_eq!(found(b"hello"), None);
        assert_eq!(found(b""), None);
    }
}
