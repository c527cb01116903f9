//! ONNX files that are wrong in one place each.

use crate::bad_files::{Bad, check};
use crate::onnx_model::{Model, bytes, int_tensor, number};
use crate::read;
use shardgraph_costgraph::ErrorKind::{Graph, Syntax, TooLarge, Unsupported};

fn relu(input: &str) -> Model {
    let model = Model::new(13).input("x", 1, &[4]);
    model.node("Relu", &[input], &["y"])
}

#[test]
fn onnx_nodes() {
    for input in ["z", "y"] {
        let message = format!(
            "a.onnx: byte 6: node `` (Relu) uses `{input}`, which no input, weight or earlier node makes; nodes must be in topological order"
        );
        check("a.onnx", &relu(input).encode(), Graph, &message);
    }
    let twice = relu("x").node("Abs", &["x"], &["y"]).encode();
    let message =
        "a.onnx: byte 20: the value `y` is made twice, first by `Relu#1`; names must be unique";
    check("a.onnx", &twice, Graph, message);
}

/// The content of a graph.
const GRAPHS: &[Bad<&[u8]>] = &[
    (
        b"",
        Graph,
        "a.onnx: the graph has no ops; at least one is needed",
    ),
    (
        b"\x0a\x00",
        Syntax,
        "a.onnx: byte 6: a node without op_type",
    ),
    (
        b"\x2a\x00",
        Syntax,
        "a.onnx: byte 6: an input or a weight without a name",
    ),
];

#[test]
fn onnx_graphs() {
    let message = "a.onnx: the model has no graph (field 7); is this an ONNX model?";
    check("a.onnx", &number(1, 8), Syntax, message);
    let model = |graph: &[u8]| [number(1, 8), bytes(7, graph)].concat();
    for &(graph, kind, message) in GRAPHS {
        check("a.onnx", &model(graph), kind, message);
    }
    let error = read("a.onnx", &model(b"\x0a\x02\x20\x01")).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("a.onnx: byte 6: this is no node: "),
        "{message}"
    );
}

#[test]
fn onnx_shapes() {
    let n_unknown = |dims: &[i64]| {
        let model = relu("x").weight(int_tensor("w", dims, &[]));
        read("a.onnx", &model.encode())
            .unwrap()
            .report
            .unknown_sizes
    };
    assert_eq!(
        n_unknown(&[1 << 40, 1 << 40]),
        1,
        "2^80 elements have no size"
    );
    assert_eq!(n_unknown(&[-4]), 1, "a negative dimension is no shape");
    assert_eq!(n_unknown(&[1 << 30, 1 << 28]), 0);
    let large = |name| int_tensor(name, &[1 << 30, 1 << 28], &[]);
    let model = relu("x").weight(large("w")).weight(large("v"));
    assert_eq!(
        read("a.onnx", &model.encode()).unwrap_err().kind(),
        TooLarge
    );
}

#[test]
fn onnx_is_not_a_memory_bomb() {
    let node = |n: usize| {
        let attributes = bytes(5, b"").repeat(n);
        let node = [bytes(4, b"Relu"), attributes].concat();
        [number(1, 8), bytes(7, &bytes(1, &node))].concat()
    };
    assert!(read("a.onnx", &node(4096)).is_ok());
    let error = read("a.onnx", &node(4097)).unwrap_err();
    assert_eq!(error.kind(), TooLarge);
    assert!(
        error
            .message()
            .contains("a node of 4097 attributes and notes; at most 4096"),
        "{error}"
    );
    let ends = [bytes(4, b"Relu"), bytes(2, b"").repeat((1 << 20) + 1)].concat();
    let ends = [number(1, 8), bytes(7, &bytes(1, &ends))].concat();
    let error = read("a.onnx", &ends).unwrap_err();
    assert_eq!(error.kind(), TooLarge);
    let mut model = Model::new(13).node("If", &["x"], &["y"]);
    for _ in 0..40 {
        model = Model::new(13)
            .node("If", &["x"], &["y"])
            .subgraph("then_branch", &model.graph());
    }
    let error = read("a.onnx", &model.input("x", 9, &[]).encode()).unwrap_err();
    assert_eq!(error.kind(), Unsupported);
    assert!(
        error
            .message()
            .ends_with("sub-graphs nested more than 32 deep"),
        "{error}"
    );
}
