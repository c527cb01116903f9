//! `cargo xtask repro rgcn-tables`, `rgcn-fig5` and `rgcn-partition`: the tables of the paper on relations over devices, on our graphs.
//!
//! Each row is a run of `shardgraph rgcn`; what runs stands in `benches/repro/rgcn.toml`. A graph whose files are not there is said to be absent, a
//! setting that the program refuses is shown with its reason. PyG's, DGL's and plain
//! PyTorch layers run where `--peer-python` names an interpreter.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use super::Options;
use super::program::to_json;
use super::rgcn_peers;
use crate::answer::Metric;
use crate::definition::{number, string, strings};
use crate::json::{self, Json};
use crate::process::{self, Measured};
use crate::project;
use crate::record::{Record, Sample};
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/rgcn.toml";

/// Redoes one of the three.
pub(super) fn run(name: &str, options: &Options) -> Result<ExitCode> {
    let repro = Repro::new(options)?;
    let mut record = Record::new(options.host.as_deref(), options.shown(name))?;
    let mut details = Vec::new();
    for graph in tables(&repro.definition, "graph")? {
        let section = match repro.graph(graph)? {
            Err(absent) => {
                println!("SKIPPED: {absent}");
                format!("## {}\n\n{absent}\n\n", string(graph, "name")?)
            }
            Ok(graph) if name == "rgcn-partition" => repro.partitions(&graph, &mut details)?,
            Ok(graph) => repro.epochs(name, &graph, (&mut record.samples, &mut details))?,
        };
        println!("{section}");
        record.report.push_str(&section);
        if options.test {
            break; // In a test all graphs are the same.
        }
    }
    if name != "rgcn-partition" {
        let line = "Milliseconds are the least of all epochs of a run, of which a row that has its own number says it; bytes of a device are the most at any moment of a step, gradients among them.";
        record.report.push_str(&format!(
            "- {} epochs a run. {line}\n",
            repro.epochs_a_run()?
        ));
    }
    for line in strings(&repro.definition, "published")? {
        record.report.push_str(&format!("- {line}\n"));
    }
    record.details = Json::Array(details);
    if !options.test {
        println!("{name}: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What all rows need.
struct Repro<'a> {
    options: &'a Options,
    definition: Table,
    program: PathBuf,
    scratch: PathBuf,
}

/// A graph that is there: the words that name it and its labels.
pub(super) struct Graph {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) labels: Vec<String>,
    pub(super) hidden: f64,
}

impl<'a> Repro<'a> {
    fn new(options: &'a Options) -> Result<Repro<'a>> {
        let scratch = project::target().join("repro-rgcn");
        std::fs::create_dir_all(&scratch)?;
        Ok(Repro {
            options,
            definition: toml::read(&project::root().join(DEFINITION))?,
            program: process::build_shardgraph()?,
            scratch,
        })
    }

    /// The graph of a definition, or why there is none.
    fn graph(&self, table: &Table) -> Result<Result<Graph, String>> {
        let name = string(table, "name")?;
        let hidden = number(table, "hidden")?;
        if self.options.test {
            return Ok(Ok(Graph {
                name,
                file: string(&self.definition, "test_graph")?,
                labels: Vec::new(),
                hidden,
            }));
        }
        let (file, labels) = (string(table, "file")?, strings(table, "labels")?);
        let Some(given) = self.place(&file) else {
            return Ok(Err(format!(
                "{name}: data absent: give its folder with --data"
            )));
        };
        let labels: Option<Vec<String>> = labels.iter().map(|word| self.place(word)).collect();
        let labels = labels.unwrap_or_default();
        let is_absent = |word: &&String| word.contains('/') && !Path::new(word).exists();
        let absent = labels.iter().chain([&given]).find(is_absent).cloned();
        match absent {
            Some(absent) => Ok(Err(format!("{name}: data absent: no {absent}"))),
            None => Ok(Ok(Graph {
                name,
                file: given,
                labels,
                hidden,
            })),
        }
    }

    /// A word with its folders in place; none where it needs --data.
    fn place(&self, word: &str) -> Option<String> {
        let word = word.replace("{data}", &project::data().display().to_string());
        match &self.options.data {
            Some(given) => Some(word.replace("{given}", given)),
            None => (!word.contains("{given}")).then_some(word),
        }
    }

    fn shardgraph(&self, words: &[String]) -> Result<Measured> {
        process::measure(&self.program, words, &self.scratch)
    }

    /// The seconds of an epoch in each setting.
    fn epochs(
        &self,
        name: &str,
        graph: &Graph,
        (samples, details): (&mut Vec<Sample>, &mut Vec<Json>),
    ) -> Result<String> {
        let mut rows = Rows::default();
        for setting in tables(&self.definition, "setting")? {
            let row = self.row(graph, setting, rows.whole_bytes())?;
            println!("{}: {}: {}", graph.name, row.name, row.summary());
            samples.extend(row.samples(name, &graph.name));
            details.push(row.to_json(&graph.name));
            rows.0.push(row);
        }
        let mut section = rows.section(name, graph);
        let limits = (
            self.epochs_a_run()?,
            number(&self.definition, "peer_seconds")?,
        );
        let peers = rgcn_peers::run(graph, self.options, limits)?;
        details.extend(peers.details);
        section.push_str(&peers.section);
        Ok(section)
    }

    fn epochs_a_run(&self) -> Result<f64> {
        let key = if self.options.test {
            "test_epochs"
        } else {
            "epochs"
        };
        number(&self.definition, key)
    }

    /// One run. `whole` is what one device holds of all.
    fn row(&self, graph: &Graph, setting: &Table, whole: Option<f64>) -> Result<Row> {
        let mut words = vec!["rgcn".to_owned(), "train".to_owned(), graph.file.clone()];
        words.extend(graph.labels.iter().cloned());
        words.extend(strings(&self.definition, "common")?);
        words.extend(["--hidden".to_owned(), graph.hidden.to_string()]);
        // A slow setting has fewer of its own.
        let own = setting.get("epochs").and_then(Value::as_number);
        let epochs = own.unwrap_or(f64::INFINITY).min(self.epochs_a_run()?);
        words.extend(["--epochs".to_owned(), epochs.to_string()]);
        words.extend(strings(setting, "words")?);
        let name = match own {
            Some(_) => format!("{}, {epochs} epochs", string(setting, "name")?),
            None => string(setting, "name")?,
        };
        if let Some(share) = setting.get("budget_share").and_then(Value::as_number) {
            let Some(whole) = whole else {
                let answer =
                    Err("one device did not run, of whose bytes this is a share".to_owned());
                return Ok(Row { name, answer });
            };
            let bytes = (share * whole).floor();
            words.extend(["--budget-per-device".to_owned(), bytes.to_string()]);
        }
        words.extend(["--format".to_owned(), "json".to_owned()]);
        let measured = self.shardgraph(&words)?;
        let answer = match measured.exit_code {
            Some(0) => Ok(json::parse(&measured.stdout)?),
            Some(2) => Err(last_line(&measured.stderr)),
            code => bail!("{name}: exit code {code:?}: {}", measured.stderr),
        };
        Ok(Row { name, answer })
    }

    /// The partition tables of a graph.
    fn partitions(&self, graph: &Graph, details: &mut Vec<Json>) -> Result<String> {
        let mut section = format!(
            "## {}\n\n| devices | method | cost, max / mean | edges, max / mean | MiB a device, most | MiB, replicated | relations in several parts |\n|---|---|---|---|---|---|---|\n",
            graph.name
        );
        let key = if self.options.test {
            "test_devices"
        } else {
            "devices"
        };
        let devices = self
            .definition
            .get(key)
            .map(to_json)
            .context("no devices")?;
        for n_devices in devices.as_array().unwrap_or_default() {
            let n_devices = n_devices.as_number().context("a device count")?;
            for method in strings(&self.definition, "methods")? {
                let plan = self.plan(graph, n_devices, &method)?;
                section.push_str(&partition_row(&plan, n_devices, &method)?);
                details.push(plan);
            }
        }
        section.push('\n');
        Ok(section)
    }

    fn plan(&self, graph: &Graph, n_devices: f64, method: &str) -> Result<Json> {
        let mut words = vec!["rgcn".to_owned(), "plan".to_owned(), graph.file.clone()];
        words.extend(graph.labels.iter().cloned());
        words.extend(["--preset".to_owned(), "paper".to_owned()]);
        words.extend(["--hidden".to_owned(), graph.hidden.to_string()]);
        words.extend(["--devices".to_owned(), n_devices.to_string()]);
        words.extend(["--method".to_owned(), method.to_owned()]);
        words.extend(["--format".to_owned(), "json".to_owned()]);
        let measured = self.shardgraph(&words)?;
        match measured.exit_code {
            Some(0) => json::parse(&measured.stdout),
            code => bail!("rgcn plan: exit code {code:?}: {}", measured.stderr),
        }
    }
}

fn partition_row(plan: &Json, n_devices: f64, method: &str) -> Result<String> {
    let number = |key: &str| {
        let value = plan.get(key).and_then(Json::as_number);
        value.with_context(|| format!("rgcn plan gave no {key}"))
    };
    let bytes = plan.get("bytes_per_device").and_then(Json::as_array);
    let bytes = bytes.unwrap_or_default().iter().filter_map(Json::as_number);
    Ok(format!(
        "| {n_devices} | {method} | {:.3} | {:.3} | {:.1} | {:.1} | {} |\n",
        number("cost_max_over_mean")?,
        number("edges_max_over_mean")?,
        mib(bytes.fold(0.0, f64::max)),
        mib(number("replicated_bytes")?),
        number("split_relations")?,
    ))
}

pub(super) fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn last_line(text: &str) -> String {
    let lines = text.lines().rev();
    let said = lines.into_iter().find(|line| !line.trim().is_empty());
    said.unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}

/// The tables of an array in the definition.
fn tables<'t>(definition: &'t Table, key: &str) -> Result<Vec<&'t Table>> {
    let Some(Value::Array(items)) = definition.get(key) else {
        bail!("{DEFINITION} lacks `{key}`");
    };
    let tables = items.iter().map(|item| item.as_table());
    tables
        .map(|table| table.with_context(|| format!("{key} is no table")))
        .collect()
}

