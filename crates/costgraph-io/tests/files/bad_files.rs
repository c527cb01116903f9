//! Files that are wrong in one place each: the kind of the error, and a message that names the place and what would be right.

use crate::{
    onnx_model::{bytes, number, varint},
    read,
};
use shardgraph_costgraph::ErrorKind::{self, Argument, Graph, OutOfRange, Syntax, TooLarge};
use shardgraph_costgraph_io::{ReadOptions, read_bytes};

/// A file's content, the kind of the error, and the message behind the file's name.
pub(crate) type Bad<C> = (C, ErrorKind, &'static str);

pub(crate) fn check(name: &str, content: &[u8], kind: ErrorKind, message: &str) {
    let error = read(name, content).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.kind(), kind, "{message}");
}

const TEXT: &[Bad<&str>] = &[
    (
        "nodes { }",
        Syntax,
        "a.pbtxt:1:1: unknown field `nodes`; a graph has node and cost",
    ),
    (
        "node {\n  id: 1\n",
        Syntax,
        "a.pbtxt:3:1: expected `}` to end the message, found the end of the text",
    ),
    (
        "node { id: one }",
        Syntax,
        "a.pbtxt:1:12: expected an integer, found `one`",
    ),
    (
        "node { id: 12x }",
        Syntax,
        "a.pbtxt:1:12: expected an integer, found `12x`",
    ),
    (
        "node { id: 3000000000 }",
        OutOfRange,
        "a.pbtxt:1:12: 3000000000 is not a number from -2^31 to 2^31 - 1",
    ),
    (
        "node { compute_cost: 99999999999999999999 }",
        OutOfRange,
        "a.pbtxt:1:22: 99999999999999999999 is not a number from -2^63 to 2^63 - 1",
    ),
    (
        "node { name: \"a }",
        Syntax,
        "a.pbtxt:1:18: expected the quote that ends the string, found the end of the text",
    ),
    (
        "node { name: \"\\q\" }",
        Syntax,
        "a.pbtxt:1:16: expected an escape such as \\n, \\\", \\101 or \\x41, found `q\"`",
    ),
    (
        "node { name: \"\\377\" }",
        Syntax,
        "a.pbtxt:1:14: expected a string in UTF-8",
    ),
    (
        "node { name: }",
        Syntax,
        "a.pbtxt:1:14: expected a string in quotes, found `}`",
    ),
    (
        "node { control_input: [1 2] }",
        Syntax,
        "a.pbtxt:1:26: expected `,` or `]`, found `2]`",
    ),
    (
        "node {\n compute_cost: -5 }",
        OutOfRange,
        "a.pbtxt:1:1: the compute_cost of node `` is -5; it must be a number from 0 to 2^62",
    ),
    (
        "node { name: 'a' output_info { size: -2 alias_input_port: -1 } }",
        OutOfRange,
        "a.pbtxt:1:1: the output size of node `a` is -2; it must be a number from 0 to 2^62",
    ),
    (
        "node { name: 'a' }\nnode { name: 'b' }",
        Graph,
        "a.pbtxt:2:1: the id 0 of node `b` is already that of node `a`; ids must be unique (one that is absent is 0)",
    ),
    (
        "node { name: 'a' input_info { preceding_node: 4 } }",
        Graph,
        "a.pbtxt:1:1: node `a` has a preceding_node from the id 4, but no node has that id",
    ),
    (
        "node { name: 'a' control_input: 4 }",
        Graph,
        "a.pbtxt:1:1: node `a` has a control_input from the id 4, but no node has that id",
    ),
    (
        "node { name: 'a' }\nnode { id: 1 name: 'b' input_info { preceding_port: 1 } }",
        Graph,
        "a.pbtxt:2:1: node `b` takes port 1 of node `a`, which has 0 outputs",
    ),
    (
        "node { name: 'a' output_info { alias_input_port: 2 } }",
        Graph,
        "a.pbtxt:1:1: an output of node `a` has alias_input_port 2, but the node has 0 inputs",
    ),
    (
        "node { name: 'a' control_input: 1 }\nnode { name: 'b' id: 1 control_input: 0 }",
        Graph,
        "a.pbtxt: the graph has a cycle: `a` -> `b` -> `a`",
    ),
    (
        "node { name: 'a' }\nnode { name: 'a' id: 1 }",
        Graph,
        "a.pbtxt: ops 0 and 1 are both called `a`; names must be unique",
    ),
    (
        "# nothing\n",
        Graph,
        "a.pbtxt: the graph has no ops; at least one is needed",
    ),
];

