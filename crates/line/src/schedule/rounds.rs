//! Rounds of pairs of parts, no part twice in a round.
//!
//! The pairs of a round touch different rows: threads work on them side by side without a lock and
//! without a race, and the result is the same for any number of threads. Order 2 pairs vertex parts
//! with context parts: the rounds are the diagonals of a Latin square. Order 1 has one table, and a
//! pair of parts takes both of its buckets: the rounds are those of a round-robin tournament, and
//! one more for the buckets of a part with itself.

use shardgraph_random::KeyedRng;

/// Two parts that meet: a vertex part and a context part, or two parts of one table (maybe the
/// same).
pub(crate) type Pair = (u32, u32);

/// Every vertex part meets every context part once; orders are drawn from the stream.
pub(crate) fn latin_rounds(
    vertex: &[u32],
    context: &[u32],
    stream: &mut KeyedRng,
) -> Vec<Vec<Pair>> {
    let (mut vertex, mut context) = (vertex.to_vec(), context.to_vec());
    stream.shuffle(&mut vertex);
    stream.shuffle(&mut context);
    let n_rounds = context.len();
    let round = |r: usize| {
        let met = (0..vertex.len()).map(|k| context[(k + r) % n_rounds]);
        vertex.iter().copied().zip(met).collect()
    };
    (0..n_rounds).map(round).collect()
}

/// As [`latin_rounds`], with at most `at_a_time` contexts side by side.
///
/// A context meets all of the vertex side before another takes its place, so that it stays in the
/// cache. Contexts are as far apart on the vertex side as possible: a thread that is a little ahead
/// need not wait for the one before it.
pub(crate) fn staying_rounds(
    vertex: &[u32],
    context: &[u32],
    at_a_time: usize,
    stream: &mut KeyedRng,
) -> Vec<Vec<Pair>> {
    let (mut vertex, mut context) = (vertex.to_vec(), context.to_vec());
    stream.shuffle(&mut vertex);
    stream.shuffle(&mut context);
    let at_a_time = at_a_time.clamp(1, vertex.len().max(1));
    let distance = vertex.len() / at_a_time;
    let round = |present: &[u32], r: usize| {
        let place = |k: usize| vertex[(r + k * distance) % vertex.len()];
        let pairs = present.iter().enumerate();
        pairs.map(|(k, &context)| (place(k), context)).collect()
    };
    let stays = context.chunks(at_a_time);
    stays
        .flat_map(|present| (0..vertex.len()).map(move |r| round(present, r)))
        .collect()
}

/// Every part meets every other once, and itself once; an even number of parts, or one.
///
/// # Source
/// The circle method of Kirkman (1847).
pub(crate) fn tournament_rounds(parts: &[u32], stream: &mut KeyedRng) -> Vec<Vec<Pair>> {
    let mut parts = parts.to_vec();
    stream.shuffle(&mut parts);
    let mut rounds: Vec<Vec<Pair>> = vec![parts.iter().map(|&part| (part, part)).collect()];
    let n = parts.len();
    for _ in 1..n {
        rounds.push((0..n / 2).map(|k| (parts[k], parts[n - 1 - k])).collect());
        parts[1..].rotate_right(1);
    }
    stream.shuffle(&mut rounds);
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn stream() -> KeyedRng {
        KeyedRng::new(3, "walk test", 0)
    }

    #[test]
    fn latin_rounds_cover_all_pairs_and_repeat_no_part() {
        for n in [1u32, 2, 3, 8, 16] {
            let (vertex, context): (Vec<u32>, Vec<u32>) =
                ((0..n).collect(), (100..100 + n).collect());
            let rounds = latin_rounds(&vertex, &context, &mut stream());
            let all: BTreeSet<Pair> = rounds.concat().into_iter().collect();
            assert_eq!(
                (rounds.concat().len(), all.len()),
                ((n * n) as usize, (n * n) as usize)
            );
            for round in rounds {
                let (left, right): (BTreeSet<u32>, BTreeSet<u32>) = round.iter().copied().unzip();
                assert_eq!((left.len(), right.len()), (n as usize, n as usize));
            }
        }
    }

    #[test]
    fn contexts_stay_until_they_have_met_all() {
        for (n_vertex, n_context, at_a_time) in [
            (1u32, 1u32, 8),
            (4, 4, 8),
            (8, 16, 8),
            (16, 128, 8),
            (6, 5, 4),
        ] {
            let (vertex, context): (Vec<u32>, Vec<u32>) =
                ((0..n_vertex).collect(), (100..100 + n_context).collect());
            let rounds = staying_rounds(&vertex, &context, at_a_time, &mut stream());
            let all: BTreeSet<Pair> = rounds.concat().into_iter().collect();
            assert_eq!(rounds.concat().len(), all.len());
            assert_eq!(all.len(), (n_vertex * n_context) as usize);
            for rounds in rounds.chunks(vertex.len()) {
                let present: BTreeSet<u32> = rounds.concat().iter().map(|pair| pair.1).collect();
                assert!(present.len() <= at_a_time);
                for round in rounds {
                    let (left, right): (BTreeSet<u32>, BTreeSet<u32>) =
                        round.iter().copied().unzip();
                    assert_eq!((left.len(), right.len()), (round.len(), present.len()));
                }
            }
        }
    }

    #[test]
    fn a_tournament_covers_all_pairs_and_repeats_no_part() {
        for n in [1u32, 2, 4, 8, 16] {
            let parts: Vec<u32> = (0..n).collect();
            let rounds = tournament_rounds(&parts, &mut stream());
            let sorted = |(a, b): Pair| (a.min(b), a.max(b));
            let all: BTreeSet<Pair> = rounds.concat().into_iter().map(sorted).collect();
            assert_eq!(all.len(), (n * (n + 1) / 2) as usize);
            assert_eq!(rounds.concat().len(), all.len());
            for round in rounds {
                let mut seen = BTreeSet::new();
                assert!(
                    round
                        .iter()
                        .all(|&(a, b)| seen.insert(a) && (a == b || seen.insert(b)))
                );
            }
        }
    }
}
