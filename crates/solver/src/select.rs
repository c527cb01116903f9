//! How many nodes a step picks, and which: the largest scores, the lower node where scores are equal.

use std::fmt;
use std::str::FromStr;

use shardgraph_collectives::Op;

use crate::Error;
use crate::residual::Ranks;

/// How many nodes one policy evaluation picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The same number at each step.
    Fixed(u32),
    /// Eight while more than a half of the nodes are candidates, then four, two and one, at a half, a quarter and an
    /// eighth (OpenGraphGym-MG, section 4.5.1).
    Adaptive,
}

impl Select {
    /// Nodes to pick while `n_candidates` of `n_nodes` have an edge left.
    ///
    /// ```
    /// use shardgraph_solver::Select;
    /// let d = |n_candidates| Select::Adaptive.n_picks(n_candidates, 80);
    /// assert_eq!((d(41), d(40), d(21), d(20), d(11), d(10)), (8, 4, 4, 2, 2, 1));
    /// ```
    pub fn n_picks(self, n_candidates: u32, n_nodes: u32) -> usize {
        let (c, n) = (u64::from(n_candidates), u64::from(n_nodes));
        match self {
            Self::Fixed(d) => d as usize,
            Self::Adaptive if 2 * c > n => 8,
            Self::Adaptive if 4 * c > n => 4,
            Self::Adaptive if 8 * c > n => 2,
            Self::Adaptive => 1,
        }
    }
}

impl Select {
    /// Refuses a number that cannot be right.
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::Adaptive | Self::Fixed(1..=1024) => Ok(()),
            Self::Fixed(d) => Err(Error::input(format!(
                "{d} nodes a step were asked for: expected 1 to 1024"
            ))),
        }
    }
}

impl FromStr for Select {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::input(format!(
                "`{text}` is no selection: expected adaptive or a number from 1 to 1024"
            ))
        };
        match text {
            "adaptive" => Ok(Self::Adaptive),
            _ => match text.parse() {
                Ok(d @ 1..=1024) => Ok(Self::Fixed(d)),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(d) => write!(f, "{d}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

/// The `d` best of the nodes that are offered.
#[derive(Debug, Clone)]
pub(crate) struct TopD {
    d: usize,
    /// Best first.
    best: Vec<(f32, u32)>,
    /// What a new score must beat or, with a lower node, equal.
    bar: f32,
}

impl TopD {
    pub(crate) fn new(d: usize) -> Self {
        Self {
            d,
            best: Vec::with_capacity(d + 1),
            bar: f32::NEG_INFINITY,
        }
    }

    /// Before the first offer again.
    pub(crate) fn clear(&mut self) {
        self.best.clear();
        self.bar = f32::NEG_INFINITY;
    }

    /// `d`.
    pub(crate) fn n_wanted(&self) -> usize {
        self.d
    }

    /// A score below this is not among the best.
    #[inline]
    pub(crate) fn bar(&self) -> f32 {
        self.bar
    }

    /// A NaN counts as the smallest score.
    #[inline]
    pub(crate) fn offer(&mut self, score: f32, node: u32) {
        // Written so that NaN takes the slow path once and is then the smallest number.
        if score < self.bar {
            return;
        }
        self.insert(score.max(f32::MIN), node);
    }

    fn insert(&mut self, score: f32, node: u32) {
        let before = |&(s, v): &(f32, u32)| s > score || (s >= score && v < node);
        let at = self.best.partition_point(before);
        if at < self.d {
            self.best.insert(at, (score, node));
            self.best.truncate(self.d);
            if self.best.len() == self.d {
                self.bar = self.best[self.d - 1].0;
            }
        }
    }
}

/// The best nodes of all ranks for each of some lists, best first: the lists of all are exchanged together.
pub(crate) fn agree_each(tops: &[TopD], ranks: &mut Ranks<'_>) -> Result<Vec<Vec<u32>>, Error> {
    let nodes = |top: &TopD| top.best.iter().map(|best| best.1).collect();
    if ranks.comm.size() == 1 {
        return Ok(tops.iter().map(nodes).collect());
    }
    let mut own: Vec<u32> = Vec::new();
    for top in tops {
        let end = own.len() + 2 * top.d;
        for &(score, node) in &top.best {
            own.extend([score.to_bits(), node]);
        }
        own.resize(end, u32::MAX); // an absent offer has the node u32::MAX, which no graph has
    }
    let mut all = vec![0u32; own.len() * ranks.comm.size() as usize];
    let op = Op::AllGather {
        send: (&own[..]).into(),
        recv: (&mut all[..]).into(),
    };
    ranks.comm.run(op, ranks.timeout)?;
    let mut together: Vec<TopD> = tops.iter().map(|top| TopD::new(top.d)).collect();
    for theirs in all.chunks_exact(own.len().max(1)) {
        let mut rest = theirs;
        for top in &mut together {
            let (offers, after) = rest.split_at(2 * top.d);
            for offer in offers.chunks_exact(2).filter(|offer| offer[1] != u32::MAX) {
                top.offer(f32::from_bits(offer[0]), offer[1]);
            }
            rest = after;
        }
    }
    Ok(together.iter().map(nodes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardgraph_collectives::{Comm, Timeout, threads};

    /// Sorts everything.
    fn naive(scores: &[f32], d: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        order.sort_by(|&u, &v| {
            let (a, b) = (scores[v as usize], scores[u as usize]);
            a.total_cmp(&b).then(u.cmp(&v))
        });
        order.truncate(d);
        order
    }

    proptest! {
        #[test]
        fn ranks_agree_on_the_sorted_best(
            scores in prop::collection::vec((-5i32..6).prop_map(|x| x as f32), 0..70),
            d in 1usize..9,
            n_ranks in 1u32..=4,
        ) {
            let want = naive(&scores, d);
            let results = threads::run(n_ranks, |mut comm: Comm| {
                let mut tops = [TopD::new(d), TopD::new(1), TopD::new(d + 2)];
                let (rank, size) = (comm.rank() as usize, comm.size() as usize);
                for (v, &score) in scores.iter().enumerate().filter(|(v, _)| v % size == rank) {
                    tops[0].offer(score, v as u32);
                    tops[2].offer(-score, v as u32);
                }
                let deadline = Timeout::default();
                let ranks = &mut Ranks::new(&mut comm, deadline);
                let each = agree_each(&tops, ranks).unwrap();
                let first = agree_each(&tops[..1], ranks).unwrap();
                (first, each)
            });
            let negated: Vec<f32> = scores.iter().map(|score| -score).collect();
            let each = vec![want.clone(), Vec::new(), naive(&negated, d + 2)];
            for result in results {
                prop_assert_eq!(&result.unwrap(), &(vec![want.clone()], each.clone()));
            }
        }
    }

    #[test]
    fn nan_is_the_smallest_score_and_still_a_candidate() {
        let mut top = TopD::new(2);
        top.offer(f32::NAN, 0);
        top.offer(-1.0, 1);
        top.offer(f32::NEG_INFINITY, 2);
        assert_eq!(
            top.best.iter().map(|best| best.1).collect::<Vec<_>>(),
            [1, 0]
        );
    }

    #[test]
    fn selections_are_parsed_with_a_reason() {
        assert_eq!("8".parse::<Select>().unwrap(), Select::Fixed(8));
        assert_eq!("adaptive".parse::<Select>().unwrap(), Select::Adaptive);
        for wrong in ["0", "-1", "many", "", "4294967296"] {
            let message = wrong.parse::<Select>().unwrap_err().to_string();
            assert!(
                message.contains("expected adaptive or a number"),
                "{message}"
            );
        }
    }
}
