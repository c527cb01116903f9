//! `shardgraph rgcn predict --queries`: the likeliest ends of many links at once.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use shardgraph_graph::Labels as Names;
use shardgraph_rgcn::{Question, SavedLinks};

use super::data::{DataArgs, LinkFiles};
use super::links::End;
use crate::exit::BadInput;
use crate::report::ReportArgs;
use crate::{input_file, output_file};

/// The longest file of questions.
const MAX_BYTES: u64 = 256 << 20;

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    queries: Vec<Query>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}

/// A question and its likeliest ends.
#[derive(Serialize)]
struct Query {
    subject: String,
    relation: String,
    object: String,
    ends: Vec<End>,
}

/// Reads the questions, asks the model and prints or writes the answers.
pub(super) fn run(
    path: &Path,
    n_best: usize,
    data: &DataArgs,
    model: &Path,
    out: Option<&Path>,
    report: &ReportArgs,
) -> anyhow::Result<()> {
    if let Some(out) = out {
        output_file::check(out, data.inputs().chain([path]))?;
        report.leave_output_to(Some(out));
    }
    let text = input_file::text(path, MAX_BYTES)?;
    let files = data.load_links()?;
    let mut queries = Vec::new();
    let mut questions = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |why: String| BadInput(format!("{}:{number}: {why}", path.display()));
        let (question, query) = parsed(line, &files).map_err(wrong)?;
        questions.push(question);
        queries.push(query);
    }
    if questions.is_empty() {
        let text = format!("{}: the file holds no question", path.display());
        return Err(BadInput(text).into());
    }
    let saved = SavedLinks::read(&files.links, model)?;
    let best = saved.complete_all(&files.links, &questions, n_best)?;
    for (query, best) in queries.iter_mut().zip(best) {
        let ends = best.iter().map(|end| End {
            node: files.nodes.get(end.node),
            score: end.score,
            known: end.is_known,
        });
        query.ends = ends.collect();
    }
    let mut answer = Answer {
        graph: &files.name,
        queries,
        out: None,
    };
    if let Some(out) = out {
        output_file::write_all(&[(out, answer.table())])?;
        report.note(&format!("wrote {}", out.display()));
        answer.out = Some(out);
        answer.queries.clear();
    }
    report.answer_as(&answer, || {
        Ok(out.map_or_else(|| answer.table(), |_| String::new()))
    })
}

/// The question of a line.
fn parsed(line: &str, files: &LinkFiles) -> Result<(Question, Query), String> {
    let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [subject, relation, object] = columns[..] else {
        let n = columns.len();
        return Err(format!(
            "{n} columns: expected subject, relation and object with tabs between"
        ));
    };
    let found = |names: &Names, name: &str, what: &str| {
        names
            .find(name)
            .ok_or_else(|| format!("{name}: the triples have no such {what}"))
    };
    let (given, is_head) = match (subject, object) {
        ("?", "?") => return Err("both ends are asked for: expected one `?`".to_owned()),
        ("?", given) => (given, true),
        (given, "?") => (given, false),
        _ => return Err("no end is asked for: expected one `?`".to_owned()),
    };
    let question = Question {
        given: found(&files.nodes, given, "node")?,
        relation: found(&files.relations, relation, "relation")?,
        is_head,
    };
    let query = Query {
        subject: subject.to_owned(),
        relation: relation.to_owned(),
        object: object.to_owned(),
        ends: Vec::new(),
    };
    Ok((question, query))
}

impl Answer<'_> {
    /// A line for each end, with a header.
    fn table(&self) -> String {
        let mut text = "subject\trelation\tobject\trank\tnode\tscore\tknown\n".to_owned();
        for query in &self.queries {
            let Query {
                subject,
                relation,
                object,
                ends,
            } = query;
            for (rank, end) in (1..).zip(ends) {
                let End { node, score, known } = end;
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{subject}\t{relation}\t{object}\t{rank}\t{node}\t{score}\t{known}"
                );
            }
        }
        text
    }
}
