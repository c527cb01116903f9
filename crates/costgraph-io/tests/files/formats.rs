//! One small file in each format, read field by field; options; how the format is found.

use crate::{corpus, open, read};
use shardgraph_costgraph::{ErrorKind, Graph};
use shardgraph_costgraph_io::{
    Format, Imported, Pass, ReadOptions, Weights, read_bytes, read_graphs,
};
use std::fs;

fn costs(graph: &Graph, class: usize) -> Vec<u64> {
    (0..graph.n_ops() as u32)
        .map(|op| graph.cost_ns(class, op))
        .collect()
}

fn names(graph: &Graph) -> Vec<&str> {
    (0..graph.n_ops() as u32)
        .map(|op| graph.op_name(op))
        .collect()
}

fn sizes(graph: &Graph) -> Vec<u64> {
    (0..graph.n_tensors() as u32)
        .map(|t| graph.tensor_bytes(t))
        .collect()
}

fn edges(graph: &Graph) -> Vec<(u32, u32, bool)> {
    let mut edges = Vec::new();
    for t in 0..graph.n_tensors() as u32 {
        let consumers = graph.consumers(t).iter();
        edges.extend(consumers.map(|&c| (graph.producer(t), c, graph.is_control(t))));
    }
    edges
}

/// Op 0 has a control dependency before its data; another op's tensor comes in between.
#[test]
fn a_view_in_json_is_of_data_and_not_of_a_control_dependency() {
    for port in ["", ",1"] {
        let text = format!(
            r#"{{"name":"x","ops":[["o","a",1,0,0],["o","b",1,0,0],["o","c",1,0,0]],"persistent":[0.5,1,2],
            "tensors":[[0,0,-1,[1]],[2,100,-1,[1]],[0,1000,-1,[1]],[1,1000,0,[]{port}]],"control":[0]}}"#
        );
        let graph = read("a.jsonl", text.replace('\n', "").as_bytes())
            .unwrap()
            .graph;
        let view = graph.outputs(1).start;
        let base = graph.alias_of(view).unwrap();
        assert_eq!((graph.producer(base), graph.tensor_bytes(base)), (0, 1000));
        assert_eq!(graph.persistent_bytes(0), 1);
    }
}

#[test]
fn cost_graph_text() {
    let Imported { graph, report } = open("tiny.pbtxt").single().unwrap();
    assert_eq!(graph.name(), "tiny");
    assert_eq!(names(&graph), ["reader", "café \"q\"", "end"]);
    assert_eq!(costs(&graph, 0), [5, 8, 0]);
    // Size 0x20, size 040, the control tensor of op 0; the unknown size counts 0; the control tensor of op 1.
    assert_eq!(sizes(&graph), [32, 32, 0, 0, 0]);
    assert_eq!(
        edges(&graph),
        [(0, 1, false), (0, 1, false), (0, 2, true), (1, 2, true)]
    );
    // An alias_input_port that is absent is port 0, here output 1 of the reader.
    assert_eq!(graph.alias_of(3), Some(1));
    assert_eq!(graph.alias_of(0), None);
    assert_eq!((graph.internal_bytes(1), graph.persistent_bytes(1)), (3, 9));
    assert_eq!(report.unknown_sizes, 1);
    assert_eq!((report.implied_views, report.doubtful_views), (1, 0));
    assert_eq!(
        report.warnings(),
        ["1 tensors of unknown size count as 0 bytes"]
    );
}

/// An output that does not say what it is a view of is one of the first input; what looks like no reshape is warned of.
#[test]
fn views_that_nobody_asked_for_are_told() {
    let graph = |first: &str, second: &str| {
        let text = format!(
            "node {{ name: 'a' output_info {{ {first} }} }}
             node {{ name: 'b' id: 1 input_info {{ }} output_info {{ {second} }} }}"
        );
        read("a.pbtxt", text.as_bytes()).unwrap()
    };
    let not_a_view = "size: 8 alias_input_port: -1";
    for (first, second, counts) in [
        (not_a_view, "size: 8", (1, 0)),
        (not_a_view, "size: 8 alias_input_port: 0", (1, 0)),
        (not_a_view, "size: 9", (1, 1)),
        (not_a_view, "size: -1", (1, 0)),
        (not_a_view, "size: 9 alias_input_port: -1", (0, 0)),
        // Nobody says anything: perhaps nobody knew.
        ("size: 8", "size: 8", (1, 1)),
    ] {
        let Imported { graph, report } = graph(first, second);
        let found = (report.implied_views, report.doubtful_views);
        assert_eq!(found, counts, "{first}; {second}");
        let is_view = graph.alias_of(graph.outputs(1).start).is_some();
        assert_eq!(is_view, counts.0 == 1);
        let mut warnings = report.warnings().into_iter();
        let is_warned = warnings.any(|warning| warning.contains("alias_input_port"));
        assert_eq!(is_warned, counts.1 == 1, "{first}; {second}");
    }
}

