//! Ranks of links by model: decoders alone, and an encoder below one, trained and at random.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::launch;
use crate::measure::Context;
use crate::options::Options;
use crate::paths;
use crate::process::{self, Ended, each_line_within};
use crate::report::{Failure, Report};

use super::MIB;

/// An epoch of PyKEEN's ComplEx.
const SCRIPT: &str = "link_epochs.py";

const NO_PEER: &str =
    "not run: PyKEEN (give --peer-python an interpreter that has torch and pykeen)";

/// Sets of triples, each with every setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Links {
    graphs: Vec<Triples>,
    settings: Vec<Setting>,
    /// An epoch of PyKEEN's, for `--peer-python`.
    peer: Option<Peer>,
}

/// The sizes of the peer's model, those of the default, and the most seconds that it gets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    dim: u32,
    batch: u32,
    threads: u32,
    seconds: f64,
}

/// Triples to learn from, with those to validate and to test on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Triples {
    name: String,
    /// An archive that has all three, or the file to learn from.
    file: String,
    /// The other files, as flags.
    #[serde(default)]
    sets: Vec<String>,
}

/// A model of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    name: String,
    words: Vec<String>,
}

/// MRR and hits of the test triples, filtered and raw.
pub(crate) fn links(
    context: &Context<'_>,
    request: &Links,
    out: &mut Report,
) -> Result<(), Failure> {
    for triples in &request.graphs {
        if !Path::new(&triples.file).exists() {
            out.skip(&format!("{}: data absent", triples.name));
            continue;
        }
        for setting in &request.settings {
            let mut words = vec!["rgcn".to_owned(), "train".to_owned(), triples.file.clone()];
            words.extend(triples.sets.iter().chain(&setting.words).cloned());
            words.extend(["--task", "links", "--format", "json"].map(str::to_owned));
            let answer = launch::run_here(&context.program, &words, &context.scratch)?;
            let mut line = row(&answer)?;
            (line["table"], line["setting"]) = (json!(triples.name), json!(setting.name));
            out.row(line);
        }
        if let Some(peer) = &request.peer {
            peer.row(context.options, triples, out)?;
        }
    }
    Ok(())
}

impl Peer {
    /// A row with the seconds of one epoch.
    fn row(&self, options: &Options, triples: &Triples, out: &mut Report) -> Result<(), Failure> {
        let Some(python) = options.interpreter() else {
            out.skip(NO_PEER);
            return Ok(());
        };
        let request = json!({
            "file": triples.file, "dim": self.dim, "batch": self.batch, "threads": self.threads,
        });
        let mut command = process::command(python);
        command.arg(paths::peer(SCRIPT)).arg(request.to_string());
        let mut lines = Vec::new();
        let ended = each_line_within(&mut command, self.seconds, |line| {
            lines.push(line.to_owned());
        })?;
        let answer = lines
            .last()
            .and_then(|line| serde_json::from_str(line).ok());
        let answer: Value = match (ended, answer) {
            (Ended::InTime(status), Some(answer)) if status.success() => answer,
            (Ended::Killed, _) => {
                json!({"peer": "PyKEEN", "not_run": format!("no epoch in {} s", self.seconds)})
            }
            _ => return Err(format!("{SCRIPT} failed with {python}").into()),
        };
        out.row(peer_row(&answer, &triples.name));
        Ok(())
    }
}

fn peer_row(answer: &Value, table: &str) -> Value {
    let mut row = match answer["not_run"].as_str() {
        Some(why) => json!({"note": format!("not run: {why}")}),
        None => json!({"epoch_seconds": answer["epoch_seconds"]}),
    };
    let name = answer["peer"].as_str().unwrap_or("a peer");
    (row["table"], row["setting"]) = (json!(table), json!(name));
    row
}

/// The numbers of an answer that a row shows.
fn row(answer: &Answer) -> Result<Value, Failure> {
    let number = |path: [&str; 3]| -> Result<f64, Failure> {
        let [set, kind, name] = path;
        let value = answer.field(set).and_then(|set| set.get(kind)?.get(name));
        let missing = || Failure::from(format!("the answer has no {}", path.join(".")));
        value.and_then(Value::as_f64).ok_or_else(missing)
    };
    let best_epoch = answer.number("best_epoch").map_err(Failure::from)?;
    let epoch_seconds = answer.number("epoch_ms").map_err(Failure::from)? / 1e3;
    let peak_mib = answer.number("peak_mib").ok();
    let predicted_mib = answer.number("predicted_bytes").map_err(Failure::from)? / MIB;
    let valid_mrr = number(["valid", "filtered", "mrr"])?;
    let raw_mrr = number(["test", "raw", "mrr"])?;
    let mut row = json!({
        "best_epoch": best_epoch, "valid_mrr": valid_mrr, "raw_mrr": raw_mrr,
        "epoch_seconds": epoch_seconds, "peak_mib": peak_mib, "predicted_mib": predicted_mib,
    });
    for name in ["mrr", "hits_at_1", "hits_at_3", "hits_at_10"] {
        row[name] = json!(number(["test", "filtered", name])?);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_ranks_of_the_test_triples() {
        let text = r#"{"best_epoch": 3, "epoch_ms": 1500, "peak_mib": 9.5, "predicted_bytes": 2097152, "valid": {"filtered": {"mrr": 0.5}}, "test": {
            "raw": {"mrr": 0.25}, "filtered": {"mrr": 0.4, "hits_at_1": 0.1, "hits_at_3": 0.2, "hits_at_10": 0.3}}}"#;
        let row = row(&Answer::parse(text).unwrap()).unwrap();
        let expected = json!({
            "best_epoch": 3.0, "valid_mrr": 0.5, "raw_mrr": 0.25,
            "epoch_seconds": 1.5, "peak_mib": 9.5, "predicted_mib": 2.0,
            "mrr": 0.4, "hits_at_1": 0.1, "hits_at_3": 0.2, "hits_at_10": 0.3,
        });
        assert_eq!(row, expected);
        let text = r#"{"best_epoch": 3, "epoch_ms": 1, "predicted_bytes": 1, "valid": null}"#;
        let message = super::row(&Answer::parse(text).unwrap());
        let message = message.unwrap_err().to_string();
        assert_eq!(message, "the answer has no valid.filtered.mrr");
    }

    #[test]
    fn a_peer_has_its_seconds_or_why_it_did_not_run() {
        let ran = peer_row(&json!({"peer": "P", "epoch_seconds": 2.5}), "T");
        assert_eq!(
            ran,
            json!({"table": "T", "setting": "P", "epoch_seconds": 2.5})
        );
        let absent = peer_row(&json!({"peer": "P", "not_run": "no torch"}), "T");
        assert_eq!(absent["note"], "not run: no torch");
    }
}
