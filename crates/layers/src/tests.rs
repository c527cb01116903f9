//! Properties: every path against algorithms 2 and 3 in f64, gradients between paths, ranks, the
//! closed form.

mod other_layers;

use std::sync::Arc;

use crate::{BatchLayout, Group, Propagation, RowShard};
use proptest::prelude::*;
use shardgraph_autodiff::collectives::{Comm, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{Ctx, Eager, Params, Shape};
use shardgraph_graph::{EdgeSink, Graph, GraphBuilder};
use shardgraph_shard::{CsrShard, Partition};

use crate::naive::Model;
use crate::{Path, Policy, PolicyShape, ScoreTable, StateBatch};

/// One graph with some states, and a policy.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    graph: Arc<Graph>,
    /// For each state the nodes that have left the residual graph.
    pub(crate) removed: Vec<Vec<bool>>,
    /// `[n, n_node_features]`.
    features: Vec<f32>,
    pub(crate) shape: PolicyShape,
    pub(crate) flat: Vec<f32>,
    normalised: bool,
}

impl Case {
    pub(crate) fn n(&self) -> usize {
        self.graph.n_nodes() as usize
    }

    fn weight(&self, v: u32, i: usize) -> f32 {
        self.graph.weights_of(v).map_or(1.0, |weights| weights[i])
    }

    pub(crate) fn policy(&self) -> (Policy, Params) {
        let mut params = Params::new();
        let mut flat = self.flat.iter().copied().cycle();
        let policy = Policy::build(&mut params, self.shape, &mut || flat.next().unwrap()).unwrap();
        (policy, params)
    }

    /// The residual neighbours of a residual node with their weights.
    fn residual(&self, state: usize, v: u32) -> Vec<(u32, f32)> {
        let removed = &self.removed[state];
        if removed[v as usize] {
            return Vec::new();
        }
        let neighbors = self.graph.neighbors(v).iter().enumerate();
        neighbors
            .filter(|&(_, &u)| !removed[u as usize])
            .map(|(i, &u)| (u, self.weight(v, i)))
            .collect()
    }

    fn scale(&self, state: usize) -> f32 {
        if !self.normalised {
            return 1.0;
        }
        let degrees = (0..self.graph.n_nodes()).map(|v| self.residual(state, v).len());
        1.0 / degrees.max().unwrap_or(0).max(1) as f32
    }

