//! The field's published tables of graph problems: best known, policy, greedy, and what the default
//! `solve` finds within each time limit, beside solvers of others in the same run.

mod instances;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::instances::{Instance, Known};
use crate::answer::Answer;
use crate::launch;
use crate::measure::{Context, parsed};
use crate::opengraphgym::read_matrix_market;
use crate::report::{Failure, Report, ensure};
use crate::statistics::summary;
use crate::{paths, process, python};

const SCRIPT: &str = "graph_problems.py";

/// One table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Problem: a word of `solve --problem`.
    problem: String,
    /// Files, or folders of which every graph is taken.
    graphs: Vec<String>,
    /// Further words of the command, such as `--complement`.
    #[serde(default)]
    flags: Vec<String>,
    /// Where best known objectives come from.
    known: Known,
    /// Time limits in seconds, rising. A later one is left out once the best known is reached or
    /// the optimum proved.
    limits: Vec<f64>,
    /// Later limits are left out once the optimum is proved, and not before.
    #[serde(default)]
    until_proved: bool,
    seeds: Vec<u64>,
    /// Instances that are solved; all without it.
    #[serde(default)]
    first: Option<usize>,
    /// Solvers of others.
    #[serde(default)]
    peers: Vec<Peer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    /// Name of the column, and of the environment.
    name: String,
    packages: Vec<String>,
    solver: String,
    /// Its time limit, on one thread.
    seconds: f64,
}

/// What one instance gave.
struct Found {
    line: Map<String, Value>,
    /// By limit: the median objective over seeds.
    medians: Vec<f64>,
    is_proved: bool,
}

/// Rows of all instances, then one of the whole table.
pub(crate) fn run(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    let mut request: Request = parsed(request)?;
    request.limits_up_to(context.options.seconds);
    let request = request;
    let mut instances = instances::of(&request.graphs, &request.known)?;
    let first = request.first.or(context.options.graphs.map(|n| n as usize));
    instances.truncate(first.unwrap_or(usize::MAX));
    let mut peers = Vec::new();
    for peer in &request.peers {
        match python::interpreter(context.options, &peer.name, &peer.packages)? {
            Ok(python) => peers.push((peer, python)),
            Err(why) => out.skip(&format!("{}: {why}", peer.name)),
        }
    }
    let mut all = Vec::new();
    for instance in &instances {
        let mut found = request.solve(context, instance)?;
        for (peer, python) in &peers {
            let objective = request.ask(context, instance, peer, python)?;
            let column = format!("{} {} s", peer.name, peer.seconds);
            found.line.insert(column, json!(objective));
        }
        out.row(Value::Object(found.line.clone()));
        all.push((instance, found));
    }
    out.row(request.whole(&all));
    Ok(())
}

impl Request {
    /// The limits below `--seconds`, and that one as the last; those of the definition without it.
    fn limits_up_to(&mut self, seconds: Option<f64>) {
        if let Some(seconds) = seconds {
            self.limits.retain(|&limit| limit < seconds);
            self.limits.push(seconds);
        }
    }

    fn words(&self, instance: &Instance) -> Vec<String> {
        let mut words = vec![
            "solve".to_owned(),
            instance.path.display().to_string(),
            "--problem".to_owned(),
            self.problem.clone(),
            "--format".to_owned(),
            "json".to_owned(),
        ];
        if let Some(index) = instance.index {
            words.extend(["--index".to_owned(), index.to_string()]);
        }
        words.extend(self.flags.iter().cloned());
        words
    }

    /// True where `objective` is at least as good as `other`.
    fn reaches(&self, objective: f64, other: f64) -> bool {
        !is_better(&self.problem, other, objective)
    }

    fn solve(&self, context: &Context<'_>, instance: &Instance) -> Result<Found, Failure> {
        let mut line = Map::new();
        line.insert("graph".to_owned(), json!(instance.name));
        let (mut medians, mut is_proved) = (Vec::new(), false);
        let mut objectives = Vec::new();
        for (k, &limit) in self.limits.iter().enumerate() {
            let is_done = |&found: &f64| {
                let is_reached = |best| !self.until_proved && self.reaches(found, best);
                is_proved || instance.best.is_some_and(is_reached)
            };
            if medians.last().is_some_and(is_done) {
                medians.push(medians[k - 1]);
                line.insert(column(limit), json!(objectives));
                continue;
            }
            objectives.clear();
            let mut seconds = Vec::new();
            let mut bounds = Vec::new();
            is_proved = true;
            for &seed in &self.seeds {
                let mut words = self.words(instance);
                words.extend(["--time-limit".to_owned(), format!("{}ms", limit * 1e3)]);
                words.extend(["--seed".to_owned(), seed.to_string()]);
                words.extend((k == 0 && seed == self.seeds[0]).then(|| "--compare".to_owned()));
                let answer = launch::run_here(&context.program, &words, &context.scratch)?;
                let is_verified = answer.field("verified").and_then(Value::as_bool);
                ensure(is_verified == Some(true), || {
                    format!("{words:?}: not verified")
                })?;
                if k == 0 && seed == self.seeds[0] {
                    self.describe(&answer, &mut line)?;
                }
                objectives.push(answer.number("objective")?);
                seconds.push(answer.number("seconds")?);
                bounds.extend(answer.field("bound").and_then(Value::as_f64));
                is_proved &= answer.field("optimal") == Some(&json!(true));
            }
            for &objective in &objectives {
                let is_sound = bounds.iter().all(|&bound| self.reaches(bound, objective));
                ensure(is_sound, || {
                    format!("{}: {objective} is beyond a bound", instance.name)
                })?;
            }
            medians.push(median(&objectives));
            line.insert(column(limit), json!(objectives));
            line.insert("seconds".to_owned(), json!(seconds));
            line.insert("proved".to_owned(), json!(f64::from(u8::from(is_proved))));
        }
        if let Some(best) = instance.best {
            line.insert("best_known".to_owned(), json!(best));
            if is_proved {
                let last = medians.last().copied().unwrap_or(best);
                ensure(self.reaches(last, best), || {
                    format!("{}: {last} is proved, and {best} is known", instance.name)
                })?;
            }
        }
        Ok(Found {
            line,
            medians,
            is_proved,
        })
    }

