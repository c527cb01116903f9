//! The questions of triples: a node and a relation with all ends that are true for them. Triples
//! that share a question share its scores.

use std::ops::Range;

use shardgraph_random::KeyedRng;

use crate::Edge;

/// The distinct questions for tails of some triples, each with its true ends.
///
/// With reciprocal relations a triple makes two: for its tail, and for its head by the inverse
/// relation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    given: Vec<u32>,
    relations: Vec<u32>,
    /// The true ends of question q are `ends[starts[q]..starts[q + 1]]`.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// The triple that each end is of.
    triples: Vec<u32>,
}

/// One question: the node and the relation that are given, and the ends that are true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) given: u32,
    pub(crate) relation: u32,
    pub(crate) ends: &'a [u32],
    /// The numbers of the triples that these ends are of.
    pub(crate) triples: &'a [u32],
}

impl Questions {
    /// The questions of triples in ascending order of node and relation; an end comes as often as
    /// its triple does.
    ///
    /// # Complexity
    /// A sort of twice the triples, 16 bytes each.
    pub(crate) fn of(triples: &[Edge], n_relations: u32) -> Questions {
        let both = |(idx, triple): (u32, &Edge)| {
            let inverse = triple.relation + n_relations;
            [
                [triple.source, triple.relation, triple.target, idx],
                [triple.target, inverse, triple.source, idx],
            ]
        };
        let mut asked: Vec<[u32; 4]> = (0..).zip(triples).flat_map(both).collect();
        asked.sort_unstable();
        let mut questions = Questions::default();
        for same in asked.chunk_by(|a, b| a[..2] == b[..2]) {
            questions.given.push(same[0][0]);
            questions.relations.push(same[0][1]);
            questions.starts.push(questions.ends.len() as u32);
            questions.ends.extend(same.iter().map(|asked| asked[2]));
            questions.triples.extend(same.iter().map(|asked| asked[3]));
        }
        questions.starts.push(questions.ends.len() as u32);
        questions
    }

    pub(crate) fn len(&self) -> usize {
        self.given.len()
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        let lists = [
            &self.given,
            &self.relations,
            &self.starts,
            &self.ends,
            &self.triples,
        ];
        lists.iter().map(|list| 4 * list.len() as u64).sum()
    }

    /// The number of true ends of all questions.
    pub(crate) fn n_ends(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, question: u32) -> Asked<'_> {
        let idx = question as usize;
        let ends: Range<usize> = self.starts[idx] as usize..self.starts[idx + 1] as usize;
        Asked {
            given: self.given[idx],
            relation: self.relations[idx],
            ends: &self.ends[ends.clone()],
            triples: &self.triples[ends],
        }
    }

    /// The numbers of the questions in the order of an epoch.
    pub(crate) fn order(&self, seed: u64, epoch: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        KeyedRng::new(seed, "rgcn links questions", epoch.into()).shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(source: u32, relation: u32, target: u32) -> Edge {
        Edge {
            source,
            relation,
            target,
        }
    }

    #[test]
    fn triples_of_one_question_are_together_in_both_directions() {
        let triples = [edge(3, 0, 5), edge(1, 1, 5), edge(3, 0, 4), edge(3, 0, 5)];
        let questions = Questions::of(&triples, 2);
        let all: Vec<(u32, u32, Vec<u32>)> = (0..questions.len() as u32)
            .map(|idx| questions.get(idx))
            .map(|asked| (asked.given, asked.relation, asked.ends.to_vec()))
            .collect();
        let expected = [
            (1, 1, vec![5]),
            (3, 0, vec![4, 5, 5]),
            (4, 2, vec![3]),
            (5, 2, vec![3, 3]),
            (5, 3, vec![1]),
        ];
        assert_eq!(all, expected);
        assert_eq!(questions.n_ends(), 8);
        assert_eq!(questions.get(1).triples, [2, 0, 3]);
    }

    #[test]
    fn an_order_has_each_question_once_and_differs_by_epoch() {
        let triples: Vec<Edge> = (0..50).map(|node| edge(node, 0, node + 50)).collect();
        let questions = Questions::of(&triples, 1);
        let mut order = questions.order(1, 0);
        assert_eq!(order, questions.order(1, 0));
        assert_ne!(order, questions.order(1, 1));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}
