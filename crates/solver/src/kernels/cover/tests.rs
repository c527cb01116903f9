//! Properties of episodes and state counts on every back end, against counting everything anew.

use std::num::NonZeroU32;

use proptest::prelude::*;
use shardgraph_device::{Device, Error, ErrorKind};
use shardgraph_ops::{Adjacency, ResidentAdjacency};

use super::states::StateCounter;
use super::{Episode, Rules, Run, Scale, ScorePieces, Select};
use crate::on_device::tests::gpus;

fn devices() -> Vec<Device> {
    std::iter::once(Device::host()).chain(gpus()).collect()
}

/// A graph as a full matrix.
#[derive(Debug, Clone)]
struct Matrix {
    n_nodes: usize,
    is_joined: Vec<bool>,
}

impl Matrix {
    fn new(n_nodes: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut is_joined = vec![false; n_nodes * n_nodes];
        for (u, v) in edges {
            if u != v {
                is_joined[u * n_nodes + v] = true;
                is_joined[v * n_nodes + u] = true;
            }
        }
        Self { n_nodes, is_joined }
    }

    fn neighbors(&self, u: usize) -> impl Iterator<Item = usize> {
        (0..self.n_nodes).filter(move |&v| self.is_joined[u * self.n_nodes + v])
    }

    fn on(&self, device: &Device, as_bits: bool) -> Result<ResidentAdjacency, Error> {
        let n = self.n_nodes;
        if as_bits {
            let words_per_row = n.div_ceil(64);
            let mut words = vec![0u64; n * words_per_row];
            for u in 0..n {
                for v in self.neighbors(u) {
                    words[u * words_per_row + v / 64] |= 1 << (v % 64);
                }
            }
            let bits = Adjacency::Bits {
                words: &words,
                words_per_row,
            };
            return ResidentAdjacency::upload(device, bits);
        }
        let (mut row_ptr, mut columns) = (vec![0u64], Vec::new());
        for u in 0..n {
            columns.extend(self.neighbors(u).map(|v| v as u32));
            row_ptr.push(columns.len() as u64);
        }
        let lists = Adjacency::Csr {
            row_ptr: &row_ptr,
            columns: &columns,
            values: None,
        };
        ResidentAdjacency::upload(device, lists)
    }

    /// Degrees and neighbour degrees without the nodes that are gone.
    fn counts(&self, is_gone: &[bool]) -> (Vec<u32>, Vec<u64>) {
        let degree: Vec<u32> = (0..self.n_nodes)
            .map(|u| match is_gone[u] {
                true => 0,
                false => self.neighbors(u).filter(|&v| !is_gone[v]).count() as u32,
            })
            .collect();
        let d2 = (0..self.n_nodes)
            .map(|u| match is_gone[u] {
                true => 0,
                false => self.neighbors(u).map(|v| u64::from(degree[v])).sum(),
            })
            .collect();
        (degree, d2)
    }
}

fn size() -> impl Strategy<Value = usize> {
    let sizes = [0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257];
    prop::sample::select(sizes.to_vec())
}

fn graph() -> impl Strategy<Value = Matrix> {
    size().prop_flat_map(|n| {
        let node = 0..n.max(1);
        let edges = move |most: usize| prop::collection::vec((node.clone(), node.clone()), 0..=most);
        let random = move |most| edges(most).prop_map(move |edges| Matrix::new(n, edges));
        prop_oneof![
            4 => random(n),
            4 => random(8 * n),
            1 => random(n * n.min(40)),
            1 => Just(Matrix::new(n, [])),
            1 => Just(Matrix::new(n, (1..n).map(|v| (v - 1, v)))),
            1 => Just(Matrix::new(n, (1..n).map(|v| (n / 2, v)))),
            1 => Just(Matrix::new(n.min(70), (0..n.min(70)).flat_map(|v| (0..v).map(move |u| (u, v))))),
        ]
    })
}

/// Pieces as rows of (start, alpha, beta).
#[derive(Debug, Clone)]
struct Pieces([Vec<f32>; 3]);

