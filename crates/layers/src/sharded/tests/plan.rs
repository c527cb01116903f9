//! Planned programs against eager ones, bit for bit: ranks, devices, second batches, poisoned memory.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_autodiff::collectives::{Comm, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::testing::{bits, poisoned_program};
use shardgraph_autodiff::{ParamId, Params, Program, Recorder};
use shardgraph_graph::Graph;

use super::{Case, case, gpus_together_and_apart, on_rank_device, program, run_eager_on, view};

/// Records the test program with its gradient.
fn record<'a>(params: &'a Params, case: &Case, rank: u32, n_ranks: u32) -> Recorder<'a> {
    let ids: Vec<ParamId> = params.ids().collect();
    let mut recorder = Recorder::new(params, rank, n_ranks);
    let (loss, _) = program(&mut recorder, case, &view(case, rank, n_ranks), &ids).unwrap();
    recorder.output("loss", loss);
    recorder.output_param_gradient(loss).unwrap();
    recorder
}

fn run_planned(program: &mut Program, comm: &mut Comm, params: &Params) -> (f32, Vec<f32>) {
    program.run(comm, params).unwrap();
    (
        program.read("loss").unwrap()[0],
        program.param_gradient().unwrap(),
    )
}

/// Another batch of the same shapes: other graphs, masks, scales, features, targets and parameters.
fn another(case: &Case) -> Case {
    let mut other = case.clone();
    for graph in &mut other.graphs {
        let n = graph.n_nodes();
        let path: Vec<(u32, u32)> = (1..n).map(|v| (v - 1, v)).collect();
        *graph = Arc::new(Graph::from_edges(n, &path).unwrap());
    }
    other.keep.iter_mut().for_each(|keep| keep.reverse());
    other
        .features
        .iter_mut()
        .flatten()
        .for_each(|x| *x = 0.5 - *x);
    other.scale.iter_mut().for_each(|x| *x = 0.3 + 0.5 * *x);
    other.seeds.reverse();
    let flat: Vec<f32> = case.params.flat().iter().map(|x| 0.1 - x).collect();
    other.params.set_flat(&flat).unwrap();
    other
}

/// Eager and planned runs of two batches, twice each, one program for all of them.
fn planned_is_eager(case: &Case, device: &Device, n_ranks: u32) {
    let other = another(case);
    let results = threads::run(n_ranks, |mut comm| {
        on_rank_device(device, &mut comm, |device, comm| {
            let (rank, size) = (comm.rank(), comm.size());
            let recorded = record(&case.params, case, rank, size);
            let mut program = poisoned_program(recorded.plan().load(device).unwrap());
            for (turn, batch) in [case, &other, &other, case].into_iter().enumerate() {
                if turn > 0 {
                    program
                        .refill(&record(&case.params, batch, rank, size))
                        .unwrap();
                }
                let eager = run_eager_on(batch, device, comm);
                let planned = run_planned(&mut program, comm, &batch.params);
                assert_eq!(
                    eager.0.to_bits(),
                    planned.0.to_bits(),
                    "loss of turn {turn}"
                );
                assert_eq!(bits(&eager.1), bits(&planned.1), "gradient of turn {turn}");
            }
        })
    });
    results.into_iter().for_each(|result| result.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_planned_program_has_the_bits_of_the_eager_one(case in case(), n_ranks in 1u32..=3) {
        planned_is_eager(&case, &Device::host(), n_ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn so_it_has_on_devices(case in case(), n_ranks in 1u32..=3) {
        for device in gpus_together_and_apart() {
            planned_is_eager(&case, &device, n_ranks);
        }
    }
}
