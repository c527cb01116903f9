//! From a list of edges to pairs, ranges and pieces.

use super::{OP, Pieces, Range, Relational};
use crate::segments::{Gather, GatherLists, Segments, check_len, check_rows};
use crate::{Device, Error};

/// The most pairs in a piece: enough to pay for the weight matrix that its block of threads forms.
const PIECE: usize = 512;
/// More relations than this and a source could have more pairs than the kernels count.
const MAX_RELATIONS: usize = 1 << 25;

/// The edges of a relational graph on the host.
#[derive(Debug, Clone, Copy)]
pub struct Edges<'a> {
    /// Rows that messages come from.
    pub n_sources: usize,
    /// Rows that messages go to.
    pub n_destinations: usize,
    /// Relations, inverse ones and self loops counted as relations of their own.
    pub n_relations: usize,
    /// The source of each edge.
    pub sources: &'a [u32],
    /// The relation of each edge.
    pub relations: &'a [u32],
    /// The destination of each edge.
    pub destinations: &'a [u32],
    /// The factor of each edge's message; see [`inverse_counts`].
    pub weights: &'a [f32],
}

/// The normaliser `1 / c` of each edge, where `c` counts the edges with its relation and destination.
///
/// Made from the whole graph, before it is cut: a part's own counts would be too small.
///
/// # Panics
/// When the lists differ in length.
/// # Source
/// Schlichtkrull et al. (2018), equation 2 with `c = |N_i^r|`.
pub fn inverse_counts(relations: &[u32], destinations: &[u32]) -> Vec<f32> {
    assert_eq!(
        relations.len(),
        destinations.len(),
        "one destination for each relation"
    );
    let key = |e: u32| (relations[e as usize], destinations[e as usize]);
    let mut order: Vec<u32> = (0..relations.len() as u32).collect();
    order.sort_unstable_by_key(|&e| key(e));
    let mut weights = vec![0.0; order.len()];
    for run in order.chunk_by(|&a, &b| key(a) == key(b)) {
        for &edge in run {
            weights[edge as usize] = 1.0 / run.len() as f32;
        }
    }
    weights
}

/// The distinct (source, relation), sorted.
struct Pairs {
    sources: Vec<u32>,
    relations: Vec<u32>,
    /// The pair of each edge.
    of_edge: Vec<u32>,
}

impl Pairs {
    fn new(edges: &Edges<'_>) -> Self {
        let mut order: Vec<u32> = (0..edges.sources.len() as u32).collect();
        let key = |e: u32| (edges.sources[e as usize], edges.relations[e as usize]);
        order.sort_by_key(|&e| key(e)); // stable
        let mut pairs = Pairs {
            sources: Vec::new(),
            relations: Vec::new(),
            of_edge: vec![0; order.len()],
        };
        for run in order.chunk_by(|&a, &b| key(a) == key(b)) {
            for &edge in run {
                pairs.of_edge[edge as usize] = pairs.sources.len() as u32;
            }
            pairs.sources.push(key(run[0]).0);
            pairs.relations.push(key(run[0]).1);
        }
        pairs
    }

    /// For each destination its edges, sorted by pair: the same order however the edges were listed.
    fn incoming(&self, edges: &Edges<'_>) -> GatherLists {
        let mut order: Vec<u32> = (0..edges.sources.len() as u32).collect();
        order.sort_by_key(|&e| (edges.destinations[e as usize], self.of_edge[e as usize]));
        let destinations = order.iter().map(|&e| edges.destinations[e as usize]);
        GatherLists {
            offsets: offsets_of(destinations, edges.n_destinations),
            index: order.iter().map(|&e| self.of_edge[e as usize]).collect(),
            weights: Some(order.iter().map(|&e| edges.weights[e as usize]).collect()),
        }
    }
}

/// Where each of `0..n` starts in a list of keys in which it comes as often as it does here, sorted.
fn offsets_of(keys: impl Iterator<Item = u32>, n: usize) -> Vec<u64> {
    let mut offsets = vec![0u64; n + 1];
    for key in keys {
        offsets[key as usize + 1] += 1;
    }
    for i in 0..n {
        offsets[i + 1] += offsets[i];
    }
    offsets
}

