//! Tables and figures of R-GCN over devices: epochs by setting, what each way of cutting costs,
//! accuracy of classes and ranks of links by model.

mod accuracy;
mod links;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::launch::{self, Ran};
use crate::measure::Context;
use crate::options::{Backend, Options};
use crate::paths;
use crate::process;
use crate::report::{Failure, Report};

pub(crate) use accuracy::accuracy;
pub(crate) use links::links;

/// Layers of PyG, DGL and plain PyTorch, for `--peer-python`.
const SCRIPT: &str = "rgcn_layers.py";

/// PyPI's torch for Linux comes with several GB of CUDA, which no command here installs unasked.
const NO_PEERS: &str = "not run: PyTorch, PyG, DGL (give --peer-python an interpreter that has torch, and torch_geometric or dgl for theirs)";

const MIB: f64 = 1_048_576.0;

/// A graph of the figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    name: String,
    /// A file or a generator; `{given}` is the folder of `--data`.
    file: String,
    #[serde(default)]
    labels: Vec<String>,
    hidden: u32,
}

/// Settings of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    name: String,
    #[serde(default)]
    words: Vec<String>,
    /// Budget of the device, as a share of what one device holds.
    #[serde(default)]
    budget_share: Option<f64>,
    /// Fewer epochs than the others have.
    #[serde(default)]
    epochs: Option<u32>,
}

/// Epochs of each graph with each setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Epochs {
    graphs: Vec<Graph>,
    settings: Vec<Setting>,
    /// Words of every training.
    common: Vec<String>,
    epochs: u32,
    /// For each peer and graph; its epochs until then count.
    peer_seconds: f64,
    /// Numbers of the answer that the figure shows.
    show: Vec<String>,
}

/// Plans for numbers of devices by methods of cutting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Partitions {
    graphs: Vec<Graph>,
    devices: Vec<u32>,
    methods: Vec<String>,
}

/// Seconds and bytes of an epoch.
pub(crate) fn epochs(
    context: &Context<'_>,
    request: &Epochs,
    out: &mut Report,
) -> Result<(), Failure> {
    for graph in &request.graphs {
        let Some(graph) = graph.at_hand(context.options, out) else {
            continue;
        };
        let mut alone: Option<Answer> = None;
        for setting in &request.settings {
            let (name, ran) = request.run(context, &graph, setting, alone.as_ref())?;
            let line = match &ran {
                Ok(answer) => request.row(answer, alone.as_ref()),
                Err(why) => json!({"note": format!("not run: {why}")}),
            };
            out.row(of_graph(line, &graph, &name));
            if let (None, Ok(answer)) = (&alone, ran) {
                alone = Some(answer);
            }
        }
        request.peers(context.options, &graph, out)?;
    }
    Ok(())
}

/// What methods of cutting cost.
pub(crate) fn partitions(
    context: &Context<'_>,
    request: &Partitions,
    out: &mut Report,
) -> Result<(), Failure> {
    for graph in &request.graphs {
        let Some(graph) = graph.at_hand(context.options, out) else {
            continue;
        };
        for devices in &request.devices {
            for method in &request.methods {
                let line = graph.plan(context, *devices, method)?;
                out.row(of_graph(line, &graph, method));
            }
        }
    }
    Ok(())
}

fn of_graph(mut line: Value, graph: &Graph, setting: &str) -> Value {
    (line["table"], line["setting"]) = (json!(graph.name), json!(setting));
    line
}

