//! Properties: eager against the f64 reference, gradients against f64 finite differences, P ranks against one.

mod plan;
mod random_programs;
mod reference;

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_autodiff::collectives::{Comm, Timeout, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::testing::bits;
use shardgraph_autodiff::{
    Axis, Ctx, Eager, Error, ParamId, Params, Recorder, Shape, Var, gradient, leave_group,
    rank_device,
};
use shardgraph_graph::Graph;
use shardgraph_shard::{BitShard, BlockShard, Communication, CsrShard, Partition};

use self::reference::naive;
use super::{BatchLayout, Group, Propagation, RowShard, ShardedOps};

/// Everything that a test program reads: two graphs with states, features and weights of given widths.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) graphs: Vec<Arc<Graph>>,
    n_states: Vec<usize>,
    pub(crate) keep: Vec<Vec<f32>>,
    pub(crate) scale: Vec<f32>,
    /// For each graph `[n_nodes, n_states, width]`.
    pub(crate) features: Vec<Vec<f32>>,
    pub(crate) width: usize,
    bits: bool,
    /// The way of sharing neighbour sums, where ranks have blocks.
    communication: Option<Communication>,
    pub(crate) params: Params,
    pub(crate) seeds: Vec<f32>,
}

/// One rank's view of a case.
pub(crate) struct View {
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) propagation: Arc<Propagation>,
    pub(crate) features: Vec<f32>,
}

/// A rank's part of a graph.
fn shard(case: &Case, graph: &Graph, partition: &Partition, rank: u32) -> RowShard {
    let own = partition.range(rank);
    let whole = BitShard::from_graph(graph, 0..graph.n_nodes());
    let block = |shard| RowShard::Block(Arc::new(shard));
    match (case.communication, case.bits) {
        (None, true) => RowShard::Bits(Arc::new(BitShard::from_graph(graph, own))),
        (None, false) => RowShard::Csr(Arc::new(CsrShard::by_rows(graph, own))),
        (Some(way), true) => block(BlockShard::from_bits(&whole, partition, rank, way)),
        (Some(way), false) => block(BlockShard::from_graph(graph, partition, rank, way)),
    }
}

pub(crate) fn view(case: &Case, rank: u32, n_ranks: u32) -> View {
    let partitions: Vec<Partition> = case
        .graphs
        .iter()
        .map(|graph| Partition::by_rows(graph.n_nodes(), n_ranks))
        .collect();
    let groups = partitions
        .iter()
        .zip(&case.n_states)
        .map(|(partition, &n_states)| Group {
            partition: partition.clone(),
            n_states,
        });
    let layout = Arc::new(BatchLayout::new(groups.collect(), rank));
    let mut features = Vec::new();
    let mut shards = Vec::new();
    for (i, graph) in case.graphs.iter().enumerate() {
        let own = partitions[i].range(rank);
        let row = case.n_states[i] * case.width;
        features
            .extend_from_slice(&case.features[i][own.start as usize * row..own.end as usize * row]);
        shards.push(shard(case, graph, &partitions[i], rank));
    }
    let propagation = Propagation::new(
        Arc::clone(&layout),
        shards,
        case.keep.clone(),
        case.scale.clone(),
    );
    View {
        layout,
        propagation: Arc::new(propagation.unwrap()),
        features,
    }
}

