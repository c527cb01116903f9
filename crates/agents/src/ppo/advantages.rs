//! Generalised advantages of steps side by side.

/// What each step earned, time first: T rows of E.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earned<'a> {
    /// With gamma times the value of the last state where a limit stopped an episode.
    pub(super) rewards: &'a [f32],
    /// Whether an episode ended with the step, in any way.
    pub(super) ended: &'a [bool],
    /// What the states were thought to be worth.
    pub(super) values: &'a [f32],
    /// E values of the states after the last step.
    pub(super) last_values: &'a [f32],
}

/// The sum of the TD errors from each step on, each counted by a power of `gamma lambda`, into `advantages`; the values are to be what they
/// and the advantages sum to.
///
/// # Source
/// Schulman et al., High-dimensional continuous control using generalized advantage estimation, ICLR 2016, equation 16.
pub(super) fn generalised(earned: Earned<'_>, gamma: f32, lambda: f32, advantages: &mut Vec<f32>) {
    let n = earned.last_values.len();
    advantages.clear();
    advantages.resize(earned.rewards.len(), 0.0);
    for at in (0..earned.rewards.len()).rev() {
        let is_last = at + n >= earned.rewards.len();
        let (next, later) = match (earned.ended[at], is_last) {
            (true, _) => (0.0, 0.0),
            (false, true) => (earned.last_values[at % n], 0.0),
            (false, false) => (earned.values[at + n], advantages[at + n]),
        };
        let error = earned.rewards[at] + gamma * next - earned.values[at];
        advantages[at] = error + gamma * lambda * later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: for each step the sum over the steps that follow it in its episode.
    #[test]
    fn advantages_are_their_definition() {
        let (n, n_steps, gamma, lambda) = (3, 7, 0.9f32, 0.8f32);
        let number = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 97) as f32 / 97.0 - 0.4;
        let rewards: Vec<f32> = (0..n * n_steps).map(|i| number(i, 1)).collect();
        let values: Vec<f32> = (0..n * n_steps).map(|i| number(i, 2)).collect();
        let ended: Vec<bool> = (0..n * n_steps).map(|i| i % 5 == 2).collect();
        let last_values: Vec<f32> = (0..n).map(|i| number(i, 3)).collect();
        let mut advantages = Vec::new();
        let earned = Earned {
            rewards: &rewards,
            ended: &ended,
            values: &values,
            last_values: &last_values,
        };
        generalised(earned, gamma, lambda, &mut advantages);
        for env in 0..n {
            for first in 0..n_steps {
                let (mut sum, mut factor) = (0.0f64, 1.0f64);
                for t in first..n_steps {
                    let at = t * n + env;
                    let next = match (ended[at], t + 1 == n_steps) {
                        (true, _) => 0.0,
                        (false, true) => last_values[env],
                        (false, false) => values[at + n],
                    };
                    let error = rewards[at] + gamma * next - values[at];
                    sum += factor * f64::from(error);
                    factor *= f64::from(gamma * lambda);
                    if ended[at] {
                        break;
                    }
                }
                let given = f64::from(advantages[first * n + env]);
                assert!((given - sum).abs() < 1e-5, "{env} {first}: {given} {sum}");
            }
        }
    }
}
