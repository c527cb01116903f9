//! The default way to make a plan against what it is printed beside: on the Standard Task Graphs, whose optima are known, and on the
//! networks of a set over links of today.

use std::fs;
use std::io::Read as _;

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, NAMED_LINKS, Objective};
use shardgraph_costgraph_io::{Format, ReadOptions, read_bytes};
use shardgraph_regal::{Method, PlaceOptions, place};
use tar::Archive;

use super::TEST_GRAPHS;
use super::sets::Source;
use crate::measure::{Context, parsed};
use crate::paths;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StgRequest {
    /// A folder of `Case50_M_OPT.csv` and `stg50.tar.gz` in the data folder.
    folder: String,
    devices: Vec<usize>,
    method: Method,
    #[serde(default)]
    decoder: Option<DecoderKind>,
    evaluations: u64,
}

/// How many plans of a method are optimal, by the number of devices.
pub(crate) fn stg(
    context: &Context<'_>,
    request: &StgRequest,
    out: &mut Report,
) -> Result<(), Failure> {
    let folder = paths::data().join(&request.folder);
    if !folder.exists() {
        out.skip(&format!("no data {}", request.folder));
        return Ok(());
    }
    let packed = fs::read(folder.join("stg50.tar.gz"))?;
    let mut archive = Vec::new();
    MultiGzDecoder::new(&packed[..]).read_to_end(&mut archive)?;
    for &m in &request.devices {
        let optima = fs::read_to_string(folder.join(format!("Case50_{m}_OPT.csv")))?;
        let most = if context.options.test {
            TEST_GRAPHS as usize
        } else {
            usize::MAX
        };
        let (mut n_graphs, mut n_best, mut above) = (0u32, 0u32, 0.0);
        for line in optima.lines().take(most) {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            // Where no optimum is proved: a lower bound, then the best makespan known.
            let (name, best) = (fields[0], fields[fields.len() - 1]);
            let best: u64 = best.parse().context("a makespan")?;
            let graph = task_graph(&archive, name)?;
            let plan = place(
                &graph,
                &DeviceSet::uniform(m, None)?,
                &PlaceOptions {
                    method: request.method,
                    decoder: request.decoder,
                    evaluations: request.evaluations,
                    ..PlaceOptions::default()
                },
            )?;
            n_graphs += 1;
            n_best += u32::from(plan.outcome.runtime_ns <= best);
            above += plan.outcome.runtime_ns as f64 / best as f64 - 1.0;
        }
        out.row(json!({
            "method": request.method, "decoder": request.decoder, "devices": m, "graphs": n_graphs,
            "at_best": n_best, "mean_percent": 100.0 * above / f64::from(n_graphs.max(1)),
        }));
    }
    Ok(())
}

/// A file of a tar archive as a graph.
fn task_graph(archive: &[u8], name: &str) -> Result<Graph, Failure> {
    for entry in Archive::new(archive).entries()? {
        let mut entry = entry?;
        if entry.path()?.as_os_str() == name {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            let options = ReadOptions {
                format: Some(Format::Stg),
                ..ReadOptions::default()
            };
            return Ok(read_bytes(name, &content, &options)?.single()?.graph);
        }
    }
    Err(format!("{name} is not in the archive").into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksRequest {
    source: Source,
    /// By name.
    links: Vec<String>,
    devices: Vec<usize>,
    evaluations: u64,
}

/// The gap to the bound, and plans that are worse than a baseline, by links and devices.
pub(crate) fn links(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    super::complete_source(context, &mut request);
    let request: LinksRequest = parsed(request)?;
    let Some(set) = request.source.load(out)? else {
        return Ok(());
    };
    for name in &request.links {
        let named = NAMED_LINKS.iter().find(|named| named.name == name);
        let link = named.with_context(|| format!("no links {name}"))?.link;
        for &n in &request.devices {
            let devices = DeviceSet::uniform(n, None)?.with_link(link)?;
            let (mut n_worse, mut gaps, mut speedups) = (0u32, 0.0, 0.0);
            for graph in &set.graphs {
                let options = PlaceOptions {
                    evaluations: request.evaluations,
                    ..PlaceOptions::default()
                };
                let plan = place(graph, &devices, &options)?;
                let best = plan.baselines.iter().map(|of| of.outcome.runtime_ns).min();
                n_worse += u32::from(best.is_some_and(|best| plan.outcome.runtime_ns > best));
                gaps += plan.gap().unwrap_or(0.0);
                speedups += plan.speedup().unwrap_or(1.0);
            }
            let count = set.graphs.len().max(1) as f64;
            out.row(json!({
                "links": name, "devices": n, "graphs": set.graphs.len(), "worse": n_worse,
                "mean_gap_percent": 100.0 * gaps / count, "mean_speedup": speedups / count,
            }));
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsRequest {
    source: Source,
    links: String,
    devices: usize,
    /// Limits, as multiples of the smallest peak that a search for memory finds.
    factors: Vec<f64>,
    evaluations: u64,
    /// Every so many graphs of the set, one.
    every: usize,
}

/// How many plans fit within a limit of memory, by the limit.
pub(crate) fn limits(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    super::complete_source(context, &mut request);
    let request: LimitsRequest = parsed(request)?;
    let Some(set) = request.source.load(out)? else {
        return Ok(());
    };
    let named = NAMED_LINKS.iter().find(|named| named.name == request.links);
    let link = named
        .with_context(|| format!("no links {}", request.links))?
        .link;
    let n = request.devices;
    let of_memory = PlaceOptions {
        objective: Objective::Memory,
        evaluations: request.evaluations,
        ..PlaceOptions::default()
    };
    let of_runtime = PlaceOptions {
        objective: Objective::Runtime,
        ..of_memory.clone()
    };
    let free = DeviceSet::uniform(n, None)?.with_link(link)?;
    let graphs: Vec<&Graph> = set.graphs.iter().step_by(request.every.max(1)).collect();
    let mut counts = vec![(0u32, 0.0); request.factors.len()];
    for graph in &graphs {
        let least = place(graph, &free, &of_memory)?.outcome.peak_bytes;
        let fastest = place(graph, &free, &of_runtime)?.outcome.runtime_ns;
        for (count, factor) in counts.iter_mut().zip(&request.factors) {
            let limit = (least as f64 * factor) as u64;
            let devices = DeviceSet::uniform(n, Some(limit))?.with_link(link)?;
            let plan = place(graph, &devices, &of_runtime)?;
            if plan.fits() {
                count.0 += 1;
                count.1 += plan.outcome.runtime_ns as f64 / fastest as f64 - 1.0;
            }
        }
    }
    for ((n_fits, slower), factor) in counts.into_iter().zip(&request.factors) {
        out.row(json!({
            "factor": factor, "devices": n, "graphs": graphs.len(), "fits": n_fits,
            "mean_slower_percent": 100.0 * slower / f64::from(n_fits.max(1)),
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_an_archive_is_found() {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, text) in [("a.stg", "x"), ("b.stg", "1\n0 0 0\n1 5 1 0\n2 0 1 1\n")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            builder
                .append_data(&mut header, name, text.as_bytes())
                .unwrap();
        }
        let archive = builder.into_inner().unwrap();
        assert_eq!(task_graph(&archive, "b.stg").unwrap().n_ops(), 3);
        assert!(task_graph(&archive, "c.stg").is_err());
    }
}
