//! The model by hand: graphs that are refused, schedules that are refused, and schedules whose every number can be checked on paper.

use crate::{
    Device, DeviceSet, Error, ErrorKind, Graph, GraphBuilder, Link, ModelOptions, Objective,
    OpSpec, Outcome, Problem, Schedule, Step, TensorSpec, lower_bounds, replay, whole,
};

pub(crate) mod random_problems;

fn problem<'g>(graph: &'g Graph, devices: &DeviceSet, options: ModelOptions) -> Problem<'g> {
    Problem::new(graph, devices, Objective::Runtime, options).unwrap()
}

fn two() -> DeviceSet {
    DeviceSet::uniform(2, None).unwrap()
}

fn send(tensor: u32, to: u8) -> Step {
    Step::Transfer { tensor, to }
}

/// The replay's judgement, with which the one-pass simulation must agree.
fn judge(problem: &Problem<'_>, placement: &[u8], steps: &[Step]) -> Outcome {
    let schedule = Schedule {
        placement: placement.to_vec(),
        steps: steps.to_vec(),
    };
    schedule.verify(problem).unwrap().outcome
}

fn refusal(ops: &[OpSpec], tensors: &[TensorSpec], controls: &[(u32, u32)]) -> Error {
    let mut builder = GraphBuilder::new("refused");
    ops.iter()
        .for_each(|op| drop(builder.op(op.clone()).to_string()));
    tensors
        .iter()
        .for_each(|tensor| drop(builder.tensor(tensor.clone()).to_string()));
    controls
        .iter()
        .for_each(|&(before, after)| builder.control(before, after));
    builder.build().unwrap_err()
}

