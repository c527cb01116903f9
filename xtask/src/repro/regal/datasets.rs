//! `cargo xtask repro datasets`: nodes, edges and diameters of the sets, and what the generator's models and filter make (the
//! paper's figures 5 and 6 and its table 2).

use std::process::ExitCode;

use anyhow::Result;

use super::super::Options;
use super::{Paper, max_graphs, number_at, percent, text_at};
use crate::answer::Metric;
use crate::definition::{number, string, strings};
use crate::json::Json;
use crate::record::{Record, Sample};
use crate::statistics::shown;

/// What the paper's text says; its figures 5 and 6 are histograms without numbers.
const PAPER: &str = "Reported by the paper, on its own graphs:\n\n| set | graphs | what else |\n|---|---|---|\n\
    | TensorFlow | 372 topologies by in-degree sequence, split 60/20/20 % | mined from jobs; with 99 noisy copies each |\n\
    | TF Runtime | 16329 / 5470 / 5266 | train / valid / test, after noise and filter |\n\
    | TF Peak Memory | 22400 / 7400 / 7400 | the same |\n\
    | XLA | 94 (runtime), 32 (memory) | about ten times the nodes and edges of TensorFlow's |\n\
    | Synthetic | 10000 / 1000 / 1000 | 50 to 200 nodes, source and sink; filter: 1K to 10K evaluations gain at least 18 %, kept ones gain 20 % on average |\n\n\
    Figures 5 and 6 are histograms (percent of graphs over nodes, edges and diameters); the text that we have of the paper holds no \
    numbers of them. Table 2 gives the models' parameters, which are those of ours below.\n\n";

const COLUMNS: [&str; 5] = ["nodes", "edges", "diameter", "depth", "tensors"];

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let mut record = Record::new(options.host.as_deref(), options.shown("datasets"))?;
    let mut rows = String::from(
        "| set | graphs | in-degree sequences | number | min | 10 % | median | 90 % | max | mean |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut models, mut details, mut n_skipped) = (String::new(), Vec::new(), 0);
    for set in paper.sets()? {
        let source = Json::Object(paper.source(&set, max_graphs(options))?);
        let lines = paper.run("datasets", &Json::object([("source", source)]), |_| ())?;
        n_skipped += lines.skips.len();
        for line in lines.objects {
            rows.push_str(&section(&line));
            models.push_str(&model_rows(&line));
            record.samples.extend(samples(&line));
            details.push(line);
        }
    }
    let overlaps = overlaps(&paper, options, &mut details)?;
    let report = format!(
        "Edges are (tensor, consumer) pairs, diameters leave directions aside. The sets are the whole ones, without those graphs \
         (one in forty) that are kept back for tuning.\n\n{rows}\n## The generator (A.1.4, Table 2)\n\n| model | parameters | candidates | kept | \
         kept % | mean gain % | mean gain of kept % |\n|---|---|---|---|---|---|---|\n{models}\n{overlaps}\n{PAPER}"
    );
    println!("{report}");
    record.report = report;
    record.details = Json::Array(details);
    println!("datasets: {n_skipped} skipped");
    if !options.test {
        println!("datasets: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Reported graphs with the topology of one that a shipped policy was trained on.
fn overlaps(paper: &Paper, options: &Options, details: &mut Vec<Json>) -> Result<String> {
    let mut text = String::from(
        "## Topologies that a shipped policy was trained on (in-degree sequences)\n\n| policy | its topologies | set | graphs | of \
         them trained on |\n|---|---|---|---|---|\n",
    );
    for row in paper.rows("overlaps")? {
        let sources = |key: &str| -> Result<Json> {
            let sets = strings(row, key)?.into_iter();
            let max_graphs = max_graphs(options).filter(|_| key == "reported");
            let sources = sets.map(|set| paper.source(&set, max_graphs).map(Json::Object));
            Ok(Json::Array(sources.collect::<Result<_>>()?))
        };
        let request = Json::object([
            ("policy", Json::text(&string(row, "policy")?)),
            ("trained_on", sources("trained_on")?),
            ("n_synthetic", Json::Number(number(row, "n_synthetic")?)),
            ("seed", Json::Number(number(row, "seed")?)),
            ("reported", sources("reported")?),
        ]);
        for line in paper.run("overlaps", &request, |_| ())?.objects {
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                text_at(&line, "policy"),
                number_at(&line, &["n_trained_on"]),
                text_at(&line, "set"),
                number_at(&line, &["n_graphs"]),
                number_at(&line, &["n_overlaps"]),
            ));
            details.push(line);
        }
    }
    Ok(text)
}

fn section(line: &Json) -> String {
    let mut text = String::new();
    for column in COLUMNS {
        let values = ["min", "p10", "p50", "p90", "max", "mean"];
        let values = values.map(|key| shown(number_at(line, &[column, key])));
        text.push_str(&format!(
            "| {} | {} | {} | {column} | {} |\n",
            text_at(line, "set"),
            shown(number_at(line, &["n_graphs"])),
            shown(number_at(line, &["n_in_degree_sequences"])),
            values.join(" | ")
        ));
    }
    text
}

fn model_rows(line: &Json) -> String {
    let models = line
        .get("models")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let row = |model: &Json| {
        let number = |key: &str| number_at(model, &[key]);
        format!(
            "| {} | `{}` | {} | {} | {} | {} | {} |\n",
            text_at(model, "model"),
            text_at(model, "parameters"),
            number("n_candidates"),
            number("n_kept"),
            percent(number("n_kept") / number("n_candidates")),
            percent(number("mean_gain")),
            percent(number("mean_gain_of_kept"))
        )
    };
    models.iter().map(row).collect()
}

fn samples(line: &Json) -> Vec<Sample> {
    let series = format!("datasets {}", text_at(line, "set"));
    let column = |column: &'static str| ["min", "p50", "max"].map(|key| (column, key));
    let numbers = COLUMNS.into_iter().flat_map(column);
    numbers
        .map(|(column, key)| Sample {
            series: series.clone(),
            run_idx: 0,
            metric: Metric::new(
                &format!("{column}_{key}"),
                number_at(line, &[column, key]),
                "",
            ),
        })
        .collect()
}
