//! Scores against their definitions, axes against all eigenvalues, and graphs whose communities are known.

use proptest::prelude::*;
use shardgraph_device::Device;
use shardgraph_graph::random::Stream;

use super::*;
use crate::{Config, Embedding, NodeLabels, Store, train};

fn listed(own: &[Vec<u32>]) -> (NodeLabels, Classes) {
    let labels = NodeLabels::numbers(own.len() as u32);
    let line = |(node, own): (usize, &Vec<u32>)| {
        let classes: Vec<String> = own.iter().map(|class| format!("c{class}")).collect();
        format!("{node} {}\n", classes.join(","))
    };
    let text: String = own.iter().enumerate().map(line).collect();
    let classes = Classes::parse("classes.txt", &text, &labels).unwrap();
    (labels, classes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn mutual_information_is_its_definition(pairs in prop::collection::vec((0u32..4, 0u32..4), 1..65)) {
        let (a, b): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let (found, expected) = (mutual_information(&a, &b), naive::mutual_information(&a, &b, 4));
        prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        prop_assert!((found - mutual_information(&b, &a)).abs() < 1e-9);
    }

    #[test]
    fn axes_have_the_largest_variances(n in 1usize..33, dim in 1usize..9, seed in 0u64..1000) {
        let mut stream = Stream::new(seed, "test", 0);
        // Columns of different spread, so that the axes are told apart within the steps.
        let values: Vec<f32> = (0..n * dim).map(|i| stream.normal() as f32 / (1 << (i % dim)) as f32).collect();
        let embedding = Embedding::new(dim, values.clone(), NodeLabels::numbers(n as u32)).unwrap();
        let found = plane(&embedding, 100, seed);
        let mean = |c: usize| (0..n).map(|r| f64::from(values[r * dim + c])).sum::<f64>() / n as f64;
        let cell = |r: usize, c: usize| f64::from(values[r * dim + c]) - mean(c);
        let product = |a: usize, b: usize| (0..n).map(|r| cell(r, a) * cell(r, b)).sum::<f64>();
        let matrix = (0..dim).map(|a| (0..dim).map(|b| product(a, b)).collect()).collect();
        let values = naive::eigenvalues(matrix);
        let total: f64 = values.iter().sum();
        for (axis, share) in found.shares.into_iter().enumerate() {
            let expected = if total > 1e-12 { values.get(axis).copied().unwrap_or(0.0) / total } else { 0.0 };
            prop_assert!((share - expected).abs() < 1e-3, "axis {}: {} {}", axis, share, expected);
        }
    }
}

/// Rows that say nothing: whatever is given, the counts must be those of the definition.
#[test]
fn f1_is_its_definition() {
    let mut stream = Stream::new(3, "test", 0);
    let own: Vec<Vec<u32>> = (0..60)
        .map(|_| {
            let mut classes: Vec<u32> = (0..4).filter(|_| stream.chance(0.4)).collect();
            classes.push(stream.below_u32(5));
            classes.sort_unstable();
            classes.dedup();
            classes
        })
        .collect();
    let (labels, classes) = listed(&own);
    let values = (0..60 * 3).map(|_| stream.normal() as f32).collect();
    let embedding = Embedding::new(3, values, labels).unwrap();
    let (mut true_ones, mut given) = (Vec::new(), Vec::new());
    let found = super::classify::judged(&embedding, &classes, 0.5, 7, &mut |own, of_node| {
        true_ones.push(own.to_vec());
        given.push(of_node.to_vec());
    });
    let expected = naive::f1(&true_ones, &given, classes.names().len() as u32);
    let found = found.unwrap();
    assert_eq!(given.len(), 30);
    assert!(
        true_ones
            .iter()
            .zip(&given)
            .all(|(own, given)| own.len() == given.len())
    );
    assert!(
        (found.micro - expected.micro).abs() < 1e-12,
        "{found:?} {expected:?}"
    );
    assert!(
        (found.mean - expected.mean).abs() < 1e-12,
        "{found:?} {expected:?}"
    );
    assert!(found.micro > 0.0 && found.micro < 1.0 && (found.mean - found.micro).abs() > 1e-6);
}

#[test]
fn communities_of_a_graph_are_found() {
    let mut stream = Stream::new(2, "test", 0);
    let (n_blocks, size) = (4, 40);
    let mut edges = Vec::new();
    for _ in 0..3000 {
        let block = stream.below_u32(n_blocks) * size;
        let ends = [
            block + stream.below_u32(size),
            block + stream.below_u32(size),
        ];
        if ends[0] != ends[1] {
            edges.push((ends[0], ends[1]));
        }
    }
    let n_nodes = n_blocks * size;
    let own: Vec<Vec<u32>> = (0..n_nodes).map(|v| vec![v / size]).collect();
    let (labels, classes) = listed(&own);
    let store = Store::from_edges(n_nodes, &edges, 1, labels).unwrap();
    let config = Config {
        dim: 16,
        epochs: 40,
        rate: Some(0.1),
        ..Config::default()
    };
    let embedding = train(&store, &config, &Device::host(), &mut |_| {})
        .unwrap()
        .embedding;
    let score = classify(&embedding, &classes, 0.5, 1).unwrap();
    assert!(score.micro > 0.95 && score.mean > 0.95, "{score:?}");
    let found = communities(&embedding, &classes, None, 1);
    assert_eq!((found.n_nodes, found.n_clusters), (160, 4));
    assert!(found.mutual_information.unwrap() > 0.9, "{found:?}");
    // Classes that have nothing to do with the graph are not found.
    let own: Vec<Vec<u32>> = (0..n_nodes).map(|v| vec![v * 7 % 4]).collect();
    let (_, others) = listed(&own);
    let score = classify(&embedding, &others, 0.5, 1).unwrap();
    assert!(score.micro < 0.5, "{score:?}");
    let found = communities(&embedding, &others, None, 1);
    assert!(found.mutual_information.unwrap() < 0.2, "{found:?}");
}

#[test]
fn communities_say_how_many_nodes_they_rest_on() {
    let values = vec![1.0, 0.0, 0.0, 1.0, 0.5, 0.5];
    for (own, n_nodes) in [
        ([vec![0, 1], vec![1, 2], vec![0, 2]], 0),
        ([vec![0], vec![1], vec![0, 2]], 2),
    ] {
        let (labels, classes) = listed(&own);
        let embedding = Embedding::new(2, values.clone(), labels).unwrap();
        for k in [None, Some(1), Some(9)] {
            let found = communities(&embedding, &classes, k, 1);
            let n_clusters = k.unwrap_or(3).min(n_nodes);
            assert_eq!((found.n_nodes, found.n_clusters), (n_nodes, n_clusters));
            assert_eq!(found.mutual_information.is_some(), n_nodes > 0);
        }
    }
}

#[test]
fn clusters_are_the_nearest_of_their_means() {
    let mut stream = Stream::new(5, "test", 0);
    for (n, k) in [(1, 1), (1, 5), (7, 7), (60, 3), (65, 8)] {
        let rows: Vec<f32> = (0..n * 2).map(|_| stream.normal() as f32).collect();
        let clusters = kmeans(&rows, 2, k, 1);
        assert_eq!(clusters.len(), n);
        let row = |at: usize| [f64::from(rows[2 * at]), f64::from(rows[2 * at + 1])];
        let mean = |c: u32| {
            let own: Vec<usize> = (0..n).filter(|&at| clusters[at] == c).collect();
            let sum = own.iter().fold([0.0; 2], |sum, &at| {
                [sum[0] + row(at)[0], sum[1] + row(at)[1]]
            });
            sum.map(|x| x / own.len() as f64)
        };
        let means: Vec<[f64; 2]> = (0..k.min(n) as u32).map(mean).collect();
        for at in 0..n {
            let to = |m: &[f64; 2]| (row(at)[0] - m[0]).powi(2) + (row(at)[1] - m[1]).powi(2);
            let own = to(&means[clusters[at] as usize]);
            assert!(
                means.iter().all(|m| own <= to(m) + 1e-9),
                "{n} {k} row {at}"
            );
        }
    }
    let same = kmeans(&[1.0; 12], 2, 3, 1);
    assert!(
        same.iter().all(|&c| c == same[0]),
        "rows that are equal: {same:?}"
    );
}

#[test]
fn bad_lines_are_named() {
    let labels = NodeLabels::new(["a", "b"]);
    for (text, reason) in [
        (
            "a x\nz y\n",
            "c.txt:2: expected a node of the graph, found `z`",
        ),
        (
            "a x\n\nb\n",
            "c.txt:3: expected a class behind the node `b`",
        ),
        ("# nothing\n", "c.txt: expected lines"),
    ] {
        let message = Classes::parse("c.txt", text, &labels)
            .unwrap_err()
            .to_string();
        assert!(message.contains(reason), "{message}");
    }
    let classes = Classes::parse("c.txt", "a x\n", &labels).unwrap();
    let embedding = Embedding::new(1, vec![1.0, 2.0], labels).unwrap();
    let message = classify(&embedding, &classes, 0.5, 1)
        .unwrap_err()
        .to_string();
    assert!(message.contains("expected 2 or more"), "{message}");
    let message = classify(&embedding, &classes, 1.5, 1)
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("train_share = 1.5"), "{message}");
}

