//! Residual degrees with their maximum and the number of candidates, each update in constant time.

/// Residual degrees of some nodes.
#[derive(Debug, Clone)]
pub(crate) struct Degrees {
    values: Vec<u32>,
    /// How many nodes have each degree; the maximum only falls, so finding it costs its first value over a whole episode.
    counts: Vec<u32>,
    max: usize,
    n_candidates: u32,
}

impl Degrees {
    pub(crate) fn new(values: Vec<u32>) -> Self {
        let max = values.iter().copied().max().unwrap_or(0) as usize;
        let mut counts = vec![0; max + 1];
        for &degree in &values {
            counts[degree as usize] += 1;
        }
        let n_candidates = values.iter().filter(|&&degree| degree > 0).count() as u32;
        Self {
            values,
            counts,
            max,
            n_candidates,
        }
    }

    pub(crate) fn values(&self) -> &[u32] {
        &self.values
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> u32 {
        self.values[i]
    }

    pub(crate) fn max(&self) -> u32 {
        self.max as u32
    }

    pub(crate) fn n_candidates(&self) -> u32 {
        self.n_candidates
    }

    /// One edge of node `i` has gone.
    #[inline]
    pub(crate) fn decrement(&mut self, i: usize) {
        self.set(i, self.values[i] - 1);
    }

    /// Some edges of node `i` have gone.
    pub(crate) fn lower(&mut self, i: usize, n_edges: u32) {
        self.set(i, self.values[i] - n_edges);
    }

    /// Node `i` has left the graph; the caller takes its edges from the other ends.
    pub(crate) fn clear(&mut self, i: usize) {
        if self.values[i] > 0 {
            self.set(i, 0);
        }
    }

    #[inline]
    fn set(&mut self, i: usize, degree: u32) {
        self.counts[self.values[i] as usize] -= 1;
        self.counts[degree as usize] += 1;
        self.values[i] = degree;
        self.n_candidates -= u32::from(degree == 0);
        while self.max > 0 && self.counts[self.max] == 0 {
            self.max -= 1;
        }
    }

    /// Keeps the listed nodes only, which must include all candidates.
    pub(crate) fn keep(&mut self, rows: &[u32]) {
        let dropped = (self.values.len() - rows.len()) as u32;
        self.values = rows.iter().map(|&row| self.values[row as usize]).collect();
        self.counts[0] -= dropped;
    }
}
