//! Maximum cut. No node leaves the graph, and what moving a node over gains is a feature of it: the general path of the layers.

use std::sync::Arc;

use shardgraph_environments::{Environment, MaximumCut, baselines, verify};
use shardgraph_graph::Graph;

use super::{Baseline, Episode, Objective, Problem, Sense};
use crate::{AdjacencyScale, Error};

/// The two sides between which the edges weigh most; the answer is the second side.
pub static MAXIMUM_CUT: CutProblem = CutProblem;

/// The problem of [`MAXIMUM_CUT`].
#[derive(Debug)]
pub struct CutProblem;

impl Problem for CutProblem {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn title(&self) -> &'static str {
        "maximum cut"
    }

    fn objective_name(&self) -> &'static str {
        "cut weight"
    }

    fn sense(&self) -> Sense {
        Sense::Maximise
    }

    fn n_node_features(&self) -> usize {
        1
    }

    fn reads_weights(&self) -> bool {
        true
    }

    fn begin(&self, graph: Arc<Graph>) -> Box<dyn Episode> {
        let weight_of = |v: u32| match graph.weights_of(v) {
            Some(weights) => weights.iter().map(|weight| f64::from(weight.abs())).sum(),
            None => f64::from(graph.degree(v)),
        };
        let largest = (0..graph.n_nodes()).map(weight_of).fold(0.0, f64::max);
        Box::new(CutEpisode {
            degrees: (0..graph.n_nodes()).map(|v| graph.degree(v)).collect(),
            inverse_weight: if largest > 0.0 { 1.0 / largest } else { 1.0 },
            environment: MaximumCut::new(graph),
        })
    }

    fn check(&self, graph: &Graph, marks: &[bool]) -> Result<Objective, String> {
        let weight = verify::cut_weight(graph, marks);
        Ok(match graph.weights() {
            Some(_) => Objective::Weight(weight),
            None => Objective::Count(weight as u64),
        })
    }

    fn baselines(&self) -> Vec<Baseline> {
        vec![
            ("largest_gain", baselines::largest_gain_cut),
            ("one_flip", baselines::one_flip_cut),
        ]
    }
}

#[derive(Clone)]
struct CutEpisode {
    environment: MaximumCut,
    degrees: Arc<[u32]>,
    /// 1 / the largest sum of absolute weights at a node: what makes gains and rewards numbers up to 1.
    inverse_weight: f64,
}

impl Episode for CutEpisode {
    /// What the cut gains, as a share of the largest sum of weights at a node: values do not grow with weights or degrees.
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        let gains = self.environment.state().gains();
        let gain = gains.get(node as usize).copied().unwrap_or(0.0);
        self.environment.step(node)?;
        Ok((gain * self.inverse_weight) as f32)
    }

    fn is_done(&self) -> bool {
        self.environment.is_done()
    }

    fn is_candidate(&self, node: u32) -> bool {
        self.environment.is_candidate(node)
    }

    fn picks(&self) -> &[u32] {
        self.environment.picks()
    }

    fn in_answer(&self, node: u32) -> bool {
        self.environment.state().moved()[node as usize]
    }

    fn is_present(&self, _: u32) -> bool {
        true
    }

    fn degrees(&self) -> &[u32] {
        &self.degrees
    }

    fn scale(&self, rule: AdjacencyScale) -> f32 {
        match rule {
            AdjacencyScale::LargestDegree => self.inverse_weight.min(f64::from(f32::MAX)) as f32,
            AdjacencyScale::One => 1.0,
        }
    }

    fn push_features(&self, node: u32, scale: f32, features: &mut Vec<f32>) {
        let gain = self.environment.state().gains()[node as usize];
        features.push((gain * f64::from(scale)) as f32);
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
    }
}
