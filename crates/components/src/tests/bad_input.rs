//! Spaces and rows that do not fit: the error names scope, method, what was expected and what was
//! given.

use shardgraph_autodiff::{Ctx, Params, Recorder, Shape};
use shardgraph_environments::space::Space;

use crate::{
    ActorCritic, ActorCriticShape, DqnBatch, DqnLoss, DuelingHead, EnvironmentSpaces, Error,
    Initialiser, Linear, Lstm, LstmState, Mlp, QNetwork, QNetworkShape, Reinforce, Sequences,
    SoftmaxPolicy, TdLoss, VTrace, VTraceInputs,
};

fn boxed(width: usize) -> Space {
    Space::boxed(&[width], -1.0, 1.0).unwrap()
}

fn discrete(n: u32) -> Space {
    Space::discrete(n).unwrap()
}

/// The error has these parts.
fn assert_mismatch<T>(result: Result<T, Error>, parts: [&str; 4]) {
    let error = result.err().expect("it does not fit");
    let Error::Mismatch {
        component,
        method,
        expected,
        given,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!([component, *method, expected, given], parts, "{error}");
}

fn network(params: &mut Params, scope: &str) -> QNetwork {
    let shape = QNetworkShape {
        hidden: vec![3],
        dueling: None,
    };
    let start = Initialiser::default();
    QNetwork::build(
        params,
        scope,
        EnvironmentSpaces::new(&boxed(4), &discrete(2)),
        &shape,
        start,
    )
    .unwrap()
}

#[test]
fn spaces_that_do_not_fit_are_refused() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    let shape = QNetworkShape::default();
    let mut build = |observation: &Space, action: &Space, shape: &QNetworkShape| {
        QNetwork::build(
            &mut params,
            "q",
            EnvironmentSpaces::new(observation, action),
            shape,
            start,
        )
    };
    let given = "Discrete { n: 2 }";
    let error = build(&boxed(4), &boxed(1), &shape).unwrap_err().to_string();
    assert!(
        error.contains("`q`, QNetwork::build: the action space: expected a discrete one"),
        "{error}"
    );
    assert!(!error.contains(given));
    let error = build(&Space::graph(1, 0).unwrap(), &discrete(2), &shape)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "`q`, QNetwork::build: the observation space: expected a space of fixed width"
        ),
        "{error}"
    );
    let empty = QNetworkShape {
        hidden: vec![0],
        dueling: None,
    };
    assert_mismatch(
        build(&boxed(4), &discrete(2), &empty),
        ["q/torso/0", "Linear::build", "at least 1", "0"],
    );
    let shape = ActorCriticShape {
        hidden: vec![],
        lstm: Some(0),
    };
    let actor = ActorCritic::build(
        &mut params,
        "actor",
        EnvironmentSpaces::new(&boxed(4), &discrete(2)),
        &shape,
        start,
    );
    assert_mismatch(actor, ["actor/core", "Lstm::build", "at least 1", "0"]);
}

#[test]
fn a_scope_is_taken_once() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    Linear::build(&mut params, "head", 2, 2, start).unwrap();
    let again = Linear::build(&mut params, "head", 2, 2, start);
    assert_mismatch(
        again,
        ["head", "Linear::build", "one of its own", "`head/w` again"],
    );
}

/// Eight rows of five columns are refused.
fn assert_refused<T>(result: Result<T, Error>, component: &str, method: &str, expected: &str) {
    assert_mismatch(result, [component, method, expected, "[8, 5]"]);
}

#[test]
fn rows_of_another_width_are_refused() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    let mlp = Mlp::build(&mut params, "mlp", 4, &[3], start).unwrap();
    let dueling = DuelingHead::build(&mut params, "dueling", 4, &[3], 2, start).unwrap();
    let network = network(&mut params, "online");
    let policy = SoftmaxPolicy::build("policy", &discrete(2)).unwrap();
    let mut ctx = Recorder::new(&params, 0, 1);
    let x = ctx.input(Shape::new(8, 5), &[]).unwrap();
    let ctx = &mut ctx;
    let four = "4 columns";
    assert_refused(mlp.apply(ctx, x), "mlp/0", "Linear::apply", four);
    assert_refused(mlp.features(ctx, x), "mlp/0", "Linear::apply_relu", four);
    let of = dueling.q_values(ctx, x);
    assert_refused(of, "dueling", "DuelingHead::q_values", four);
    let of = network.q_values(ctx, x);
    assert_refused(of, "online", "QNetwork::q_values", four);
    let (of, two) = (policy.log_probabilities(ctx, x), "2 columns");
    assert_refused(of, "policy", "SoftmaxPolicy::log_probabilities", two);
    let of = policy.entropy(ctx, x);
    assert_refused(of, "policy", "SoftmaxPolicy::entropy", two);
}