#[test]
fn cost_graph_units() {
    let options = ReadOptions {
        compute_cost_ns: 1000,
        ..ReadOptions::default()
    };
    let graphs = read_graphs(&corpus("tiny.pbtxt"), &options).unwrap();
    assert_eq!(costs(&graphs.single().unwrap().graph, 0), [5000, 8000, 0]);
}

#[test]
fn cost_graph_binary() {
    // node { name: "a" id: 3 output_info { size: 8 alias: -1 } compute_cost: 300 }, node { input_info { preceding_node: 3 } }
    let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let mut node = b"\x0a\x01a\x18\x03\x2a\x0d\x08\x08\x10".to_vec();
    node.extend(minus_one);
    node.extend(b"\x48\xac\x02");
    let mut bytes = vec![0x0a, node.len() as u8];
    bytes.extend(node);
    bytes.extend(b"\x0a\x04\x22\x02\x08\x03");
    let Imported { graph, .. } = read("a.pb", &bytes).unwrap();
    assert_eq!(names(&graph), ["a", "op1"]);
    assert_eq!(costs(&graph, 0), [300, 0]);
    assert_eq!(edges(&graph), [(0, 1, false)]);
    assert_eq!(sizes(&graph), [8]);
}

#[test]
fn jsonl_holds_many_graphs() {
    let graphs = open("tiny.jsonl");
    assert_eq!((graphs.format(), graphs.remaining()), (Format::Jsonl, 2));
    let all: Vec<Imported> = graphs.map(Result::unwrap).collect();
    let first = &all[0].graph;
    assert_eq!(first.name(), "first");
    assert_eq!(first.op_kind(2), "view");
    assert_eq!(first.internal_bytes(1), 64);
    // The view is of op 1's second output, the one that op 2 consumes.
    assert_eq!(first.alias_of(3), Some(2));
    let second = &all[1].graph;
    assert_eq!(names(second), ["left", "right"]);
    assert_eq!(
        (costs(second, 0), costs(second, 1)),
        (vec![2, 2], vec![3, 4])
    );
    assert_eq!(edges(second), [(0, 1, false), (0, 1, true)]);
    assert_eq!(second.persistent_bytes(1), 32);
    assert_eq!(all[1].report.devices, Some(2));
    assert_eq!(all[1].report.memory_bytes, Some(1024));
    assert_eq!(open("tiny.jsonl").nth_graph(1).unwrap(), all[1]);
    let message = open("tiny.jsonl").nth_graph(2).unwrap_err().to_string();
    assert!(
        message.ends_with("there is no graph 2; the file holds 2"),
        "{message}"
    );
    let error = open("tiny.jsonl").single().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.message().contains("holds 2 graphs"), "{error}");
}

#[test]
fn pipedream() {
    let Imported { graph, .. } = open("tiny.pipedream.txt").single().unwrap();
    assert_eq!(names(&graph), ["node1", "node2", "node3"]);
    assert_eq!(graph.op_kind(1), "Conv2d");
    assert_eq!(costs(&graph, 0), [500_000, 4_000_000, 10_000]);
    assert_eq!(sizes(&graph), [4096, 1024, 1024]);
    assert_eq!(graph.persistent_bytes(1), 896);
    assert_eq!(edges(&graph), [(0, 1, false), (0, 2, false), (1, 2, false)]);
    let options = ReadOptions {
        pass: Pass::Forward,
        ..ReadOptions::default()
    };
    let forward = read_graphs(&corpus("tiny.pipedream.txt"), &options).unwrap();
    let forward = forward.single().unwrap().graph;
    assert_eq!(costs(&forward, 0), [500_000, 1_250_000, 10_000]);
}

#[test]
fn msr() {
    let Imported { graph, report } = open("tiny.msr.json").single().unwrap();
    assert_eq!(names(&graph), ["conv", "load", "#9"]);
    assert_eq!(costs(&graph, 0), [696_000, 250_000, 500_000]);
    assert_eq!(costs(&graph, 1), [6_960_000, 250_000, 1_000_000]);
    // One tensor for all edges out of a node, of the largest size; 1.953125 ms at 2 GiB/s are 4 MiB and 304 bytes.
    assert_eq!(sizes(&graph), [4_194_304, 2048]);
    assert_eq!(edges(&graph), [(0, 2, false), (1, 0, false), (1, 2, false)]);
    assert_eq!(graph.persistent_bytes(0), 4096);
    assert_eq!((report.devices, report.cpus), (Some(2), Some(4)));
    assert_eq!(report.memory_bytes, Some(1 << 20));
    assert_eq!(report.ops_without_accelerator, 1);
}

