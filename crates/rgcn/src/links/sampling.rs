//! The draws of a step: its triples, those that carry messages, and the nodes that corrupt them;
//! all keyed by seed, epoch and step.

use shardgraph_random::KeyedRng;

use crate::Edge;

/// The numbers of the training triples in the order of an epoch.
pub(crate) fn order(seed: u64, epoch: u32, n_triples: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n_triples as u32).collect();
    KeyedRng::new(seed, "rgcn links order", epoch.into()).shuffle(&mut order);
    order
}

/// The triples along which a step's messages go.
pub(crate) fn kept(seed: u64, step: u64, triples: &[Edge], dropout: f32) -> Vec<Edge> {
    let mut stream = KeyedRng::new(seed, "rgcn links edges", step);
    let mut is_kept = |_: &&Edge| stream.uniform_f32() >= dropout;
    match dropout > 0.0 {
        true => triples
            .iter()
            .filter(|edge| is_kept(edge))
            .copied()
            .collect(),
        false => triples.to_vec(),
    }
}

/// Flags of the edges along which a step's messages go, those of `n_triples` and their inverses
/// behind them: all but those of the triples that are `asked` about, and of a share of the others.
pub(crate) fn kept_edges(
    draw: EdgeDraw,
    n_triples: usize,
    asked: impl Iterator<Item = u32>,
) -> Vec<bool> {
    let EdgeDraw {
        seed,
        step,
        dropout,
    } = draw;
    let mut is_kept = vec![true; n_triples];
    if dropout > 0.0 {
        let mut stream = KeyedRng::new(seed, "rgcn links edges", step);
        is_kept
            .iter_mut()
            .for_each(|is_kept| *is_kept = stream.uniform_f32() >= dropout);
    }
    asked.for_each(|triple| is_kept[triple as usize] = false);
    is_kept.extend_from_within(..);
    is_kept
}

/// The share of the edges of a step that are dropped, and the keys by which they are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeDraw {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) dropout: f32,
}

/// The nodes that corrupt the triples of chunk `chunk` of a step.
pub(crate) fn negatives(seed: u64, step: u64, chunk: usize, n: u32, n_nodes: u32) -> Vec<u32> {
    let key = step << 32 | chunk as u64;
    let mut stream = KeyedRng::new(seed, "rgcn links negatives", key);
    (0..n).map(|_| stream.below_u32(n_nodes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_triple_once_and_differs_by_epoch() {
        let mut first = order(1, 0, 100);
        assert_ne!(first, order(1, 1, 100));
        assert_eq!(first, order(1, 0, 100));
        first.sort_unstable();
        assert!(first.into_iter().eq(0..100));
    }

    #[test]
    fn so_many_triples_carry_no_message() {
        let triple = |source| Edge {
            source,
            relation: 0,
            target: 0,
        };
        let triples: Vec<Edge> = (0..4000).map(triple).collect();
        let n = kept(3, 7, &triples, 0.25).len();
        assert!((2900..3100).contains(&n), "{n}");
        assert_eq!(kept(3, 7, &triples, 0.0), triples);
        assert_ne!(kept(3, 8, &triples, 0.25), kept(3, 7, &triples, 0.25));
    }

    #[test]
    fn edges_of_asked_triples_carry_nothing_in_either_direction() {
        let draw = |dropout| EdgeDraw {
            seed: 3,
            step: 7,
            dropout,
        };
        let kept = kept_edges(draw(0.0), 4, [2, 0].into_iter());
        assert_eq!(kept, [false, true, false, true].repeat(2));
        let kept = kept_edges(draw(0.25), 4000, [1].into_iter());
        assert!(!kept[1] && kept[..4000] == kept[4000..]);
        let n = kept[..4000].iter().filter(|is_kept| **is_kept).count();
        assert!((2900..3100).contains(&n), "{n}");
    }

    #[test]
    fn negatives_are_nodes_and_differ_by_chunk_and_step() {
        let drawn = negatives(3, 1, 0, 500, 7);
        assert!(drawn.len() == 500 && (0..7).all(|node| drawn.contains(&node)));
        assert!(drawn.iter().all(|&node| node < 7));
        assert_ne!(drawn, negatives(3, 1, 1, 500, 7));
        assert_ne!(drawn, negatives(3, 2, 0, 500, 7));
    }
}