    /// Size of the graph, the policy and the best of the greedy algorithms, from `--compare`.
    fn describe(&self, answer: &Answer, line: &mut Map<String, Value>) -> Result<(), Failure> {
        for key in ["nodes", "edges"] {
            line.insert(key.to_owned(), json!(answer.number(key)?));
        }
        let rows = answer.field("rows").and_then(Value::as_array);
        let mut greedy: Option<f64> = None;
        for row in rows.into_iter().flatten() {
            let name = row["name"].as_str().unwrap_or_default();
            let Some(objective) = row["objective"].as_f64() else {
                continue;
            };
            if name == "policy" {
                line.insert("policy".to_owned(), json!(objective));
            } else if name.starts_with("greedy")
                && greedy.is_none_or(|greedy| !self.reaches(greedy, objective))
            {
                greedy = Some(objective);
            }
        }
        if let Some(greedy) = greedy {
            line.insert("greedy".to_owned(), json!(greedy));
        }
        Ok(())
    }

    /// The objective of another solver, if it found any.
    fn ask(
        &self,
        context: &Context<'_>,
        instance: &Instance,
        peer: &Peer,
        python: &Path,
    ) -> Result<Option<f64>, Failure> {
        let graph = context.scratch.join("graph.mtx");
        let mut words = self.words(instance);
        words.splice(0..1, ["convert".to_owned()]);
        words.retain(|word| *word != "--problem" && *word != self.problem);
        words.insert(2, graph.display().to_string());
        launch::run_here(&context.program, &words, &context.scratch)?;
        let read = read_matrix_market(&fs::read_to_string(&graph)?)?;
        let lines = context.scratch.join("edges.txt");
        let mut text = String::new();
        for (u, v) in &read.edges {
            writeln!(text, "{} {}", u - 1, v - 1)?;
        }
        fs::write(&lines, text)?;
        let asked = json!({
            "solver": peer.solver, "problem": self.problem, "edges": lines, "n_nodes": read.n_nodes,
            "seconds": peer.seconds, "seed": self.seeds[0],
        });
        let words = [paths::peer(SCRIPT).display().to_string(), asked.to_string()];
        let ran = process::measure(python, &words, &context.scratch)?;
        ensure(ran.exit_code == Some(0), || {
            let last = ran.stderr.lines().last().unwrap_or("no message");
            format!("{SCRIPT}, {}: {last}", peer.solver)
        })?;
        let last = ran.stdout.lines().last().unwrap_or_default();
        let answer: Value = serde_json::from_str(last)?;
        Ok(answer["objective"].as_f64())
    }

    /// The table in one row: how many reach the best known by each limit, how many are proved, and
    /// the mean gap.
    fn whole(&self, all: &[(&Instance, Found)]) -> Value {
        let mut line = Map::new();
        line.insert("graph".to_owned(), json!("all"));
        line.insert("instances".to_owned(), json!(all.len()));
        let known: Vec<(f64, &Found)> = all
            .iter()
            .filter_map(|(instance, found)| Some((instance.best?, found)))
            .collect();
        line.insert("known".to_owned(), json!(known.len()));
        for (k, &limit) in self.limits.iter().enumerate() {
            let reaches = |found: &Found, best: f64| self.reaches(found.medians[k], best);
            let n_reached = known.iter().filter(|(best, found)| reaches(found, *best));
            let gap = |(best, found): &(f64, &Found)| {
                let sign = if reaches(found, *best) { -1.0 } else { 1.0 };
                sign * 100.0 * (found.medians[k] - best).abs() / best.abs().max(1.0)
            };
            if known.is_empty() {
                continue;
            }
            let mean = known.iter().map(gap).sum::<f64>() / known.len() as f64;
            line.insert(format!("reached in {limit} s"), json!(n_reached.count()));
            // Nothing has no sign.
            line.insert(format!("mean gap in {limit} s, percent"), json!(mean + 0.0));
        }
        let n_proved = all.iter().filter(|(_, found)| found.is_proved).count();
        line.insert("proved optimal".to_owned(), json!(n_proved));
        Value::Object(line)
    }
}

/// True where the first objective of a problem is better than the second.
pub(crate) fn is_better(problem: &str, one: f64, other: f64) -> bool {
    match ["mis", "clique", "cut"].contains(&problem) {
        true => one > other,
        false => one < other,
    }
}

fn column(limit: f64) -> String {
    format!("ours {limit} s")
}

fn median(values: &[f64]) -> f64 {
    summary(values).map_or(f64::NAN, |summary| summary.median)
}
