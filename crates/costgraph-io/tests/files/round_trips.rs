//! What is written is read back as an equal graph.

use crate::read;
use proptest::prelude::*;
use shardgraph_costgraph::{
    ErrorKind, Graph, GraphBuilder, OpSpec, TensorSpec,
    generate::{Synthetic, noisy_copy, synthetic},
};
use shardgraph_costgraph_io::{write_cost_graph_text, write_jsonl};

fn through_text(graph: &Graph) -> Graph {
    let mut text = Vec::new();
    write_cost_graph_text(graph, &mut text).unwrap();
    read(&format!("{}.pbtxt", graph.name()), &text)
        .unwrap()
        .graph
}

fn through_jsonl(graph: &Graph) -> Graph {
    let mut line = Vec::new();
    write_jsonl(graph, &mut line).unwrap();
    assert_eq!(
        line.iter().filter(|&&b| b == b'\n').count(),
        1,
        "one graph is one line"
    );
    read("a.jsonl", &line).unwrap().graph
}

#[test]
fn synthetic_graphs() {
    for index in 0..40 {
        let graph = synthetic(&Synthetic::default(), 3, index).unwrap();
        assert_eq!(through_text(&graph), graph);
        assert_eq!(through_jsonl(&graph), graph);
        let copy = noisy_copy(&graph, 3, index).unwrap();
        assert_eq!(through_jsonl(&copy), copy);
    }
}

/// Random numbers of an op: cost, scratch, persistent memory, and a text for names and kinds.
type RawOp = (u32, u32, u16, String);

/// A graph from random numbers: several outputs, views of views, control tensors, names to escape.
fn any_graph(kinds: bool, n_classes: u64) -> impl Strategy<Value = Graph> {
    let text = "[a-z\"\\\\ é\n\t\u{1}0-9]{0,4}";
    let op = (any::<u32>(), any::<u32>(), any::<u16>(), text);
    let ops = proptest::collection::vec(op, 1..40);
    let picks = proptest::collection::vec(any::<u32>(), 200);
    (ops, picks).prop_map(move |(ops, picks)| graph(ops, &picks, kinds, n_classes))
}

fn graph(ops: Vec<RawOp>, picks: &[u32], kinds: bool, n_classes: u64) -> Graph {
    let n = ops.len() as u32;
    let mut picks = picks.iter().cycle();
    let mut pick = move |n: u32| picks.next().unwrap() % n.max(1);
    let mut builder = GraphBuilder::new("any");
    for (i, (cost, internal, persistent, text)) in ops.into_iter().enumerate() {
        builder.op(OpSpec {
            name: format!("{text}.{i}"),
            kind: if kinds { text } else { String::new() },
            cost_ns: (0..n_classes)
                .map(|class| u64::from(cost) + class)
                .collect(),
            internal_bytes: internal.into(),
            persistent_bytes: persistent.into(),
            weights: Vec::new(),
        });
    }
    let mut made: Vec<(u32, TensorSpec)> = Vec::new();
    for op in 0..n {
        for _ in 0..pick(4) {
            let spec = any_tensor(op, n, &made, &mut pick);
            made.push((builder.tensor(spec.clone()), spec));
        }
        if op + 1 < n && pick(3) == 0 {
            builder.control(op, op + 1 + pick(n - op - 1));
        }
    }
    builder.build().unwrap()
}

fn any_tensor(
    producer: u32,
    n: u32,
    made: &[(u32, TensorSpec)],
    pick: &mut dyn FnMut(u32) -> u32,
) -> TensorSpec {
    let taken = made.iter().filter(|(_, t)| t.consumers.contains(&producer));
    let taken: Vec<u32> = taken.map(|&(number, _)| number).collect();
    let base = pick(2 * taken.len() as u32 + 1) as usize;
    let consumers = (0..pick(4)).map(|_| producer + 1 + pick(n));
    TensorSpec {
        producer,
        alias_of: taken.get(base).copied(),
        consumers: consumers.filter(|&c| c < n).collect(),
        bytes: pick(1 << 30).into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_graph_goes_through_text(graph in any_graph(false, 1)) {
        prop_assert_eq!(through_text(&graph), graph);
    }

    #[test]
    fn any_graph_goes_through_json(graph in any_graph(true, 1)) {
        prop_assert_eq!(through_jsonl(&graph), graph);
    }

    #[test]
    fn several_cost_classes_go_through_json(graph in any_graph(true, 3)) {
        prop_assert_eq!(through_jsonl(&graph), graph);
    }
}

#[test]
fn text_has_room_for_one_cost_class() {
    let mut builder = GraphBuilder::new("two classes");
    builder.op(OpSpec {
        cost_ns: vec![1, 2],
        ..OpSpec::new("a", 0)
    });
    let error = write_cost_graph_text(&builder.build().unwrap(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "a graph with 2 cost classes; CostGraphDef has room for one"
    );
}

/// A writer that takes so many bytes and then no more.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(std::io::Error::other("the disk is full")),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_happens() {
    let graph = synthetic(&Synthetic::default(), 1, 0).unwrap();
    for write in [write_cost_graph_text, write_jsonl] {
        let mut whole = Vec::new();
        write(&graph, &mut whole).unwrap();
        for room in (0..whole.len()).step_by(97) {
            let error = write(&graph, &mut Full(room)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(
                error.to_string(),
                "cannot write the graph: the disk is full"
            );
        }
        write(&graph, &mut Full(whole.len())).unwrap();
    }
}