/// A program that uses every operation whose result is the same for any number of ranks; gives the loss.
pub(crate) fn program(
    ctx: &mut dyn Ctx,
    case: &Case,
    view: &View,
    ids: &[ParamId],
) -> Result<(Var, Vec<Var>), Error> {
    let params: Vec<Var> = ids
        .iter()
        .map(|&id| ctx.param(id))
        .collect::<Result<_, _>>()?;
    let [w, square, row] = params[..] else {
        unreachable!("three parameters")
    };
    let shape = Shape::new(view.layout.n_rows(), case.width);
    let x = ctx.input(shape, &view.features)?;
    let h = ctx.shard_matmul(x, (w, false), &view.layout)?;
    let h = ctx.relu(h)?;
    let p = ctx.propagate(h, &view.propagation)?;
    let p = ctx.shard_matmul(p, (square, true), &view.layout)?;
    let state = ctx.state_sum(h, &view.layout)?;
    let spread = ctx.state_broadcast(state, &view.layout)?;
    let mixed = ctx.mul(p, spread)?;
    let h = ctx.sub(h, mixed)?;
    let h = ctx.concat(h, p, Axis::Cols)?;
    let h = ctx.slice(h, Axis::Cols, 1, case.width)?;
    let sums = ctx.state_sum(h, &view.layout)?;
    let sums = ctx.matmul(sums, square)?;
    let sums = ctx.add_row(sums, row)?;
    let n_states = view.layout.n_states();
    let index: Vec<u32> = (0..2 * n_states as u32)
        .map(|i| {
            if i % 3 == 2 {
                u32::MAX
            } else {
                i % n_states as u32
            }
        })
        .collect();
    let picked = ctx.gather(sums, index.clone().into())?;
    let back = ctx.scatter(picked, index.into(), n_states + 1)?;
    let both = ctx.concat(sums, back, Axis::Rows)?;
    let head = ctx.sum_rows(both)?;
    let both = ctx.concat(both, head, Axis::Rows)?;
    let both = ctx.scale(both, 0.25)?;
    let target: Vec<f32> = (0..ctx.shape(both).len())
        .map(|i| case.seeds[i % case.seeds.len()])
        .collect();
    let target = ctx.input(ctx.shape(both), &target)?;
    let huber = ctx.loss(Loss::Huber { delta: 0.7 }, both, target)?;
    let mse = ctx.loss(Loss::Mse, both, target)?;
    Ok((ctx.add(huber, mse)?, params))
}

/// The devices that launch kernels and are here.
pub(crate) fn gpus() -> Vec<Device> {
    shardgraph_cuemu::devices("layers")
}

/// Those, and emulated devices whose ranks have one each and exchange through the emulated library of collectives.
pub(crate) fn gpus_together_and_apart() -> Vec<Device> {
    let apart = shardgraph_cuemu::device_of_a_group("layers");
    gpus().into_iter().chain(apart).collect()
}

/// The result of `work` on a rank's device, which may be in a group.
pub(crate) fn on_rank_device<R>(
    device: &Device,
    comm: &mut Comm,
    work: impl FnOnce(&Device, &mut Comm) -> R,
) -> R {
    let device = rank_device(device, comm, Timeout::default()).unwrap();
    assert_eq!(device.group().is_some(), device.nccl().is_some());
    let result = work(&device, comm);
    leave_group(&device, Timeout::default()).unwrap();
    result
}

fn run_eager(case: &Case, comm: &mut Comm) -> (f32, Vec<f32>) {
    run_eager_on(case, &Device::host(), comm)
}

pub(crate) fn run_eager_on(case: &Case, device: &Device, comm: &mut Comm) -> (f32, Vec<f32>) {
    let view = view(case, comm.rank(), comm.size());
    let ids: Vec<ParamId> = case.params.ids().collect();
    let mut ctx = Eager::new(device, comm, &case.params);
    let (loss, params) = program(&mut ctx, case, &view, &ids).unwrap();
    let grads = gradient(&mut ctx, loss, &params).unwrap();
    let grads: Vec<Option<Vec<f32>>> = grads
        .iter()
        .map(|grad| grad.map(|var| ctx.values(var).unwrap()))
        .collect();
    let loss = ctx.values(loss).unwrap()[0];
    (loss, case.params.flatten(&grads).unwrap())
}

fn naive_loss(case: &Case, view: &View, flat: Option<&[f64]>) -> f64 {
    let mut ctx = naive(&case.params);
    if let Some(flat) = flat {
        ctx.flat.copy_from_slice(flat);
    }
    let ids: Vec<ParamId> = case.params.ids().collect();
    let (loss, _) = program(&mut ctx, case, view, &ids).unwrap();
    ctx.values(loss)[0]
}

fn naive_gradient(case: &Case, view: &View) -> Vec<f64> {
    let mut ctx = naive(&case.params);
    let ids: Vec<ParamId> = case.params.ids().collect();
    let (loss, params) = program(&mut ctx, case, view, &ids).unwrap();
    let grads = gradient(&mut ctx, loss, &params).unwrap();
    grads
        .iter()
        .flat_map(|grad| ctx.values(grad.unwrap()).to_vec())
        .collect()
}

fn values(n: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-64i32..64).prop_map(|i| (i as f32 + 0.37) / 64.0), n)
}

