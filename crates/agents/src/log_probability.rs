//! The logarithm of the probability of an action that was drawn by logits.

/// The same bits on every machine; of an action of several parts the sum over them.
pub(crate) fn log_probability(n_choices: &[usize], logits: &[f32], action: &[u32]) -> f32 {
    let (mut sum, mut rest) = (0.0, logits);
    for (&n, &choice) in n_choices.iter().zip(action) {
        let (part, behind) = rest.split_at(n);
        sum += of_part(part, choice);
        rest = behind;
    }
    sum
}

fn of_part(logits: &[f32], action: u32) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|&logit| libm::exp(f64::from(logit - largest)))
        .sum();
    (f64::from(logits[action as usize] - largest) - libm::log(sum)) as f32
}
