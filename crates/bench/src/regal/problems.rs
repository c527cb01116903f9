//! Scheduling problems for a solver that proves optima, and the check of what it answers by the replay.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shardgraph_costgraph::generate::{RandomGraph, Synthetic, synthetic};
use shardgraph_costgraph::{
    Decoder, DecoderKind, DeviceSet, Graph, GraphBuilder, Link, ModelOptions, Objective, OpSpec,
    Problem, Schedule, Step, TensorSpec, lower_bounds,
};
use shardgraph_costgraph_io::{ReadOptions, read_bytes};
use shardgraph_costgraph_io::{write_jsonl, write_problem};
use shardgraph_regal::{GeneticOptions, Method, PlaceOptions, place, search};

use super::sets::{SetName, Source};
use crate::report::{Failure, Report, clock};

/// A problem that its JSON describes fully; a line of `tests/corpus/cp_sat.jsonl` of costgraph is one with its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Case {
    /// As [`write_jsonl`] writes it.
    graph: Value,
    n_devices: usize,
    /// Absent: transfers take no time.
    bandwidth_gbs: Option<f64>,
    latency_ns: u64,
    objective: Objective,
    model: ModelOptions,
}

/// What the solver says.
#[derive(Debug, Deserialize)]
struct Answer {
    solver: String,
    status: String,
    bound: f64,
    seconds: f64,
    placement: Vec<u8>,
    /// `[op]` or `[tensor, device]`.
    steps: Vec<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Where `cases.jsonl` and `problems.jsonl` are written, and `answers.jsonl` is read.
    folder: PathBuf,
    /// Leave out the small problems.
    #[serde(default)]
    only_large: bool,
    /// How many graphs of the paper's sizes, the smallest ones of its synthetic set.
    #[serde(default)]
    large: usize,
    /// Of the search that stands beside those of elsewhere; absent: 5000.
    #[serde(default)]
    evaluations: Option<u64>,
    /// Of the searches that are compared with the answers.
    #[serde(default)]
    genetic: GeneticOptions,
}

/// Larger problems are not kept as fixtures.
const MAX_FIXTURE_OPS: usize = 20;

/// Writes the problems.
pub(super) fn write(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let mut cases = large_cases(request, out)?;
    if !request.only_large {
        cases.splice(0..0, small_cases()?);
    }
    let mut case_lines = File::create(request.folder.join("cases.jsonl"))?;
    let mut problem_lines = File::create(request.folder.join("problems.jsonl"))?;
    for case in &cases {
        writeln!(case_lines, "{}", serde_json::to_string(case)?)?;
        let (graph, devices) = case.parts()?;
        let problem = Problem::new(&graph, &devices, case.objective, case.model)?;
        write_problem(&problem, &mut problem_lines)?;
    }
    out.progress(&format!("{} problems", cases.len()));
    Ok(())
}

/// Replays each answer, compares it with the bound and with the genetic algorithm, and writes those that are proven.
pub(super) fn check(request: &Request) -> Result<Vec<Value>, Failure> {
    let read = |name: &str| fs::read_to_string(request.folder.join(name));
    let (cases, answers) = (read("cases.jsonl")?, read("answers.jsonl")?);
    let mut lines = Vec::new();
    let mut proven = File::create(request.folder.join("proven.jsonl"))?;
    for (case, answer) in cases.lines().zip(answers.lines()) {
        let case: Case = serde_json::from_str(case)?;
        let answer: Answer = serde_json::from_str(answer)?;
        let (line, fixture) = check_one(&case, &answer, request)?;
        lines.push(line);
        if let Some(fixture) = fixture {
            writeln!(proven, "{fixture}")?;
        }
    }
    Ok(lines)
}

/// What a genetic algorithm of elsewhere found.
#[derive(Deserialize)]
struct Found {
    graph: String,
    engine: String,
    value: u64,
    evaluations: u64,
    seconds: f64,
    keys: Vec<f32>,
}

