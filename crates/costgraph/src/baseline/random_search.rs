//! Random search: the best of many random chromosomes.

use super::look_every;
use crate::{Decoder, DecoderKind, Problem, Schedule};
use shardgraph_random::KeyedRng;

/// The best of `evaluations` uniformly random chromosomes (at least one), and how many evaluations there were.
///
/// After every 100 of them (fewer for graphs of more than 2000 ops and uses) `watch` is told how many and the best fitness so far, and
/// ends the search by returning false.
///
/// # Determinism
/// The same seed gives the same schedule on every machine.
#[must_use]
pub fn random_search(
    problem: &Problem<'_>,
    kind: DecoderKind,
    evaluations: u64,
    seed: u64,
    watch: &mut dyn FnMut(u64, (u64, u64)) -> bool,
) -> (Schedule, u64) {
    let mut decoder = Decoder::new(problem, kind);
    let mut keys = vec![0.0; problem.n_keys()];
    let draw = |index: u64, keys: &mut [f32]| {
        let mut stream = KeyedRng::new(seed, "random search", index);
        keys.fill_with(|| stream.uniform_f32());
    };
    let mut best = ((u64::MAX, u64::MAX), 0);
    let (mut n_done, look_every) = (0, look_every(problem));
    for index in 0..evaluations.max(1) {
        draw(index, &mut keys);
        // Of equals the first stays.
        best = best.min((decoder.fitness(&keys), index));
        n_done = index + 1;
        if n_done.is_multiple_of(look_every) && !watch(n_done, best.0) {
            break;
        }
    }
    draw(best.1, &mut keys);
    (decoder.schedule(&keys), n_done)
}
