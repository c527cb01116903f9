//! Formulas of OpenGraphGym-MG: parallel efficiency (section 5.1) and memory (section 5.2).

use serde::Deserialize;

/// A formula of the paper, with what it is about; `nodes` comes from the series' sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Formula {
    /// E_embed(P) after equation 4; `beta` is what sending a number takes, in additions.
    Efficiency {
        /// Share of pairs that are edges.
        density: f64,
        /// Layers of structure2vec.
        layers: f64,
        /// Sending a number, in additions.
        beta: f64,
    },
    /// Bytes of a rank.
    Memory {
        /// Share of pairs that are edges.
        density: f64,
        /// Graphs of a batch.
        batch: f64,
        /// Tuples in replay.
        replay: f64,
    },
}

impl Formula {
    /// Its value at a number of ranks.
    pub fn at(&self, size: &dyn Fn(&str) -> Option<f64>, ranks: f64) -> Option<f64> {
        let nodes = size("nodes")?;
        Some(match self {
            Formula::Efficiency {
                density,
                layers,
                beta,
            } => 1.0 / (1.0 + beta * ranks / (nodes * (1.0 + density / layers))),
            Formula::Memory {
                density,
                batch,
                replay,
            } => {
                // Matrices of a batch as COO, solutions and candidates, and whole states in replay.
                let matrices = 20.0 * nodes * nodes * density * batch / ranks;
                let states = 2.0 * 4.0 * nodes * batch / ranks;
                matrices + states + 8.0 * replay * (nodes / ranks + 1.0)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(formula: &Formula, nodes: f64, ranks: f64) -> f64 {
        formula.at(&|_| Some(nodes), ranks).unwrap()
    }

    #[test]
    fn the_papers_examples() {
        // 20 bytes for each of the 66.15 M entries of ER(21000, 0.15): 1.32 GB a graph.
        let graph = Formula::Memory {
            density: 0.15,
            batch: 1.0,
            replay: 0.0,
        };
        let one = at(&graph, 21_000.0, 1.0);
        assert!((one - 1.3232e9).abs() < 1e6, "{one}");
        assert!((at(&graph, 21_000.0, 6.0) * 6.0 - one).abs() < 1.0);
        // 50 000 tuples of N / P + 1 numbers of 8 bytes.
        let replay = Formula::Memory {
            density: 0.0,
            batch: 0.0,
            replay: 50_000.0,
        };
        assert!((at(&replay, 100.0, 2.0) - 8.0 * 50_000.0 * 51.0).abs() < 1.0);
        // "Close to 1.0 when P is much less than N".
        let efficiency = Formula::Efficiency {
            density: 0.15,
            layers: 2.0,
            beta: 1.0,
        };
        let six = at(&efficiency, 21_000.0, 6.0);
        assert!((0.9995..1.0).contains(&six), "{six}");
    }
}