impl Relational {
    /// A graph whose sources are cut into ranges `cuts[k]..cuts[k + 1]`. Gradients of parameters that sources share are
    /// summed range by range, so that ranks that own whole ranges can add them up in one agreed order.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`] for lists of different length, [`crate::ErrorKind::Index`] for an id that is too
    /// large, [`crate::ErrorKind::Invalid`] for cuts that do not ascend from 0 to `n_sources`; what uploads fail with.
    /// # Complexity
    /// Sorts the edges twice.
    pub fn upload(device: &Device, edges: &Edges<'_>, cuts: &[u32]) -> Result<Self, Error> {
        check_edges(edges, cuts)?;
        let pairs = Pairs::new(edges);
        let n_pairs = pairs.sources.len();
        let by_source = offsets_of(pairs.sources.iter().copied(), edges.n_sources);
        let Ranked {
            ranks,
            order,
            ranges,
        } = ranges(device, &pairs.relations, &by_source, edges, cuts)?;
        let incoming = pairs.incoming(edges);
        let outgoing = incoming.transpose(n_pairs);
        Ok(Self {
            device: device.clone(),
            n_sources: edges.n_sources,
            n_relations: edges.n_relations,
            n_pairs,
            by_source: Segments::upload(device, &by_source)?,
            pair_relations: device.upload(&pairs.relations)?,
            pair_sources: device.upload(&pairs.sources)?,
            ranks: device.upload(&ranks)?,
            pieces: Pieces::upload(
                device,
                &order,
                &pairs.relations,
                (&ranges, edges.n_relations),
            )?,
            ranges,
            incoming: Gather::upload(device, &incoming, n_pairs)?,
            outgoing: Gather::upload(device, &outgoing, edges.n_destinations)?,
        })
    }
}

/// The pairs, ranked within their ranges.
struct Ranked {
    /// The place of each pair in its range.
    ranks: Vec<u32>,
    /// All pairs, sorted by range and relation.
    order: Vec<u32>,
    ranges: Vec<Range>,
}

fn ranges(
    device: &Device,
    relations: &[u32],
    by_source: &[u64],
    edges: &Edges<'_>,
    cuts: &[u32],
) -> Result<Ranked, Error> {
    let mut ranks = vec![0; relations.len()];
    let (mut order, mut ranges) = (Vec::with_capacity(relations.len()), Vec::new());
    for cut in cuts.windows(2) {
        let pairs = by_source[cut[0] as usize] as u32..by_source[cut[1] as usize] as u32;
        let first = order.len();
        order.extend(pairs.clone());
        order[first..].sort_by_key(|&p| relations[p as usize]); // stable
        for (rank, &pair) in (0u32..).zip(&order[first..]) {
            ranks[pair as usize] = rank;
        }
        let of_pairs = pairs.clone().map(|p| relations[p as usize]);
        let by_relation = offsets_of(of_pairs, edges.n_relations);
        ranges.push(Range {
            first_source: cut[0],
            n_sources: cut[1] - cut[0],
            n_pairs: pairs.len(),
            by_relation: Segments::upload(device, &by_relation)?,
        });
    }
    Ok(Ranked {
        ranks,
        order,
        ranges,
    })
}

impl Pieces {
    fn upload(
        device: &Device,
        order: &[u32],
        relations: &[u32],
        (ranges, n_relations): (&[Range], usize),
    ) -> Result<Self, Error> {
        let (mut piece_relations, mut offsets, mut owners) = (Vec::new(), vec![0u64], Vec::new());
        let mut first = 0;
        for (k, range) in ranges.iter().enumerate() {
            let pairs = &order[first..first + range.n_pairs];
            for run in pairs.chunk_by(|&a, &b| relations[a as usize] == relations[b as usize]) {
                let relation = relations[run[0] as usize];
                for piece in run.chunks(PIECE) {
                    piece_relations.push(relation);
                    offsets.push(offsets[offsets.len() - 1] + piece.len() as u64);
                    owners.push(k as u32 * n_relations as u32 + relation);
                }
            }
            first += range.n_pairs;
        }
        let by_relation = offsets_of(owners.iter().copied(), ranges.len() * n_relations);
        Ok(Self {
            n_pieces: piece_relations.len(),
            relations: device.upload(&piece_relations)?,
            offsets: device.upload(&offsets)?,
            order: device.upload(order)?,
            by_relation: Segments::upload(device, &by_relation)?,
        })
    }
}

fn check_edges(edges: &Edges<'_>, cuts: &[u32]) -> Result<(), Error> {
    let n_edges = edges.sources.len();
    check_len(OP, "relations", n_edges, edges.relations.len())?;
    check_len(OP, "destinations", n_edges, edges.destinations.len())?;
    check_len(OP, "weights", n_edges, edges.weights.len())?;
    check_rows(OP, edges.sources, edges.n_sources)?;
    check_rows(OP, edges.relations, edges.n_relations)?;
    check_rows(OP, edges.destinations, edges.n_destinations)?;
    let ends = (
        cuts.first().copied(),
        cuts.last().map(|&last| last as usize),
    );
    let ascending = cuts.windows(2).all(|pair| pair[0] <= pair[1]);
    if ends != (Some(0), Some(edges.n_sources)) || !ascending {
        let why = format!("cuts must ascend from 0 to {} sources", edges.n_sources);
        return Err(Error::invalid(OP, why));
    }
    let n_keys = edges.n_relations.saturating_mul(cuts.len());
    if n_edges > u32::MAX as usize
        || edges.n_relations > MAX_RELATIONS
        || n_keys > u32::MAX as usize
    {
        return Err(Error::invalid(
            OP,
            "at most 2^32 - 1 edges, 2^25 relations, and 2^32 - 1 ranges times relations",
        ));
    }
    Ok(())
}
