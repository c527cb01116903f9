//! A training step as one launch: the values of its operations one by one, and nothing but inputs and numbers over the bus.

use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_ops::Loss;

use crate::tests::{gpus, online_and_target};
use crate::{
    Adam, CapturedStep, Ctx, Error, OptimiserMut, Params, Plan, Recorder, RmsProp, Sgd, Shape, Var,
};

const ROWS: usize = 6;
const WIDTH: usize = 40;

/// Two layers at some points, and the loss between the sums of their rows.
fn plan(params: &Params) -> Result<(Plan, Var), Error> {
    let mut record = Recorder::new(params, 0, 1);
    let shape = Shape::new(ROWS, WIDTH);
    let x = record.input(shape, &vec![0.0; shape.len()])?;
    let ids: Vec<_> = params.ids().collect();
    let mut sums = |w: usize, b: usize| {
        let (w, b) = (record.param(ids[w])?, record.param(ids[b])?);
        let rows = record.linear_relu(x, w, b)?;
        let column = record.row_sums(rows)?;
        let wide = record.broadcast_column(column, 3)?;
        record.mul(wide, wide)
    };
    let (online, target) = (sums(0, 1)?, sums(3, 4)?);
    let loss = record.loss(Loss::Huber { delta: 0.5 }, online, target)?;
    record.output("loss", loss);
    record.output_param_gradient(loss)?;
    Ok((record.plan(), x))
}

fn points(step: usize) -> Vec<f32> {
    (0..ROWS * WIDTH)
        .map(|i| ((i * 7 + step * 13) % 17) as f32 * 0.1 - 0.8)
        .collect()
}

/// An optimiser, as a test has it.
#[derive(Debug, Clone)]
enum Rule {
    Adam(Adam),
    Sgd(Sgd),
    RmsProp(RmsProp),
}

impl Rule {
    fn lend(&mut self) -> OptimiserMut<'_> {
        match self {
            Rule::Adam(rule) => OptimiserMut::Adam(rule),
            Rule::Sgd(rule) => OptimiserMut::Sgd(rule),
            Rule::RmsProp(rule) => OptimiserMut::RmsProp(rule),
        }
    }

    fn set_rate(&mut self, rate: f32) {
        match self {
            Rule::Adam(rule) => rule.learning_rate = rate,
            Rule::Sgd(rule) => rule.learning_rate = rate,
            Rule::RmsProp(rule) => rule.learning_rate = rate,
        }
    }

    fn state(&self) -> Vec<f32> {
        match self {
            Rule::Adam(rule) => rule.moments().concat(),
            Rule::Sgd(_) => Vec::new(),
            Rule::RmsProp(rule) => rule.slots().concat(),
        }
    }

    /// A step of the host's, against a gradient that is cut where it is too long.
    fn step(&mut self, params: &mut Params, grad: &mut [f32], max_norm: f32) -> f32 {
        let norm = grad.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        let norm = norm.sqrt() as f32;
        if norm > max_norm {
            grad.iter_mut().for_each(|g| *g *= max_norm / norm);
        }
        match self {
            Rule::Adam(rule) => rule.step(&Device::host(), params, grad),
            Rule::Sgd(rule) => rule.step(params, grad),
            Rule::RmsProp(rule) => rule.step(params, grad),
        }
        .unwrap();
        norm
    }
}

fn rules() -> Vec<Rule> {
    let n = online_and_target(WIDTH).trained_len();
    let mut rms_prop = RmsProp::new(0.01, n);
    rms_prop.momentum = 0.5;
    let sgd = Sgd {
        learning_rate: 0.05,
    };
    vec![
        Rule::Adam(Adam::new(0.01, n)),
        Rule::Sgd(sgd),
        Rule::RmsProp(rms_prop),
    ]
}

fn assert_near(given: &[f32], wanted: &[f32]) {
    assert_eq!(given.len(), wanted.len());
    for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        let tolerance = 3e-4 * wanted.abs().max(0.01);
        assert!((given - wanted).abs() <= tolerance, "{i}: {given} {wanted}");
    }
}

const MAX_NORM: f32 = 35.0;
const TAU: f32 = 0.25;

/// Losses, norms, parameters and moments of seven steps on the host, the fifth with another rate.
fn on_host(mut rule: Rule) -> (Vec<f32>, Vec<f32>, Params, Rule) {
    let mut params = online_and_target(WIDTH);
    let (plan, x) = plan(&params).unwrap();
    let mut program = plan.load(&Device::host()).unwrap();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for step in 0..7 {
        if step == 4 {
            rule.set_rate(0.002);
        }
        program.set_input(x, &points(step)).unwrap();
        program.run(&mut Comm::solo(), &params).unwrap();
        losses.push(program.read("loss").unwrap()[0]);
        let mut grad = program.param_gradient().unwrap();
        norms.push(rule.step(&mut params, &mut grad, MAX_NORM));
        params.blend_trained_into_frozen(TAU).unwrap();
    }
    (losses, norms, params, rule)
}

