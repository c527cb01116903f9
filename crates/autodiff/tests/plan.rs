//! A planned double-DQN update: the eager one's bits over many batches, in a quarter of its memory.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "../benches/dqn/mod.rs"]
mod dqn;

use dqn::{Batch, Net, loss};
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Adam, Eager, Params, Recorder};

fn nets(params: &mut Params) -> [Net; 2] {
    ["online", "target"].map(|name| Net::build(params, name))
}

fn record<'a>(params: &'a Params, nets: [Net; 2], batch: &Batch) -> Recorder<'a> {
    let mut recorder = Recorder::new(params, 0, 1);
    let loss = loss(&mut recorder, nets, batch).unwrap();
    recorder.output("loss", loss);
    recorder.output_param_gradient(loss).unwrap();
    recorder
}

#[test]
fn a_planned_update_takes_a_quarter_of_the_eager_memory() {
    let mut params = Params::new();
    let nets = nets(&mut params);
    let plan = record(&params, nets, &Batch::new(128, 0)).plan();
    let (planned, eager) = (plan.arena_bytes(), plan.eager_bytes());
    println!(
        "batch 128: {planned} B planned, {eager} B eager, {} of {} operations",
        plan.n_steps(),
        plan.n_recorded()
    );
    assert!(4 * planned <= eager, "{planned} B planned, {eager} B eager");
}

#[test]
fn planned_training_is_eager_training() {
    let mut params = Params::new();
    let nets = nets(&mut params);
    let (device, mut comm) = (Device::host(), Comm::solo());
    for n in [1, 8, 33] {
        let mut program = record(&params, nets, &Batch::new(n, 0))
            .plan()
            .load(&device)
            .unwrap();
        let mut planned = params.clone();
        let mut eager = params.clone();
        let n_params = params.flat().len();
        let mut adams = [Adam::new(0.01, n_params), Adam::new(0.01, n_params)];
        let mut losses = Vec::new();
        for turn in 0..12 {
            let batch = Batch::new(n, turn);
            program.refill(&record(&params, nets, &batch)).unwrap();
            program.run(&mut comm, &planned).unwrap();
            let grad = program.param_gradient().unwrap();
            adams[0].step(&device, &mut planned, &grad).unwrap();
            losses.push(program.read("loss").unwrap()[0]);

            let mut ctx = Eager::new(&device, &mut comm, &eager);
            let loss = loss(&mut ctx, nets, &batch).unwrap();
            let grad = ctx.param_gradient(loss).unwrap();
            let value = ctx.values(loss).unwrap()[0];
            adams[1].step(&device, &mut eager, &grad).unwrap();
            assert_eq!(losses[turn].to_bits(), value.to_bits(), "turn {turn}");
            assert_eq!(planned, eager, "turn {turn}");
        }
        assert!(losses.iter().all(|loss| loss.is_finite()) && planned != params);
    }
}