/// Decodes the chromosomes of `found.jsonl` again, several in a row for each problem, and searches each problem with our own.
pub(super) fn compare_found(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let read = |name: &str| fs::read_to_string(request.folder.join(name));
    let (cases, found) = (read("cases.jsonl")?, read("found.jsonl")?);
    let found: Vec<Found> = found
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    for case in cases.lines() {
        let case: Case = serde_json::from_str(case)?;
        let (graph, devices) = case.parts()?;
        let problem = Problem::new(&graph, &devices, case.objective, case.model)?;
        for found in found.iter().filter(|found| found.graph == graph.name()) {
            let decoded = Decoder::new(&problem, DecoderKind::Paper).decode(&found.keys);
            if decoded.runtime_ns != found.value {
                let message = format!(
                    "{} of {}: its decoder gives {}, ours {decoded:?}",
                    found.engine, found.graph, found.value
                );
                return Err(message.into());
            }
            show_found(&problem, found, out);
        }
        show_found(&problem, &own_search(&problem, request)?, out);
    }
    Ok(())
}

fn own_search(problem: &Problem<'_>, request: &Request) -> Result<Found, Failure> {
    let options = PlaceOptions {
        decoder: Some(DecoderKind::Paper),
        genetic: request.genetic,
        evaluations: request.evaluations.unwrap_or(5000),
        ..PlaceOptions::default()
    };
    let mut clock = clock();
    let start = clock();
    let outcome = search(problem, &options, Vec::new(), None)?;
    Ok(Found {
        graph: problem.graph().name().to_owned(),
        engine: "shardgraph".to_owned(),
        value: outcome.best.fitness.1,
        evaluations: outcome.evaluations,
        seconds: clock() - start,
        keys: outcome.best.keys,
    })
}

fn show_found(problem: &Problem<'_>, found: &Found, out: &mut Report) {
    let bound = lower_bounds(problem).of(problem.objective());
    out.row(json!({
        "table": "Engines on whole problems", "graph": found.graph, "engine": found.engine,
        "n_ops": problem.graph().n_ops(), "seconds": found.seconds, "runtime_ns": found.value,
        "above_bound_percent": 100.0 * (found.value as f64 / bound as f64 - 1.0),
        "evaluations": found.evaluations,
    }));
}

impl Case {
    fn of(graph: &Graph, objective: Objective) -> Result<Case, Failure> {
        let mut line = Vec::new();
        write_jsonl(graph, &mut line)?;
        Ok(Case {
            graph: serde_json::from_slice(&line)?,
            n_devices: 2,
            bandwidth_gbs: None,
            latency_ns: 0,
            objective,
            model: ModelOptions::default(),
        })
    }

    fn parts(&self) -> Result<(Graph, DeviceSet), Failure> {
        let bytes = serde_json::to_vec(&self.graph)?;
        let graph = read_bytes("case.jsonl", &bytes, &ReadOptions::default())?.single()?;
        let link = Link {
            bandwidth_gbs: self.bandwidth_gbs.unwrap_or(f64::INFINITY),
            latency_ns: self.latency_ns,
        };
        let devices = DeviceSet::uniform(self.n_devices, None)?.with_link(link)?;
        Ok((graph.graph, devices))
    }
}

/// Graphs small enough to be proven, over the questions that the model leaves open.
fn small_cases() -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for index in 0..24u64 {
        let n = [4, 5, 6, 8, 10, 12][(index % 6) as usize];
        let recipe = Synthetic {
            models: vec![
                RandomGraph::ErdosRenyi { p: 0.3 },
                RandomGraph::WattsStrogatz { k: 2, p: 0.3 },
            ],
            min_nodes: n,
            max_nodes: n,
        };
        let graph = with_scratch(&synthetic(&recipe, 7, index)?, index % 4 == 3)?;
        let objective = match index % 4 {
            3 => Objective::Memory,
            _ => Objective::Runtime,
        };
        let mut case = Case::of(&graph, objective)?;
        case.model.control_blocks = index % 3 == 1;
        case.model.keep_outputs = index % 8 == 7;
        if index % 5 == 2 {
            case.n_devices = 3;
        }
        if index % 4 == 1 {
            (case.bandwidth_gbs, case.latency_ns) = (Some(2.0), 5);
        }
        cases.push(case);
    }
    Ok(cases)
}