#[test]
fn memories_need_whole_time_steps_and_a_state_that_fits() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    let lstm = Lstm::build(&mut params, "core", 3, 2, start).unwrap();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows, cols| ctx.input(Shape::new(rows, cols), &[]).unwrap();
    let (x, begins, state, other) = (input(7, 3), input(7, 1), input(2, 2), input(7, 2));
    let (six, flags) = (input(6, 3), input(6, 1));
    let state = LstmState {
        hidden: state,
        cell: state,
    };
    let ctx = &mut ctx;
    let rows = Sequences::time_major(3, 2);
    let refused = |result, [expected, given]: [&str; 2]| {
        assert_mismatch(result, ["core", "Lstm::unroll", expected, given]);
    };
    let wide = "[6, 3], 3 steps of 2 sequences";
    refused(lstm.unroll(ctx, x, begins, state, rows), [wide, "[7, 3]"]);
    refused(
        lstm.unroll(ctx, other, begins, state, rows),
        [wide, "[7, 2]"],
    );
    let narrow = "[6, 1], 3 steps of 2 sequences";
    refused(
        lstm.unroll(ctx, six, begins, state, rows),
        [narrow, "[7, 1]"],
    );
    let mixed = LstmState {
        cell: other,
        ..state
    };
    refused(
        lstm.unroll(ctx, six, flags, mixed, rows),
        ["[2, 2]", "[7, 2]"],
    );
    // Six rows are also two steps of three sequences, but the state is of two.
    let turned = Sequences::time_major(2, 3);
    refused(
        lstm.unroll(ctx, six, flags, state, turned),
        ["[3, 2]", "[2, 2]"],
    );
}

#[test]
fn sequences_are_one_or_more_of_each() {
    for (rows, given) in [
        (Sequences::time_major(0, 2), "0 steps of 2 sequences"),
        (Sequences::time_major(3, 0), "3 steps of 0 sequences"),
        (
            Sequences::time_major(usize::MAX, 2),
            "18446744073709551615 steps of 2 sequences",
        ),
    ] {
        let expected = "one or more of each, and less than 2^32 rows";
        let names = ["sequences", "Sequences::n_rows", expected, given];
        assert_mismatch(rows.n_rows(), names);
    }
}

#[test]
fn actors_take_a_state_exactly_if_they_have_a_memory() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    let shape = |lstm| ActorCriticShape {
        hidden: vec![],
        lstm,
    };
    let spaces = EnvironmentSpaces {
        observation: &boxed(3),
        action: &discrete(2),
    };
    let with = ActorCritic::build(&mut params, "with", spaces, &shape(Some(2)), start).unwrap();
    let without = ActorCritic::build(&mut params, "without", spaces, &shape(None), start).unwrap();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows, cols| ctx.input(Shape::new(rows, cols), &[]).unwrap();
    let (x, six, begins, state) = (input(7, 3), input(6, 3), input(7, 1), input(2, 2));
    let state = LstmState {
        hidden: state,
        cell: state,
    };
    let ctx = &mut ctx;
    let memory = [
        "with",
        "ActorCritic::apply",
        "none; call unroll with its state",
        "one",
    ];
    assert_mismatch(with.apply(ctx, x), memory);
    let memory = [
        "without",
        "ActorCritic::unroll",
        "one; call apply without it",
        "none",
    ];
    let rows = Sequences::time_major(3, 2);
    assert_mismatch(without.unroll(ctx, six, begins, state, rows), memory);
}

