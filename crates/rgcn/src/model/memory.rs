//! What a rank holds, in bytes.

use std::sync::Arc;

use super::network::Network;
use super::optimiser::Moments;

impl Network<'_> {
    /// Bytes that this rank holds besides the graph: parameters, moments, plans, units and sums.
    pub(crate) fn n_bytes(&self) -> u64 {
        let moments = |moments: &Moments| moments.first.len() + moments.second.len();
        let mut n_floats = self.input.rows.len() + moments(&self.input.moments) + self.floats.len();
        for layer in &self.layers {
            n_floats += layer.bias.len() + moments(&layer.bias_moments);
            let shared = layer.coefficients.as_ref();
            n_floats += shared.map_or(0, |shared| shared.params.len() + moments(&shared.moments));
        }
        n_floats += self
            .made
            .iter()
            .chain(&self.tables)
            .map(Vec::len)
            .sum::<usize>();
        let mut n_bytes = 4 * n_floats as u64 + 8 * self.fixed.len() as u64;
        for (layer, plan) in self.plans.iter().enumerate() {
            let is_first = !self.plans[..layer]
                .iter()
                .any(|other| Arc::ptr_eq(other, plan));
            n_bytes += if is_first { plan.n_bytes() } else { 0 };
            if let Some(work) = self.works.get(layer).filter(|_| is_first) {
                n_bytes += work.n_bytes();
            }
        }
        n_bytes += 4 * self.read.iter().map(Vec::len).sum::<usize>() as u64;
        n_bytes
    }
}
