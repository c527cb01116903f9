//! `shardgraph solve --node-weights`: covers and independent sets of nodes that weigh more or less.

use std::path::Path;

use shardgraph_classical::{Budget, Options, Solution, independent_set, vertex_cover};
use shardgraph_device::Timer;
use shardgraph_graph::{Graph, Labels, NodeWeights};
use shardgraph_solver::problem::{
    MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Objective, Problem,
};

use super::answer::{Answer, Row, labelled};
use super::best::SECONDS_AFTER_REDUCTIONS;
use super::drawing::Solved;
use super::{Method, SolveArgs};
use crate::exit::BadInput;
use crate::{input_file, interrupt};

/// The word of `--node-weights` for the weights of the graph's own file.
const OWN: &str = "graph";
/// The longest file of weights: so much, and so much for each node.
const MAX_BYTES: u64 = 1 << 20;
const MAX_NODE_BYTES: u64 = 256;

/// Loads, solves, writes the answer's nodes and prints the answer.
pub(super) fn run(
    args: &SolveArgs,
    problem: &'static Problem,
    source: &Path,
) -> anyhow::Result<()> {
    check(args, problem)?;
    let timeout = args.world.timeout.unwrap_or_default();
    let world = args.world.open(args.world.ranks, timeout)?;
    if world.rank.is_some() || world.n_ranks != 1 {
        let why = "node weights are searched by one rank: take --threads in place of ranks";
        return Err(BadInput(format!("--node-weights: {why}")).into());
    }
    args.check_files()?;
    interrupt::end_by_itself();
    let (graph, origin) = args.graph.whole_graph()?;
    args.check_drawing(&graph, &origin)?;
    let weights = match source == Path::new(OWN) {
        true => of_graph(origin.node_weights.as_ref(), &origin.name)?,
        false => of_file(source, &origin.labels)?,
    };
    let timer = Timer::wall();
    let is_cover = problem.name == MINIMUM_VERTEX_COVER.name;
    let found = search(args, is_cover, &graph, &weights, &timer)?;
    let objective = objective(&graph, is_cover, &found.nodes, &weights)?;
    let seconds = timer.elapsed_s();
    let row = |stage: &shardgraph_classical::Stage| Row {
        name: stage.name.into(),
        objective: Objective::Weight(stage.objective),
        seconds: stage.seconds,
    };
    let bound = match found.is_optimal {
        true => Some(objective),
        false => found.bound,
    };
    let solved = Solved::new(problem, &origin, &graph, &found.nodes);
    let is_written = args.write(&found.nodes, &origin.labels, Some(&solved))?;
    let best = found
        .stages
        .iter()
        .find(|stage| stage.objective.total_cmp(&objective).is_eq());
    args.print(vec![Answer {
        graph: &origin.name,
        problem,
        method: args.method,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        objective: Objective::Weight(objective),
        sense: problem.sense,
        verified: true,
        optimal: found.is_optimal,
        bound: bound.map(Objective::Weight),
        bound_source: bound.map(|_| match found.is_optimal {
            true => "reductions or exact search",
            false => "bounds of the search",
        }),
        gap: bound.map(|bound| (objective - bound).abs() / objective.max(1.0)),
        found_by: best.map_or("search", |stage| stage.name).into(),
        rows: found.stages.iter().map(row).collect(),
        seconds,
        load_seconds: origin.load_seconds,
        seed: args.graph.seed(),
        ranks: 1,
        device: "host".to_owned(),
        policy: None,
        stages: None,
        solution: (!is_written).then(|| labelled(&found.nodes, &origin.labels)),
        out: args.out.as_deref().filter(|_| is_written),
        origin: &origin,
        shows_rows: args.stages.compares(),
    }])
}

/// The best answer within the time or the steps that the flags give.
fn search(
    args: &SolveArgs,
    is_cover: bool,
    graph: &Graph,
    weights: &[u32],
    timer: &Timer,
) -> Result<Solution, shardgraph_classical::Error> {
    let clock = || timer.elapsed_s();
    let steps = args.stages.search_steps();
    let has_end = steps.is_some() || args.method == Method::Exact;
    let budget = Budget {
        clock: &clock,
        time_limit: args
            .time_limit
            .or((!has_end).then_some(SECONDS_AFTER_REDUCTIONS)),
        is_cancelled: &interrupt::is_interrupted,
    };
    let options = Options {
        seed: args.graph.seed(),
        threads: args.threads.map_or(1, u32::from),
        steps,
        ..Options::default()
    };
    match is_cover {
        true => vertex_cover::solve_weighted(graph, weights, &options, &budget),
        false => independent_set::solve_weighted(graph, weights, &options, &budget),
    }
}

/// Refuses what knows no node weights.
fn check(args: &SolveArgs, problem: &Problem) -> Result<(), BadInput> {
    let problems = [MINIMUM_VERTEX_COVER.name, MAXIMUM_INDEPENDENT_SET.name];
    let why = if !problems.contains(&problem.name) {
        format!("are for --problem {}", problems.join(" and "))
    } else if matches!(args.method, Method::Policy | Method::Greedy) {
        format!("are for a search: leave --method {} out", args.method)
    } else if args.model.is_some() {
        "are no input of a policy: leave --model out".to_owned()
    } else if !args.more.is_empty() {
        "are those of one graph: give one".to_owned()
    } else {
        return Ok(());
    };
    Err(BadInput(format!("--node-weights: node weights {why}")))
}