/// A setting and what it gave, or why the program refused it.
struct Row {
    name: String,
    answer: Result<Json, String>,
}

impl Row {
    fn number(&self, key: &str) -> Option<f64> {
        let answer = self.answer.as_ref().ok()?;
        answer.get(key).and_then(Json::as_number)
    }

    fn summary(&self) -> String {
        match &self.answer {
            Err(reason) => format!("not run: {reason}"),
            Ok(_) => format!(
                "{:.2} ms an epoch",
                self.number("epoch_ms").unwrap_or(f64::NAN)
            ),
        }
    }

    /// The most bytes that a device holds between steps.
    fn kept_bytes(&self) -> Option<f64> {
        let answer = self.answer.as_ref().ok()?;
        let bytes = answer.get("bytes_per_rank").and_then(Json::as_array)?;
        bytes.iter().filter_map(Json::as_number).reduce(f64::max)
    }

    /// The most bytes that a device has held, gradients among them.
    fn peak_bytes(&self) -> Option<f64> {
        let answer = self.answer.as_ref().ok()?;
        let devices = answer.get("devices").and_then(Json::as_array)?;
        let peaks = devices.iter().filter_map(|device| device.get("peak_bytes"));
        peaks.filter_map(Json::as_number).reduce(f64::max)
    }