const UNKNOWN_FIELD: &str = "a.pbtxt:1:8: unknown field `cost`; a node has name, device, id, input_info, output_info, \
    temporary_memory_size, is_final, control_input, compute_cost, compute_time, memory_time, host_temp_memory_size, \
    device_temp_memory_size, persistent_memory_size, device_persistent_memory_size, inaccurate";

#[test]
fn cost_graph_text() {
    check("a.pbtxt", b"node { cost: 5 }", Syntax, UNKNOWN_FIELD);
    for &(text, kind, message) in TEXT {
        check("a.pbtxt", text.as_bytes(), kind, message);
    }
}

const BINARY: &[Bad<&[u8]>] = &[
    (
        b"\x0a\x05\x0a\x01a",
        Syntax,
        "a.pb: byte 0: a field of 5 bytes begins here, but only 3 follow: the file is cut short or no protobuf",
    ),
    (
        b"\x0a",
        Syntax,
        "a.pb: byte 0: a number ends early: the file is cut short",
    ),
    (
        b"\x0b",
        Syntax,
        "a.pb: byte 0: wire type 3 of field 1; expected 0, 1, 2 or 5",
    ),
    (
        b"\x02\x00",
        Syntax,
        "a.pb: byte 0: field number 0; the first possible one is 1",
    ),
    (
        &[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
        Syntax,
        "a.pb: byte 0: a number of more than ten bytes; this is no protobuf",
    ),
    (
        b"\x08\x07",
        Syntax,
        "a.pb: field 1 at the outermost level; a CostGraphDef has nodes (1) and costs (2) only",
    ),
    (
        b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b",
        Graph,
        "a.pb: byte 7: the id 0 of node `b` is already that of node `a`; ids must be unique (one that is absent is 0)",
    ),
];

#[test]
fn cost_graph_binary() {
    for &(bytes, kind, message) in BINARY {
        check("a.pb", bytes, kind, message);
    }
    let error = read("a.pb", b"\x0a\x04\x0a\x03ab").unwrap_err();
    assert_eq!(error.kind(), Syntax);
    let not_utf8 = read("a.pb", b"\x0a\x03\x0a\x01\xff").unwrap_err();
    assert!(
        not_utf8
            .to_string()
            .starts_with("a.pb: byte 2: this is no node: "),
        "{not_utf8}"
    );
}

/// A line with these ops and tensors.
fn line(ops: &str, tensors: &str, more: &str) -> String {
    format!("{{\"name\":\"x\",\"ops\":[{ops}],\"tensors\":[{tensors}]{more}}}")
}

const TWO: &str = "[\"op\",\"a\",1,0,0],[\"op\",\"b\",2,0,0]";

/// Ops, tensors and more of a line.
const LINES: &[Bad<[&str; 3]>] = &[
    (
        ["[\"op\",\"a\",-1,0,0]", "", ""],
        OutOfRange,
        "a.jsonl:1: the cost of op 0 (`a`) is -1; it must be a number from 0 to 2^62",
    ),
    (
        ["[\"op\",\"a\",1,0,9e18]", "", ""],
        OutOfRange,
        "a.jsonl:1: the internal size of op 0 (`a`) is 9000000000000000000; it must be a number from 0 to 2^62",
    ),
    (
        [TWO, "[2,8,-1,[1]]", ""],
        Graph,
        "a.jsonl:1: tensor 0 is produced by op 2, which does not exist; the ops are 0..2",
    ),
    (
        [TWO, "[0,8,-1,[5]]", ""],
        Graph,
        "a.jsonl:1: tensor 0 is consumed by op 5, which does not exist; the ops are 0..2",
    ),
    (
        [TWO, "[0,8,7,[1]]", ""],
        Graph,
        "a.jsonl:1: tensor 0 is a view of an output of op 7, which does not exist; the ops are 0..2, -1 is none",
    ),
    (
        [TWO, "[0,8,-1,[]],[1,8,0,[]]", ""],
        Graph,
        "a.jsonl:1: tensor 1 is a view of an output of op 0, but its producer, op 1, consumes none that holds data",
    ),
    (
        [TWO, "[0,8,-1,[1]],[1,8,0,[],1]", ""],
        Graph,
        "a.jsonl:1: tensor 1 is a view of output 1 of op 0, which does not exist or is a control dependency",
    ),
    (
        [TWO, "[0,0,-1,[1]],[1,8,0,[]]", ",\"control\":[0]"],
        Graph,
        "a.jsonl:1: tensor 1 is a view of an output of op 0, but its producer, op 1, consumes none that holds data",
    ),
    (
        [TWO, "[0,0,-1,[1]],[1,8,0,[],0]", ",\"control\":[0]"],
        Graph,
        "a.jsonl:1: tensor 1 is a view of output 0 of op 0, which does not exist or is a control dependency",
    ),
    (
        [TWO, "[0,7,-1,[1]]", ",\"control\":[0]"],
        Graph,
        "a.jsonl:1: tensor 0 is a control dependency; its size must be 0 and its `alias_of` -1",
    ),
    (
        [TWO, "[0,0,3,[1]]", ",\"control\":[0]"],
        Graph,
        "a.jsonl:1: tensor 0 is a control dependency; its size must be 0 and its `alias_of` -1",
    ),
    (
        [TWO, "[0,-7,-1,[1]]", ",\"control\":[0]"],
        OutOfRange,
        "a.jsonl:1: the size of tensor 0 is -7; it must be a number from 0 to 2^62",
    ),
    (
        [TWO, "", ",\"persistent\":[1,-1]"],
        OutOfRange,
        "a.jsonl:1: the persistent size of op 1 (`b`) is -1; it must be a number from 0 to 2^62",
    ),
    (
        [TWO, "", ",\"o\":3"],
        Graph,
        "a.jsonl:1: `o` is 3, but there are 2 ops",
    ),
    (
        [TWO, "[0,8,-1,[1]]", ",\"e\":2"],
        Graph,
        "a.jsonl:1: `e` is 2, but there are 1 (tensor, consumer) pairs",
    ),
    (
        [TWO, "", ",\"names\":[\"a\"]"],
        Graph,
        "a.jsonl:1: `names` has 1 entries for 2 ops; one for each op is needed",
    ),
    (
        [TWO, "", ",\"costs\":[[]]"],
        Graph,
        "a.jsonl:1: `costs` has 0 entries for 2 ops; one for each op is needed",
    ),
    (
        [TWO, "", ",\"control\":[3]"],
        Graph,
        "a.jsonl:1: `control` names tensor 3, which does not exist",
    ),
    (
        [TWO, "[0,8,-1,[1]],[1,8,-1,[0]]", ""],
        Graph,
        "a.jsonl:1: the graph has a cycle: `op0` -> `op1` -> `op0`",
    ),
    (
        ["", "", ""],
        Graph,
        "a.jsonl:1: the graph has no ops; at least one is needed",
    ),
];

const BROKEN_LINES: &[Bad<&str>] = &[
    (
        "{\"name\":\"x\"}",
        Syntax,
        "a.jsonl:1:12: missing field `ops`",
    ),
    (
        "\n{\"name\":",
        Syntax,
        "a.jsonl:2:8: EOF while parsing a value",
    ),
    ("", Syntax, "a.jsonl: the file holds no graph"),
];

#[test]
fn json_lines() {
    for &([ops, tensors, more], kind, message) in LINES {
        let text = line(ops, tensors, more);
        check("a.jsonl", text.as_bytes(), kind, message);
    }
    for &(text, kind, message) in BROKEN_LINES {
        check("a.jsonl", text.as_bytes(), kind, message);
    }
    // NaN and infinity are no JSON.
    for number in ["NaN", "1e999"] {
        let text = line(&format!("[\"op\",\"a\",{number},0,0]"), "", "");
        assert_eq!(
            read("a.jsonl", text.as_bytes()).unwrap_err().kind(),
            Syntax,
            "{number}"
        );
    }
}

const NODE: &str = "a -- X -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=3.0, parameter_size=4.0";

/// `NODE` stands for the line above, `NODE|a|b` for the same with every a replaced by b.
const PROFILES: &[Bad<&str>] = &[
    (
        "a -- X -- nothing",
        Syntax,
        "g.txt:1: expected a node, `name -- description -- forward_compute_time=..., ...`, or an edge after a tab",
    ),
    (
        "NODE|1.0|fast",
        Syntax,
        "g.txt:1: expected a number after `forward_compute_time=`, found `fast`",
    ),
    (
        "NODE|1.0|NaN",
        OutOfRange,
        "g.txt:1: forward_compute_time (in ns) is NaN; it must be a number from 0 to 2^62",
    ),
    (
        "NODE|1.0|-1.0",
        OutOfRange,
        "g.txt:1: forward_compute_time (in ns) is -1000000; it must be a number from 0 to 2^62",
    ),
    (
        "NODE|3.0|[8.0; -1.0]",
        OutOfRange,
        "g.txt:1: an activation size is -1; it must be a number from 0 to 2^62",
    ),
    (
        "NODE|backward|back",
        Syntax,
        "g.txt:1: expected `backward_compute_time=`, found `back_compute_time=2.0`",
    ),
    (
        "NODE, extra=1",
        Syntax,
        "g.txt:1: expected the end of the line after parameter_size, found `extra=1`",
    ),
    (
        "NODE\nNODE",
        Graph,
        "g.txt:2: a second node `a`; names must be unique",
    ),
    (
        "NODE\n\ta -- b",
        Graph,
        "g.txt:2:2: an edge of the node `b`, which has no line",
    ),
    (
        "NODE\n\ta b",
        Syntax,
        "g.txt:2: expected an edge, `node1 -- node2` after a tab",
    ),
    (
        "NODE\n\ta -- a",
        Graph,
        "g.txt: the graph has a cycle: `a` -> `a`",
    ),
];

#[test]
fn pipedream() {
    for &(text, kind, message) in PROFILES {
        let text = match text.split('|').collect::<Vec<_>>()[..] {
            ["NODE", from, to] => NODE.replace(from, to),
            _ => text.replace("NODE", NODE),
        };
        check("g.txt", text.as_bytes(), kind, message);
    }
}

#[test]
fn msr() {
    let node = |id: i64| format!("{{\"id\":{id},\"cpuLatency\":1,\"fpgaLatency\":2,\"size\":3}}");
    let file = |nodes: &str, edges: &str| format!("{{\"nodes\":[{nodes}],\n\"edges\":[{edges}]}}");
    let both = node(1) + "," + &node(2);
    for (text, kind, message) in [
        (
            file(&node(1).replace(":2", ":-2"), ""),
            OutOfRange,
            "m.json: the fpgaLatency (in ns) of node 1 is -2000000; it must be a number from 0 to 2^62",
        ),
        (
            file(&(node(1) + "," + &node(1)), ""),
            Graph,
            "m.json: two nodes have the id 1; ids must be unique",
        ),
        (
            file(&both, "{\"sourceId\":1,\"destId\":9,\"cost\":1}"),
            Graph,
            "m.json: edge 0 has the destId 9, but no node has that id",
        ),
        (
            file(&both, "{\"sourceId\":1,\"destId\":2}"),
            Graph,
            "m.json: the edge 1 -> 2 has neither `cost` nor `size`; one is needed",
        ),
        (
            file("{\"id\":1}", ""),
            Syntax,
            "m.json:1:18: missing field `cpuLatency`",
        ),
        (
            file(&both, "{]"),
            Syntax,
            "m.json:2:11: key must be a string",
        ),
    ] {
        check("m.json", text.as_bytes(), kind, message);
    }
}

#[test]
fn cost_graphs_are_no_memory_bombs_either() {
    let error = read("a.pb", &bytes(1, &b"\x2a\x00".repeat((2 << 20) + 1))).unwrap_err();
    let message = "a.pb: byte 5: a node of 4194306 bytes; at most 4194304 are possible";
    assert_eq!(error.to_string(), message);
    let outputs = b"\x2a\x00".repeat((2 << 20) - 8);
    let node = |id: i64| bytes(1, &[number(3, id), outputs.clone()].concat());
    let five: Vec<u8> = (0..5).flat_map(node).collect();
    let error = read("a.pb", &five).unwrap_err();
    assert!(
        error
            .message()
            .ends_with("the graph has more than 8388608 nodes, inputs and outputs"),
        "{error}"
    );
    assert_eq!(error.kind(), TooLarge);
}

#[test]
fn not_one_of_the_formats() {
    let names = "cost-graph, cost-graph-text, onnx, jsonl, pipedream, msr, stg";
    check(
        "notes.txt",
        b"hello\n",
        Syntax,
        &format!("notes.txt: this looks like none of the formats; name one of {names}"),
    );
    check(
        "empty",
        b"",
        Syntax,
        &format!("empty: this looks like none of the formats; name one of {names}"),
    );
    let error = "tflite"
        .parse::<shardgraph_costgraph_io::Format>()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("unknown graph format `tflite`: expected one of {names}")
    );
    assert_eq!(error.kind(), Argument);
    let folder = shardgraph_costgraph_io::read_graphs(
        env!("CARGO_MANIFEST_DIR").as_ref(),
        &ReadOptions::default(),
    );
    assert!(
        folder
            .unwrap_err()
            .message()
            .starts_with("this is a folder")
    );
    let absent =
        shardgraph_costgraph_io::read_graphs("no such file".as_ref(), &ReadOptions::default())
            .unwrap_err();
    assert!(
        absent
            .to_string()
            .starts_with("no such file: cannot open: "),
        "{absent}"
    );
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("node {{ output_info {{ shape {} ", "{ a ".repeat(100_000));
    let error = read("a.pbtxt", text.as_bytes()).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("expected messages nested less than 100 deep"),
        "{error}"
    );
    let lists = format!("node {{ device: {}", "[".repeat(100_000));
    assert_eq!(
        read("a.pbtxt", lists.as_bytes()).unwrap_err().kind(),
        Syntax
    );
    for (name, key) in [
        ("a.jsonl", "{\"name\":\"x\",\"ops\":"),
        ("m.json", "{\"nodes\": [], \"edges\": [], \"x\":"),
    ] {
        let json = format!("{key}{}", "[".repeat(100_000));
        assert_eq!(
            read(name, json.as_bytes()).unwrap_err().kind(),
            Syntax,
            "{name}"
        );
    }
}

#[test]
fn packed_bombs_and_large_files_are_refused() {
    use std::io::Write;
    let zeros = vec![b'\n'; 100 << 20];
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&zeros).unwrap();
    let gzip = packer.finish().unwrap();
    let zstd = zstd::encode_all(zeros.as_slice(), 1).unwrap();
    for packed in [&gzip, &zstd] {
        let error = read("a.jsonl", packed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compression);
        assert!(
            error.message().contains("more than 500 bytes come out"),
            "{error}"
        );
    }
    let options = ReadOptions {
        max_bytes: 1000,
        ..ReadOptions::default()
    };
    let error = read_bytes("a.jsonl", &zeros[..1001], &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.jsonl: more than 1000 bytes (unpacked); the option max_bytes allows no more"
    );
    assert_eq!(error.kind(), TooLarge);
    assert!(read_bytes("a.jsonl", &zeros[..1000], &options).is_ok());
    let error = read("a.jsonl", &gzip[..gzip.len() - 9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compression);
    assert_eq!(varint(300), [0xac, 2]);
}
