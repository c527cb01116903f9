//! Seconds of training at equal work: by graph, variant, columns and threads.

use serde::Deserialize;
use serde_json::json;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_line::{Config, NodeLabels, Store, train};

use super::graphs::{Variant, load, shown, variant};
use crate::measure::Context;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Files or generators.
    graphs: Vec<String>,
    variants: Vec<String>,
    dims: Vec<usize>,
    threads: Vec<usize>,
    epochs: u32,
    runs: usize,
}

/// One row for each combination; both orders are trained.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    for name in &request.graphs {
        let Some(graph) = load(name, out)? else {
            continue;
        };
        for variant_name in &request.variants {
            let Variant { config: own, parts } = variant(variant_name)?;
            let store = store(&graph, parts)?;
            for &dim in &request.dims {
                for &threads in &request.threads {
                    let config = Config {
                        dim,
                        threads,
                        epochs: request.epochs,
                        ..own.clone()
                    };
                    let row = row(shown(name), variant_name, &store, &config, request.runs)?;
                    out.row(row);
                }
            }
        }
    }
    Ok(())
}

fn store(graph: &Graph, parts: Option<u32>) -> Result<Store, Failure> {
    let n_nodes = graph.n_nodes();
    let later = |u: u32| graph.neighbors(u).iter().filter(move |&&v| u < v);
    let edges: Vec<(u32, u32)> = (0..n_nodes)
        .flat_map(|u| later(u).map(move |&v| (u, v)))
        .collect();
    let parts = parts.unwrap_or_else(|| Store::default_parts(n_nodes));
    Ok(Store::from_edges(
        n_nodes,
        &edges,
        parts,
        NodeLabels::numbers(n_nodes),
    )?)
}

fn row(
    graph: &str,
    variant: &str,
    store: &Store,
    config: &Config,
    runs: usize,
) -> Result<serde_json::Value, Failure> {
    let bytes_per_sample = config.sharing_in(store).bytes_per_sample();
    let (mut seconds, mut rates, mut gb) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let trained = train(store, config, &Device::host(), &mut |_| {})?;
        let expected = 2 * u64::from(config.epochs) * store.n_edges();
        if trained.n_samples != expected {
            return Err(format!("{} samples, expected {expected}", trained.n_samples).into());
        }
        let is_finite = trained.embedding.values().iter().all(|x| x.is_finite());
        if !is_finite {
            return Err("rows that are not finite".into());
        }
        seconds.push(trained.seconds);
        rates.push(trained.samples_per_s());
        gb.push(trained.samples_per_s() * bytes_per_sample / 1e9);
    }
    Ok(json!({
        "graph": graph, "method": format!("ours, {variant}"), "nodes": store.n_nodes(), "edges": store.n_edges(),
        "dim": config.dim, "threads": config.threads, "epochs": config.epochs, "seconds": seconds, "samples_per_s": rates,
        "bytes_per_sample": bytes_per_sample, "row_gb_per_s": gb,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedEpochs {
    edges: u64,
    epochs: u64,
    /// What the paper says that it takes.
    seconds: f64,
    /// What the memory of its card gives.
    gb_per_s: f64,
}

/// What a claim would move, and what the card could: arithmetic, not measured.
pub(crate) fn bytes(
    _: &Context<'_>,
    claim: &PublishedEpochs,
    out: &mut Report,
) -> Result<(), Failure> {
    for name in ["faithful", "fp16", "share 16", "share 16 fp16"] {
        let config = variant(name)?.config;
        let samples = (claim.edges * claim.epochs) as f64;
        let bytes = samples * config.bytes_per_sample();
        out.row(json!({
                "variant": name, "computed_samples": samples, "bytes_per_sample": config.bytes_per_sample(),
                "terabytes": bytes / 1e12, "tb_per_s_as_claimed": bytes / claim.seconds / 1e12,
                "least_seconds_on_the_card": bytes / (claim.gb_per_s * 1e9),
            }));
    }
    Ok(())
}