impl Pieces {
    fn rules(&self, scale: Scale, select: Select, keep_isolated: bool) -> Rules<'_> {
        let [starts, alpha, beta] = &self.0;
        let score = ScorePieces {
            starts,
            alpha,
            beta,
        };
        Rules {
            score,
            scale,
            select,
            keep_isolated,
        }
    }
}

/// Few values, so that scores are often equal; also none, infinite ones and both zeros.
fn factor() -> impl Strategy<Value = f32> {
    prop_oneof![
        10 => (-3i32..4).prop_map(|i| i as f32 / 2.0),
        10 => -1.0f32..1.0,
        1 => Just(-0.0),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ]
}

fn pieces() -> impl Strategy<Value = Pieces> {
    prop_oneof![4 => random_pieces(), 1 => zero_pieces()]
}

/// Starts between which mean neighbour degrees lie, some of them exactly on a start.
fn starts(n: usize) -> impl Strategy<Value = Vec<f32>> {
    let gap = prop_oneof![0.0f32..20.0 / n as f32, Just(0.5f32), Just(1.0)];
    prop::collection::vec(gap, n - 1).prop_map(|gaps| {
        let ends = gaps.iter().scan(0.0, |end, gap| {
            *end += gap;
            Some(*end)
        });
        std::iter::once(0.0).chain(ends).collect()
    })
}

fn random_pieces() -> impl Strategy<Value = Pieces> {
    let n_pieces = prop_oneof![6 => 1usize..40, 1 => Just(512usize), 1 => Just(513usize)];
    n_pieces.prop_flat_map(|n| {
        let factors = || prop::collection::vec(factor(), n);
        (starts(n), factors(), factors()).prop_map(|(starts, a, b)| Pieces([starts, a, b]))
    })
}

/// Scores of 0 and -0, which are equal.
fn zero_pieces() -> impl Strategy<Value = Pieces> {
    let zero = || prop_oneof![Just(0.0f32), Just(-0.0)];
    let factors = move || prop::collection::vec(zero(), 12);
    (starts(12), factors(), factors()).prop_map(|(starts, a, b)| Pieces([starts, a, b]))
}

fn select() -> impl Strategy<Value = Select> {
    let fixed = |d: u32| Select::Fixed(NonZeroU32::new(d).unwrap());
    prop_oneof![
        2 => Just(Select::Adaptive),
        1 => Just(fixed(1)),
        1 => (2u32..9).prop_map(fixed),
        1 => prop::sample::select(vec![9u32, 16, 17, 300]).prop_map(fixed),
    ]
}

fn naive_score(pieces: ScorePieces<'_>, x: f32, y: f32) -> f32 {
    let has_begun = |&i: &usize| y >= pieces.starts[i] * x;
    let i = (0..pieces.starts.len()).rev().find(has_begun).unwrap();
    let score = pieces.alpha[i] * x + pieces.beta[i] * y;
    if score.is_nan() {
        f32::MIN
    } else {
        score.clamp(f32::MIN, f32::INFINITY)
    }
}

fn naive_picks(select: Select, n_candidates: usize, n: usize) -> usize {
    match select {
        Select::Fixed(d) => d.get() as usize,
        Select::Adaptive => match n_candidates {
            c if 2 * c > n => 8,
            c if 4 * c > n => 4,
            c if 8 * c > n => 2,
            _ => 1,
        },
    }
}

