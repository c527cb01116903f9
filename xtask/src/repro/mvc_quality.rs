//! `cargo xtask repro mvc-quality`: cover sizes on the test graphs, beside the optimum and greedy.
//!
//! Each graph is generated into a file, solved from that file, and the written cover is checked here
//! against the file. What runs stands in `benches/repro/mvc-quality.toml`, the optima in the table that
//! it names (columns graph, seed, n, m, optimum, solver).

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::cover::{check_cover, max_degree_greedy, read_matrix_market};
use crate::answer::{Answer, Metric};
use crate::bench::{fresh_scratch, places};
use crate::definition::{Substitutions, number, string, strings, substitute};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample};
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/mvc-quality.toml";

/// What runs.
struct Definition {
    why: String,
    generate: Vec<String>,
    solve: Vec<String>,
    /// The table of optima.
    optima: String,
    sets: Vec<GraphSet>,
}

/// Graphs of one generator.
struct GraphSet {
    spec: String,
    /// The shipped policy that solves them.
    policy: String,
    seeds: Vec<i64>,
    /// The paper's mean ratio to the optimum, and the conditions it gives.
    paper_ratio: f64,
    paper_note: String,
    /// Our mean ratio is to be no higher.
    target_ratio: f64,
}

/// One line of the table of optima.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Optimum {
    pub(super) n_nodes: usize,
    pub(super) n_edges: usize,
    pub(super) size: usize,
}