    fn batch(&self, rank: u32, n_ranks: u32) -> StateBatch {
        let partition = Partition::by_rows(self.graph.n_nodes(), n_ranks);
        let own = partition.range(rank);
        let n_states = self.removed.len();
        let group = Group {
            partition,
            n_states,
        };
        let layout = Arc::new(BatchLayout::new(vec![group], rank));
        let scale: Vec<f32> = (0..n_states).map(|state| self.scale(state)).collect();
        let (mut node, mut edge, mut neighbor_degree) = (Vec::new(), Vec::new(), Vec::new());
        for v in own.clone() {
            for (state, &scale) in scale.iter().enumerate() {
                node.push(f32::from(u8::from(self.removed[state][v as usize])));
                let f = self.shape.n_node_features;
                node.extend_from_slice(&self.features[v as usize * f..][..f]);
                let neighbors = self.residual(state, v);
                let sum = |sign: f32| neighbors.iter().map(|e| (sign * e.1).max(0.0)).sum::<f32>();
                edge.extend([scale * sum(1.0), scale * sum(-1.0)]);
                let degrees = neighbors
                    .iter()
                    .map(|e| self.residual(state, e.0).len() as f32);
                neighbor_degree.push(scale * scale * degrees.sum::<f32>());
            }
        }
        let keep = (0..self.n() * n_states)
            .map(|i| f32::from(u8::from(!self.removed[i % n_states][i / n_states])))
            .collect();
        let shard = RowShard::Csr(Arc::new(CsrShard::by_rows(&self.graph, own)));
        let propagation =
            Propagation::new(Arc::clone(&layout), vec![shard], vec![keep], scale).unwrap();
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

    /// The size of a score's terms before any of them cancel: the scores with all weights made
    /// positive.
    fn largest_term(&self) -> f64 {
        let mut positive = self.clone();
        positive
            .flat
            .iter_mut()
            .for_each(|theta| *theta = theta.abs());
        let scores = (0..self.removed.len()).map(|state| largest(&positive.naive_scores(state)));
        scores.fold(0.0, f64::max)
    }

    fn naive_scores(&self, state: usize) -> Vec<f64> {
        let (_, params) = self.policy();
        let theta: Vec<Vec<f64>> = params
            .ids()
            .map(|id| params.values_of(id).iter().map(|&x| f64::from(x)).collect())
            .collect();
        let model = Model {
            k: self.shape.embed_dim,
            n_layers: self.shape.n_layers,
            theta: theta.try_into().unwrap(),
        };
        let n = self.n();
        let (adjacency, features) = self.dense(state);
        let embed = model.embed(&adjacency, &features, n);
        model.scores(&embed, n)
    }

    /// The residual matrix `[n, n]` of a state, and `[n, 1 + features]`.
    pub(crate) fn dense(&self, state: usize) -> (Vec<f64>, Vec<f64>) {
        let n = self.n();
        let mut adjacency = vec![0.0; n * n];
        let mut features = Vec::new();
        for v in 0..n {
            for (u, weight) in self.residual(state, v as u32) {
                adjacency[v * n + u as usize] = f64::from(weight * self.scale(state));
            }
            features.push(f64::from(u8::from(self.removed[state][v])));
            let f = self.shape.n_node_features;
            features.extend(self.features[v * f..][..f].iter().map(|&x| f64::from(x)));
        }
        (adjacency, features)
    }
}

/// The scores `[n_rows]` and the gradient of a loss on the states' first nodes.
pub(crate) fn run(case: &Case, comm: &mut Comm, path: Path) -> (Vec<f32>, Vec<f32>) {
    let (policy, params) = case.policy();
    let batch = case.batch(comm.rank(), comm.size());
    let device = Device::host();
    let mut ctx = Eager::new(&device, comm, &params);
    let embed = policy.embedding.embed(&mut ctx, &batch, path).unwrap();
    let scores = policy.head.scores(&mut ctx, embed, &batch.layout).unwrap();
    let n_states = case.removed.len();
    let own_rows: Vec<u32> = (0..n_states)
        .map(|b| batch.layout.row(0, 0, b).map_or(u32::MAX, |row| row as u32))
        .collect();
    let q = policy
        .head
        .scores_of(&mut ctx, embed, &batch.layout, own_rows.into())
        .unwrap();
    let target = ctx
        .input(Shape::new(n_states, 1), &vec![0.5; n_states])
        .unwrap();
    let loss = ctx.loss(Loss::Mse, q, target).unwrap();
    let grad = ctx.param_gradient(loss).unwrap();
    (ctx.values(scores).unwrap(), grad)
}

fn values(n: usize, scale: f32) -> impl Strategy<Value = Vec<f32>> {
    let value = (-64i32..64).prop_map(move |i| scale * (i as f32 + 0.37) / 64.0);
    prop::collection::vec(value, n)
}

fn case(max_layers: usize, special: bool) -> impl Strategy<Value = Case> {
    case_of(PolicyShape::default(), max_layers, special)
}

/// With the layers of a shape.
pub(crate) fn case_of(
    shape: PolicyShape,
    max_layers: usize,
    special: bool,
) -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![1u32..9, Just(20), Just(33), Just(66)];
    (
        sizes,
        1usize..4,
        1usize..6,
        1..=max_layers,
        0usize..3,
        any::<bool>(),
    )
        .prop_flat_map(move |(n, n_states, k, n_layers, n_features, weighted)| {
            let n_node_features = if special { 0 } else { n_features };
            let shape = PolicyShape {
                embed_dim: k,
                n_layers,
                n_node_features,
                ..shape
            };
            (
                prop::collection::vec((0..n, 0..n, -8i32..9), 0..4 * n as usize),
                prop::collection::vec(prop::collection::vec(any::<bool>(), n as usize), n_states),
                values(n as usize * n_node_features, 1.0),
                values(shape.n_params(), 0.7),
                any::<bool>(),
            )
                .prop_map(move |(edges, removed, features, flat, normalised)| {
                    let mut builder = GraphBuilder::new();
                    for (u, v, w) in edges.into_iter().filter(|(u, v, _)| u != v) {
                        builder.edge(u, v, w as f32 / 4.0).unwrap();
                    }
                    let (graph, _) = builder.finish(n, weighted && !special).unwrap();
                    Case {
                        graph: Arc::new(graph),
                        removed,
                        features,
                        shape,
                        flat,
                        normalised,
                    }
                })
        })
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(1e-3, |m: f64, v| m.max(v.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn general_path_is_algorithms_2_and_3(case in case(4, false)) {
        let (scores, _) = run(&case, &mut Comm::solo(), Path::General);
        let n_states = case.removed.len();
        for state in 0..n_states {
            let want = case.naive_scores(state);
            let scale = largest(&want);
            for (v, want) in want.iter().enumerate() {
                let got = f64::from(scores[v * n_states + state]);
                prop_assert!((got - want).abs() <= 1e-4 * scale, "node {}: {} {}", v, got, want);
            }
        }
    }

    #[test]
    fn special_paths_agree_with_the_general_one(case in case(4, true)) {
        prop_assert_eq!(case.policy().0.embedding.best_path(false), Path::Collapsed);
        let (general, general_grad) = run(&case, &mut Comm::solo(), Path::General);
        // Where terms cancel, their rounding counts and not the small rest.
        let term = 0.1 * case.largest_term() as f32;
        for path in [Path::FreeFirstLayer, Path::Collapsed] {
            let (scores, grad) = run(&case, &mut Comm::solo(), path);
            let relative = |a: &[f32], b: &[f32], floor: f32| {
                let scale = a.iter().fold(floor, |m, x| m.max(x.abs()));
                a.iter().zip(b).fold(0.0f32, |m, (x, y)| m.max((x - y).abs() / scale))
            };
            prop_assert!(relative(&general, &scores, term) <= 1e-5, "{}: scores", path);
            prop_assert!(relative(&general_grad, &grad, 1e-3) <= 1e-4, "{}: gradients", path);
        }
    }

    #[test]
    fn free_first_layer_agrees_with_weights_and_features(case in case(4, false)) {
        let (general, _) = run(&case, &mut Comm::solo(), Path::General);
        let (free, _) = run(&case, &mut Comm::solo(), Path::FreeFirstLayer);
        prop_assert_eq!(general, free); // the skipped sum is a sum of zeros
    }

    #[test]
    fn ranks_give_the_same_bits(case in case(3, true), n_ranks in 2u32..=6) {
        let path = case.policy().0.embedding.best_path(false);
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (scores, grad) = run(&case, &mut Comm::solo(), path);
        let parts = threads::run(n_ranks, |mut comm| run(&case, &mut comm, path));
        let mut all = Vec::new();
        for part in parts {
            let (part, part_grad) = part.unwrap();
            all.extend(part);
            prop_assert_eq!(bits(&grad), bits(&part_grad));
        }
        prop_assert_eq!(bits(&scores), bits(&all));
    }

    #[test]
    fn score_table_is_the_collapsed_policy(case in case(2, true), degrees in prop::collection::vec((1u32..300, 0u32..90_000), 1..40)) {
        let (policy, params) = case.policy();
        let table = ScoreTable::new(&policy, &params).unwrap();
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, &params);
        // A batch whose rows have the wanted degrees; no graph is needed on the collapsed path.
        let n = degrees.len();
        let group = Group { partition: Partition::by_rows(n as u32, 1), n_states: 1 };
        let batch = StateBatch {
            inputs: None,
            counted: None,
            layout: Arc::new(BatchLayout::new(vec![group], 0)),
            node: vec![0.0; n],
            edge: degrees.iter().flat_map(|d| [d.0 as f32 / 300.0, 0.0]).collect(),
            neighbor_degree: degrees.iter().map(|d| d.1 as f32 / 90_000.0).collect(),
            propagation: None,
        };
        let embed = policy.embedding.embed(&mut ctx, &batch, Path::Collapsed).unwrap();
        let want = policy.head.node_values(&mut ctx, embed, &batch.layout).unwrap();
        let want = ctx.values(want).unwrap();
        // A score is a sum of terms of up to about 0.1; where they cancel, it is their rounding
        // that counts.
        let scale = want.iter().fold(1e-2f32, |m, x| m.max(x.abs()));
        let mut hint = 0;
        for (i, want) in want.iter().enumerate() {
            let (x, y) = (batch.edge[2 * i], batch.neighbor_degree[i]);
            let got = table.score_near(x, y, &mut hint);
            prop_assert!((got - want).abs() <= 1e-5 * scale, "{}: {} {}", i, got, want);
            prop_assert_eq!(got.to_bits(), table.score(x, y).to_bits());
            prop_assert!(got <= table.bound_per_degree(y / x) * x);
            prop_assert!(got <= table.bound_per_degree(2.0 * y / x) * x);
        }
    }
}

#[test]
fn impossible_policies_are_refused() {
    let shape = PolicyShape {
        embed_dim: 0,
        n_layers: 2,
        ..PolicyShape::default()
    };
    assert!(Policy::build(&mut Params::new(), shape, &mut || 0.0).is_err());
}