fn assert_named(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn ops_that_make_no_graph_are_refused_by_name() {
    let [a, b] = ["a", "b"].map(|name| OpSpec::new(name, 1));
    let two_costs = OpSpec {
        cost_ns: vec![1, 2],
        ..OpSpec::default()
    };
    let cases: [(&[OpSpec], &str); 4] = [
        (&[], "no ops"),
        (&[a.clone(), a.clone()], "ops 0 and 1 are both called `a`"),
        (&[a, two_costs], "op `op1` has 2 costs where op 0 has 1"),
        (&[OpSpec::default()], "op 0 has no cost"),
    ];
    for (ops, words) in cases {
        assert_named(&refusal(ops, &[], &[]), ErrorKind::Graph, words);
    }
    let error = refusal(&[OpSpec::new("a", 1 << 62), b], &[], &[]);
    assert_named(&error, ErrorKind::TooLarge, "the sum of all costs");
}

#[test]
fn tensors_that_make_no_graph_are_refused_by_name() {
    let ab = ["a", "b"].map(|name| OpSpec::new(name, 1));
    let plain = TensorSpec::new;
    let view = |producer, base| TensorSpec {
        alias_of: Some(base),
        ..plain(producer, 1, &[])
    };
    let no_input = "an output of `b` is a view of an output of `a`, which `b` does not consume";
    let cases: [(&[TensorSpec], &str); 5] = [
        (
            &[plain(5, 1, &[0])],
            "tensor 0 has no producer: op 5 does not exist",
        ),
        (
            &[plain(0, 1, &[9])],
            "tensor 0 of `a` has a consumer that does not exist: op 9",
        ),
        (&[plain(0, 1, &[0])], "cycle: `a` -> `a`"),
        (&[view(0, 7)], "view of tensor 7"),
        (&[plain(0, 1, &[]), view(1, 0)], no_input),
    ];
    for (tensors, words) in cases {
        assert_named(&refusal(&ab, tensors, &[]), ErrorKind::Graph, words);
    }
    let error = refusal(&ab, &[], &[(0, 3)]);
    assert_named(&error, ErrorKind::Graph, "control dependency 0 -> 3");
}

#[test]
fn a_long_cycle_is_cut_short_and_found_behind_what_hangs_on_it() {
    let ops = vec![
        OpSpec {
            cost_ns: vec![1],
            ..OpSpec::default()
        };
        30
    ];
    // 0 hangs on the cycle 5 -> 6 -> ... -> 24 -> 5.
    let mut controls: Vec<(u32, u32)> = (5..24).map(|op| (op, op + 1)).collect();
    controls.extend([(24, 5), (7, 0)]);
    let message = refusal(&ops, &[], &controls).to_string();
    assert!(message.contains("`op5` -> `op6` -> `op7`"), "{message}");
    assert!(
        message.contains("(20 ops in all)") && !message.contains("`op0`"),
        "{message}"
    );
}

#[test]
fn numbers_that_are_no_costs_are_refused() {
    for value in [f64::NAN, -0.5, f64::INFINITY, f64::NEG_INFINITY, 5e18] {
        assert_eq!(
            whole("cost", value).unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
    }
    assert_eq!(whole("cost", 0.0).unwrap(), 0);
    assert_eq!(whole("cost", 1e18).unwrap(), 1_000_000_000_000_000_000);
}

fn device(class: usize, cost_factor: f64) -> Device {
    Device {
        name: "d".into(),
        memory_bytes: None,
        class,
        cost_factor,
    }
}

#[test]
fn machines_that_are_none_are_refused() {
    assert!(DeviceSet::uniform(0, None).is_err());
    assert!(DeviceSet::uniform(65, None).is_err() && DeviceSet::uniform(64, None).is_ok());
    assert!(DeviceSet::uniform(usize::MAX, None).is_err());
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(DeviceSet::new(vec![device(0, factor)]).is_err(), "{factor}");
    }
    for bandwidth_gbs in [0.0, -2.0, f64::NAN] {
        assert!(
            two()
                .with_link(Link {
                    bandwidth_gbs,
                    latency_ns: 0
                })
                .is_err(),
            "{bandwidth_gbs}"
        );
    }
}

#[test]
fn machines_that_do_not_fit_the_graph_are_refused() {
    let graph = figure_10();
    let refuse = |devices: &DeviceSet| {
        Problem::new(&graph, devices, Objective::Runtime, ModelOptions::default()).unwrap_err()
    };
    let error = refuse(&DeviceSet::new(vec![device(3, 1.0)]).unwrap());
    assert!(error.to_string().contains("cost class 3"), "{error}");
    let endless = Link {
        bandwidth_gbs: 1.0,
        latency_ns: u64::MAX,
    };
    assert_eq!(
        refuse(&two().with_link(endless).unwrap()).kind(),
        ErrorKind::TooLarge
    );
}

/// Ops 1, 2, 4 on the first device and op 3 on the second, as in Fig. 10 of the paper, whose numbers our copy of it lacks: these
/// are our own, small enough to follow by hand.
fn figure_10() -> Graph {
    let mut builder = GraphBuilder::new("figure 10");
    let ops = [("1", 10), ("2", 20), ("3", 30), ("4", 40)]
        .map(|(name, cost)| builder.op(OpSpec::new(name, cost)));
    builder.tensor(TensorSpec::new(ops[0], 5, &[ops[1], ops[2]])); // 0
    builder.tensor(TensorSpec::new(ops[1], 7, &[ops[3]])); // 1
    builder.tensor(TensorSpec::new(ops[2], 11, &[ops[3]])); // 2
    builder.build().unwrap()
}

const FIGURE_10: [Step; 6] = [
    Step::Op(0),
    Step::Transfer { tensor: 0, to: 1 },
    Step::Op(1),
    Step::Op(2),
    Step::Transfer { tensor: 2, to: 0 },
    Step::Op(3),
];

#[test]
fn figure_10_step_by_step() {
    let graph = figure_10();
    let devices = two();
    let problem = problem(&graph, &devices, ModelOptions::default());
    let schedule = Schedule {
        placement: vec![0, 0, 1, 0],
        steps: FIGURE_10.to_vec(),
    };
    let simulation = schedule.verify(&problem).unwrap();
    let ends: Vec<u64> = simulation.spans.iter().map(|span| span.end_ns).collect();
    // The second device waits for the transfer at 10; the first waits from 30 to 40 for what op 3 makes.
    assert_eq!(ends, [10, 10, 30, 40, 40, 80]);
    let memory: Vec<(u8, u64, u64)> = simulation
        .memory
        .iter()
        .map(|point| (point.device, point.during_bytes, point.after_bytes))
        .collect();
    let expected = [
        (0, 5, 5), // op 1 makes tensor 0
        (0, 5, 5),
        (1, 5, 5),   // it is sent and stays: op 2 needs it
        (0, 12, 7),  // op 2 makes tensor 1, tensor 0 goes
        (1, 16, 11), // op 3 makes tensor 2, its copy of tensor 0 goes
        (1, 11, 0),
        (0, 18, 18), // tensor 2 moves
        (0, 18, 0),  // op 4 consumes both
    ];
    assert_eq!(memory, expected);
    assert_eq!(
        simulation.outcome,
        Outcome {
            runtime_ns: 80,
            peak_bytes: 18,
            excess_bytes: 0
        }
    );
    assert_eq!(simulation.peaks, [18, 16]);
    assert_eq!(lower_bounds(&problem).runtime_ns, 80);
}

#[test]
fn links_take_time_from_both_ends_or_from_none() {
    let graph = figure_10();
    let devices = two()
        .with_link(Link {
            bandwidth_gbs: 2.0,
            latency_ns: 4,
        })
        .unwrap();
    let steps = [
        Step::Op(0),
        send(0, 1),
        Step::Op(1),
        Step::Op(2),
        send(2, 0),
        Step::Op(3),
    ];
    // 5 bytes take 4 + 3 ns, 11 bytes 4 + 6.
    let blocking = problem(&graph, &devices, ModelOptions::default());
    assert_eq!(
        judge(&blocking, &[0, 0, 1, 0], &steps).runtime_ns,
        10 + 7 + 30 + 10 + 40
    );
    let asynchronous = ModelOptions {
        asynchronous: true,
        ..ModelOptions::default()
    };
    let asynchronous = problem(&graph, &devices, asynchronous);
    // The same critical path; but op 2 runs from 10 to 30 now, not from 17.
    let schedule = Schedule {
        placement: vec![0, 0, 1, 0],
        steps: steps.to_vec(),
    };
    let simulation = schedule.verify(&asynchronous).unwrap();
    assert_eq!(simulation.spans[2].start_ns, 10);
    assert_eq!(simulation.outcome.runtime_ns, 97);
}

#[test]
fn an_asynchronous_link_carries_one_tensor_at_a_time() {
    let mut builder = GraphBuilder::new("two tensors");
    let [a, b] = ["a", "b"].map(|name| builder.op(OpSpec::new(name, 1)));
    builder.tensor(TensorSpec::new(a, 10, &[b]));
    builder.tensor(TensorSpec::new(a, 20, &[b]));
    let graph = builder.build().unwrap();
    let devices = two()
        .with_link(Link {
            bandwidth_gbs: 1.0,
            latency_ns: 0,
        })
        .unwrap();
    let options = ModelOptions {
        asynchronous: true,
        ..ModelOptions::default()
    };
    let problem = problem(&graph, &devices, options);
    let outcome = judge(
        &problem,
        &[0, 1],
        &[Step::Op(0), send(1, 1), send(0, 1), Step::Op(1)],
    );
    assert_eq!(outcome.runtime_ns, 1 + 20 + 10 + 1);
}

#[test]
fn control_dependencies_delay_and_block_only_by_option() {
    let mut builder = GraphBuilder::new("control");
    let [a, b, c] =
        [("a", 10), ("b", 1), ("c", 100)].map(|(name, cost)| builder.op(OpSpec::new(name, cost)));
    builder.control(a, b);
    builder.control(a, c);
    let graph = builder.build().unwrap();
    assert_eq!((graph.n_tensors(), graph.n_uses()), (1, 2));
    let devices = two();
    let free = problem(&graph, &devices, ModelOptions::default());
    let steps = [Step::Op(a), Step::Op(b), Step::Op(c)];
    assert_eq!(judge(&free, &[0, 1, 0], &steps).runtime_ns, 110);
    let options = ModelOptions {
        control_blocks: true,
        ..ModelOptions::default()
    };
    let blocking = problem(&graph, &devices, options);
    // Now a transfer is needed, and without it the schedule is none.
    let schedule = Schedule {
        placement: vec![0, 1, 0],
        steps: steps.to_vec(),
    };
    assert!(replay(&blocking, &schedule).is_err());
    let late = [Step::Op(a), Step::Op(c), send(0, 1), Step::Op(b)];
    assert_eq!(judge(&blocking, &[0, 1, 0], &late).runtime_ns, 111);
}

#[test]
fn views_share_storage_where_they_are_made() {
    let mut builder = GraphBuilder::new("views");
    let [make, view, near, far] =
        ["make", "view", "near", "far"].map(|name| builder.op(OpSpec::new(name, 1)));
    let base = builder.tensor(TensorSpec::new(make, 100, &[view]));
    builder.tensor(TensorSpec {
        alias_of: Some(base),
        ..TensorSpec::new(view, 40, &[near, far])
    });
    let graph = builder.build().unwrap();
    let devices = two();
    let problem = problem(&graph, &devices, ModelOptions::default());
    let steps = [
        Step::Op(make),
        Step::Op(view),
        send(1, 1),
        Step::Op(near),
        Step::Op(far),
    ];
    let schedule = Schedule {
        placement: vec![0, 0, 0, 1],
        steps: steps.to_vec(),
    };
    let simulation = schedule.verify(&problem).unwrap();
    // The base stays for `near` through the view; the copy on the other device is only as large as the view.
    assert_eq!(simulation.peaks, [100, 40]);
    let after: Vec<u64> = simulation
        .memory
        .iter()
        .map(|point| point.after_bytes)
        .collect();
    assert_eq!(after, [100, 100, 100, 40, 0, 0]);
}

#[test]
fn scratch_persistent_bytes_and_kept_outputs_count() {
    let mut builder = GraphBuilder::new("memory");
    let op = |name: &str, internal_bytes, persistent_bytes| OpSpec {
        internal_bytes,
        persistent_bytes,
        ..OpSpec::new(name, 1)
    };
    let a = builder.op(op("a", 30, 1000));
    let b = builder.op(op("b", 5, 500));
    builder.tensor(TensorSpec::new(a, 10, &[]));
    builder.tensor(TensorSpec::new(a, 20, &[b]));
    let graph = builder.build().unwrap();
    let devices = DeviceSet::uniform(1, Some(1530)).unwrap();
    let steps = [Step::Op(a), Step::Op(b)];
    let peak = |options| judge(&problem(&graph, &devices, options), &[0, 0], &steps);
    let default = peak(ModelOptions::default());
    assert_eq!((default.peak_bytes, default.excess_bytes), (1560, 30));
    assert_eq!(default.fitness(Objective::Runtime), (30, 2));
    assert_eq!(default.fitness(Objective::Memory), (1560, 2));
    let without = peak(ModelOptions {
        count_persistent: false,
        ..ModelOptions::default()
    });
    assert_eq!((without.peak_bytes, without.excess_bytes), (60, 0));
}

#[test]
fn outputs_stay_only_by_option() {
    let devices = DeviceSet::uniform(1, None).unwrap();
    let mut last = GraphBuilder::new("kept");
    let a = last.op(OpSpec::new("a", 1));
    let b = last.op(OpSpec::new("b", 1));
    last.tensor(TensorSpec::new(a, 10, &[]));
    last.tensor(TensorSpec::new(b, 20, &[]));
    let graph = last.build().unwrap();
    let kept = ModelOptions {
        keep_outputs: true,
        ..ModelOptions::default()
    };
    let peak = |options| {
        judge(
            &problem(&graph, &devices, options),
            &[0, 0],
            &[Step::Op(a), Step::Op(b)],
        )
        .peak_bytes
    };
    assert_eq!((peak(ModelOptions::default()), peak(kept)), (20, 30));
}

#[test]
fn unequal_devices_have_costs_of_their_own() {
    let mut builder = GraphBuilder::new("classes");
    builder.op(OpSpec {
        cost_ns: vec![10, 90],
        ..OpSpec::default()
    });
    let graph = builder.build().unwrap();
    let devices = DeviceSet::new(vec![device(0, 1.0), device(1, 1.0), device(0, 0.25)]).unwrap();
    assert!(!devices.are_interchangeable() && two().are_interchangeable());
    let problem = problem(&graph, &devices, ModelOptions::default());
    assert_eq!(
        [0, 1, 2].map(|device| problem.cost_ns(0, device)),
        [10, 90, 3]
    );
    assert_eq!(problem.fixed_op(), None);
    assert_eq!(lower_bounds(&problem).runtime_ns, 3);
}

#[test]
fn the_largest_op_is_fixed_and_ties_go_to_the_lowest_id() {
    let mut builder = GraphBuilder::new("ties");
    for (cost, internal_bytes) in [(3, 5), (9, 1), (9, 8), (2, 8)] {
        builder.op(OpSpec {
            internal_bytes,
            ..OpSpec::new("", cost)
        });
    }
    let graph = builder.build().unwrap();
    let fixed = |objective| {
        let problem = Problem::new(&graph, &two(), objective, ModelOptions::default()).unwrap();
        problem.fixed_op()
    };
    assert_eq!(fixed(Objective::Runtime), Some(1));
    assert_eq!(fixed(Objective::Memory), Some(2));
}

/// Both ways to evaluate a schedule, and the way to encode it, refuse it with these words.
fn assert_refused(problem: &Problem<'_>, placement: &[u8], steps: &[Step], words: &str) {
    let schedule = Schedule {
        placement: placement.to_vec(),
        steps: steps.to_vec(),
    };
    // The judge has rules of its own, and says less about them.
    let error = replay(problem, &schedule).unwrap_err().to_string();
    assert!(
        error.starts_with("the replay finds a rule broken"),
        "{error}"
    );
    let errors = [
        schedule.simulate(problem).map(drop).unwrap_err(),
        schedule.encode(problem).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Schedule);
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// The step with two devices exchanged.
fn mirrored(step: Step) -> Step {
    match step {
        Step::Transfer { tensor, to } => send(tensor, 1 - to),
        op => op,
    }
}

#[test]
fn schedules_that_break_the_rules_are_refused() {
    let graph = figure_10();
    let devices = two();
    let problem = problem(&graph, &devices, ModelOptions::default());
    let good = [
        Step::Op(0),
        send(0, 1),
        Step::Op(1),
        Step::Op(2),
        send(2, 0),
        Step::Op(3),
    ];
    let placement = [0, 0, 1, 0];
    let refuse = |at: usize, old: usize, new: &[Step], words: &str| {
        let mut steps = good.to_vec();
        steps.splice(at..at + old, new.iter().copied());
        assert_refused(&problem, &placement, &steps, words);
    };
    refuse(1, 1, &[], "where the output 0 of `1` is not available");
    refuse(5, 1, &[], "op `4` never runs");
    refuse(2, 1, &[Step::Op(0)], "a second time");
    refuse(2, 1, &[Step::Op(9)], "does not exist");
    refuse(4, 1, &[send(9, 0)], "the tensors are 0..3");
    refuse(4, 1, &[send(2, 5)], "the devices 0..2");
    refuse(4, 1, &[send(1, 1)], "which nothing needs");
    refuse(0, 2, &[good[1], good[0]], "before its producer `1` ran");
    refuse(2, 0, &[send(0, 1)], "where it is already");
    assert_refused(&problem, &[0, 0, 2, 0], &good, "device 2");
    assert_refused(&problem, &[0, 0, 1], &good, "3 devices for 4 ops");
    let mirrored = Schedule {
        placement: vec![1, 1, 0, 1],
        steps: good.map(mirrored).to_vec(),
    };
    let Schedule { placement, steps } = &mirrored;
    assert_refused(&problem, placement, steps, "belongs on device 0");
    let pinned = mirrored.pinned(&problem);
    assert_eq!(
        (&pinned.placement[..], &pinned.steps[..]),
        (&[0, 0, 1, 0][..], &good[..])
    );
}
