//! The two-layer policy in closed form: a piecewise linear function of a node's degree and
//! neighbour degree.

use std::any::Any;

use shardgraph_autodiff::Params;

use crate::{Policy, QHead, Structure2Vec};

/// The node scores of a policy with L <= 2 on unweighted graphs.
///
/// The model has no biases, so the score of a residual node with scaled degree `x` and scaled
/// neighbour degree `y` is `x g(y / x)` with `g` continuous and piecewise linear: on each piece
/// `alpha x + beta y`. The table holds the pieces, worked out once in f64; a score then costs a few
/// multiplications instead of `2 K^2`.
///
/// The state's part of a score, the same for all nodes of a state, is left out.
#[derive(Debug, Clone)]
pub struct ScoreTable {
    /// The start of piece `i` on the axis `y / x`; the first starts at 0.
    starts: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
}

/// One piece of the table in f64: the embedding `p + q t` of a unit-degree node, per column.
struct Line {
    p: Vec<f64>,
    q: Vec<f64>,
}

impl ScoreTable {
    /// The table of a policy, or `None` where it has no closed form (L > 2, node features, or other
    /// layers than structure2vec and Q), or where its coefficients leave the range of f32.
    ///
    /// # Complexity
    /// Time `O(K^3)`; at most `(K + 1)^2` pieces, in practice a few dozen.
    pub fn new(policy: &Policy, params: &Params) -> Option<Self> {
        let (embedding, head) = closed_form(policy)?;
        let k = policy.shape.embed_dim;
        let (theta2, theta3, theta4) = embedding.theta2_to_4();
        let (theta6, theta7) = head.theta6_and_7();
        let wide = |id| -> Vec<f64> { params.values_of(id).iter().map(|&x| x.into()).collect() };
        let relu = |row: &[f64]| -> Vec<f64> { row.iter().map(|x| x.max(0.0)).collect() };
        let c = row_times(&relu(&wide(theta2)), &wide(theta3), k);
        let a = match policy.shape.n_layers {
            1 => vec![0.0; k],
            _ => row_times(&relu(&c), &wide(theta4), k),
        };
        let embed = Line { p: c, q: a };
        let (theta6, theta7) = (wide(theta6), wide(theta7));
        let mut table = Self {
            starts: Vec::new(),
            alpha: Vec::new(),
            beta: Vec::new(),
        };
        for (start, end) in pieces(0.0, f64::INFINITY, &embed) {
            let active = clip(&embed, middle(start, end));
            let hidden = Line {
                p: row_times(&active.p, &theta6, k),
                q: row_times(&active.q, &theta6, k),
            };
            for (start, end) in pieces(start, end, &hidden) {
                let hidden = clip(&hidden, middle(start, end));
                let dot = |row: &[f64]| row.iter().zip(&theta7[k..]).map(|(h, t)| h * t).sum();
                table.push(start, dot(&hidden.p), dot(&hidden.q));
            }
        }
        let finite = |values: &[f32]| values.iter().all(|x| x.is_finite());
        // A sum of two products must not overflow either: degrees are at most 1 when scaled, and
        // below 2^32 when not.
        let ratio = u32::MAX as f32;
        let most = [table.bound_per_degree(ratio), table.largest_size(ratio)];
        let fits = most.iter().all(|bound| (bound * ratio).is_finite());
        (finite(&table.alpha) && finite(&table.beta) && fits).then_some(table)
    }

    fn push(&mut self, start: f64, alpha: f64, beta: f64) {
        self.starts.push(start as f32);
        self.alpha.push(alpha as f32);
        self.beta.push(beta as f32);
    }

    /// The number of pieces.
    pub fn n_pieces(&self) -> usize {
        self.starts.len()
    }

    /// The pieces as `(starts, alpha, beta)`: the score is `alpha_i x + beta_i y`, rounded after
    /// each operation, with `i` the last piece for which the rounded `starts_i x` is at most `y`.
    /// What a device needs to compute the same bits.
    pub fn pieces(&self) -> (&[f32], &[f32], &[f32]) {
        (&self.starts, &self.alpha, &self.beta)
    }

