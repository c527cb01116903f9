//! Training on a device: parameters, moments and gradients stay in its memory, and are what the host computes.

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, Traffic};
use shardgraph_ops::Loss;

use crate::tests::{gpus, online_and_target};
use crate::{
    Adam, BufferPool, Ctx, Eager, Error, Gradient, Params, Recorder, RmsProp, Sgd, Shape, Var,
};

/// Wide enough that its weights are far more bytes than the rest of a step.
const WIDTH: usize = 96;

/// The squared difference of two layers at a point that depends on the step; one parameter has no part in it.
fn loss(ctx: &mut dyn Ctx, params: &Params, step: u32) -> Result<Var, Error> {
    let point: Vec<f32> = (0..WIDTH)
        .map(|i| ((i as u32 * 7 + step * 13) % 17) as f32 * 0.1 - 0.8)
        .collect();
    let x = ctx.input(Shape::new(1, WIDTH), &point)?;
    let ids: Vec<_> = params.ids().collect();
    let mut layer = |w: usize, b: usize| {
        let (w, b) = (ctx.param(ids[w])?, ctx.param(ids[b])?);
        ctx.linear(x, w, b)
    };
    let (online, target) = (layer(0, 1)?, layer(3, 4)?);
    ctx.loss(Loss::Mse, online, target)
}

fn gradient(device: &Device, params: &Params, step: u32) -> Gradient {
    let mut comm = Comm::solo();
    let mut ctx = Eager::new(device, &mut comm, params).with_pool(BufferPool::default());
    let loss = loss(&mut ctx, params, step).unwrap();
    ctx.resident_gradient(loss).unwrap()
}

/// An optimiser's step.
type Step<'a> = dyn FnMut(&Device, &mut Params, &Gradient) + 'a;

/// The parameters after steps with target updates between them, and the bytes and copies of the last five steps.
fn train(device: &Device, step: &mut Step<'_>) -> (Params, Traffic) {
    let mut params = online_and_target(WIDTH);
    let mut before = Traffic::default();
    for n in 0..8 {
        if n == 3 {
            before = device.traffic();
        }
        let grad = gradient(device, &params, n);
        step(device, &mut params, &grad);
        params
            .blend_trained_into_frozen(if n == 6 { 1.0 } else { 0.25 })
            .unwrap();
    }
    let after = device.traffic();
    let moved = Traffic {
        to_device_bytes: after.to_device_bytes - before.to_device_bytes,
        to_host_bytes: after.to_host_bytes - before.to_host_bytes,
        ..after
    };
    (params, moved)
}

fn assert_near(given: &[f32], wanted: &[f32]) {
    assert_eq!(given.len(), wanted.len());
    for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        let tolerance = 2e-4 * wanted.abs().max(0.01);
        assert!((given - wanted).abs() <= tolerance, "{i}: {given} {wanted}");
    }
}

/// Five steps move the five points and nothing that is as large as a parameter; values and moments are the host's.
fn stays_on_device<O: Clone>(
    optimiser: &O,
    step: fn(&mut O, &Device, &mut Params, &Gradient) -> Result<(), Error>,
    state: fn(&O) -> Vec<f32>,
) {
    let run = |device: &Device| {
        let mut own = optimiser.clone();
        let mut step = |device: &Device, params: &mut Params, grad: &Gradient| {
            step(&mut own, device, params, grad).unwrap();
        };
        let (params, moved) = train(device, &mut step);
        (params, moved, own)
    };
    let (wanted, moved, wanted_state) = run(&Device::host());
    assert_eq!(moved, Traffic::default());
    for device in gpus() {
        let (params, moved, own) = run(&device);
        let points = (5 * WIDTH * size_of::<f32>()) as u64;
        assert_eq!(moved.to_host_bytes, 0);
        // Beside the points a step uploads a few single numbers.
        assert!(moved.to_device_bytes < points + 5 * 64, "{moved:?}");
        params.sync().unwrap();
        assert_near(params.flat(), wanted.flat());
        assert_near(&state(&own), &state(&wanted_state));
    }
}

#[test]
fn adam_stays_on_the_device() {
    stays_on_device(
        &Adam::new(0.01, online_and_target(WIDTH).trained_len()),
        |adam, device, params, grad| match grad {
            Gradient::Host(grad) => adam.step(device, params, grad),
            Gradient::Device(grad) => adam.step_on_device(device, params, grad),
        },
        |adam| adam.moments().concat(),
    );
}

#[test]
fn rms_prop_stays_on_the_device() {
    let mut rms_prop = RmsProp::new(0.01, online_and_target(WIDTH).trained_len());
    rms_prop.momentum = 0.5;
    stays_on_device(
        &rms_prop,
        |rms_prop, device, params, grad| match grad {
            Gradient::Host(grad) => rms_prop.step(params, grad),
            Gradient::Device(grad) => rms_prop.step_on_device(device, params, grad),
        },
        |rms_prop| rms_prop.slots().concat(),
    );
}

#[test]
fn gradient_descent_stays_on_the_device() {
    stays_on_device(
        &Sgd {
            learning_rate: 0.05,
        },
        |sgd, device, params, grad| match grad {
            Gradient::Host(grad) => sgd.step(params, grad),
            Gradient::Device(grad) => sgd.step_on_device(device, params, grad),
        },
        |_| Vec::new(),
    );
}

