//! The grid search of "Tuned BRKGA", on graphs that no table reports.

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Objective};
use shardgraph_regal::{GeneticOptions, Grid, PlaceOptions, Tuned, tune, tune_settings};

use super::sets::Source;
use crate::report::{Failure, Report, clock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    series: String,
    sources: Vec<Source>,
    objective: Objective,
    options: PlaceOptions,
    grid: Grid,
    /// The grid is searched on this many graphs, and the best settings then on the others; absent: all of it on all graphs.
    #[serde(default)]
    first_graphs: Option<usize>,
    /// Graphs with more ops are left out.
    #[serde(default)]
    max_ops: Option<usize>,
}

/// How many of the best settings are printed, and come to the second round.
const N_BEST: usize = 12;

pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let mut clock = clock();
    let mut graphs = Vec::new();
    for source in &request.sources {
        graphs.extend(source.load(out)?.map(|set| set.graphs).unwrap_or_default());
    }
    graphs.retain(|graph| graph.n_ops() <= request.max_ops.unwrap_or(usize::MAX));
    let options = PlaceOptions {
        objective: request.objective,
        decoder: Some(DecoderKind::Paper),
        ..request.options.clone()
    };
    let start = clock();
    let (tuned, rounds) = search(request, &graphs, &options)?;
    let names: Vec<&str> = graphs.iter().map(Graph::name).collect();
    let rounds: Vec<String> = rounds
        .iter()
        .map(|[settings, graphs]| format!("{settings} settings on {graphs} graphs"))
        .collect();
    out.progress(&format!(
        "{:.0} s, {}",
        clock() - start,
        rounds.join("; then ")
    ));
    let worst = tuned
        .settings
        .last()
        .map_or(f64::NAN, |(_, ratio)| ratio - 1.0);
    let note = format!(
        "{}; graphs {}; the worst setting of the last round is {:.2} % above the plain numbers",
        rounds.join("; then "),
        names.join(" "),
        100.0 * worst
    );
    for (rank, (setting, ratio)) in tuned.settings.iter().take(N_BEST).enumerate() {
        let mut line =
            json!({"table": request.series, "improvement_percent": 100.0 * (1.0 - ratio)});
        let setting = serde_json::to_value(setting)?;
        for (key, value) in setting.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        line["note"] = json!(if rank == 0 { note.as_str() } else { "" });
        out.row(line);
    }
    Ok(())
}

/// The last round's outcome, and the settings and graphs of each round.
fn search(
    request: &Request,
    graphs: &[Graph],
    options: &PlaceOptions,
) -> Result<(Tuned, Vec<[usize; 2]>), Failure> {
    let devices = DeviceSet::uniform(2, None)?;
    let n_first = request
        .first_graphs
        .unwrap_or(graphs.len())
        .min(graphs.len());
    let (first, others) = graphs.split_at(n_first);
    let tuned = tune(first, &devices, options, &request.grid)?;
    let mut rounds = vec![[tuned.settings.len(), first.len()]];
    if others.is_empty() {
        return Ok((tuned, rounds));
    }
    let best = tuned.settings.iter().take(N_BEST);
    let best: Vec<GeneticOptions> = best.map(|(setting, _)| *setting).collect();
    rounds.push([best.len(), others.len()]);
    Ok((tune_settings(others, &devices, options, best)?, rounds))
}