impl Graph {
    /// The graph with its files in place; a skip where they are absent.
    fn at_hand(&self, options: &Options, out: &mut Report) -> Option<Graph> {
        let given = options
            .data
            .as_ref()
            .map(|folder| folder.display().to_string());
        let fill = |word: &String| match &given {
            Some(given) => word.replace("{given}", given),
            None => word.clone(),
        };
        let graph = Graph {
            file: fill(&self.file),
            labels: self.labels.iter().map(fill).collect(),
            ..self.clone()
        };
        let is_absent = |word: &&String| word.contains('/') && !Path::new(word).exists();
        if let Some(file) = graph.labels.iter().chain([&graph.file]).find(is_absent) {
            let file = file.rsplit('/').next().unwrap_or_default();
            let name = &self.name;
            out.skip(&format!(
                "{name}: data absent: no {file} (--data gives the folder of bgs/ and am/)"
            ));
            return None;
        }
        Some(graph)
    }

    fn plan(&self, context: &Context<'_>, devices: u32, method: &str) -> Result<Value, Failure> {
        let mut words = vec!["rgcn".to_owned(), "plan".to_owned(), self.file.clone()];
        words.extend(self.labels.iter().cloned());
        let (hidden, devices_word) = (self.hidden.to_string(), devices.to_string());
        let own = [
            "--preset",
            "paper",
            "--hidden",
            &hidden,
            "--devices",
            &devices_word,
        ];
        words.extend(own.map(str::to_owned));
        words.extend(["--partition", method, "--format", "json"].map(str::to_owned));
        let plan = launch::run_here(&context.program, &words, &context.scratch)?;
        let bytes = plan.field("bytes_per_device").and_then(Value::as_array);
        let bytes: Vec<f64> = bytes
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        let most = bytes.iter().copied().fold(f64::NAN, f64::max);
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        Ok(json!({
            "devices": devices,
            "cost_max_over_mean": plan.number("cost_max_over_mean")?,
            "edges_max_over_mean": plan.number("edges_max_over_mean")?,
            "bytes_max_over_mean": most / mean,
            "device_mib": most / MIB,
            "replicated_mib": plan.number("replicated_bytes")? / MIB,
            "split_relations": plan.number("split_relations")?,
        }))
    }
}

impl Epochs {
    /// One training, or why the program refused it.
    fn run(
        &self,
        context: &Context<'_>,
        graph: &Graph,
        setting: &Setting,
        alone: Option<&Answer>,
    ) -> Result<(String, Result<Answer, String>), Failure> {
        let mut words = vec!["rgcn".to_owned(), "train".to_owned(), graph.file.clone()];
        words.extend(graph.labels.iter().chain(&self.common).cloned());
        words.extend(["--hidden".to_owned(), graph.hidden.to_string()]);
        let epochs = setting.epochs.unwrap_or(u32::MAX).min(self.epochs);
        words.extend(["--epochs".to_owned(), epochs.to_string()]);
        words.extend(setting.words.iter().cloned());
        let name = match setting.epochs {
            Some(_) => format!("{}, {epochs} epochs", setting.name),
            None => setting.name.clone(),
        };
        if let Some(share) = setting.budget_share {
            let Some(whole) = alone.and_then(|answer| answer.largest("bytes_per_rank")) else {
                let why = "one device did not run, of whose bytes this is a share";
                return Ok((name, Err(why.to_owned())));
            };
            let bytes = (share * whole).floor().to_string();
            words.extend(["--device-memory".to_owned(), bytes]);
        }
        words.extend(["--format", "json"].map(str::to_owned));
        let ran = launch::run(&context.program, &words, &context.scratch, Backend::Threads);
        Ok((
            name,
            match ran {
                Ok(Ran::Answer(answer)) => Ok(answer),
                Ok(Ran::Missing(why)) => Err(why),
                // A budget that does not hold the graph is an answer of the table.
                Err(error) if setting.budget_share.is_some() => Err(format!("{error:#}")),
                Err(error) => return Err(error.into()),
            },
        ))
    }

