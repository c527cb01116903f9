//! Every decoder against the naive one, and every schedule against the replay.

use super::naive;
use crate::testing::{for_problems, graph, keys};
use crate::{
    Decoder, DecoderKind, DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem, replay,
};

#[test]
fn schedules_are_valid_and_their_costs_are_those_of_the_replay() {
    for kind in DecoderKind::ALL {
        for_problems(400, 40, |problem, seed| {
            let mut decoder = Decoder::new(problem, kind);
            // The second round finds the workspace used.
            for round in 0..3 {
                let keys = keys(seed * 3 + round, problem);
                let schedule = decoder.schedule(&keys);
                let outcome = replay(problem, &schedule).unwrap();
                assert_eq!(decoder.decode(&keys), outcome, "{kind:?}, decode");
                assert_eq!(
                    schedule.simulate(problem).unwrap().outcome,
                    outcome,
                    "{kind:?}, simulate"
                );
                let fitness = outcome.fitness(problem.objective());
                assert_eq!(decoder.fitness(&keys), fitness, "{kind:?}, fitness");
            }
        });
    }
}

#[test]
fn topological_decoders_are_the_naive_one() {
    for kind in &DecoderKind::ALL[..4] {
        for_problems(250, 25, |problem, seed| {
            let keys = keys(seed, problem);
            let expected = naive::schedule(problem, *kind, &keys);
            let found = Decoder::new(problem, *kind).schedule(&keys);
            assert_eq!(found, expected, "{kind:?}");
        });
    }
}

/// Most searches run on two devices: many more problems for the code that is written for them.
#[test]
fn the_decoder_for_two_devices_is_the_naive_one() {
    for seed in 0..1500 {
        let graph = graph(seed, 2 + seed as usize % 20);
        let options = ModelOptions {
            control_blocks: seed % 5 == 0,
            ..ModelOptions::default()
        };
        let devices = DeviceSet::uniform(2, (seed % 2 == 0).then_some(100)).unwrap();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        let keys = keys(seed, &problem);
        let mut decoder = Decoder::new(&problem, DecoderKind::Paper);
        let schedule = decoder.schedule(&keys);
        let expected = naive::schedule(&problem, DecoderKind::Paper, &keys);
        assert_eq!(schedule, expected, "seed {seed}");
        let outcome = replay(&problem, &schedule).unwrap();
        assert_eq!(decoder.decode(&keys), outcome, "seed {seed}");
        assert_eq!(
            decoder.fitness(&keys),
            outcome.fitness(Objective::Runtime),
            "seed {seed}"
        );
    }
}

/// More ranks than one word of occupied words leads to.
#[test]
fn large_graphs_decode_as_the_replay_says() {
    let graph = graph(1, 5000);
    let devices = DeviceSet::uniform(2, None).unwrap();
    let problem =
        Problem::new(&graph, &devices, Objective::Memory, ModelOptions::default()).unwrap();
    for kind in DecoderKind::ALL {
        let keys = keys(7, &problem);
        let mut decoder = Decoder::new(&problem, kind);
        let outcome = decoder.schedule(&keys).verify(&problem).unwrap().outcome;
        assert_eq!(decoder.decode(&keys), outcome, "{kind:?}");
    }
}

#[test]
fn the_list_decoder_does_not_idle_for_a_control_dependency() {
    let mut builder = GraphBuilder::new("wait");
    let [a, b, _] =
        [("a", 10), ("b", 1), ("c", 5)].map(|(name, cost)| builder.op(OpSpec::new(name, cost)));
    builder.control(a, b);
    let graph = builder.build().unwrap();
    let devices = DeviceSet::uniform(2, None).unwrap();
    let problem = Problem::new(
        &graph,
        &devices,
        Objective::Runtime,
        ModelOptions::default(),
    )
    .unwrap();
    let mut keys = vec![0.5; problem.n_keys()];
    keys[6..9].copy_from_slice(&[0.9, 0.8, 0.1]);
    // `c` runs beside `a`, although `b` comes first by key.
    assert_eq!(
        Decoder::new(&problem, DecoderKind::List)
            .decode(&keys)
            .runtime_ns,
        11
    );
}