#[test]
fn a_picture_shows_every_node_once_and_inside() {
    let labels = NodeLabels::new(["a<b", "c&d", "e"]);
    let classes = Classes::parse("c.txt", "a<b x\nc&d y\n", &labels).unwrap();
    let embedding = Embedding::new(2, vec![0.0, 1.0, 5.0, -3.0, 2.0, 2.0], labels).unwrap();
    let found = plane(&embedding, 10, 1);
    let mut svg = Vec::new();
    write_svg(&found, &embedding, Some(&classes), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    for part in [
        "<title>a&lt;b</title>",
        "<title>c&amp;d</title>",
        "<title>e</title>",
    ] {
        assert_eq!(svg.matches(part).count(), 1, "{svg}");
    }
    assert_eq!(svg.matches("r=\"2.5\"").count(), 3);
    assert_eq!(svg.matches("r=\"4\"").count(), 2, "a legend of two classes");
    assert!(svg.contains("#cccccc"), "a node without a class");
    for circle in svg.split("<circle cx=\"").skip(1) {
        let x: f64 = circle.split('"').next().unwrap().parse().unwrap();
        assert!((40.0..=760.0).contains(&x), "{x}");
    }
    let few = plane(&embedding, 2, 1);
    assert_eq!((few.nodes.len(), few.points.len()), (2, 2));
}