/// The same graph with scratch and persistent memory, where they are to count.
fn with_scratch(graph: &Graph, is_wanted: bool) -> Result<Graph, Failure> {
    if !is_wanted {
        return Ok(graph.clone());
    }
    let mut builder = GraphBuilder::new(graph.name());
    for op in 0..graph.n_ops() as u32 {
        builder.op(OpSpec {
            internal_bytes: u64::from(op * 37 % 50),
            persistent_bytes: u64::from(op * 17 % 3) * 20,
            ..OpSpec::new(graph.op_name(op), graph.cost_ns(0, op))
        });
    }
    for tensor in 0..graph.n_tensors() as u32 {
        let (producer, consumers) = (graph.producer(tensor), graph.consumers(tensor));
        if graph.is_control(tensor) {
            consumers
                .iter()
                .for_each(|&op| builder.control(producer, op));
        } else {
            builder.tensor(TensorSpec::new(
                producer,
                graph.tensor_bytes(tensor),
                consumers,
            ));
        }
    }
    Ok(builder.build()?)
}

fn large_cases(request: &Request, out: &mut Report) -> Result<Vec<Case>, Failure> {
    if request.large == 0 {
        return Ok(Vec::new());
    }
    let source = json!({ "set": SetName::Synthetic, "max_graphs": 2 * request.large, "genetic": request.genetic });
    let source: Source = serde_json::from_value(source)?;
    let mut graphs = source.load(out)?.map(|set| set.graphs).unwrap_or_default();
    graphs.sort_by_key(Graph::n_ops);
    graphs.truncate(request.large);
    graphs
        .iter()
        .map(|graph| Case::of(graph, Objective::Runtime))
        .collect()
}

/// The line to print, and the fixture if the answer is an optimum.
fn check_one(
    case: &Case,
    answer: &Answer,
    request: &Request,
) -> Result<(Value, Option<Value>), Failure> {
    let (graph, devices) = case.parts()?;
    let problem = Problem::new(&graph, &devices, case.objective, case.model)?;
    let value = value_of(&problem, answer)?;
    let is_proven = answer.status == "OPTIMAL";
    let proves = |value: u64| (answer.bound - value as f64).abs() < 0.5;
    if is_proven && !value.is_some_and(proves) {
        let message = format!(
            "{}: the replay gives {value:?}, the solver proved {}",
            graph.name(),
            answer.bound
        );
        return Err(message.into());
    }
    let searched = |decoder| -> Result<u64, Failure> {
        let options = PlaceOptions {
            objective: case.objective,
            method: Method::Brkga,
            decoder: Some(decoder),
            genetic: request.genetic,
            model: case.model,
            ..PlaceOptions::default()
        };
        Ok(place(&graph, &devices, &options)?.value())
    };
    let line = json!({
        "graph": graph.name(), "n_ops": graph.n_ops(), "n_devices": case.n_devices, "objective": case.objective,
        "status": answer.status, "solver": answer.solver, "solver_bound": answer.bound, "seconds": answer.seconds,
        "value": value, "lower_bound": lower_bounds(&problem).of(case.objective),
        "paper": searched(DecoderKind::Paper)?, "list": searched(DecoderKind::List)?,
    });
    let is_small = graph.n_ops() <= MAX_FIXTURE_OPS;
    let value = value.filter(|_| is_proven && is_small);
    Ok((line, value.map(|value| fixture(case, answer, value))))
}

/// What the replay says of the solver's schedule; nothing where it has none.
fn value_of(problem: &Problem<'_>, answer: &Answer) -> Result<Option<u64>, Failure> {
    if answer.steps.is_empty() {
        return Ok(None);
    }
    let schedule = Schedule {
        placement: answer.placement.clone(),
        steps: answer
            .steps
            .iter()
            .filter_map(|step| as_step(step))
            .collect(),
    };
    let outcome = schedule.verify(problem)?.outcome;
    Ok(Some(match problem.objective() {
        Objective::Runtime => outcome.runtime_ns,
        Objective::Memory => outcome.peak_bytes,
    }))
}

fn fixture(case: &Case, answer: &Answer, optimum: u64) -> Value {
    let mut fixture = json!(case);
    fixture["optimum"] = json!(optimum);
    fixture["solver"] = json!(answer.solver);
    fixture["placement"] = json!(answer.placement);
    fixture["steps"] = json!(answer.steps);
    fixture
}

fn as_step(step: &[u32]) -> Option<Step> {
    match *step {
        [op] => Some(Step::Op(op)),
        [tensor, to] => Some(Step::Transfer {
            tensor,
            to: u8::try_from(to).ok()?,
        }),
        _ => None,
    }
}
