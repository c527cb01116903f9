//! How samples are spread: over the whole of finite bounds, and behind infinite ones as their
//! distributions say.

use shardgraph_random::KeyedRng;

use crate::space::{Space, Value};

const INF: f32 = f32::INFINITY;
const N: usize = 4000;

/// Mean and variance of each column of `N` samples of a box of 4.
fn moments(low: [f32; 4], high: [f32; 4]) -> [(f64, f64); 4] {
    let space = Space::boxed(&[4], low, high).unwrap();
    let mut stream = KeyedRng::new(3, "space", 0);
    let mut rows = Vec::new();
    for _ in 0..N {
        let Value::F32(list) = space.sample(&mut stream) else {
            panic!("no box")
        };
        rows.push(list);
    }
    [0, 1, 2, 3].map(|column| {
        let numbers = rows.iter().map(|row| f64::from(row[column]));
        let mean = numbers.clone().sum::<f64>() / N as f64;
        let variance = numbers.map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64;
        (mean, variance)
    })
}

/// Uniform on [2, 5], standard normal, 2 + exponential, 5 - exponential; each within six standard
/// errors.
#[test]
fn moments_are_those_of_the_distributions() {
    let expected: [(f64, f64); 4] = [(3.5, 0.75), (0.0, 1.0), (3.0, 1.0), (4.0, 1.0)];
    let got = moments([2.0, -INF, 2.0, -INF], [5.0, INF, INF, 5.0]);
    for ((mean, variance), (expected_mean, expected_variance)) in got.into_iter().zip(expected) {
        let standard_error = (expected_variance / N as f64).sqrt();
        assert!(
            (mean - expected_mean).abs() < 6.0 * standard_error,
            "{mean}, not {expected_mean}"
        );
        // An exponential's fourth central moment is 9, so its variance has a standard error of
        // sqrt(8 / N).
        let standard_error = expected_variance * (8.0 / N as f64).sqrt();
        assert!(
            (variance - expected_variance).abs() < 6.0 * standard_error,
            "{variance}, not {expected_variance}"
        );
    }
}

#[test]
fn every_number_and_every_graph_size_comes() {
    let mut stream = KeyedRng::new(4, "space", 0);
    let space = Space::tuple(vec![
        Space::discrete(3).unwrap(),
        Space::multi_binary(1).unwrap(),
        Space::graph(0, 0).unwrap(),
    ])
    .unwrap();
    let (mut numbers, mut bits, mut sizes) = ([0; 3], [0; 2], [0; 11]);
    for _ in 0..N {
        let Value::Tuple(members) = space.sample(&mut stream) else {
            panic!("no tuple")
        };
        let [Value::U32(number), Value::Bits(bit), Value::Graph(graph)] = members.as_slice() else {
            panic!("other members: {members:?}")
        };
        numbers[*number as usize] += 1;
        bits[bit[0] as usize] += 1;
        sizes[graph.n_nodes as usize] += 1;
        let n = graph.n_nodes as usize;
        assert!(graph.edges.len() <= n * (n - 1));
    }
    let is_even = |counts: &[usize]| {
        let expected = N as f64 / counts.len() as f64;
        counts
            .iter()
            .all(|&count| (count as f64 - expected).abs() < 6.0 * expected.sqrt())
    };
    assert!(
        is_even(&numbers) && is_even(&bits) && is_even(&sizes[1..]),
        "{numbers:?} {bits:?} {sizes:?}"
    );
    assert_eq!(sizes[0], 0);
}

/// Where rounding might step over a bound.
#[test]
fn tails_stay_inside_at_the_ends_of_the_floats() {
    for (low, high) in [
        (f32::MAX, INF),
        (-INF, f32::MIN),
        (f32::MIN, f32::MAX),
        (1.0, 1f32.next_up()),
        (0.0, f32::from_bits(1)),
    ] {
        let space = Space::boxed(&[64], low, high).unwrap();
        let value = space.sample(&mut KeyedRng::new(5, "space", 0));
        space.contains(&value).unwrap();
    }
}