#[test]
fn a_step_is_one_launch_with_the_hosts_values() {
    for rule in rules() {
        let (losses, norms, wanted, wanted_rule) = on_host(rule.clone());
        assert!(norms.iter().any(|&norm| norm > MAX_NORM), "{norms:?}");
        assert!(norms.iter().any(|&norm| norm < MAX_NORM), "{norms:?}");
        for device in gpus() {
            let (mut params, mut rule) = (online_and_target(WIDTH), rule.clone());
            let (plan, x) = plan(&params).unwrap();
            let step = CapturedStep::load(plan, &device).unwrap();
            let mut step = step.with_target_rate(TAU);
            for n in 0..7 {
                if n == 4 {
                    rule.set_rate(0.002);
                }
                let (before, n_before) = (device.traffic(), device.n_launches());
                step.set_input(x, &points(n)).unwrap();
                let norm = step.run(&mut params, rule.lend(), Some(MAX_NORM)).unwrap();
                assert_near(&[norm], &norms[n..=n]);
                let (after, n_after) = (device.traffic(), device.n_launches());
                assert_eq!(n_after - n_before, 1, "step {n}");
                assert_eq!(after.to_host_bytes - before.to_host_bytes, 8);
                if n > 0 {
                    let points = size_of::<f32>() * ROWS * WIDTH;
                    let moved = after.to_device_bytes - before.to_device_bytes;
                    assert_eq!(moved, points as u64 + 12);
                }
                assert_near(&step.read("loss").unwrap(), &losses[n..=n]);
            }
            assert_near(params.flat(), wanted.flat());
            assert_near(&rule.state(), &wanted_rule.state());
        }
    }
}

/// Parameters that are set on the host, shared with a clone or changed beside the step, and another bound: all are seen.
#[test]
fn what_changes_between_steps_is_recorded_again() {
    for device in gpus() {
        let run = |is_new: bool| {
            let mut params = online_and_target(WIDTH);
            let mut adam = Adam::new(0.01, params.trained_len());
            let load = |params: &Params| {
                let (plan, x) = plan(params).unwrap();
                let mut step = CapturedStep::load(plan, &device).unwrap();
                step.set_input(x, &points(3)).unwrap();
                step
            };
            let mut step = load(&params);
            let mut clones = Vec::new();
            let mut results = Vec::new();
            for n in 0..8 {
                if is_new {
                    step = load(&params); // recorded without anything from before
                }
                match n {
                    1 => {
                        let doubled: Vec<f32> = params.flat().iter().map(|w| 2.0 * w).collect();
                        params.set_flat(&doubled).unwrap();
                    }
                    3 => clones.push((params.clone(), adam.clone())),
                    5 => params.copy_trained_to_frozen().unwrap(),
                    6 => adam.beta1 = 0.5,
                    _ => {}
                }
                let max_norm = (n >= 4).then_some(0.01);
                let rule = OptimiserMut::Adam(&mut adam);
                results.push(step.run(&mut params, rule, max_norm).unwrap());
                results.extend(step.read("loss").unwrap());
            }
            let (kept, moments) = clones.pop().unwrap();
            results.extend(kept.flat());
            results.extend(moments.moments().concat());
            results.extend(params.flat());
            results.extend(adam.moments().concat());
            assert_eq!((adam.n_steps, moments.n_steps), (8, 3));
            results.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
        };
        assert_eq!(run(false), run(true));
    }
}

/// A gradient that is not finite leaves everything as it was; an allocation that fails is an error, and the next run is whole.
#[test]
fn what_fails_changes_nothing() {
    for device in gpus() {
        let mut params = online_and_target(WIDTH);
        let mut adam = Adam::new(0.01, params.trained_len());
        let (plan, x) = plan(&params).unwrap();
        let mut step = CapturedStep::load(plan.clone(), &device).unwrap();
        for (n, value) in [1.0, f32::NAN, 1.0].into_iter().enumerate() {
            let before = (params.flat().to_vec(), adam.moments().concat());
            step.set_input(x, &[value; ROWS * WIDTH]).unwrap();
            let norm = step.run(&mut params, OptimiserMut::Adam(&mut adam), None);
            assert_eq!(norm.unwrap().is_finite(), n != 1);
            let after = (params.flat().to_vec(), adam.moments().concat());
            assert_eq!(before == after, n == 1);
        }
        assert_eq!(adam.n_steps, 2);
        let n_allocations = 64;
        let mut n_failed = 0;
        for k in 0..n_allocations {
            let failing = device.failing_at_allocation(k);
            let Ok(mut step) = CapturedStep::load(plan.clone(), &failing) else {
                continue;
            };
            step.set_input(x, &points(1)).unwrap();
            let (mut params, mut adam) = (
                online_and_target(WIDTH),
                Adam::new(0.01, params.trained_len()),
            );
            let mut run = || step.run(&mut params, OptimiserMut::Adam(&mut adam), None);
            n_failed += usize::from(run().is_err());
            assert!(run().unwrap().is_finite());
        }
        assert!(n_failed > 5, "{n_failed}");
    }
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let params = online_and_target(WIDTH);
    let (whole, x) = plan(&params).unwrap();
    let refused =
        |plan: Plan, device: &Device| CapturedStep::load(plan, device).unwrap_err().to_string();
    assert!(refused(whole.clone(), &Device::host()).contains("the host"));
    for device in gpus() {
        let mut record = Recorder::new(&params, 0, 1);
        let value = record.input(Shape::new(1, 1), &[1.0]).unwrap();
        record.output("value", value);
        assert!(refused(record.plan(), &device).contains("no gradient"));
        let mut record = Recorder::new(&params, 0, 2);
        let value = record.input(Shape::new(1, 1), &[1.0]).unwrap();
        record.output_param_gradient(value).unwrap();
        assert!(refused(record.plan(), &device).contains("ranks"));
        let mut step = CapturedStep::load(whole.clone(), &device).unwrap();
        assert!(step.set_input(x, &[1.0]).is_err());
        let mut other = Params::new();
        other.add("w", Shape::new(1, 1), || 1.0);
        let mut sgd = Sgd { learning_rate: 0.1 };
        assert!(
            step.run(&mut other, OptimiserMut::Sgd(&mut sgd), None)
                .is_err()
        );
    }
}