    /// The score of a residual node with scaled degree `x > 0` and scaled neighbour degree `y >=
    /// 0`.
    pub fn score(&self, x: f32, y: f32) -> f32 {
        self.score_near(x, y, &mut 0)
    }

    /// As [`ScoreTable::score`], looking for the piece from `hint` on and leaving it there: nodes
    /// of one graph are mostly on the same few pieces. The result does not depend on the hint.
    #[inline]
    pub fn score_near(&self, x: f32, y: f32, hint: &mut usize) -> f32 {
        let mut i = *hint;
        while i + 1 < self.starts.len() && y >= self.starts[i + 1] * x {
            i += 1;
        }
        while i > 0 && y < self.starts[i] * x {
            i -= 1;
        }
        *hint = i;
        self.alpha[i] * x + self.beta[i] * y
    }

    /// A number that no computed `score(x, y) / x` with `0 <= y / x <= ratio` exceeds: what allows
    /// a search by falling degree to stop early.
    ///
    /// The slack over the largest value covers the rounding of the two products and the sum in
    /// [`ScoreTable::score`].
    pub fn bound_per_degree(&self, ratio: f32) -> f32 {
        let inside = |&&start: &&f32| start <= ratio;
        let ends = self.starts.iter().take_while(inside).copied();
        let largest = ends
            .chain([ratio])
            .map(|t| self.score(1.0, t))
            .fold(f32::NEG_INFINITY, f32::max);
        largest + 8.0 * f32::EPSILON * self.largest_size(ratio)
    }

    /// A bound on the size of both products of a `score(x, y) / x` with `0 <= y / x <= ratio`, and
    /// of their sum.
    fn largest_size(&self, ratio: f32) -> f32 {
        let size = |(alpha, beta): (&f32, &f32)| alpha.abs() + beta.abs() * ratio;
        let sizes = self.alpha.iter().zip(&self.beta).map(size);
        sizes.fold(0.0, f32::max)
    }
}

/// The layers of a policy that has a closed form.
fn closed_form(policy: &Policy) -> Option<(&Structure2Vec, &QHead)> {
    let is_small = policy.shape.n_layers <= 2 && policy.shape.n_node_features == 0;
    let (embedding, head): (&dyn Any, &dyn Any) = (&*policy.embedding, &*policy.head);
    let layers = (embedding.downcast_ref()?, head.downcast_ref()?);
    is_small.then_some(layers)
}

/// `row [k] * matrix [k, k]`.
fn row_times(row: &[f64], matrix: &[f64], k: usize) -> Vec<f64> {
    (0..k)
        .map(|j| (0..k).map(|i| row[i] * matrix[i * k + j]).sum())
        .collect()
}

/// Cuts `start..end` where a column of the line changes its sign.
fn pieces(start: f64, end: f64, line: &Line) -> Vec<(f64, f64)> {
    let roots = line.p.iter().zip(&line.q).map(|(p, q)| -p / q);
    let mut cuts: Vec<f64> = roots
        .filter(|t| t.is_finite() && *t > start && *t < end)
        .collect();
    cuts.extend([start, end]);
    cuts.sort_by(f64::total_cmp);
    cuts.dedup();
    cuts.windows(2).map(|cut| (cut[0], cut[1])).collect()
}

fn middle(start: f64, end: f64) -> f64 {
    if end.is_finite() {
        0.5 * (start + end)
    } else {
        2.0 * start + 1.0
    }
}

/// The columns that are positive at `t`; the others are zero on the whole piece.
fn clip(line: &Line, t: f64) -> Line {
    let keep = |values: &[f64]| {
        (0..values.len())
            .map(|k| {
                let positive = line.p[k] + line.q[k] * t > 0.0;
                if positive { values[k] } else { 0.0 }
            })
            .collect()
    };
    Line {
        p: keep(&line.p),
        q: keep(&line.q),
    }
}