/// Cover sizes of one graph.
struct Row {
    spec: String,
    policy: String,
    seed: i64,
    ours: usize,
    greedy: usize,
    optimum: usize,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let definition = Definition::load()?;
    let csv = fs::read_to_string(project::root().join(&definition.optima))
        .with_context(|| format!("cannot read {}", definition.optima))?;
    let program = process::build_shardgraph()?;
    let mut record = Record::new(
        options.host.as_deref(),
        "cargo xtask repro mvc-quality".to_owned(),
    )?;
    record.report = format!(
        "{}\n\n```\nshardgraph {}\n```\n\n",
        definition.why,
        definition.solve.join(" ")
    );
    let mut all_reached = true;
    let mut details = Vec::new();
    for set in &definition.sets {
        let rows = solve_set(&definition, set, &csv, &program)?;
        let means = Means::of(&rows);
        all_reached &= means.ours <= set.target_ratio;
        let section = section(set, &rows, &means);
        println!("{section}");
        record.report.push_str(&section);
        record.samples.extend(rows.iter().flat_map(samples));
        details.push(means.to_json(set));
    }
    record.details = Json::Array(details);
    println!("mvc-quality: written to {}", record.write()?.display());
    Ok(if all_reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Definition {
    fn load() -> Result<Definition> {
        let table = toml::read(&project::root().join(DEFINITION))?;
        let sets = table
            .get("set")
            .and_then(Value::as_array)
            .context("no [[set]] in the definition")?;
        let set = |set: &Value| {
            GraphSet::from_table(
                set.as_table()
                    .context("`set` is to be an array of tables")?,
            )
        };
        Ok(Definition {
            why: string(&table, "why")?,
            generate: strings(&table, "generate")?,
            solve: strings(&table, "solve")?,
            optima: string(&table, "optima")?,
            sets: sets.iter().map(set).collect::<Result<_>>()?,
        })
    }
}

impl GraphSet {
    fn from_table(table: &Table) -> Result<GraphSet> {
        let seeds = table
            .get("seeds")
            .and_then(Value::as_array)
            .context("`seeds` is to be an array")?;
        Ok(GraphSet {
            spec: string(table, "spec")?,
            policy: string(table, "policy")?,
            seeds: seeds.iter().filter_map(Value::as_integer).collect(),
            paper_ratio: number(table, "paper_ratio")?,
            paper_note: string(table, "paper_note")?,
            target_ratio: number(table, "target_ratio")?,
        })
    }
}

/// Looks up the optimum of one graph in the table.
pub(super) fn optimum_of(csv: &str, spec: &str, seed: i64) -> Result<Optimum> {
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let head = lines.next().unwrap_or_default();
    ensure!(
        head == "graph,seed,n,m,optimum,solver",
        "unexpected columns in the table of optima: {head}"
    );
    let seed = seed.to_string();
    let mut rows = lines.map(|line| line.split(',').collect::<Vec<&str>>());
    let row = rows.find(|row| row.len() == 6 && row[0] == spec && row[1] == seed);
    let row = row.with_context(|| format!("the table of optima lacks {spec}, seed {seed}"))?;
    let count = |text: &str| {
        text.parse::<usize>()
            .with_context(|| format!("{text:?} is not a count"))
    };
    Ok(Optimum {
        n_nodes: count(row[2])?,
        n_edges: count(row[3])?,
        size: count(row[4])?,
    })
}

fn solve_set(
    definition: &Definition,
    set: &GraphSet,
    csv: &str,
    program: &Path,
) -> Result<Vec<Row>> {
    let row = |&seed: &i64| {
        let optimum = optimum_of(csv, &set.spec, seed)?;
        solve_one(definition, set, seed, &optimum, program)
            .with_context(|| format!("{}, seed {seed}", set.spec))
    };
    set.seeds.iter().map(row).collect()
}

fn solve_one(
    definition: &Definition,
    set: &GraphSet,
    seed: i64,
    optimum: &Optimum,
    program: &Path,
) -> Result<Row> {
    let scratch = fresh_scratch("mvc-quality")?;
    let graph = Substitutions::from([
        ("spec".to_owned(), set.spec.clone()),
        ("policy".to_owned(), set.policy.clone()),
        ("seed".to_owned(), seed.to_string()),
    ]);
    let values = places(&scratch, &graph);
    let run = |words: &[String]| -> Result<String> {
        process::stdout_of(process::command(program).args(substitute(words, &values)?))
    };
    run(&definition.generate)?;
    let answer = Answer::parse(&run(&definition.solve)?)?;

    let graph = read_matrix_market(&fs::read_to_string(scratch.join("graph.mtx"))?)?;
    ensure!(
        (graph.n_nodes, graph.edges.len()) == (optimum.n_nodes, optimum.n_edges),
        "{} nodes and {} edges, {} and {} in the table of optima: made by another generator",
        graph.n_nodes,
        graph.edges.len(),
        optimum.n_nodes,
        optimum.n_edges,
    );
    let ours = check_cover(&graph, &fs::read_to_string(scratch.join("cover.txt"))?)?;
    ensure!(
        ours as f64 >= answer.number("objective")?,
        "the answer says more nodes than its cover has"
    );
    ensure!(
        ours >= optimum.size,
        "a cover of {ours} nodes, below the optimum {}",
        optimum.size
    );
    Ok(Row {
        spec: set.spec.clone(),
        policy: set.policy.clone(),
        seed,
        ours,
        greedy: max_degree_greedy(&graph),
        optimum: optimum.size,
    })
}

fn samples(row: &Row) -> impl Iterator<Item = Sample> {
    let series = format!("{} policy={} seed={}", row.spec, row.policy, row.seed);
    let sizes = [
        ("ours", row.ours),
        ("max_degree_greedy", row.greedy),
        ("optimum", row.optimum),
    ];
    sizes.into_iter().map(move |(name, size)| Sample {
        series: series.clone(),
        run_idx: 0,
        metric: Metric::new(name, size as f64, "nodes"),
    })
}

/// Mean ratios to the optimum over a set.
struct Means {
    ours: f64,
    greedy: f64,
}

impl Means {
    fn of(rows: &[Row]) -> Means {
        let mean = |size: fn(&Row) -> usize| {
            let ratios = rows.iter().map(|row| size(row) as f64 / row.optimum as f64);
            ratios.sum::<f64>() / rows.len() as f64
        };
        Means {
            ours: mean(|row| row.ours),
            greedy: mean(|row| row.greedy),
        }
    }

    fn to_json(&self, set: &GraphSet) -> Json {
        Json::object([
            ("graph", Json::text(&set.spec)),
            ("policy", Json::text(&set.policy)),
            ("mean_ratio_ours", Json::Number(self.ours)),
            ("mean_ratio_max_degree_greedy", Json::Number(self.greedy)),
            ("mean_ratio_paper", Json::Number(set.paper_ratio)),
            ("mean_ratio_target", Json::Number(set.target_ratio)),
        ])
    }
}

fn section(set: &GraphSet, rows: &[Row], means: &Means) -> String {
    let mut text = format!(
        "## {}, policy {}\n\n| graph | paper | ours | max-degree greedy | optimum |\n|---|---|---|---|---|\n",
        set.spec, set.policy
    );
    for Row {
        seed,
        ours,
        greedy,
        optimum,
        ..
    } in rows
    {
        text.push_str(&format!(
            "| seed {seed} | | {ours} | {greedy} | {optimum} |\n"
        ));
    }
    let Means { ours, greedy } = means;
    text.push_str(&format!(
        "| mean ratio | {} | {ours:.4} | {greedy:.4} | 1 |\n\n",
        set.paper_ratio
    ));
    let verdict = if *ours <= set.target_ratio {
        "reached"
    } else {
        "MISSED"
    };
    text.push_str(&format!(
        "Target {}: {verdict}. Paper: {}.\n\n",
        set.target_ratio, set.paper_note
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIMA: &str = "graph,seed,n,m,optimum,solver\nba:9:2,0,9,14,5,x\nba:9:2,10,9,14,6,x\n";

    #[test]
    fn the_definition_reads() {
        let definition = Definition::load().unwrap();
        assert!(definition.sets.iter().all(|set| set.seeds.len() == 10));
        assert!(
            definition
                .sets
                .iter()
                .all(|set| set.target_ratio < set.paper_ratio)
        );
    }

    #[test]
    fn optima_are_found_by_graph_and_seed() {
        assert_eq!(
            optimum_of(OPTIMA, "ba:9:2", 10).unwrap(),
            Optimum {
                n_nodes: 9,
                n_edges: 14,
                size: 6
            }
        );
        assert!(optimum_of(OPTIMA, "ba:9:2", 1).is_err());
        assert!(optimum_of("a,b\n", "ba:9:2", 1).is_err());
    }

    #[test]
    fn a_missed_target_says_so() {
        let row = |ours| Row {
            spec: "x".into(),
            policy: "p".into(),
            seed: 0,
            ours,
            greedy: 12,
            optimum: 10,
        };
        let set = GraphSet {
            spec: "x".into(),
            policy: "p".into(),
            seeds: vec![0],
            paper_ratio: 1.2,
            paper_note: "n".into(),
            target_ratio: 1.05,
        };
        let verdict = |ours| {
            let rows = [row(10), row(ours)];
            section(&set, &rows, &Means::of(&rows))
        };
        assert!(verdict(11).contains("| mean ratio | 1.2 | 1.0500 | 1.2000 | 1 |"));
        assert!(verdict(12).contains("MISSED"));
    }
}
