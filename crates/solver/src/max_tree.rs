//! The best of many scores of which few change: a tournament of blocks.

/// What a place without a score holds: less than every score.
const NONE: f32 = f32::NEG_INFINITY;
/// Scores of a block: one line of the cache.
const BLOCK: usize = 16;

/// Scores by place with the largest of each block of 16, of each block of those, and so on: the tournament of Knuth (The Art of Computer
/// Programming 3, section 5.2.3) with 16 players a match.
///
/// A change costs a block a level, and a change that no block's best feels costs one. The lower place wins where scores are equal.
/// Memory: 4.3 B a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct MaxTree {
    /// The scores, then the largest of each block of the level before; all padded to whole blocks, the last is one block.
    levels: Vec<Vec<f32>>,
}

impl MaxTree {
    /// So many places without a score.
    pub(crate) fn new(n_places: usize) -> Self {
        let mut levels = Vec::new();
        let mut n = n_places.max(1);
        loop {
            let n_blocks = n.div_ceil(BLOCK);
            levels.push(vec![NONE; n_blocks * BLOCK]);
            if n_blocks == 1 {
                return Self { levels };
            }
            n = n_blocks;
        }
    }

    /// At least as many as were asked for.
    pub(crate) fn n_places(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Takes all scores away.
    pub(crate) fn clear(&mut self) {
        for level in &mut self.levels {
            level.fill(NONE);
        }
    }

    /// Gives a place a score, which must be a number.
    pub(crate) fn set(&mut self, place: usize, score: f32) {
        // A score below all numbers that are told apart from "none" would be lost.
        self.put(place, score.max(f32::MIN));
    }

    /// Takes the score of a place away.
    pub(crate) fn unset(&mut self, place: usize) {
        self.put(place, NONE);
    }

    fn put(&mut self, place: usize, score: f32) {
        let (mut place, mut score) = (place, score);
        for level in &mut self.levels {
            if level[place].to_bits() == score.to_bits() {
                return;
            }
            level[place] = score;
            place /= BLOCK;
            score = largest(&level[place * BLOCK..][..BLOCK]);
        }
    }

    /// Gives a place a score that [`MaxTree::best`] knows after [`MaxTree::rebuild`].
    #[inline]
    pub(crate) fn set_for_rebuild(&mut self, place: usize, score: f32) {
        self.levels[0][place] = score.max(f32::MIN);
    }

    /// Plays all matches anew.
    pub(crate) fn rebuild(&mut self) {
        for i in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(i);
            for (best, block) in above[0].iter_mut().zip(below[i - 1].chunks_exact(BLOCK)) {
                *best = largest(block);
            }
        }
    }

    /// The largest score and its place, the lowest of those that have it; none without scores.
    pub(crate) fn best(&self) -> Option<(f32, usize)> {
        let top = self.levels.last()?;
        let best = largest(top);
        if best == NONE {
            return None;
        }
        let mut block = 0;
        for level in self.levels.iter().rev() {
            let scores = &level[block * BLOCK..][..BLOCK];
            block = block * BLOCK + scores.iter().position(|&score| score >= best)?;
        }
        Some((best, block))
    }

    /// Calls `f(score, place)` with the best `n` places, best first.
    pub(crate) fn for_best(&mut self, n: usize, mut f: impl FnMut(f32, usize)) {
        let mut taken = Vec::new();
        while taken.len() < n
            && let Some((score, place)) = self.best()
        {
            f(score, place);
            taken.push((score, place));
            if taken.len() < n {
                self.unset(place);
            }
        }
        for (score, place) in taken {
            self.set(place, score);
        }
    }
}

#[inline]
fn largest(block: &[f32]) -> f32 {
    let mut best = [NONE; 4];
    for four in block.chunks_exact(4) {
        for (best, &score) in best.iter_mut().zip(four) {
            *best = if score > *best { score } else { *best };
        }
    }
    let pair = |a: f32, b: f32| if b > a { b } else { a };
    pair(pair(best[0], best[1]), pair(best[2], best[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The best places by sorting all.
    fn naive(scores: &[Option<f32>], n: usize) -> Vec<(f32, usize)> {
        let scored = scores.iter().enumerate();
        let mut all: Vec<(f32, usize)> = scored
            .filter_map(|(place, score)| score.map(|score| (score, place)))
            .collect();
        all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
        all.truncate(n);
        all
    }

    /// Few values, so that many tie; zeros of both signs are equal.
    fn a_score() -> impl Strategy<Value = Option<f32>> {
        prop_oneof![
            1 => Just(None),
            1 => Just(Some(-0.0)),
            4 => (-2i8..3).prop_map(|x| Some(f32::from(x))),
        ]
    }

    proptest! {
        #[test]
        fn best_is_that_of_a_linear_scan(
            n_places in 1usize..700,
            first in prop::collection::vec(a_score(), 700),
            changes in prop::collection::vec((any::<prop::sample::Index>(), a_score()), 0..60),
            n in 1usize..9,
        ) {
            let mut scores = first[..n_places].to_vec();
            let mut tree = MaxTree::new(n_places);
            for (place, score) in scores.iter().enumerate() {
                if let Some(score) = score {
                    tree.set_for_rebuild(place, *score);
                }
            }
            tree.rebuild();
            for (place, score) in changes {
                let place = place.index(n_places);
                scores[place] = score;
                match score {
                    Some(score) => tree.set(place, score),
                    None => tree.unset(place),
                }
                let want = naive(&scores, n);
                prop_assert_eq!(tree.best(), want.first().copied());
                let mut found = Vec::new();
                tree.for_best(n, |score, place| found.push((score, place)));
                prop_assert_eq!(found, want);
            }
            tree.clear();
            prop_assert_eq!(tree.best(), None);
        }
    }
}
