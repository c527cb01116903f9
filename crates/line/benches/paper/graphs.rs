//! The graphs of a request, and the variants of training by name.

use std::path::Path;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Graph, ReadOptions, read_graph};
use shardgraph_line::{Config, Mode, Optimiser, Precision};

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

/// Settings, and the number of parts where it is not the usual one.
pub(crate) struct Variant {
    pub(crate) config: Config,
    pub(crate) parts: Option<u32>,
}

/// LINE's own way, `faithful`, or what differs from it, one after the other: `fp16`, `share N`, `parts N`, `hogwild`, `adagrad`.
pub(crate) fn variant(name: &str) -> Result<Variant, Failure> {
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
            "share" => config.share = number().ok_or_else(wrong)?,
            "parts" => variant.parts = Some(number().ok_or_else(wrong)?),
            "hogwild" => config.mode = Some(Mode::Hogwild),
            "adagrad" => config.optimiser = Optimiser::Adagrad,
            _ => return Err(wrong()),
        }
    }
    Ok(variant)
}
