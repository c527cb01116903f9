//! The messages of a layer, grouped by source and relation.

use std::ops::Range;

use super::gradient_rows::GradientRows;
use super::values::refill;

/// A message's relation, its target's place and its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) relation: u32,
    pub(crate) target: u32,
    pub(crate) weight: f32,
}

/// One message: to which row of the output, times what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Send {
    pub(crate) target: u32,
    pub(crate) weight: f32,
}

/// The messages of a range of sources in one layer.
///
/// A pair is a source and a relation that occur together: all its messages carry the same vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerPlan {
    /// For each source, the first of its pairs; one more at the end.
    pub(crate) pair_starts: Vec<u32>,
    /// For each pair, its relation.
    pub(crate) relations: Vec<u32>,
    /// For each pair, the first of its messages; one more at the end.
    pub(crate) send_starts: Vec<u32>,
    /// The messages.
    pub(crate) sends: Vec<Send>,
}

impl LayerPlan {
    pub(crate) fn n_sources(&self) -> usize {
        self.pair_starts.len() - 1
    }

    pub(crate) fn n_pairs(&self) -> usize {
        self.relations.len()
    }

    /// The pairs of a source, counted from the first of the range.
    pub(crate) fn pairs(&self, source: usize) -> Range<usize> {
        self.pair_starts[source] as usize..self.pair_starts[source + 1] as usize
    }

    /// The messages of a pair.
    pub(crate) fn sends(&self, pair: usize) -> &[Send] {
        &self.sends[self.send_starts[pair] as usize..self.send_starts[pair + 1] as usize]
    }

    /// Makes `other` the plan of some of the sources, counted from the first of them.
    pub(crate) fn copy_to(&self, sources: Range<usize>, other: &mut LayerPlan) {
        let pair_starts = &self.pair_starts[sources.start..=sources.end];
        let pairs = pair_starts[0] as usize..pair_starts[sources.len()] as usize;
        let send_starts = &self.send_starts[pairs.start..=pairs.end];
        let sends = send_starts[0] as usize..send_starts[pairs.len()] as usize;
        let counted_from = |starts: &[u32], from: &mut Vec<u32>| {
            refill(from, starts);
            from.iter_mut().for_each(|start| *start -= starts[0]);
        };
        counted_from(pair_starts, &mut other.pair_starts);
        counted_from(send_starts, &mut other.send_starts);
        refill(&mut other.relations, &self.relations[pairs]);
        refill(&mut other.sends, &self.sends[sends]);
    }

    /// The relations of some sources' pairs, each once.
    pub(crate) fn relations_of(&self, sources: Range<usize>) -> Vec<u32> {
        let pairs =
            self.pair_starts[sources.start] as usize..self.pair_starts[sources.end] as usize;
        let relations = &self.relations[pairs];
        let n_relations = relations.iter().max().map_or(0, |&last| last as usize + 1);
        let mut occurs = vec![false; n_relations];
        for &relation in relations {
            occurs[relation as usize] = true;
        }
        let relations = (0u32..).zip(occurs).filter(|(_, occurs)| *occurs);
        relations.map(|(relation, _)| relation).collect()
    }

    /// Adds the gradients of the rows that a pair's message went to, times their weights, to the
    /// message's.
    pub(crate) fn gather_pair(
        &self,
        pair: usize,
        outputs: &GradientRows<'_>,
        gradient: &mut [f32],
    ) {
        for send in self.sends(pair) {
            let Some(row) = outputs.row(send.target) else {
                continue;
            };
            for (sum, value) in gradient.iter_mut().zip(row) {
                *sum += send.weight * value;
            }
        }
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        let n_words = self.pair_starts.len() + self.relations.len() + self.send_starts.len();
        4 * n_words as u64 + 8 * self.sends.len() as u64
    }

    /// A plan without a source, to be ended by [`LayerPlan::end`].
    pub(crate) fn begin() -> LayerPlan {
        LayerPlan {
            pair_starts: vec![0],
            ..LayerPlan::default()
        }
    }

    pub(crate) fn end(mut self) -> LayerPlan {
        self.send_starts.push(self.sends.len() as u32);
        self
    }

    /// Adds a source's messages, which are sorted by relation.
    pub(crate) fn add_source(&mut self, messages: &[Message]) {
        let mut last = None;
        for &Message {
            relation,
            target,
            weight,
        } in messages
        {
            if last != Some(relation) {
                self.relations.push(relation);
                self.send_starts.push(self.sends.len() as u32);
                last = Some(relation);
            }
            self.sends.push(Send { target, weight });
        }
        self.pair_starts.push(self.relations.len() as u32);
    }
}