/// A gradient of the host's, by steps on a device: the same values, and the moments stay there.
#[test]
fn a_gradient_of_the_host_is_uploaded() {
    let params = online_and_target(WIDTH);
    let grad: Vec<f32> = (0..params.trained_len())
        .map(|i| (i % 7) as f32 - 3.0)
        .collect();
    let run = |device: &Device| {
        let (mut params, mut adam) = (params.clone(), Adam::new(0.01, grad.len()));
        for _ in 0..3 {
            adam.step(device, &mut params, &grad).unwrap();
        }
        assert!(adam.step(device, &mut params, &grad[1..]).is_err());
        assert_eq!(adam.n_steps, 3);
        (params.flat().to_vec(), adam.moments().concat())
    };
    let wanted = run(&Device::host());
    for device in gpus() {
        let given = run(&device);
        assert_near(&given.0, &wanted.0);
        assert_near(&given.1, &wanted.1);
        assert!(device.traffic().to_host_bytes > 0);
    }
}

#[test]
fn norms_and_factors_are_the_hosts() {
    let params = online_and_target(WIDTH);
    let Gradient::Host(wanted) = gradient(&Device::host(), &params, 2) else {
        panic!("a gradient of the host is in its memory");
    };
    let norm = wanted
        .iter()
        .map(|g| f64::from(*g).powi(2))
        .sum::<f64>()
        .sqrt();
    for device in gpus() {
        let Gradient::Device(mut grad) = gradient(&device, &params, 2) else {
            panic!("a gradient of a device is in its memory");
        };
        let before = device.traffic();
        let given = f64::from(grad.norm(&device).unwrap());
        let after = device.traffic();
        assert_eq!(after.to_host_bytes - before.to_host_bytes, 4);
        assert!((given - norm).abs() < 1e-5 * norm, "{given} {norm}");
        grad.scale(&device, 0.5).unwrap();
        let half = f64::from(grad.norm(&device).unwrap());
        assert!((half - 0.5 * norm).abs() < 1e-5 * norm, "{half} {norm}");
        // Of a parameter without a part in the loss the decay is all there is.
        let ids: Vec<_> = params.ids().collect();
        let kept = grad.clone();
        grad.add_decay(&device, &params, ids[2], 3.0).unwrap();
        let square = |values: &[f32]| values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
        let more = (half.powi(2) + 9.0 * square(params.values_of(ids[2]))).sqrt();
        let decayed = f64::from(grad.norm(&device).unwrap());
        assert!((decayed - more).abs() < 1e-5 * more, "{decayed} {more}");
        let mut all = kept.clone();
        all.add_decay(&device, &params, ids[0], 2.0).unwrap();
        let sum = wanted.iter().zip(params.values_of(ids[0]));
        let sum: Vec<f32> = sum.map(|(grad, value)| 0.5 * grad + 2.0 * value).collect();
        let rest: Vec<f32> = wanted[sum.len()..].iter().map(|grad| 0.5 * grad).collect();
        let more = (square(&sum) + square(&rest)).sqrt();
        let decayed = f64::from(all.norm(&device).unwrap());
        assert!((decayed - more).abs() < 1e-5 * more, "{decayed} {more}");
        let untouched = f64::from(kept.norm(&device).unwrap());
        assert!((untouched - half).abs() < 1e-9, "a clone keeps its own");
        assert!(grad.add_decay(&device, &params, ids[3], 1.0).is_err());
    }
}

/// Clones share buffers until one writes; a change on the host reaches the device's programs, and the other way round.
#[test]
fn copies_of_parameters_are_values() {
    for device in gpus() {
        let mut params = online_and_target(WIDTH);
        let mut adam = Adam::new(0.01, params.trained_len());
        let Gradient::Device(grad) = gradient(&device, &params, 0) else {
            panic!("a gradient of a device is in its memory");
        };
        adam.step_on_device(&device, &mut params, &grad).unwrap();
        let kept = params.clone();
        let before = device.traffic();
        adam.step_on_device(&device, &mut params, &grad).unwrap();
        assert_eq!(device.traffic(), before, "a clone is a copy on the device");
        assert_ne!(kept, params);
        let mut alone = online_and_target(WIDTH);
        let mut other = Adam::new(0.01, alone.trained_len());
        other.step_on_device(&device, &mut alone, &grad).unwrap();
        assert_eq!(kept, alone);

        let mut record = Recorder::new(&params, 0, 1);
        let var = loss(&mut record, &params, 1).unwrap();
        record.output("loss", var);
        let mut program = record.plan().load(&device).unwrap();
        let mut comm = Comm::solo();
        let mut read = |params: &Params| {
            program.run(&mut comm, params).unwrap();
            program.read("loss").unwrap()
        };
        let far = read(&params);
        params.copy_trained_to_frozen().unwrap();
        assert_eq!(read(&params), [0.0]);
        params.set_trained(kept.trained()).unwrap();
        assert!(read(&params) != [0.0] && far != [0.0]);
        params.copy_trained_to_frozen().unwrap();
        assert_eq!(read(&params), [0.0]);
    }
}