#[test]
fn onnx_models() {
    for (name, n_nodes, cost_us) in [
        ("light_bvlc_alexnet.onnx", 40, 453),
        ("light_squeezenet.onnx", 105, 419),
        ("light_zfnet512.onnx", 38, 675),
    ] {
        let Imported { graph, report } = open(name).single().unwrap();
        let ops = 0..graph.n_ops() as u32;
        let is_node = |&op: &u32| !matches!(graph.op_kind(op), "Input" | "Initializer");
        assert_eq!(ops.filter(is_node).count(), n_nodes, "{name}");
        assert_eq!(
            costs(&graph, 0).iter().sum::<u64>() / 1000,
            cost_us,
            "{name}"
        );
        assert_eq!(report.warnings(), [""; 0], "{name}");
        let options = ReadOptions {
            weights: Weights::Persistent,
            ..ReadOptions::default()
        };
        let graphs = read_graphs(&corpus(name), &options).unwrap();
        let inside = graphs.single().unwrap().graph;
        let total = |graph: &Graph| {
            let ops = 0..graph.n_ops() as u32;
            sizes(graph).iter().sum::<u64>() + ops.map(|op| graph.persistent_bytes(op)).sum::<u64>()
        };
        assert_eq!(total(&inside), total(&graph), "{name}: no byte is lost");
        assert!(inside.n_ops() < graph.n_ops(), "{name}");
    }
}

/// VGG16's first convolution as the roofline has it: 64 x 27 products for each of 224 x 224 outputs.
#[test]
fn a_convolution_costs_its_flops() {
    let (n, flops) = (1u64, 2 * 64 * 27 * 224 * 224);
    let bytes = 4 * n * (3 * 224 * 224 + 64 * 27 + 64 + 64 * 224 * 224);
    let expected = 5_000
        + (bytes as f64 / 900.0)
            .max(f64::from(flops) / 15_700.0)
            .round() as u64;
    let model = crate::onnx_model::Model::new(13)
        .input("x", 1, &[1, 3, 224, 224])
        .input("w", 1, &[64, 3, 3, 3])
        .input("b", 1, &[64])
        .node("Conv", &["x", "w", "b"], &["y"])
        .ints("pads", &[1, 1, 1, 1])
        .encode();
    let graph = read("conv.onnx", &model).unwrap().graph;
    assert_eq!(costs(&graph, 0), [0, 0, 0, expected]);
}

#[test]
fn compression_is_found_by_content() {
    let plain = fs::read(corpus("tiny.jsonl")).unwrap();
    let gzip = {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&plain).unwrap();
        packer.finish().unwrap()
    };
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    for (name, bytes) in [
        ("a.jsonl", &plain),
        ("a.jsonl.gz", &gzip),
        ("a.jsonl.zst", &zstd),
        ("a", &gzip),
    ] {
        let graphs = read_bytes(name, bytes, &ReadOptions::default()).unwrap();
        assert_eq!(graphs.count(), 2, "{name}");
    }
    let error = read_bytes("a.jsonl.gz", &plain, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compression);
}

#[test]
fn the_option_beats_the_name_and_the_name_beats_the_content() {
    let text = fs::read(corpus("tiny.pbtxt")).unwrap();
    let options = ReadOptions {
        format: Some(Format::CostGraphText),
        ..ReadOptions::default()
    };
    let graphs = read_bytes("tiny.onnx", &text, &options).unwrap();
    assert_eq!(graphs.single().unwrap().graph.n_ops(), 3);
    assert_eq!(
        read("tiny.onnx", &text).unwrap_err().kind(),
        ErrorKind::Syntax
    );
    assert_eq!(
        read("tiny", &text).unwrap().report.format,
        Format::CostGraphText
    );
    for (name, format) in [
        ("tiny.pipedream.txt", Format::PipeDream),
        ("tiny.msr.json", Format::Msr),
        ("VGG16_fwd.pb.gz", Format::CostGraph),
        ("light_zfnet512.onnx", Format::Onnx),
    ] {
        let bytes = fs::read(corpus(name)).unwrap();
        let graphs = read_bytes("no name", &bytes, &ReadOptions::default()).unwrap();
        assert_eq!(graphs.format(), format, "{name}");
    }
}