/// The episode with every number counted anew before each pick; the first step passes over so many candidates.
fn naive(graph: &Matrix, rules: Rules<'_>, n_passed: usize) -> (Vec<u32>, u32) {
    let n = graph.n_nodes;
    let (mut is_gone, mut cover, mut n_steps) = (vec![false; n], Vec::new(), 0);
    loop {
        let (degree, d2) = graph.counts(&is_gone);
        let mut order: Vec<usize> = (0..n).filter(|&v| degree[v] > 0).collect();
        if order.is_empty() {
            return (cover, n_steps);
        }
        let largest = *degree.iter().max().unwrap() as f32;
        let scale = match rules.scale {
            Scale::One => 1.0,
            Scale::LargestDegree => 1.0 / largest,
        };
        let score = |v: usize| {
            let (x, y) = (degree[v] as f32 * scale, d2[v] as f32 * (scale * scale));
            naive_score(rules.score, x, y)
        };
        order.sort_by(|&u, &v| score(v).partial_cmp(&score(u)).unwrap().then(u.cmp(&v)));
        let n_passed = if n_steps == 0 {
            n_passed.min(order.len() - 1)
        } else {
            0
        };
        let n_picks = naive_picks(rules.select, order.len(), n);
        for &v in order.iter().skip(n_passed).take(n_picks) {
            if graph.counts(&is_gone).0[v] > 0 || rules.keep_isolated {
                is_gone[v] = true;
                cover.push(v as u32);
            }
        }
        n_steps += 1;
    }
}

/// How an episode is run.
#[derive(Debug, Clone, Copy)]
struct Leaps {
    n_rounds: usize,
    max_blocks: usize,
    /// Candidates that the first step passes over.
    n_passed: u32,
}

/// Leaps from the best candidate.
fn leaps(n_rounds: usize, max_blocks: usize) -> Leaps {
    Leaps {
        n_rounds,
        max_blocks,
        n_passed: 0,
    }
}

/// Runs an episode in leaps of so many rounds, on at most so many blocks, and checks what is left of the graph after
/// each leap.
fn run(
    device: &Device,
    graph: &Matrix,
    as_bits: bool,
    rules: Rules<'_>,
    leaps: Leaps,
) -> Result<(Vec<u32>, u32), Error> {
    let on_device = graph.on(device, as_bits)?;
    let mut episode = Episode::start(device, &on_device, rules)?;
    episode.pass_over(leaps.n_passed)?;
    if let Run::Gpu(run) = &mut episode.run {
        run.set_shape(leaps.n_rounds, leaps.max_blocks);
    }
    loop {
        let progress = episode.advance()?;
        let cover = episode.cover()?;
        check_counts(graph, &episode, &cover)?;
        if progress.is_done {
            assert_eq!(
                (progress.n_candidates, progress.n_cover),
                (0, cover.len() as u32)
            );
            assert_eq!(
                episode.advance()?,
                progress,
                "nothing happens behind the end"
            );
            return Ok((cover, progress.n_steps));
        }
    }
}

