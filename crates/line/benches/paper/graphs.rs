//! The graphs of a request, and the variants of training by name.

use std::path::Path;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Graph, ReadOptions, read_graph};
use shardgraph_line::{Config, Precision};

use crate::Failure;

/// A file or a generator; a file that is absent is a skip.
pub(crate) fn load(name: &str) -> Result<Option<Graph>, Failure> {
    if let Ok(spec) = name.parse::<GeneratorSpec>() {
        return Ok(Some(spec.graph(1)?));
    }
    let path = Path::new(name);
    if !path.is_file() {
        println!("SKIPPED: no file {name}");
        return Ok(None);
    }
    Ok(Some(read_graph(path, &ReadOptions::default())?.graph))
}

/// What a row calls a graph: a file by its name.
pub(crate) fn shown(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// LINE's own way, and those that move fewer bytes.
pub(crate) fn variant(name: &str) -> Result<Config, Failure> {
    let (share, precision) = match name {
        "faithful" => (1, Precision::Fp32),
        "fp16" => (1, Precision::Fp16),
        "share 16" => (16, Precision::Fp32),
        "share 16 fp16" => (16, Precision::Fp16),
        other => return Err(format!("no variant `{other}`").into()),
    };
    Ok(Config {
        share,
        precision,
        ..Config::default()
    })
}