    fn row(&self, answer: &Answer, alone: Option<&Answer>) -> Value {
        let devices = answer.field("devices").and_then(Value::as_array);
        let largest = |key: &str| {
            let each = devices.into_iter().flatten();
            let bytes = each.filter_map(|device| device.get(key)?.as_f64());
            bytes.reduce(f64::max).map(|bytes| bytes / MIB)
        };
        let number = |key: &str| answer.number(key).ok();
        let whole = alone.unwrap_or(answer).number("epoch_ms").ok();
        let speedup = whole
            .zip(number("epoch_ms"))
            .map(|(whole, own)| whole / own);
        let all = json!({
            "forward_ms": number("forward_ms"), "backward_ms": number("backward_ms"),
            "epoch_ms": number("epoch_ms"), "times_as_fast": speedup,
            "device_mib": largest("peak_bytes"), "weights_mib": largest("weight_bytes"),
            "process_mib": number("peak_mib"), "loss": number("final_loss"),
        });
        let mut line = json!({});
        for key in &self.show {
            line[key] = all[key].clone();
        }
        line
    }

    /// PyG's, DGL's and plain PyTorch layers on the same graph.
    fn peers(&self, options: &Options, graph: &Graph, out: &mut Report) -> Result<(), Failure> {
        let Some(python) = options.interpreter() else {
            out.skip(NO_PEERS);
            return Ok(());
        };
        let request = json!({
            "graph": graph.file, "labels": graph.labels, "hidden": graph.hidden, "bases": 40,
            "epochs": self.epochs, "seconds": self.peer_seconds,
        });
        let mut command = process::command(python);
        command.arg(paths::peer(SCRIPT)).arg(request.to_string());
        process::rows(&mut command, SCRIPT, out, |row| peer_row(&row, graph))
    }
}

fn peer_row(row: &Value, graph: &Graph) -> Value {
    let name = row["peer"].as_str().unwrap_or("a peer");
    let line = match row["not_run"].as_str() {
        Some(why) => json!({"note": format!("not run: {why}")}),
        None => json!({
            "forward_ms": row["forward_ms"], "backward_ms": row["backward_ms"], "epoch_ms": row["epoch_ms"],
            "process_mib": row["peak_mib"], "note": format!("the least of {} epochs", row["epochs"]),
        }),
    };
    of_graph(line, graph, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(file: &str) -> Graph {
        Graph {
            name: "G".to_owned(),
            file: file.to_owned(),
            labels: Vec::new(),
            hidden: 16,
        }
    }

    #[test]
    fn a_row_has_what_the_figure_shows() {
        let epochs = Epochs {
            graphs: Vec::new(),
            settings: Vec::new(),
            common: Vec::new(),
            epochs: 2,
            peer_seconds: 1.0,
            show: vec![
                "epoch_ms".to_owned(),
                "times_as_fast".to_owned(),
                "device_mib".to_owned(),
            ],
        };
        let answer = |ms: f64| {
            let text = format!(
                "{{\"epoch_ms\":{ms},\"devices\":[{{\"peak_bytes\":3145728}},{{\"peak_bytes\":4194304}}]}}"
            );
            Answer::parse(&text).unwrap()
        };
        let row = epochs.row(&answer(5.0), Some(&answer(8.0)));
        assert_eq!(
            row,
            json!({"epoch_ms": 5.0, "times_as_fast": 1.6, "device_mib": 4.0})
        );
    }

    #[test]
    fn absent_data_is_a_skip() {
        let (options, mut out) = (Options::default(), Report::default());
        assert!(
            graph("{given}/bgs/x.nt.gz")
                .at_hand(&options, &mut out)
                .is_none()
        );
        assert!(
            graph("ba-rel:300:2.5:5")
                .at_hand(&options, &mut out)
                .is_some()
        );
        assert_eq!(out.skips.len(), 1);
    }

    #[test]
    fn peers_are_rows_of_the_graphs_table() {
        let row = peer_row(&json!({"peer": "DGL", "not_run": "no dgl"}), &graph("f"));
        assert_eq!(
            row,
            json!({"table": "G", "setting": "DGL", "note": "not run: no dgl"})
        );
    }
}
