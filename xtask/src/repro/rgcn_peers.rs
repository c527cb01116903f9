//! PyG's, DGL's and plain PyTorch layers on the same graph, by a script in an interpreter that has them.

use anyhow::{Result, bail};

use super::Options;
use super::rgcn::Graph;
use crate::json::{self, Json};
use crate::process;

const SCRIPT: &str = "xtask/peers/rgcn_layers.py";

/// What the peers gave.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) section: String,
    pub(super) details: Vec<Json>,
}

/// Runs all layers, each for so many epochs and seconds at most; a note where there is no interpreter.
pub(super) fn run(
    graph: &Graph,
    options: &Options,
    (epochs, seconds): (f64, f64),
) -> Result<Peers> {
    let Some(python) = &options.peer_python else {
        // PyPI's torch for Linux comes with several GB of CUDA, which no command here installs unasked.
        let note = "not run: PyTorch, PyG, DGL (give --peer-python an interpreter that has torch, and torch_geometric or dgl for theirs)";
        return Ok(Peers {
            section: format!("- {note}\n\n"),
            ..Peers::default()
        });
    };
    let request = Json::object([
        ("graph", Json::text(&graph.file)),
        (
            "labels",
            Json::Array(graph.labels.iter().map(|word| Json::text(word)).collect()),
        ),
        ("hidden", Json::Number(graph.hidden)),
        ("bases", Json::Number(40.0)),
        ("epochs", Json::Number(epochs)),
        ("seconds", Json::Number(seconds)),
    ]);
    let mut command = process::command(python);
    command.args([SCRIPT, &request.to_string()]);
    let (mut peers, mut wrong) = (Peers::default(), None);
    let header = "| peer | forward ms | backward ms | epoch ms, least of | MiB, process |\n|---|---|---|---|---|\n";
    peers.section.push_str(header);
    let succeeded = process::each_line(&mut command, |line| match json::parse(line) {
        Ok(row) => {
            peers.section.push_str(&table_row(&row));
            peers.details.push(row);
        }
        Err(error) => wrong = Some(error.context(line.to_owned())),
    })?;
    peers.section.push('\n');
    match (wrong, succeeded) {
        (Some(error), _) => Err(error),
        (None, false) => bail!("{SCRIPT} failed with {python}"),
        (None, true) => Ok(peers),
    }
}

fn table_row(row: &Json) -> String {
    let text = |key: &str| {
        row.get(key)
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if let Some(reason) = row.get("not_run").and_then(Json::as_str) {
        return format!("| {} | not run: {reason} |\n", text("peer"));
    }
    let number = |key: &str| row.get(key).and_then(Json::as_number).unwrap_or(f64::NAN);
    format!(
        "| {} | {:.2} | {:.2} | {:.2}, {} | {:.1} |\n",
        text("peer"),
        number("forward_ms"),
        number("backward_ms"),
        number("epoch_ms"),
        number("epochs"),
        number("peak_mib"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_reasons_are_shown() {
        let row = |text: &str| table_row(&json::parse(text).unwrap());
        assert_eq!(
            row(r#"{"peer":"DGL","not_run":"no dgl"}"#),
            "| DGL | not run: no dgl |\n"
        );
        let shown = row(
            r#"{"peer":"PyG 2","forward_ms":1,"backward_ms":2.5,"epoch_ms":4,"epochs":6,"peak_mib":8}"#,
        );
        assert_eq!(shown, "| PyG 2 | 1.00 | 2.50 | 4.00, 6 | 8.0 |\n");
    }

    #[test]
    fn peers_that_nobody_points_at_are_named() {
        let graph = Graph {
            name: "G".to_owned(),
            file: "f".to_owned(),
            labels: Vec::new(),
            hidden: 16.0,
        };
        let peers = run(&graph, &Options::default(), (1.0, 1.0)).unwrap();
        assert!(peers.section.contains("not run: PyTorch, PyG, DGL") && peers.details.is_empty());
    }
}