fn graph(n: u32) -> impl Strategy<Value = Arc<Graph>> {
    prop::collection::vec((0..n, 0..n), 0..3 * n as usize)
        .prop_map(move |edges| Arc::new(Graph::from_edges(n, &edges).unwrap()))
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![1u32..9, Just(31), Just(33), Just(65), Just(130)];
    (
        sizes.clone(),
        1u32..9,
        1usize..4,
        1usize..3,
        2usize..5,
        any::<bool>(),
    )
        .prop_flat_map(|(n1, n2, b1, b2, width, bits)| {
            let mask = |n: usize| {
                prop::collection::vec(any::<bool>().prop_map(|b| f32::from(u8::from(b))), n)
            };
            let (r1, r2) = (n1 as usize * b1, n2 as usize * b2);
            (
                (graph(n1), graph(n2)),
                (mask(r1), mask(r2)),
                (values(r1 * width), values(r2 * width)),
                values(b1 + b2),
                values(2 * width * width + width),
                values(7),
            )
                .prop_map(move |(graphs, keep, features, scale, flat, seeds)| {
                    let mut params = Params::new();
                    let mut flat = flat.into_iter();
                    for (name, rows) in [("w", width), ("square", width), ("row", 1)] {
                        params.add(name, Shape::new(rows, width), || flat.next().unwrap());
                    }
                    Case {
                        graphs: vec![graphs.0, graphs.1],
                        n_states: vec![b1, b2],
                        keep: vec![keep.0, keep.1],
                        scale,
                        features: vec![features.0, features.1],
                        width,
                        bits,
                        communication: None,
                        params,
                        seeds,
                    }
                })
        })
}

/// Relative to the largest element: what f32 sums over that many terms allow.
fn close(got: &[f32], want: &[f64], tolerance: f64) -> Result<(), String> {
    let scale = want.iter().fold(1e-3, |m: f64, w| m.max(w.abs()));
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        if (f64::from(g) - w).abs() > tolerance * scale {
            return Err(format!("element {i}: {g} instead of {w} (scale {scale})"));
        }
    }
    Ok(())
}

