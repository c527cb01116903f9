//! Small problems whose optimum CP-SAT has proven, with a model of A.4 of its own: nothing here is below it, and its schedules cost
//! what it says.
//!
//! `cargo xtask repro regal cp-sat --accept` makes the fixtures again; this test needs no solver.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use serde_json::Value;
use shardgraph_costgraph::{
    Decoder, DecoderKind, DeviceSet, Graph, Link, ModelOptions, Objective, Outcome, Problem,
    Schedule, Step, lower_bounds, optimum,
};
use shardgraph_costgraph_io::{ReadOptions, read_bytes, write_problem};

const FIXTURES: &str = include_str!("../corpus/cp_sat.jsonl");

/// Complete schedules that the exhaustive search may try.
const MAX_SCHEDULES: u64 = 300_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// A line of the JSON format.
    graph: Value,
    n_devices: usize,
    /// Absent: transfers take no time.
    bandwidth_gbs: Option<f64>,
    latency_ns: u64,
    objective: Objective,
    model: ModelOptions,
    optimum: u64,
    #[expect(dead_code, reason = "for people")]
    solver: String,
    placement: Vec<u8>,
    /// `[op]` or `[tensor, device]`.
    steps: Vec<Vec<u32>>,
}

impl Fixture {
    fn parts(&self) -> (Graph, DeviceSet) {
        let bytes = serde_json::to_vec(&self.graph).unwrap();
        let graphs = read_bytes("fixture.jsonl", &bytes, &ReadOptions::default()).unwrap();
        let link = Link {
            bandwidth_gbs: self.bandwidth_gbs.unwrap_or(f64::INFINITY),
            latency_ns: self.latency_ns,
        };
        let devices = DeviceSet::uniform(self.n_devices, None).unwrap();
        (
            graphs.single().unwrap().graph,
            devices.with_link(link).unwrap(),
        )
    }

    fn schedule(&self) -> Schedule {
        let step = |step: &Vec<u32>| match step[..] {
            [op] => Step::Op(op),
            [tensor, to] => Step::Transfer {
                tensor,
                to: to as u8,
            },
            _ => panic!("{step:?} is no step"),
        };
        Schedule {
            placement: self.placement.clone(),
            steps: self.steps.iter().map(step).collect(),
        }
    }

    fn value(&self, outcome: Outcome) -> u64 {
        match self.objective {
            Objective::Runtime => outcome.runtime_ns,
            Objective::Memory => outcome.peak_bytes,
        }
    }
}

/// Runs `check` on every fixture.
fn for_fixtures(mut check: impl FnMut(&Fixture, &Problem<'_>)) {
    for line in FIXTURES.lines() {
        let fixture: Fixture = serde_json::from_str(line).unwrap();
        let (graph, devices) = fixture.parts();
        let problem = Problem::new(&graph, &devices, fixture.objective, fixture.model).unwrap();
        check(&fixture, &problem);
    }
}

#[test]
fn the_solvers_schedules_cost_what_it_proved() {
    for_fixtures(|fixture, problem| {
        let schedule = fixture.schedule();
        let outcome = schedule.verify(problem).unwrap().outcome;
        let name = problem.graph().name();
        assert_eq!(fixture.value(outcome), fixture.optimum, "{name}");
        let keys = schedule.encode(problem).unwrap();
        let decoded = Decoder::new(problem, DecoderKind::Paper).decode(&keys);
        assert_eq!(fixture.value(decoded), fixture.optimum, "{name}");
    });
}

#[test]
fn no_bound_is_above_and_no_decoder_below_the_optimum() {
    let mut n_reached = 0;
    for_fixtures(|fixture, problem| {
        let name = problem.graph().name();
        let bound = lower_bounds(problem).of(fixture.objective);
        assert!(bound <= fixture.optimum, "{name}: bound {bound}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut best = u64::MAX;
        for kind in DecoderKind::ALL {
            let mut decoder = Decoder::new(problem, kind);
            for _ in 0..400 {
                let key = |_| (rng.next_u64() >> 40) as f32 / (1 << 24) as f32;
                let keys: Vec<f32> = (0..problem.n_keys()).map(key).collect();
                best = best.min(fixture.value(decoder.decode(&keys)));
            }
        }
        assert!(best >= fixture.optimum, "{name}: a decoder gives {best}");
        n_reached += usize::from(best == fixture.optimum);
    });
    let n_fixtures = FIXTURES.lines().count();
    assert!(2 * n_reached >= n_fixtures, "{n_reached} of {n_fixtures}");
}

#[test]
fn the_exhaustive_search_finds_the_same_optima() {
    let mut n_searched = 0;
    for_fixtures(|fixture, problem| {
        if let Ok((_, outcome)) = optimum(problem, MAX_SCHEDULES) {
            n_searched += 1;
            let name = problem.graph().name();
            assert_eq!(fixture.value(outcome), fixture.optimum, "{name}");
        }
    });
    assert!(n_searched >= 8, "only {n_searched} were small enough");
}

#[test]
fn fixtures_ask_all_questions() {
    let mut seen = [0; 6];
    for_fixtures(|fixture, problem| {
        seen[0] += usize::from(fixture.objective == Objective::Memory);
        seen[1] += usize::from(fixture.n_devices > 2);
        seen[2] += usize::from(fixture.bandwidth_gbs.is_some());
        seen[3] += usize::from(fixture.model.control_blocks);
        seen[4] += usize::from(fixture.model.keep_outputs);
        seen[5] += usize::from(fixture.optimum > lower_bounds(problem).of(fixture.objective));
    });
    assert!(seen.iter().all(|&n| n >= 2), "{seen:?}");
}

#[test]
fn exported_problems_say_what_the_model_does() {
    for_fixtures(|fixture, problem| {
        let mut line = Vec::new();
        write_problem(problem, &mut line).unwrap();
        let document: Value = serde_json::from_slice(&line).unwrap();
        let graph = problem.graph();
        assert_eq!(document["version"], 1);
        assert_eq!(
            document["fixed_op"].as_u64(),
            problem.fixed_op().map(u64::from)
        );
        let bound = lower_bounds(problem).of(fixture.objective);
        assert_eq!(document["lower_bound"], bound);
        for op in 0..graph.n_ops() as u32 {
            let row = &document["ops"][op as usize];
            assert_eq!(
                row["cost_ns"][fixture.n_devices - 1],
                problem.cost_ns(op, 1)
            );
            assert_eq!(row["internal_bytes"], graph.internal_bytes(op));
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let row = &document["tensors"][tensor as usize];
            assert_eq!(row["transferred"], problem.is_transferred(tensor));
            let time = row["transfer_ns"][0][1].as_u64().unwrap_or(0);
            assert_eq!(time, problem.transfer_ns(tensor, 0, 1));
        }
    });
}