    /// The most bytes of W_r that a device builds; 0 where none does.
    fn weight_bytes(&self) -> Option<f64> {
        let answer = self.answer.as_ref().ok()?;
        let devices = answer.get("devices").and_then(Json::as_array)?;
        let bytes = devices
            .iter()
            .filter_map(|device| device.get("weight_bytes"));
        bytes.filter_map(Json::as_number).reduce(f64::max)
    }

    fn samples(&self, repro: &str, graph: &str) -> Vec<Sample> {
        let keys = [
            ("forward_ms", "ms"),
            ("backward_ms", "ms"),
            ("epoch_ms", "ms"),
            ("peak_mib", "MiB"),
        ];
        let found = keys.into_iter().filter_map(|(key, unit)| {
            Some(Sample {
                series: format!("{repro} {graph}, {}", self.name),
                run_idx: 0,
                metric: Metric::new(key, self.number(key)?, unit),
            })
        });
        found.collect()
    }

    fn to_json(&self, graph: &str) -> Json {
        let answer = match &self.answer {
            Ok(answer) => answer.clone(),
            Err(reason) => Json::text(reason),
        };
        Json::object([
            ("graph", Json::text(graph)),
            ("setting", Json::text(&self.name)),
            ("answer", answer),
        ])
    }
}