#[test]
fn dqn_names_the_column_that_does_not_fit() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows, cols| ctx.input(Shape::new(rows, cols), &[]).unwrap();
    let (q, column, short) = (input(8, 2), input(8, 1), input(7, 1));
    let ctx = &mut ctx;
    let loss = DqnLoss {
        td_loss: TdLoss::Mse,
        double: false,
    };
    let batch = DqnBatch {
        observations: q,
        next_observations: q,
        actions: q,
        rewards: column,
        discounts: short,
        weights: Some(short),
        next_mask: None,
    };
    let targets = loss.targets(ctx, q, q, &batch);
    assert_mismatch(
        targets,
        ["dqn_loss", "DqnLoss::targets", "[8, 1]", "[7, 1]"],
    );
    let of = loss.of_values(ctx, q, column, &batch);
    assert_mismatch(of, ["dqn_loss", "DqnLoss::of_values", "[8, 1]", "[7, 1]"]);
}

#[test]
fn a_td_loss_names_what_it_cannot_take() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows| ctx.input(Shape::new(rows, 1), &[]).unwrap();
    let (eight, seven) = (input(8), input(7));
    let of = |delta: f32, targets, ctx: &mut dyn Ctx| {
        assert_mismatch(
            TdLoss::Huber { delta }.mean(ctx, eight, targets),
            match delta > 0.0 {
                true => ["td_loss", "TdLoss::mean", "[8, 1]", "[7, 1]"],
                false => ["td_loss", "TdLoss::mean", "a number above 0", "-1"],
            },
        );
    };
    of(-1.0, eight, &mut ctx);
    of(1.0, seven, &mut ctx);
}

#[test]
fn v_trace_names_the_column_that_does_not_fit() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows, cols| ctx.input(Shape::new(rows, cols), &[]).unwrap();
    let (column, short) = (input(8, 1), input(7, 1));
    let ctx = &mut ctx;
    let inputs = VTraceInputs {
        log_ratios: short,
        rewards: column,
        discounts: column,
        values: column,
        bootstrap: short,
        rows: Sequences::time_major(1, 8),
    };
    let refused = |result, [expected, given]: [&str; 2]| {
        assert_mismatch(result, ["v_trace", "VTrace::apply", expected, given]);
    };
    let of = VTrace::default().apply(ctx, &inputs);
    refused(of, ["[8, 1], 1 steps of 8 sequences", "[7, 1]"]);
    let inputs = VTraceInputs {
        log_ratios: column,
        ..inputs
    };
    refused(VTrace::default().apply(ctx, &inputs), ["[8, 1]", "[7, 1]"]);
    let rows = Sequences::time_major(8, 7);
    let of = VTrace::default().apply(ctx, &VTraceInputs { rows, ..inputs });
    refused(of, ["[56, 1], 8 steps of 7 sequences", "[8, 1]"]);
}

#[test]
fn losses_refuse_settings_that_cannot_be_right() {
    for delta in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let td_loss = TdLoss::Huber { delta };
        let loss = DqnLoss {
            td_loss,
            double: true,
        };
        let given = &delta.to_string();
        assert_mismatch(
            loss.check(),
            ["dqn_loss", "DqnLoss::check", "a number above 0", given],
        );
    }
    for lambda in [-0.5, f32::NAN] {
        let v_trace = VTrace {
            lambda,
            ..VTrace::default()
        };
        let given = &lambda.to_string();
        let names = ["v_trace", "VTrace::check", "a number not below 0", given];
        assert_mismatch(v_trace.check(), names);
    }
    assert!(VTrace::default().check().is_ok());
    for entropy_coefficient in [-0.5, f32::NAN] {
        let reinforce = Reinforce {
            entropy_coefficient,
            ..Reinforce::default()
        };
        let given = &entropy_coefficient.to_string();
        let names = [
            "reinforce",
            "Reinforce::check",
            "a number not below 0",
            given,
        ];
        assert_mismatch(reinforce.check(), names);
    }
    assert!(Reinforce::default().check().is_ok());
}

#[test]
fn a_policy_names_the_actions_of_another_batch() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let mut input = |rows| ctx.input(Shape::new(rows, 2), &[]).unwrap();
    let (eight, seven) = (input(8), input(7));
    let policy = crate::SoftmaxPolicy::build("policy", &discrete(2)).unwrap();
    let of = policy.of_actions(&mut ctx, eight, seven);
    assert_mismatch(
        of,
        ["policy", "SoftmaxPolicy::of_actions", "[8, 2]", "[7, 2]"],
    );
}
