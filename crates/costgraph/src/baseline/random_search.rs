//! Random search: the best of many random chromosomes.

use crate::{Decoder, DecoderKind, Problem, Schedule, random::Stream};

/// The best of `evaluations` uniformly random chromosomes (at least one).
///
/// # Determinism
/// The same seed gives the same schedule on every machine.
#[must_use]
pub fn random_search(
    problem: &Problem<'_>,
    kind: DecoderKind,
    evaluations: u64,
    seed: u64,
) -> Schedule {
    let mut decoder = Decoder::new(problem, kind);
    let mut keys = vec![0.0; problem.n_keys()];
    let draw = |index: u64, keys: &mut [f32]| {
        let mut stream = Stream::new(seed, "random search", index);
        keys.fill_with(|| stream.uniform_f32());
    };
    let mut best = None;
    for index in 0..evaluations.max(1) {
        draw(index, &mut keys);
        let fitness = decoder.fitness(&keys);
        if best.is_none_or(|(least, _)| fitness < least) {
            best = Some((fitness, index));
        }
    }
    draw(best.map_or(0, |(_, index)| index), &mut keys);
    decoder.schedule(&keys)
}
