//! The graphs of a request, and the variants of training by name.

use std::path::Path;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Graph, ReadOptions, read_graph};
use shardgraph_line::{Config, Optimiser, Precision};

use crate::report::{Failure, Report};

/// A file or a generator; a file that is absent is a skip.
pub(super) fn load(name: &str, out: &mut Report) -> Result<Option<Graph>, Failure> {
    if let Ok(spec) = name.parse::<GeneratorSpec>() {
        return Ok(Some(spec.graph(1)?));
    }
    let path = Path::new(name);
    if !path.is_file() {
        out.skip(&format!("data absent: no file {}", shown(name)));
        return Ok(None);
    }
    Ok(Some(read_graph(path, &ReadOptions::default())?.graph))
}

/// What a row calls a graph: a file by its name.
pub(super) fn shown(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Settings, and the number of parts where it is not the usual one.
pub(super) struct Variant {
    pub(super) config: Config,
    pub(super) parts: Option<u32>,
}

/// LINE's own way, `faithful`, or what differs from it, one after the other: `fp16`, `share N`, `parts N`, `adagrad`.
pub(super) fn variant(name: &str) -> Result<Variant, Failure> {
    let mut variant = Variant {
        config: Config::default(),
        parts: None,
    };
    let wrong = || Failure::from(format!("no variant `{name}`"));
    let mut words = name.split(' ');
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok());
        let config = &mut variant.config;
        match word {
            "faithful" => {}
            "fp16" => config.precision = Precision::Fp16,
            "share" => config.shared_negatives = number().ok_or_else(wrong)?,
            "parts" => variant.parts = Some(number().ok_or_else(wrong)?),
            "adagrad" => config.optimiser = Optimiser::Adagrad,
            _ => return Err(wrong()),
        }
    }
    Ok(variant)
}
