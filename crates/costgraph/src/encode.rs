//! From a schedule back to a chromosome that decodes to it: warm starts.

use crate::{Error, ErrorKind, Problem, Schedule, Step};

impl Schedule {
    /// A chromosome from which the paper's decoder makes this very schedule.
    ///
    /// # Errors
    /// `Schedule` when the schedule is not valid; `TooLarge` for more than 2^24 - 2 steps, which keys cannot tell apart.
    ///
    /// # Source
    /// The order of a valid schedule is a topological order; keys that fall from step to step make the decoder repeat it, because
    /// at each step the next item is ready and everything else that is ready comes later.
    pub fn encode(&self, problem: &Problem<'_>) -> Result<Vec<f32>, Error> {
        crate::validity::check(problem, self)?;
        const RESOLUTION: usize = 1 << 24;
        let n_steps = self.steps.len();
        if n_steps > RESOLUTION - 2 {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{n_steps} steps; at most {} have keys of their own",
                    RESOLUTION - 2
                ),
            ));
        }
        let (o, n) = (problem.graph.n_ops(), problem.n_devices());
        let mut keys = vec![0.5; problem.n_keys()];
        for (&device, affinities) in self.placement.iter().zip(keys.chunks_exact_mut(n)) {
            affinities.fill(0.25);
            affinities[usize::from(device)] = 0.75;
        }
        for (idx, &step) in self.steps.iter().enumerate() {
            let code = match step {
                Step::Op(op) => op as usize,
                Step::Transfer { tensor, to } => o + tensor as usize * n + usize::from(to),
            };
            // Evenly spread, and multiples of 2^-24 that differ.
            let level = (n_steps - idx) * RESOLUTION / (n_steps + 1);
            keys[o * n + code] = level as f32 / RESOLUTION as f32;
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::random_problems::{for_problems, keys};
    use crate::{Decoder, DecoderKind};

    #[test]
    fn what_is_encoded_decodes_to_the_same_costs() {
        for kind in DecoderKind::ALL {
            for_problems(300, 40, |problem, seed| {
                let schedule = Decoder::new(problem, kind).schedule(&keys(seed, problem));
                let outcome = schedule.verify(problem).unwrap().outcome;
                let encoded = schedule.encode(problem).unwrap();
                let mut paper = Decoder::new(problem, DecoderKind::Paper);
                assert_eq!(paper.decode(&encoded), outcome);
                assert_eq!(paper.schedule(&encoded), schedule);
            });
        }
    }
}
