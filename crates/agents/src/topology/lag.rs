//! How many updates old the weights are that actors act by.

/// The lag of what arrived at the learner: its updates so far, less those that the actor's weights had seen.
///
/// ```
/// let mut lag = shardgraph_agents::PolicyLag::default();
/// lag.record(0);
/// lag.record(6);
/// assert_eq!((lag.mean(), lag.max()), (3.0, 6));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyLag {
    n: u64,
    sum: u64,
    max: u64,
}

impl PolicyLag {
    /// Counts a block or trajectory that was made with weights so many updates old.
    pub fn record(&mut self, n_updates: u64) {
        self.n += 1;
        self.sum += n_updates;
        self.max = self.max.max(n_updates);
    }

    /// Mean and largest lag, for the metrics; `None` before the first.
    pub(crate) fn scalars(&self) -> Option<[(&'static str, f32); 2]> {
        let scalars = [
            ("train/policy_lag", self.mean() as f32),
            ("train/max_policy_lag", self.max as f32),
        ];
        (self.n > 0).then_some(scalars)
    }

    /// The mean; 0 before the first.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.n.max(1) as f64
    }

    /// The largest; 0 before the first.
    pub fn max(&self) -> u64 {
        self.max
    }
}