/// The settings of one graph.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    /// What the first row, which is one device, holds.
    fn whole_bytes(&self) -> Option<f64> {
        self.0.first().and_then(Row::kept_bytes)
    }

    fn section(&self, name: &str, graph: &Graph) -> String {
        let mut text = format!("## {}\n\n{}", graph.name, self.weights(graph));
        let is_figure = name == "rgcn-fig5";
        text.push_str(match is_figure {
            true => "| setting | epoch ms | times as fast as one device |\n|---|---|---|\n",
            false => "| setting | forward ms | backward ms | epoch ms | MiB a device, most | W_r in it | MiB, process | loss |\n|---|---|---|---|---|---|---|---|\n",
        });
        for row in &self.0 {
            text.push_str(&match &row.answer {
                Err(reason) => format!("| {} | not run: {reason} |\n", row.name),
                Ok(_) if is_figure => self.figure_row(row),
                Ok(_) => table_row(row),
            });
        }
        text.push('\n');
        text
    }

    /// The bytes that all W_r would take: relations, the self loop among them, by nodes by units.
    fn weights(&self, graph: &Graph) -> String {
        let first = self.0.first();
        let number = |key: &str| first.and_then(|row| row.number(key));
        match (number("relations"), number("nodes")) {
            (Some(relations), Some(nodes)) => {
                let bytes = 4.0 * (relations + 1.0) * nodes * graph.hidden;
                format!(
                    "{nodes} nodes, {relations} relations with inverses; all W_r would take {:.1} MiB, with their gradient {:.1} MiB.\n\n",
                    mib(bytes),
                    mib(2.0 * bytes)
                )
            }
            _ => String::new(),
        }
    }

    fn figure_row(&self, row: &Row) -> String {
        let whole = self.0.first().and_then(|row| row.number("epoch_ms"));
        let own = row.number("epoch_ms");
        let factor = whole.zip(own).map_or(f64::NAN, |(whole, own)| whole / own);
        format!(
            "| {} | {:.2} | {factor:.2} |\n",
            row.name,
            own.unwrap_or(f64::NAN)
        )
    }
}

fn table_row(row: &Row) -> String {
    let number = |key: &str| row.number(key).unwrap_or(f64::NAN);
    format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {:.6} |\n",
        row.name,
        number("forward_ms"),
        number("backward_ms"),
        number("epoch_ms"),
        mib(row.peak_bytes().unwrap_or(f64::NAN)),
        mib(row.weight_bytes().unwrap_or(f64::NAN)),
        number("peak_mib"),
        number("final_loss"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_whole() {
        let definition = toml::read(&project::root().join(DEFINITION)).unwrap();
        let names = tables(&definition, "graph").unwrap().len();
        assert_eq!(names, 7);
        for graph in tables(&definition, "graph").unwrap() {
            assert!(number(graph, "hidden").unwrap() > 0.0);
            assert!(!string(graph, "file").unwrap().is_empty());
            strings(graph, "labels").unwrap();
        }
        for setting in tables(&definition, "setting").unwrap() {
            strings(setting, "words").unwrap();
            string(setting, "name").unwrap();
        }
        assert!(!strings(&definition, "published").unwrap().is_empty());
    }

    #[test]
    fn rows_say_what_they_are() {
        let answer = |epoch_ms: f64| {
            let text = format!(
                "{{\"epoch_ms\":{epoch_ms},\"forward_ms\":1,\"backward_ms\":2,\"bytes_per_rank\":[1048576,2097152],\"devices\":[{{\"peak_bytes\":3145728,\"weight_bytes\":0}},{{\"peak_bytes\":4194304,\"weight_bytes\":524288}}],\"nodes\":10,\"relations\":4,\"final_loss\":0.5,\"peak_mib\":3}}"
            );
            Ok(json::parse(&text).unwrap())
        };
        let row = |name: &str, answer| Row {
            name: name.to_owned(),
            answer,
        };
        let rows = Rows(vec![
            row("one device", answer(8.0)),
            row("2 ranks", answer(5.0)),
            row("paper", Err("needs more".to_owned())),
        ]);
        let graph = Graph {
            name: "G".to_owned(),
            file: String::new(),
            labels: Vec::new(),
            hidden: 16.0,
        };
        let figure = rows.section("rgcn-fig5", &graph);
        assert!(figure.contains("| 2 ranks | 5.00 | 1.60 |"), "{figure}");
        let table = rows.section("rgcn-tables", &graph);
        assert!(
            table.contains("| 2 ranks | 1.00 | 2.00 | 5.00 | 4.0 | 0.5 | 3.0 | 0.500000 |"),
            "{table}"
        );
        assert!(table.contains("| paper | not run: needs more |"), "{table}");
        assert!(table.contains("all W_r would take 0.0 MiB"), "{table}");
        assert_eq!(rows.0[1].samples("r", "G").len(), 4);
        assert_eq!(last_line("a\nerror: b\n\n"), "b");
    }
}
