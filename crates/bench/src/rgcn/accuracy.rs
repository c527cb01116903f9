//! Accuracy of nodes' classes by setting: a fixed number of epochs, one that validation finds, and an
//! untrained model.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::launch;
use crate::measure::Context;
use crate::report::{Failure, Report};

/// Graphs, each with every setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accuracy {
    graphs: Vec<Labelled>,
    settings: Vec<Setting>,
}

/// A graph and its labels, as flags.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    name: String,
    file: String,
    labels: Vec<String>,
}

/// Settings of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    name: String,
    words: Vec<String>,
}

/// Accuracy of the test nodes over the seeds of a setting.
pub(crate) fn accuracy(
    context: &Context<'_>,
    request: &Accuracy,
    out: &mut Report,
) -> Result<(), Failure> {
    for graph in &request.graphs {
        let files = graph.labels.iter().filter(|word| word.contains('/'));
        let is_absent = |file: &&String| !Path::new(file).exists();
        if files.chain([&graph.file]).any(|file| is_absent(&file)) {
            out.skip(&format!("{}: data absent", graph.name));
            continue;
        }
        for setting in &request.settings {
            let mut words = vec!["rgcn".to_owned(), "train".to_owned(), graph.file.clone()];
            words.extend(graph.labels.iter().chain(&setting.words).cloned());
            words.extend(["--format", "json"].map(str::to_owned));
            let answer = launch::run_here(&context.program, &words, &context.scratch)?;
            let mut line = row(&answer)?;
            (line["table"], line["setting"]) = (json!(graph.name), json!(setting.name));
            out.row(line);
        }
    }
    Ok(())
}

/// The numbers of an answer that a row shows.
fn row(answer: &Answer) -> Result<Value, Failure> {
    let epochs = answer.field("best_epochs").and_then(Value::as_array);
    let epochs: Vec<f64> = epochs
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    if epochs.is_empty() {
        return Err("the answer has no best_epochs".into());
    }
    Ok(json!({
        "accuracy": answer.number("accuracy_mean").map_err(Failure::from)?,
        "within": answer.number("accuracy_interval").map_err(Failure::from)?,
        "epochs": epochs.iter().sum::<f64>() / epochs.len() as f64,
        "seeds": epochs.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_mean_over_the_seeds() {
        let text =
            r#"{"accuracy_mean": 0.75, "accuracy_interval": 0.125, "best_epochs": [10, 20]}"#;
        let row = row(&Answer::parse(text).unwrap()).unwrap();
        let expected = json!({"accuracy": 0.75, "within": 0.125, "epochs": 15.0, "seeds": 2});
        assert_eq!(row, expected);
        let message = super::row(&Answer::parse(r#"{"accuracy_mean": 1}"#).unwrap()).unwrap_err();
        assert_eq!(message.to_string(), "the answer has no best_epochs");
    }
}
