//! structure2vec and the Q head with loss and gradient, planned: the eager bits on every path, for
//! ranks, batch after batch.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_autodiff::collectives::{Comm, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Ctx, Eager, Error, Params, Recorder, Shape, Var};
use shardgraph_graph::Graph;
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{EmbeddingKind, HeadKind, Path, Policy, PolicyShape, StateBatch};
use shardgraph_shard::{CsrShard, Partition};

const SHAPE: PolicyShape = PolicyShape {
    embed_dim: 5,
    n_layers: 3,
    n_node_features: 0,
    embedding: EmbeddingKind::STRUCTURE2VEC,
    head: HeadKind::Q,
};

/// A batch of states of one graph: which nodes have left each of them.
#[derive(Debug, Clone)]
struct Case {
    graph: Arc<Graph>,
    removed: Vec<Vec<bool>>,
    flat: Vec<f32>,
    target: f32,
}

fn case(n: u32, n_states: usize) -> impl Strategy<Value = Case> {
    (
        prop::collection::vec((0..n, 0..n), 0..3 * n as usize),
        prop::collection::vec(prop::collection::vec(any::<bool>(), n as usize), n_states),
        prop::collection::vec(-0.7f32..0.7, SHAPE.n_params()),
        -1.0f32..1.0,
    )
        .prop_map(move |(edges, removed, flat, target)| Case {
            graph: Arc::new(Graph::from_edges(n, &edges).unwrap()),
            removed,
            flat,
            target,
        })
}

/// Two batches of the same shapes.
fn cases() -> impl Strategy<Value = (Case, Case)> {
    let sizes = prop_oneof![1u32..9, Just(33), Just(66)];
    (sizes, 1usize..4).prop_flat_map(|(n, n_states)| (case(n, n_states), case(n, n_states)))
}

fn residual_neighbors(case: &Case, state: usize, v: u32) -> Vec<u32> {
    let removed = &case.removed[state];
    let all = if removed[v as usize] {
        &[]
    } else {
        case.graph.neighbors(v)
    };
    all.iter()
        .copied()
        .filter(|&u| !removed[u as usize])
        .collect()
}

fn batch(case: &Case, rank: u32, n_ranks: u32) -> StateBatch {
    let partition = Partition::by_rows(case.graph.n_nodes(), n_ranks);
    let (own, n_states) = (partition.range(rank), case.removed.len());
    let group = Group {
        partition,
        n_states,
    };
    let layout = Arc::new(BatchLayout::new(vec![group], rank));
    let (mut node, mut edge, mut neighbor_degree) = (Vec::new(), Vec::new(), Vec::new());
    for v in own.clone() {
        for state in 0..n_states {
            let neighbors = residual_neighbors(case, state, v);
            let degree = |&u: &u32| residual_neighbors(case, state, u).len() as f32;
            node.push(f32::from(u8::from(case.removed[state][v as usize])));
            edge.extend([neighbors.len() as f32, 0.0]);
            neighbor_degree.push(neighbors.iter().map(degree).sum());
        }
    }
    let is_kept = |i: usize| !case.removed[i % n_states][i / n_states];
    let n_rows = case.graph.n_nodes() as usize * n_states;
    let keep = (0..n_rows)
        .map(|i| f32::from(u8::from(is_kept(i))))
        .collect();
    let shards = vec![RowShard::Csr(Arc::new(CsrShard::by_rows(&case.graph, own)))];
    let scale = vec![0.5; n_states];
    let propagation = Propagation::new(Arc::clone(&layout), shards, vec![keep], scale).unwrap();
    StateBatch {
        inputs: None,
        counted: None,
        layout,
        node,
        edge,
        neighbor_degree,
        propagation: Some(Arc::new(propagation)),
    }
}

/// The scores of all own rows, and the loss of one picked node a state.
fn losses(
    ctx: &mut dyn Ctx,
    policy: &Policy,
    path: Path,
    case: &Case,
    batch: &StateBatch,
) -> Result<(Var, Var), Error> {
    let embed = policy.embedding.embed(ctx, batch, path)?;
    let scores = policy.head.scores(ctx, embed, &batch.layout)?;
    let n_states = case.removed.len();
    let picked = |state: usize| {
        let row = batch
            .layout
            .row(0, state as u32 % case.graph.n_nodes(), state);
        row.map_or(u32::MAX, |row| row as u32)
    };
    let own_rows: Arc<[u32]> = (0..n_states).map(picked).collect();
    let q = policy.head.scores_of(ctx, embed, &batch.layout, own_rows)?;
    let target = ctx.input(Shape::new(n_states, 1), &vec![case.target; n_states])?;
    Ok((scores, ctx.loss(Loss::Mse, q, target)?))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn compare(comm: &mut Comm, cases: [&Case; 3], path: Path) {
    let (rank, size, device) = (comm.rank(), comm.size(), Device::host());
    let mut params = Params::new();
    let policy = Policy::build(&mut params, SHAPE, &mut || 0.0).unwrap();
    let record = |case: &Case| {
        let mut recorder = Recorder::new(&params, rank, size);
        let batch = batch(case, rank, size);
        let (scores, loss) = losses(&mut recorder, &policy, path, case, &batch).unwrap();
        recorder.output("scores", scores);
        recorder.output_param_gradient(loss).unwrap();
        recorder
    };
    let mut program = record(cases[0]).plan().load(&device).unwrap();
    assert!(program.plan().arena_bytes() > 0);
    for case in cases {
        let mut weights = params.clone();
        weights.set_flat(&case.flat).unwrap();
        program.refill(&record(case)).unwrap();
        program.run(comm, &weights).unwrap();
        let batch = batch(case, rank, size);
        let mut ctx = Eager::new(&device, comm, &weights);
        let (scores, loss) = losses(&mut ctx, &policy, path, case, &batch).unwrap();
        let grad = ctx.param_gradient(loss).unwrap();
        assert_eq!(bits(&grad), bits(&program.param_gradient().unwrap()));
        let scores = ctx.values(scores).unwrap();
        assert_eq!(bits(&scores), bits(&program.read("scores").unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_planned_policy_has_the_bits_of_the_eager_one((first, second) in cases(), n_ranks in 1u32..=3) {
        for path in [Path::General, Path::FreeFirstLayer, Path::Collapsed] {
            let results = threads::run(n_ranks, |mut comm| {
                compare(&mut comm, [&first, &second, &first], path);
            });
            prop_assert!(results.iter().all(Result::is_ok), "{:?}", results);
        }
    }
}
