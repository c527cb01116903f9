//! Every decoder against the naive one, and every schedule against the replay.

use super::naive;
use crate::tests::random_problems::{for_problems, graph, keys};
use crate::{
    Decoder, DecoderKind, DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Outcome,
    Problem, replay,
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

impl Decoder<'_, '_> {
    /// The excess by the ledger and by the accounts of what is scheduled within the limits.
    fn within_limits(&mut self, keys: &[f32]) -> (u64, Outcome) {
        let problem = self.problem;
        self.ranking.clear();
        let op_keys = &keys[problem.graph.n_ops() * problem.n_devices()..];
        for (op, &key) in (0..problem.graph.n_ops() as u32).zip(op_keys) {
            self.ranking.push(key, op);
        }
        self.ranking.sort();
        let list = self.list.as_mut().unwrap();
        let (ranking, accounts) = (&self.ranking, &mut self.accounts);
        let excess = list.run_within_limits(problem, ranking, accounts, &mut self.steps);
        self.evaluate_steps();
        (excess, self.accounts.outcome(problem))
    }
}

/// The problem's machine with this memory on every device.
fn with_limit(problem: &Problem<'_>, bytes: Option<u64>) -> DeviceSet {
    DeviceSet::uniform(problem.n_devices(), bytes).unwrap()
}

/// The list decoder's ledger, with limits from none that binds to none that can be kept.
#[test]
fn list_schedules_within_limits_are_what_the_replay_says() {
    let (mut n_bound, mut n_fitting) = (0, 0);
    for seed in 0..600 {
        let graph = graph(seed, 2 + seed as usize % 30);
        let (objective, options) = crate::tests::random_problems::options(seed);
        let machine = crate::tests::random_problems::devices(seed, 1 + seed as usize % 4);
        let free = Problem::new(&graph, &machine, objective, options).unwrap();
        let unlimited = with_limit(&free, None);
        let free = Problem::new(&graph, &unlimited, objective, options).unwrap();
        let keys = keys(seed, &free);
        let plain = Decoder::new(&free, DecoderKind::List).schedule(&keys);
        let peak = replay(&free, &plain).unwrap().peak_bytes;
        for percent in [100, 90, 75, 60, 40, 0] {
            let limited = with_limit(&free, Some(peak * percent / 100));
            let problem = Problem::new(&graph, &limited, objective, options).unwrap();
            let mut decoder = Decoder::new(&problem, DecoderKind::List);
            let schedule = decoder.schedule(&keys);
            let outcome = replay(&problem, &schedule).unwrap();
            assert_eq!(decoder.decode(&keys), outcome, "seed {seed}, {percent} %");
            assert_eq!(decoder.fitness(&keys), outcome.fitness(objective));
            let before = replay(&problem, &plain).unwrap();
            assert!(outcome.fitness(objective) <= before.fitness(objective));
            if percent == 100 {
                assert_eq!(schedule, plain, "seed {seed}: a limit that does not bind");
            } else if before.excess_bytes > 0 {
                n_bound += 1;
                n_fitting += u32::from(outcome.excess_bytes == 0);
            }
        }
    }
    // One in six is a limit of nothing; many others are less than one op needs.
    assert!(
        n_fitting * 10 > n_bound,
        "{n_fitting} of {n_bound} schedules fit at last"
    );
}

#[test]
fn the_ledger_never_says_less_than_the_replay() {
    for_problems(1500, 30, |problem, seed| {
        let limit = seed * 7919 % 300;
        let devices = with_limit(problem, Some(limit));
        let (objective, options) = (problem.objective(), problem.options());
        let problem = Problem::new(problem.graph(), &devices, objective, options).unwrap();
        let keys = keys(seed, &problem);
        let mut decoder = Decoder::new(&problem, DecoderKind::List);
        let (ledger, real) = decoder.within_limits(&keys);
        let schedule = crate::Schedule {
            placement: decoder.accounts.placement.clone(),
            steps: decoder.steps.clone(),
        }
        .pinned(&problem);
        assert_eq!(replay(&problem, &schedule).unwrap(), real);
        assert!(ledger >= real.excess_bytes, "{ledger} < {real:?}");
    });
}

/// By time alone, `c` follows `b` on the device that is free first; the limit leaves room beside `a` only.
#[test]
fn the_list_decoder_goes_where_there_is_room() {
    let mut builder = GraphBuilder::new("room");
    for (name, cost, persistent_bytes) in [("a", 10, 30), ("b", 1, 60), ("c", 1, 30)] {
        builder.op(OpSpec {
            persistent_bytes,
            ..OpSpec::new(name, cost)
        });
    }
    let graph = builder.build().unwrap();
    let outcome = |limit| {
        let devices = DeviceSet::uniform(2, limit).unwrap();
        let options = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        let keys = vec![0.5; problem.n_keys()];
        Decoder::new(&problem, DecoderKind::List).decode(&keys)
    };
    let of = |runtime_ns, peak_bytes, excess_bytes| Outcome {
        runtime_ns,
        peak_bytes,
        excess_bytes,
    };
    assert_eq!(outcome(None), of(10, 90, 0));
    assert_eq!(outcome(Some(90)), outcome(None));
    assert_eq!(outcome(Some(89)), of(11, 60, 0));
}

/// Every device has a queue of its own and one to every other, which must cost nothing where they are empty.
#[test]
fn many_devices_are_decoded_as_the_replay_says() {
    let graph = graph(2, 300);
    let devices = DeviceSet::uniform(64, None).unwrap();
    let options = ModelOptions::default();
    let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
    for kind in DecoderKind::ALL {
        let keys = keys(7, &problem);
        let mut decoder = Decoder::new(&problem, kind);
        let outcome = decoder.schedule(&keys).verify(&problem).unwrap().outcome;
        assert_eq!(decoder.decode(&keys), outcome, "{kind:?}");
    }
}