/// The weight of the answer, once it is one.
fn objective(
    graph: &Graph,
    is_cover: bool,
    nodes: &[u32],
    weights: &[u32],
) -> Result<f64, shardgraph_classical::Error> {
    match is_cover {
        true => vertex_cover::check_cover(graph, nodes)?,
        false => independent_set::check_independent_set(graph, nodes)?,
    }
    let weight = |&node: &u32| u64::from(weights[node as usize]);
    Ok(nodes.iter().map(weight).sum::<u64>() as f64)
}

/// Weights of a METIS file.
fn of_graph(weights: Option<&NodeWeights>, name: &str) -> Result<Vec<u32>, BadInput> {
    let wrong = |what: &str| Err(BadInput(format!("{name}: {what}")));
    let Some(weights) = weights else {
        return wrong(
            "it has no node weights, as METIS files may: give a file of labels and weights",
        );
    };
    if weights.n_per_node != 1 {
        return wrong("its nodes have several weights each: give a file of labels and weights");
    }
    let whole = |&weight: &f32| {
        let is_whole = weight.fract() == 0.0 && (0.0..16_777_216.0).contains(&weight);
        is_whole.then_some(weight as u32)
    };
    match weights.values.iter().map(whole).collect() {
        Some(weights) => Ok(weights),
        None => wrong("a node's weight is no whole number from 0 to 16777215"),
    }
}

/// Weights of a file with a label and a weight on each line.
fn of_file(path: &Path, labels: &Labels) -> anyhow::Result<Vec<u32>> {
    input_file::check_exists(path)?;
    let file = path.display();
    let most = MAX_BYTES + MAX_NODE_BYTES * u64::from(labels.n_nodes());
    let text = input_file::text(path, most)?;
    let mut weights: Vec<Option<u32>> = vec![None; labels.n_nodes() as usize];
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: String| BadInput(format!("{file}:{number}: {what}"));
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '%']) {
            continue;
        }
        // The weight is the last field, so that names may have blanks.
        let Some((label, weight)) = line.rsplit_once([' ', '\t', ',']) else {
            return Err(wrong("expected a node and its weight".to_owned()).into());
        };
        let label = label.trim_end_matches([' ', '\t', ',']);
        let quoted = label.strip_prefix('"');
        let label = quoted
            .and_then(|label| label.strip_suffix('"'))
            .unwrap_or(label);
        let Some(node) = labels.find(label) else {
            if number == 1 && weight.parse::<f64>().is_err() {
                continue; // a header
            }
            return Err(wrong(format!("the graph has no node {label:?}")).into());
        };
        let weight = weight.parse().map_err(|_| {
            wrong(format!(
                "{weight:?} is no weight: expected a whole number from 0 to 4294967295"
            ))
        })?;
        if weights[node as usize].replace(weight).is_some() {
            return Err(wrong(format!("node {label} has a weight already")).into());
        }
    }
    let missing = weights.iter().position(Option::is_none);
    match (missing, weights.into_iter().collect()) {
        (None, Some(weights)) => Ok(weights),
        (node, _) => {
            let label = labels.get(node.unwrap_or(0) as u32);
            Err(BadInput(format!(
                "{file}: node {label} has no weight: give each node one"
            ))
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u32>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.csv");
        std::fs::write(&path, text).unwrap();
        of_file(&path, &Labels::offset(5, 3)).map_err(|error| error.to_string())
    }

    #[test]
    fn weights_go_to_their_nodes() {
        assert_eq!(
            read("node,weight\n7,1\n5 20\n# a comment\n6\t0\n").unwrap(),
            [20, 0, 1]
        );
        for (text, why) in [
            ("5 1\n6 1\n", "node 7 has no weight"),
            (
                "5 1\n5 1\n6 1\n7 1\n",
                "w.csv:2: node 5 has a weight already",
            ),
            ("5 1\n8 1\n", "w.csv:2: the graph has no node \"8\""),
            ("5 1.5\n", "w.csv:1: \"1.5\" is no weight"),
            ("5 -1\n", "is no weight"),
            ("5\n", "w.csv:1: expected a node and its weight"),
            ("", "has no weight"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn nodes_with_weights_may_have_blanks_in_their_names() {
        let text = "Anna Lee,Bob Ray\n\"Lee, Bo\",Bob Ray\n";
        let options = shardgraph_graph::ReadOptions::default();
        let import = shardgraph_graph::read_bytes("g.csv", text.as_bytes(), &options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.csv");
        let text = "name,weight\nBob Ray , 3\nAnna Lee\t1\n\"Lee, Bo\",2\n";
        std::fs::write(&path, text).unwrap();
        let weights = of_file(&path, &import.labels).unwrap();
        let of = |name: &str| weights[import.labels.find(name).unwrap() as usize];
        assert_eq!(["Anna Lee", "Bob Ray", "Lee, Bo"].map(of), [1, 3, 2]);
    }

    #[test]
    fn weights_of_the_graph_are_whole_and_one_a_node() {
        let weights = |n_per_node, values: &[f32]| NodeWeights {
            n_per_node,
            values: values.to_vec(),
        };
        assert_eq!(
            of_graph(Some(&weights(1, &[3.0, 0.0])), "g").unwrap(),
            [3, 0]
        );
        for bad in [
            None,
            Some(weights(2, &[1.0, 1.0])),
            Some(weights(1, &[0.5])),
        ] {
            assert!(of_graph(bad.as_ref(), "g").is_err());
        }
    }
}
