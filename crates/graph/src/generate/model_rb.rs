//! Model RB with a planted solution, as a conflict graph whose largest independent set is known.
//!
//! Source: Xu and Li, "Exact phase transitions in random constraint satisfaction problems"; Xu, Boussemart, Hemery and
//! Lecoutre, "Random constraint satisfaction: easy generation of hard (satisfiable) instances"; the BHOSLIB benchmark.

use super::n_pairs;
use shardgraph_random::KeyedRng;

use crate::{EdgeSink, Error};

#[derive(Clone, Copy)]
pub(super) struct ModelRb {
    pub(super) n_cliques: u32,
    pub(super) clique_size: u32,
    pub(super) p: f64,
    pub(super) r: f64,
}

impl ModelRb {
    pub(super) fn stream(self, seed: u64, sink: &mut dyn EdgeSink) -> Result<(), Error> {
        self.cliques(sink)?;
        let planted = self.planted_values(seed);
        for constraint in 0..self.n_constraints() {
            self.constraint(constraint, &planted, seed, sink)?;
        }
        Ok(())
    }

    /// The nodes of the planted assignment.
    pub(super) fn planted_nodes(self, seed: u64) -> Vec<u32> {
        let values = self.planted_values(seed);
        (0..)
            .zip(values)
            .map(|(variable, value)| self.node(variable, value))
            .collect()
    }

    pub(super) fn expected_edges(self) -> f64 {
        let cliques = f64::from(self.n_cliques) * n_pairs(self.clique_size);
        let pairs_of_variables = n_pairs(self.n_cliques);
        let open_tuples = (self.n_tuples() - 1) as f64;
        if self.n_constraints() == 0 || open_tuples < 1.0 {
            return cliques;
        }
        // Constraints repeat pairs of variables, and their edges then overlap.
        let hit = self.n_forbidden() as f64 / (open_tuples * pairs_of_variables);
        let n_constraints = self.n_constraints() as f64;
        cliques + pairs_of_variables * open_tuples * (1.0 - (1.0 - hit).powf(n_constraints))
    }

    fn cliques(self, sink: &mut dyn EdgeSink) -> Result<(), Error> {
        for variable in 0..self.n_cliques {
            for a in 0..self.clique_size {
                for b in a + 1..self.clique_size {
                    sink.edge(self.node(variable, a), self.node(variable, b), 1.0)?;
                }
            }
        }
        Ok(())
    }

    /// Forbids `n_forbidden` value pairs of two random variables, never the planted pair.
    fn constraint(
        self,
        constraint: u64,
        planted: &[u32],
        seed: u64,
        sink: &mut dyn EdgeSink,
    ) -> Result<(), Error> {
        let mut random = KeyedRng::new(seed, "rb-constraint", constraint);
        let x = random.below_u32(self.n_cliques);
        let y = (x + 1 + random.below_u32(self.n_cliques - 1)) % self.n_cliques;
        let d = u64::from(self.clique_size);
        let kept = u64::from(planted[x as usize]) * d + u64::from(planted[y as usize]);
        for tuple in random.sample_without_replacement(self.n_tuples() - 1, self.n_forbidden()) {
            let tuple = tuple + u64::from(tuple >= kept);
            let (a, b) = ((tuple / d) as u32, (tuple % d) as u32);
            sink.edge(self.node(x, a), self.node(y, b), 1.0)?;
        }
        Ok(())
    }

    fn planted_values(self, seed: u64) -> Vec<u32> {
        let mut random = KeyedRng::new(seed, "rb-planted", 0);
        (0..self.n_cliques)
            .map(|_| random.below_u32(self.clique_size))
            .collect()
    }

    fn node(self, variable: u32, value: u32) -> u32 {
        variable * self.clique_size + value
    }

    fn n_tuples(self) -> u64 {
        u64::from(self.clique_size) * u64::from(self.clique_size)
    }

    /// p d² rounded, at most all but the planted pair.
    fn n_forbidden(self) -> usize {
        let wanted = (self.p * self.n_tuples() as f64).round() as u64;
        wanted.min(self.n_tuples() - 1) as usize
    }

    /// r n ln n rounded; none for a single variable.
    fn n_constraints(self) -> u64 {
        let n = f64::from(self.n_cliques);
        (self.r * n * shardgraph_random::ln(n)).round() as u64
    }
}
