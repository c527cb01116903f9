//! Graphs whose communities are known, files that are wrong, and the picture.

use shardgraph_device::Device;
use shardgraph_random::KeyedRng;

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

#[test]
fn communities_of_a_graph_are_found() {
    let mut stream = KeyedRng::new(2, "test", 0);
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
        learning_rate: Some(0.1),
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
fn names_and_classes_may_have_blanks() {
    let labels = NodeLabels::new(["Anna Lee", "b", "c"]);
    let text = "name,class\nAnna Lee,Computer Science\n\"b\"\tComputer Science\tArt\nc x,y\n";
    let classes = Classes::parse("c.csv", text, &labels).unwrap();
    assert_eq!(classes.names(), ["Computer Science", "Art", "x", "y"]);
    let own = [(0, vec![0]), (1, vec![0, 1]), (2, vec![2, 3])];
    assert_eq!(classes.of_nodes(), own);
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
    let svg = svg(&found, &embedding, Some(&classes));
    for part in [
        "<title>a&lt;b</title>",
        "<title>c&amp;d</title>",
        "<title>e</title>",
    ] {
        assert_eq!(svg.matches(part).count(), 1, "{svg}");
    }
    assert_eq!(svg.matches("r=\"2.5\"").count(), 3);
    assert_eq!(svg.matches(">c&amp;d</text>").count(), 1);
    for name in ["x", "y", "no class"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name} in {svg}");
    }
    let few = plane(&embedding, 2, 1);
    assert_eq!((few.nodes.len(), few.points.len()), (2, 2));
}
