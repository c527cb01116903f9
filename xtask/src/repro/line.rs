//! `cargo xtask repro line-fig3` to `line-fig7`, `line-in-flight` and `line-quality`: the figures of the paper on LINE by a hybrid system.
//!
//! The program is the bench target `paper` of the crate line. What it runs, and what the paper says, stands in `benches/repro/line.toml`. A peer in
//! PyTorch runs where `--peer-python` names an interpreter that has it; other programs where `--peer` gives their command.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use super::Options;
use super::program::{self, Lines};
use super::rlgraph::{around, one_line, parts, request, samples, sections};
use crate::definition::string;
use crate::json::{self, Json};
use crate::process;
use crate::project;
use crate::record::Record;
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/line.toml";
const PEER: &str = "xtask/peers/line_torch.py";

/// Redoes one figure.
pub(super) fn run(name: &str, options: &Options) -> Result<ExitCode> {
    let definition = toml::read(&project::root().join(DEFINITION))?;
    let figure = definition.get(name).and_then(Value::as_table);
    let figure = figure.with_context(|| format!("{DEFINITION} lacks `{name}`"))?;
    let program = program::build("shardgraph-line")?;
    let mut record = Record::new(options.host.as_deref(), options.shown(name))?;
    record.report = format!("## {}\n", string(figure, "title")?);
    let (mut details, mut notes) = (Vec::new(), Vec::new());
    for part in parts(figure)? {
        let (command, request) = (string(part, "command")?, request(part, options.test)?);
        let progress = |row: &Json| println!("{name}: {}", one_line(row));
        let mut lines = program::run(&program, &command, &request, progress)?;
        match peer(part, options)? {
            Ok(peer) => {
                lines.objects.extend(peer.objects);
                lines.skips.extend(peer.skips);
            }
            Err(reason) => notes.extend(reason),
        }
        let others = of_programs(&program, part, options)?;
        lines.objects.extend(others.objects);
        lines.skips.extend(others.skips);
        notes.extend(lines.skips);
        ensure!(
            !lines.objects.is_empty() || !notes.is_empty(),
            "`{command}` gave no rows"
        );
        record.report.push_str(&sections(part, &lines.objects)?);
        record.samples.extend(samples(name, part, &lines.objects)?);
        let rows = Json::Array(lines.objects);
        details.push(Json::object([("request", request), ("rows", rows)]));
    }
    record.report.push_str(&around(figure)?);
    for note in notes {
        record.report.push_str(&format!("- {note}\n"));
    }
    record.details = Json::Array(details);
    println!("{}", record.report);
    if !options.test {
        println!("{name}: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

const NO_PROGRAMS: &str =
    "not run: LINE (C++), GraphVite, DeepWalk and node2vec (give each as --peer NAME=COMMAND)";

/// The rows of the user's programs, or that there are none.
fn of_programs(paper: &Path, part: &Table, options: &Options) -> Result<Lines> {
    let (mut all, requests) = (Lines::default(), programs(part, options));
    if requests.as_ref().is_some_and(Vec::is_empty) {
        all.skips.push(NO_PROGRAMS.to_owned());
    }
    for request in requests.into_iter().flatten() {
        let progress = |row: &Json| println!("peer: {}", one_line(row));
        // What we have measured is kept whatever a peer does.
        match program::run(paper, "peer", &request, progress) {
            Ok(lines) => {
                all.objects.extend(lines.objects);
                all.skips.extend(lines.skips);
            }
            Err(why) => {
                let name = request
                    .get("name")
                    .and_then(Json::as_str)
                    .unwrap_or_default();
                all.skips.push(format!(
                    "not run: {name}: {}",
                    format!("{why:#}").replace('\n', "; ")
                ));
            }
        }
    }
    Ok(all)
}

/// What each of the user's programs is asked for; none where a part has no place for them.
fn programs(part: &Table, options: &Options) -> Option<Vec<Json>> {
    let own = part.get("program").and_then(Value::as_table)?;
    let mut own = own.clone();
    let small = part.get("program_test").and_then(Value::as_table);
    for (key, value) in small.into_iter().flatten().filter(|_| options.test) {
        own.insert(key.clone(), value.clone());
    }
    let request = |(name, command): &(String, String)| {
        let mut request = own.clone();
        request.insert("name".to_owned(), Value::String(name.clone()));
        request.insert("command".to_owned(), Value::String(command.clone()));
        program::object(&request)
    };
    Some(options.peers.iter().map(request).collect())
}

/// The rows of the peer; why there are none, where a part has one that did not run.
fn peer(part: &Table, options: &Options) -> Result<Result<Lines, Option<String>>> {
    let Some(own) = part.get("peer").and_then(Value::as_table) else {
        return Ok(Err(None));
    };
    let Some(python) = &options.peer_python else {
        let reason = "not run: PyTorch (give --peer-python an interpreter that has it)";
        return Ok(Err(Some(reason.to_owned())));
    };
    let mut request = own.clone();
    let small = part.get("peer_test").and_then(Value::as_table);
    for (key, value) in small.into_iter().flatten().filter(|_| options.test) {
        request.insert(key.clone(), value.clone());
    }
    let mut command = process::command(python);
    command.args([PEER, &program::object(&request).to_string()]);
    let (mut lines, mut wrong) = (Lines::default(), None);
    let succeeded = process::each_line(&mut command, |line| match json::parse(line) {
        _ if line.starts_with("SKIPPED:") => lines.skips.push(line.to_owned()),
        Ok(row) => {
            println!("peer: {}", one_line(&row));
            lines.objects.push(row);
        }
        Err(error) => wrong = Some(error.context(line.to_owned())),
    })?;
    match (wrong, succeeded) {
        (Some(error), _) => Err(error),
        (None, false) => bail!("{PEER} failed with {python}"),
        (None, true) => Ok(Ok(lines)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rlgraph::{pairs, tables};
    use super::*;
    use crate::definition::strings;

    const FIGURES: [&str; 7] = [
        "line-fig3",
        "line-fig4",
        "line-fig5",
        "line-fig6",
        "line-fig7",
        "line-in-flight",
        "line-quality",
    ];

    #[test]
    fn the_definition_is_whole() {
        let definition = toml::read(&project::root().join(DEFINITION)).unwrap();
        assert_eq!(definition.keys().collect::<Vec<_>>(), FIGURES);
        for name in FIGURES {
            assert!(crate::repro::names().contains(&name));
            let figure = definition[name].as_table().unwrap();
            assert!(around(figure).unwrap().contains("here: "), "{name}");
            for part in parts(figure).unwrap() {
                let (own, small) = (request(part, false).unwrap(), request(part, true).unwrap());
                assert_ne!(own, small, "{name}: a test is to be small");
                let keys = |request: &Json| pairs(request).into_keys().collect::<Vec<_>>();
                assert_eq!(
                    keys(&own),
                    keys(&small),
                    "{name}: a test has other settings"
                );
                let labels = strings(part, "labels").unwrap();
                let columns = tables(part).unwrap().concat();
                assert!(labels.iter().all(|label| columns.contains(label)), "{name}");
            }
        }
    }

    #[test]
    fn every_program_of_the_user_has_a_request_of_its_own() {
        let peer = |name: &str| (name.to_owned(), format!("{name} {{edges}} {{out}}"));
        let options = Options {
            peers: vec![peer("a"), peer("b")],
            test: true,
            ..Options::default()
        };
        let part = "program = { runs = 3 }\nprogram_test = { runs = 1 }";
        let requests = programs(&toml::parse(part).unwrap(), &options).unwrap();
        let texts: Vec<String> = requests.iter().map(Json::to_string).collect();
        assert_eq!(texts.len(), 2);
        for words in ["\"b {edges} {out}\"", "\"name\": \"b\"", "\"runs\": 1"] {
            assert!(texts[1].contains(words), "{texts:?}");
        }
        assert!(programs(&toml::parse("labels = []").unwrap(), &options).is_none());
    }

    #[test]
    fn a_peer_that_nobody_points_at_is_named() {
        let part = toml::parse("peer = { epochs = 1 }").unwrap();
        let reason = |part: &Table| peer(part, &Options::default()).unwrap().err().unwrap();
        assert!(reason(&part).unwrap().contains("not run: PyTorch"));
        let part = toml::parse("labels = []").unwrap();
        assert!(reason(&part).is_none());
    }
}
