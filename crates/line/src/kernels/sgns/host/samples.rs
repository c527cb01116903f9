//! The samples of a call, with their lists in host memory.

use super::super::draws::{Purpose, draw, philox, philox_slots};
use super::super::{EdgeOrder, OP, Samples, Settings};
use shardgraph_device::Error;

/// Negatives that are drawn together, so that the generator becomes vector code.
const SLOTS: usize = 8;

/// What a call draws from.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HostSamples<'a> {
    pub(super) pairs: &'a [u32],
    pub(super) drawn: Option<&'a [u32]>,
    pub(super) negatives: &'a [u32],
    pub(super) settings: Settings,
    pub(super) first_edge: u64,
    first: u64,
    reversed: bool,
}

impl<'a> HostSamples<'a> {
    pub(in super::super) fn new(settings: Settings, samples: &Samples<'a>) -> Result<Self, Error> {
        let weights = samples.edges.weights.as_ref();
        let alias = weights.map(|w| w.pairs.on_host(OP)).transpose()?;
        let (drawn, first_edge): (Option<&[u32]>, u64) = match samples.order {
            EdgeOrder::Listed { first } => (None, first % (samples.edges.len() as u64).max(1)),
            EdgeOrder::Drawn => (alias, 0),
        };
        Ok(Self {
            pairs: samples.edges.pairs.on_host(OP)?,
            drawn,
            negatives: samples.negatives.pairs.on_host(OP)?,
            settings,
            first_edge,
            first: samples.first,
            reversed: samples.reversed,
        })
    }

    /// The source of sample `i` of the call; its targets go to `targets`, the edge's own first. `before`: those
    /// of sample `i - 1`, whose negatives may be the same.
    #[inline(always)]
    pub(in super::super) fn draw(
        &self,
        i: u64,
        targets: &mut [u32],
        before: Option<&[u32]>,
    ) -> u32 {
        let sample = self.first + i;
        let seed = self.settings.seed;
        let edge = match self.drawn {
            Some(_) => self.edge_by_weight(i),
            None => (self.first_edge + i) % (self.pairs.len() as u64 / 2),
        };
        let (source, target) = self.ends(edge);
        targets[0] = target;
        let group = sample / u64::from(self.settings.group);
        if let Some(before) = before
            && !sample.is_multiple_of(self.settings.group.into())
        {
            targets[1..].copy_from_slice(&before[1..]);
            return source;
        }
        for (first, targets) in (0u32..).zip(targets[1..].chunks_mut(SLOTS)) {
            let first_slot = first * SLOTS as u32;
            let words = philox_slots::<SLOTS>(seed, group, first_slot, Purpose::Negative as u32);
            for (target, words) in targets.iter_mut().zip(words) {
                *target = draw(self.negatives, words);
            }
        }
        source
    }

    /// The edge of sample `i`, where edges are drawn.
    #[inline(always)]
    pub(super) fn edge_by_weight(&self, i: u64) -> u64 {
        let words = philox(self.settings.seed, self.first + i, 0, Purpose::Edge as u32);
        u64::from(draw(self.drawn.unwrap_or_default(), words))
    }

    /// The source and the target of an edge.
    #[inline(always)]
    pub(super) fn ends(&self, edge: u64) -> (u32, u32) {
        let pair = &self.pairs[2 * edge as usize..][..2];
        match self.reversed {
            false => (pair[0], pair[1]),
            true => (pair[1], pair[0]),
        }
    }

    /// Whether sample `i` is the first of those that share its negatives.
    #[inline(always)]
    pub(super) fn begins_group(&self, i: u64) -> bool {
        let group = u64::from(self.settings.group);
        group == 1 || (self.first + i).is_multiple_of(group)
    }

    /// The group of the first sample, which begins there.
    pub(super) fn first_group(&self) -> u64 {
        self.first / u64::from(self.settings.group)
    }

    /// The word that decides how fp16 rows are rounded; f32 rows round to nearest.
    #[inline(always)]
    pub(super) fn rounding_word<T>(&self, i: u64) -> u32 {
        let sample = self.first + i;
        match size_of::<T>() {
            2 => philox(self.settings.seed, sample, 0, Purpose::Rounding as u32)[0],
            _ => 0,
        }
    }
}