/// Small enough that kinks are rare between two sides, large enough for f64.
const STEP: f64 = 1e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn eager_matches_the_f64_reference(case in case()) {
        let view = view(&case, 0, 1);
        let (loss, grads) = run_eager(&case, &mut Comm::solo());
        prop_assert!(close(&[loss], &[naive_loss(&case, &view, None)], 1e-4).is_ok());
        let checked = close(&grads, &naive_gradient(&case, &view), 1e-4);
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }

    /// Away from kinks, central differences of the f64 program agree with its gradient.
    #[test]
    fn gradient_matches_finite_differences(case in case()) {
        let view = view(&case, 0, 1);
        let grads = naive_gradient(&case, &view);
        let flat: Vec<f64> = case.params.flat().iter().map(|&x| f64::from(x)).collect();
        let at = |i: usize, step: f64| {
            let mut moved = flat.clone();
            moved[i] += step;
            naive_loss(&case, &view, Some(&moved))
        };
        let scale = grads.iter().fold(1.0, |m: f64, g| m.max(g.abs()));
        let mut n_checked = 0;
        for (i, grad) in grads.iter().enumerate() {
            let (left, mid, right) = (at(i, -STEP), at(i, 0.0), at(i, STEP));
            let slopes = ((mid - left) / STEP, (right - mid) / STEP);
            // A kink of relu or Huber between the two sides: the central difference is off by up to half of what the
            // slopes differ by.
            if (slopes.0 - slopes.1).abs() > 1e-4 * scale {
                continue;
            }
            let central = (right - left) / (2.0 * STEP);
            n_checked += 1;
            prop_assert!((central - grad).abs() < 1e-4 * scale, "{}: {} and {}", i, central, grad);
        }
        prop_assert!(2 * n_checked > grads.len(), "only {} of {} were away from kinks", n_checked, grads.len());
    }

    #[test]
    fn any_number_of_ranks_gives_the_same_bits(case in case(), n_ranks in 2u32..=6) {
        let (loss, grads) = run_eager(&case, &mut Comm::solo());
        for result in threads::run(n_ranks, |mut comm| run_eager(&case, &mut comm)) {
            let (other_loss, other_grads) = result.unwrap();
            prop_assert_eq!(loss.to_bits(), other_loss.to_bits());
            prop_assert_eq!(bits(&grads), bits(&other_grads));
        }
    }

    /// Every way of sharing neighbour sums, forward and backward: the bits of one rank where no float is added over ranks, else what their
    /// rounding allows.
    #[test]
    fn ways_of_sharing_sums_agree(mut case in case(), n_ranks in 1u32..=6) {
        let whole = view(&case, 0, 1);
        let (loss, grads) = run_eager(&case, &mut Comm::solo());
        let (want_loss, want) = (naive_loss(&case, &whole, None), naive_gradient(&case, &whole));
        for communication in Communication::ALL {
            case.communication = Some(communication);
            let mut first: Option<(f32, Vec<f32>)> = None;
            for result in threads::run(n_ranks, |mut comm| run_eager(&case, &mut comm)) {
                let (other_loss, other_grads) = result.unwrap();
                if communication.is_exact() {
                    prop_assert_eq!(loss.to_bits(), other_loss.to_bits());
                    prop_assert_eq!(bits(&grads), bits(&other_grads));
                }
                prop_assert!(close(&[other_loss], &[want_loss], 1e-4).is_ok());
                let checked = close(&other_grads, &want, 1e-4);
                prop_assert!(checked.is_ok(), "{}: {:?}", communication, checked);
                // What is replicated has the same bits on all ranks, in every way.
                let (first_loss, first_grads) = first.get_or_insert((other_loss, other_grads.clone()));
                prop_assert_eq!(first_loss.to_bits(), other_loss.to_bits());
                prop_assert_eq!(bits(first_grads), bits(&other_grads));
            }
        }
    }

    /// The same on devices, whose rows go through host memory.
    #[test]
    fn ways_of_sharing_sums_agree_on_devices(mut case in case(), n_ranks in 1u32..=4) {
        let whole = view(&case, 0, 1);
        let (loss, grads) = (naive_loss(&case, &whole, None), naive_gradient(&case, &whole));
        for (device, communication) in gpus_together_and_apart().iter().zip(Communication::ALL.iter().cycle().skip(n_ranks as usize)) {
            case.communication = Some(*communication);
            let results = threads::run(n_ranks, |mut comm| {
                on_rank_device(device, &mut comm, |device, comm| run_eager_on(&case, device, comm))
            });
            for result in results {
                let (other_loss, other_grads) = result.unwrap();
                prop_assert!(close(&[other_loss], &[loss], 1e-4).is_ok());
                let checked = close(&other_grads, &grads, 1e-4);
                prop_assert!(checked.is_ok(), "{}: {:?}", communication, checked);
            }
        }
    }

    /// Ranks with a stream each on one device, or with a device each in a group, whose collectives run there: the reference's
    /// values, and the same bits for every number of ranks.
    #[test]
    fn ranks_on_devices_agree(case in case(), n_ranks in 1u32..=6) {
        for device in gpus_together_and_apart() {
            let whole = view(&case, 0, 1);
            let (loss, grads) = run_eager_on(&case, &device, &mut Comm::solo());
            prop_assert!(close(&[loss], &[naive_loss(&case, &whole, None)], 1e-4).is_ok());
            let checked = close(&grads, &naive_gradient(&case, &whole), 1e-4);
            prop_assert!(checked.is_ok(), "{:?}", checked);
            let results = threads::run(n_ranks, |mut comm| {
                on_rank_device(&device, &mut comm, |device, comm| run_eager_on(&case, device, comm))
            });
            for result in results {
                let (other_loss, other_grads) = result.unwrap();
                prop_assert_eq!(loss.to_bits(), other_loss.to_bits());
                prop_assert_eq!(bits(&grads), bits(&other_grads));
            }
        }
    }

    #[test]
    fn recorded_shapes_of_gradients_are_their_parameters(case in case()) {
        let view = view(&case, 0, 1);
        let ids: Vec<ParamId> = case.params.ids().collect();
        let mut shapes = Recorder::new(&case.params, 0, 1);
        let (loss, params) = program(&mut shapes, &case, &view, &ids).unwrap();
        let grads = gradient(&mut shapes, loss, &params).unwrap();
        for (grad, param) in grads.iter().zip(&params) {
            prop_assert_eq!(shapes.shape(grad.unwrap()), shapes.shape(*param));
        }
        prop_assert!(shapes.n_elements() > 0);
    }
}