/// The degrees of all nodes and the neighbour degrees of those that have an edge.
fn check_counts(graph: &Matrix, episode: &Episode<'_>, cover: &[u32]) -> Result<(), Error> {
    let mut is_gone = vec![false; graph.n_nodes];
    cover.iter().for_each(|&v| is_gone[v as usize] = true);
    let (want_degree, want_d2) = graph.counts(&is_gone);
    let (degree, mut d2) = match &episode.run {
        Run::Host(run) => run.counts(),
        Run::Gpu(run) => run.counts()?,
    };
    assert_eq!(degree, want_degree, "after {cover:?}");
    let isolated = (0..degree.len()).filter(|&v| degree[v] == 0);
    isolated.for_each(|v| d2[v] = 0);
    assert_eq!(d2, want_d2, "after {cover:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same nodes in the same order as the naive episode, for lists and bits, on every back end.
    #[test]
    fn covers_are_the_naive_covers(
        graph in graph(),
        pieces in pieces(),
        by_largest_degree in any::<bool>(),
        select in select(),
        keep_isolated in any::<bool>(),
        n_rounds in prop_oneof![Just(1usize), Just(7), Just(64)],
        n_passed in prop_oneof![2 => Just(0u32), 1 => 1u32..12, 1 => Just(300)],
        max_blocks in prop_oneof![Just(1usize), Just(2), Just(256)],
    ) {
        let scale = if by_largest_degree { Scale::LargestDegree } else { Scale::One };
        let rules = pieces.rules(scale, select, keep_isolated);
        let leaps = Leaps { n_rounds, max_blocks, n_passed };
        let want = naive(&graph, rules, n_passed as usize);
        for device in devices() {
            for as_bits in [false, true] {
                let got = run(&device, &graph, as_bits, rules, leaps).unwrap();
                prop_assert_eq!(&got, &want, "{}, bits: {}", device.kind(), as_bits);
            }
        }
    }

    /// Degrees and neighbour degrees of up to 32 states at once, against counting each state alone.
    #[test]
    fn states_are_counted_together(
        graph in graph(),
        n_states in prop_oneof![1u32..10, Just(31u32), Just(32u32)],
        words in prop::collection::vec(any::<u32>(), 257),
    ) {
        let n = graph.n_nodes;
        let alive = &words[..n];
        let (mut want_degree, mut want_d2) = (vec![0; n * n_states as usize], vec![0; n * n_states as usize]);
        for b in 0..n_states as usize {
            let is_gone: Vec<bool> = alive.iter().map(|word| word >> b & 1 == 0).collect();
            let (degree, d2) = graph.counts(&is_gone);
            for v in 0..n {
                want_degree[v * n_states as usize + b] = degree[v];
                want_d2[v * n_states as usize + b] = d2[v];
            }
        }
        for device in devices() {
            for as_bits in [false, true] {
                let on_device = graph.on(&device, as_bits).unwrap();
                let mut counter = StateCounter::new(&device, &on_device, n_states).unwrap();
                let alive = device.upload(alive).unwrap();
                let mut degree = device.upload(&vec![7u32; want_degree.len()]).unwrap();
                let mut d2 = device.upload(&vec![7u64; want_d2.len()]).unwrap();
                counter.count(&alive, &mut degree, &mut d2).unwrap();
                let name = format!("{}, bits: {as_bits}", device.kind());
                prop_assert_eq!(&device.download(&degree).unwrap(), &want_degree, "{}", &name);
                prop_assert_eq!(&device.download(&d2).unwrap(), &want_d2, "{}", &name);
            }
        }
    }
}

/// Hubs with more neighbours than one warp walks, chunks of more than 1024 rows, neighbours that picks of one round
/// share, and (on one block) picks of one round that one thread looks after.
#[test]
fn hubs_are_shared_by_all_warps() {
    let n = 2500;
    let hubs = (3..n).flat_map(|v| [(0, v), (1, v), (2, v)]);
    let others = [(0, 1), (1, 2), (0, 2), (3, 7), (7, 9), (9, 40), (40, 2200)];
    let one_thread = [(300, 556), (556, 812), (812, 300)];
    let graph = Matrix::new(n, hubs.chain(others).chain(one_thread));
    let pieces = Pieces([vec![0.0, 3.0], vec![1.0, 1.25], vec![0.25, 0.125]]);
    for (d, max_blocks) in [(1, 256), (2, 1), (6, 1), (8, 2)] {
        let select = Select::Fixed(NonZeroU32::new(d).unwrap());
        let rules = pieces.rules(Scale::LargestDegree, select, false);
        let want = naive(&graph, rules, 0);
        for device in devices() {
            for as_bits in [false, true] {
                let got = run(&device, &graph, as_bits, rules, leaps(1, max_blocks)).unwrap();
                assert_eq!(got, want, "{}, bits: {as_bits}", device.kind());
            }
        }
    }
}

/// Both products of a star's centre cancel exactly when each is rounded by itself, so all centres are equal and go in
/// order; a product that is contracted with the sum leaves its rounding error, which differs from star to star.
#[test]
fn products_are_rounded_before_they_are_added() {
    let (mut edges, mut n) = (Vec::new(), 0);
    for n_leaves in 2..40 {
        edges.extend((1..=n_leaves).map(|leaf| (n, n + leaf)));
        n += 1 + n_leaves;
    }
    let graph = Matrix::new(n, edges);
    let pieces = Pieces([
        vec![0.0, 0.5, 1.5],
        vec![-1.0, 0.7, -1.0],
        vec![0.0, -0.7, 0.0],
    ]);
    for scale in [Scale::One, Scale::LargestDegree] {
        let rules = pieces.rules(scale, Select::Fixed(NonZeroU32::MIN), false);
        let want = naive(&graph, rules, 0);
        if scale == Scale::One {
            assert!(want.0.is_sorted(), "{want:?}");
        }
        for device in devices() {
            for as_bits in [false, true] {
                let got = run(&device, &graph, as_bits, rules, leaps(64, 256)).unwrap();
                assert_eq!(got, want, "{}, bits: {as_bits}", device.kind());
            }
        }
    }
}

/// The k-th allocation fails, for every k until none is left: an error that says so, and nothing else.
#[test]
fn memory_that_runs_out_is_an_error() {
    let graph = Matrix::new(40, (1..40).map(|v| (v / 2, v)));
    let pieces = Pieces([vec![0.0], vec![1.0], vec![0.0]]);
    let rules = pieces.rules(Scale::One, Select::Adaptive, false);
    let want = naive(&graph, rules, 0);
    for device in gpus() {
        for as_bits in [false, true] {
            let mut n_failed = 0;
            let got = loop {
                let failing = device.failing_at_allocation(n_failed);
                match run(&failing, &graph, as_bits, rules, leaps(3, 256)) {
                    Ok(got) => break got,
                    Err(error) => {
                        let is_memory = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
                        assert!(is_memory, "{error}");
                    }
                }
                n_failed += 1;
                assert!(n_failed < 100, "the fault never goes away");
            };
            assert_eq!(got, want);
            assert!(n_failed > 5, "only {n_failed} allocations failed");
        }
    }
}

#[test]
fn graphs_that_lead_outside_are_refused() {
    let device = Device::host();
    let nodes = |adjacency: Adjacency<'_>| ResidentAdjacency::upload(&device, adjacency)?.n_nodes();
    let lists = |row_ptr: &[u64], columns: &[u32]| {
        let values = None;
        let lists = Adjacency::Csr {
            row_ptr,
            columns,
            values,
        };
        nodes(lists)
    };
    assert_eq!(lists(&[0, 1, 2], &[1, 0]), Ok(2));
    assert_eq!(lists(&[0], &[]), Ok(0));
    for (row_ptr, columns) in [
        (&[0u64, 1, 2][..], &[1u32, 2][..]), // a column that does not exist
        (&[0, 1], &[1]),                     // a row too few
        (&[0, 1, 3], &[1, 0]),               // a column too few
        (&[0, 3, 2], &[1, 0]),               // a row that ends before it starts
        (&[1, 1, 2], &[1, 0]),               // a first row that starts late
    ] {
        let error = lists(row_ptr, columns).unwrap_err();
        let is_known = matches!(
            error.kind(),
            ErrorKind::Index { .. } | ErrorKind::Length { .. }
        );
        assert!(is_known, "{row_ptr:?}: {error}");
    }
    for (words, words_per_row) in [(&[0u64; 2][..], 2), (&[0; 3], 2), (&[0; 65], 1)] {
        let bits = Adjacency::Bits {
            words,
            words_per_row,
        };
        assert!(nodes(bits).is_err(), "{words:?}");
    }
}

#[test]
fn rules_that_do_not_fit_are_refused() {
    let graph = Matrix::new(3, [(0, 1)]);
    for device in devices() {
        let on_device = graph.on(&device, false).unwrap();
        for pieces in [
            [vec![], vec![], vec![]],
            [vec![0.0], vec![], vec![1.0]],
            [vec![0.0], vec![1.0], vec![1.0, 2.0]],
        ] {
            let pieces = Pieces(pieces);
            let rules = pieces.rules(Scale::One, Select::Adaptive, false);
            let error = Episode::start(&device, &on_device, rules).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Length { .. }), "{error}");
        }
        for n_states in [0, 33] {
            let error = StateCounter::new(&device, &on_device, n_states).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Index { .. }), "{error}");
        }
    }
    for device in gpus() {
        let other = device.new_stream().unwrap();
        let on_other = graph.on(&other, false).unwrap();
        let pieces = Pieces([vec![0.0], vec![1.0], vec![0.0]]);
        let rules = pieces.rules(Scale::One, Select::Adaptive, false);
        let error = Episode::start(&device, &on_other, rules).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OtherDevice { .. }),
            "{error}"
        );
    }
}
