//! Properties of every pair of an embedding and a head: the f64 reference, finite differences,
//! ranks.

use proptest::prelude::*;
use shardgraph_autodiff::Params;
use shardgraph_autodiff::collectives::{Comm, threads};

use super::{Case, case_of, run};
use crate::naive::{Model, graph_sage, mlp_scores};
use crate::{EmbeddingKind, HeadKind, Path, Policy, PolicyShape};

const KINDS: [(EmbeddingKind, HeadKind); 3] = [
    (EmbeddingKind::GRAPH_SAGE, HeadKind::Q),
    (EmbeddingKind::STRUCTURE2VEC, HeadKind::MLP),
    (EmbeddingKind::GRAPH_SAGE, HeadKind::MLP),
];

fn case() -> impl Strategy<Value = Case> {
    prop::sample::select(&KINDS[..]).prop_flat_map(|(embedding, head)| {
        let shape = PolicyShape {
            embedding,
            head,
            ..PolicyShape::default()
        };
        case_of(shape, 3, false)
    })
}

/// The scores of a state in f64, with other parameters than the case's.
fn naive_scores(case: &Case, theta: &[Vec<f64>], state: usize) -> Vec<f64> {
    let (k, n) = (case.shape.embed_dim, case.n());
    let (adjacency, features) = case.dense(state);
    let is_mlp = case.shape.head == HeadKind::MLP;
    let n_head = if is_mlp { 4 } else { 3 };
    let (below, above) = theta.split_at(theta.len() - n_head);
    let model = |below: &[Vec<f64>], above: &[Vec<f64>]| {
        let zero = || vec![0.0; k * k];
        let mut all = below.to_vec();
        all.resize_with(4, zero);
        all.extend_from_slice(&above[..above.len().min(3)]);
        Model {
            k,
            n_layers: case.shape.n_layers,
            theta: all.try_into().unwrap(),
        }
    };
    let embed = match case.shape.embedding == EmbeddingKind::GRAPH_SAGE {
        false => model(below, above).embed(&adjacency, &features, n),
        true => graph_sage(below, k, &adjacency, &features, n),
    };
    match is_mlp {
        false => model(&[], above).scores(&embed, n),
        true => mlp_scores(above, k, &embed, n),
    }
}

/// The loss that [`run`] takes the gradient of.
fn naive_loss(case: &Case, flat: &[f64]) -> f64 {
    let (_, params) = case.policy();
    let mut rest = flat;
    let mut theta = Vec::new();
    for id in params.ids() {
        let (values, after) = rest.split_at(params.values_of(id).len());
        theta.push(values.to_vec());
        rest = after;
    }
    let n_states = case.removed.len();
    let error = |state| naive_scores(case, &theta, state)[0] - 0.5;
    (0..n_states).map(|state| error(state).powi(2)).sum::<f64>() / n_states as f64
}

fn flat(case: &Case) -> Vec<f64> {
    let (_, params) = case.policy();
    params.flat().iter().map(|&x| f64::from(x)).collect()
}

const STEP: f64 = 1e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn scores_are_those_of_the_reference(case in case()) {
        let path = case.policy().0.embedding.best_path(true);
        let (scores, _) = run(&case, &mut Comm::solo(), path);
        let (_, params) = case.policy();
        prop_assert_eq!(params.flat().len(), case.shape.n_params());
        let wide = |id| params.values_of(id).iter().map(|&x| f64::from(x)).collect();
        let theta: Vec<Vec<f64>> = params.ids().map(wide).collect();
        let n_states = case.removed.len();
        for state in 0..n_states {
            let want = naive_scores(&case, &theta, state);
            let scale = want.iter().fold(1e-2, |m: f64, w| m.max(w.abs()));
            for (v, want) in want.iter().enumerate() {
                let got = f64::from(scores[v * n_states + state]);
                prop_assert!((got - want).abs() <= 1e-4 * scale, "node {}: {} {}", v, got, want);
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences(case in case()) {
        let (_, grads) = run(&case, &mut Comm::solo(), case.policy().0.embedding.best_path(true));
        let flat = flat(&case);
        let at = |i: usize, step: f64| {
            let mut moved = flat.clone();
            moved[i] += step;
            naive_loss(&case, &moved)
        };
        let scale = grads.iter().fold(1e-2, |m: f64, g| m.max(f64::from(g.abs())));
        let (mut n_checked, mut n_kinks) = (0, 0);
        for (i, grad) in grads.iter().enumerate() {
            let (left, mid, right) = (at(i, -STEP), at(i, 0.0), at(i, STEP));
            let slopes = ((mid - left) / STEP, (right - mid) / STEP);
            if (slopes.0 - slopes.1).abs() > 1e-4 * scale {
                n_kinks += 1;
                continue;
            }
            n_checked += 1;
            let central = (right - left) / (2.0 * STEP);
            prop_assert!((central - f64::from(*grad)).abs() < 1e-3 * scale, "{}: {} and {}", i, central, grad);
        }
        prop_assert!(n_checked >= n_kinks, "{} of {} are at kinks", n_kinks, grads.len());
    }

    #[test]
    fn ranks_give_the_same_bits(case in case(), n_ranks in 2u32..=6) {
        let path = case.policy().0.embedding.best_path(true);
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (scores, grad) = run(&case, &mut Comm::solo(), path);
        let mut all = Vec::new();
        for part in threads::run(n_ranks, |mut comm| run(&case, &mut comm, path)) {
            let (part, part_grad) = part.unwrap();
            all.extend(part);
            prop_assert_eq!(bits(&grad), bits(&part_grad));
        }
        prop_assert_eq!(bits(&scores), bits(&all));
    }
}

#[test]
fn names_are_read_and_others_refused() {
    for (embedding, head) in KINDS {
        assert_eq!(
            embedding.to_string().parse::<EmbeddingKind>().unwrap(),
            embedding
        );
        assert_eq!(head.to_string().parse::<HeadKind>().unwrap(), head);
    }
    let error = "gat".parse::<EmbeddingKind>().unwrap_err().to_string();
    assert!(
        error.contains("`gat` is no embedding: expected s2v or sage"),
        "{error}"
    );
    let error = "duel".parse::<HeadKind>().unwrap_err().to_string();
    assert!(
        error.contains("`duel` is no head: expected q or mlp"),
        "{error}"
    );
}

#[test]
fn graph_sage_has_the_general_path_alone() {
    let shape = PolicyShape {
        embedding: EmbeddingKind::GRAPH_SAGE,
        ..PolicyShape::default()
    };
    let policy = Policy::build(&mut Params::new(), shape, &mut || 0.0).unwrap();
    for weighted in [false, true] {
        assert_eq!(policy.embedding.best_path(weighted), Path::General);
    }
}
