//! Ranks of links by model: decoders alone, and an encoder below one, trained and at random.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::launch;
use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};

/// Sets of triples, each with every setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    graphs: Vec<Triples>,
    settings: Vec<Setting>,
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
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let request: Links = parsed(request)?;
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
    }
    Ok(())
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
    let valid_mrr = number(["valid", "filtered", "mrr"])?;
    let raw_mrr = number(["test", "raw", "mrr"])?;
    let mut row = json!({"best_epoch": best_epoch, "valid_mrr": valid_mrr, "raw_mrr": raw_mrr});
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
        let text = r#"{"best_epoch": 3, "valid": {"filtered": {"mrr": 0.5}}, "test": {
            "raw": {"mrr": 0.25}, "filtered": {"mrr": 0.4, "hits_at_1": 0.1, "hits_at_3": 0.2, "hits_at_10": 0.3}}}"#;
        let row = row(&Answer::parse(text).unwrap()).unwrap();
        let expected = json!({
            "best_epoch": 3.0, "valid_mrr": 0.5, "raw_mrr": 0.25,
            "mrr": 0.4, "hits_at_1": 0.1, "hits_at_3": 0.2, "hits_at_10": 0.3,
        });
        assert_eq!(row, expected);
        let message = super::row(&Answer::parse(r#"{"best_epoch": 3, "valid": null}"#).unwrap());
        let message = message.unwrap_err().to_string();
        assert_eq!(message, "the answer has no valid.filtered.mrr");
    }
}
