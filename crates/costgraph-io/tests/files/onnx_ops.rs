//! Shape inference of ONNX ops, one after the other: sizes of outputs against shapes worked out by hand from the operators' text.

use crate::{
    onnx_model::{Model, int_tensor},
    read,
};
use shardgraph_costgraph_io::{Imported, ReadOptions, read_bytes};

const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// The model's last node puts out tensors of these sizes, in bytes; `None` is unknown.
fn check(what: &str, model: Model, expected: &[Option<u64>]) {
    let Imported { graph, report } = read("op.onnx", &model.encode()).unwrap();
    let last = graph.n_ops() as u32 - 1;
    let found: Vec<u64> = graph.outputs(last).map(|t| graph.tensor_bytes(t)).collect();
    let wanted: Vec<u64> = expected.iter().map(|e| e.unwrap_or(0)).collect();
    assert_eq!(found, wanted, "{what}");
    let n_unknown = expected.iter().filter(|e| e.is_none()).count() as u64;
    assert_eq!(report.unknown_sizes, n_unknown, "{what}");
    assert!(report.assumed_dims.is_empty(), "{what}");
    assert!(
        report.unknown_ops.is_empty(),
        "{what}: {:?}",
        report.unknown_ops
    );
}

fn floats(n: u64) -> Option<u64> {
    Some(4 * n)
}

/// One node on float inputs x, y, z of these shapes.
fn on(opset: i64, op: &str, shapes: &[&[i64]]) -> Model {
    let names = &["x", "y", "z", "u"][..shapes.len()];
    let mut model = Model::new(opset);
    for (name, shape) in names.iter().zip(shapes) {
        model = model.input(name, FLOAT, shape);
    }
    model.node(op, names, &["out"])
}

/// One node on a float input x and known integers.
fn with(opset: i64, op: &str, shape: &[i64], known: &[&[i64]]) -> Model {
    let names = ["a", "b", "c", "d"];
    let mut model = Model::new(opset).input("x", FLOAT, shape);
    let mut inputs = vec!["x"];
    for (name, values) in names.iter().zip(known) {
        model = model.known(name, values);
        inputs.push(name);
    }
    model.node(op, &inputs, &["out"])
}

#[test]
fn windows() {
    let x: &[i64] = &[2, 3, 11, 9];
    let w: &[i64] = &[8, 3, 3, 3];
    check("valid", on(11, "Conv", &[x, w]), &[floats(2 * 8 * 9 * 7)]);
    let padded = on(11, "Conv", &[x, w])
        .ints("pads", &[1, 1, 1, 1])
        .ints("strides", &[2, 2]);
    check("padded, strided", padded, &[floats(2 * 8 * 6 * 5)]);
    let dilated = on(11, "Conv", &[x, w]).ints("dilations", &[2, 3]);
    check("dilated", dilated, &[floats(2 * 8 * 7 * 3)]);
    let same = on(11, "Conv", &[x, w])
        .text("auto_pad", "SAME_UPPER")
        .ints("strides", &[2, 2]);
    check("same", same, &[floats(2 * 8 * 6 * 5)]);
    let depthwise = on(11, "Conv", &[x, &[3, 1, 5, 5]]).int("group", 3);
    check("depthwise", depthwise, &[floats(2 * 3 * 7 * 5)]);
    check("too large", on(11, "Conv", &[x, &[8, 3, 12, 3]]), &[None]);
    let up = on(11, "ConvTranspose", &[x, &[3, 4, 2, 2]]).ints("strides", &[2, 2]);
    check("transposed", up, &[floats(2 * 4 * 22 * 18)]);
    let pool = on(12, "MaxPool", &[x])
        .ints("kernel_shape", &[2, 2])
        .ints("strides", &[2, 2]);
    check("pool", pool, &[floats(2 * 3 * 5 * 4)]);
    let ceil = on(12, "MaxPool", &[x])
        .ints("kernel_shape", &[2, 2])
        .ints("strides", &[2, 2]);
    check(
        "pool, ceil",
        ceil.int("ceil_mode", 1),
        &[floats(2 * 3 * 6 * 5)],
    );
    check("global", on(12, "GlobalAveragePool", &[x]), &[floats(6)]);
}

#[test]
fn matrices() {
    check(
        "matrix",
        on(13, "MatMul", &[&[4, 5], &[5, 6]]),
        &[floats(24)],
    );
    let batched = on(13, "MatMul", &[&[7, 1, 4, 5], &[3, 5, 6]]);
    check("batched", batched, &[floats(7 * 3 * 24)]);
    check("vectors", on(13, "MatMul", &[&[5], &[5]]), &[floats(1)]);
    check(
        "vector, matrix",
        on(13, "MatMul", &[&[5], &[5, 6]]),
        &[floats(6)],
    );
    check(
        "depths differ",
        on(13, "MatMul", &[&[4, 5], &[4, 6]]),
        &[None],
    );
    let gemm = on(13, "Gemm", &[&[5, 4], &[6, 5], &[6]])
        .int("transA", 1)
        .int("transB", 1);
    check("gemm", gemm, &[floats(24)]);
    let einsum = on(13, "Einsum", &[&[2, 3, 4], &[2, 4, 5]]).text("equation", "bij, bjk -> bik");
    check("einsum", einsum, &[floats(30)]);
}

#[test]
fn layers_of_matrices() {
    let lstm = Model::new(14)
        .input("x", FLOAT, &[10, 4, 8])
        .input("w", FLOAT, &[2, 64, 8])
        .input("r", FLOAT, &[2, 64, 16])
        .node("LSTM", &["x", "w", "r"], &["y", "h", "c"])
        .int("hidden_size", 16);
    check(
        "lstm",
        lstm,
        &[floats(10 * 2 * 4 * 16), floats(128), floats(128)],
    );
    let attention = on(
        23,
        "Attention",
        &[&[2, 3, 4, 8], &[2, 3, 6, 8], &[2, 3, 6, 10]],
    );
    check("attention", attention, &[floats(2 * 3 * 4 * 10)]);
}

#[test]
fn element_by_element() {
    check(
        "broadcast",
        on(13, "Add", &[&[2, 1, 4], &[3, 1]]),
        &[floats(24)],
    );
    check("no broadcast", on(13, "Add", &[&[2, 3], &[4, 3]]), &[None]);
    check(
        "old broadcast",
        on(6, "Add", &[&[2, 3, 4], &[3]]),
        &[floats(24)],
    );
    check("compared", on(13, "Less", &[&[2, 3], &[3]]), &[Some(6)]);
    check("cast", on(13, "Cast", &[&[10]]).int("to", 10), &[Some(20)]);
    check(
        "quantised",
        on(13, "QuantizeLinear", &[&[10], &[]]),
        &[Some(10)],
    );
    check("softmax", on(13, "Softmax", &[&[3, 5]]), &[floats(15)]);
    let normalised = Model::new(17)
        .input("x", FLOAT, &[2, 3, 4])
        .input("s", FLOAT, &[4])
        .node("LayerNormalization", &["x", "s"], &["y", "mean"]);
    check("normalised", normalised, &[floats(24), floats(6)]);
}

#[test]
fn views() {
    let x: &[i64] = &[2, 3, 4];
    check(
        "reshape",
        with(13, "Reshape", x, &[&[0, -1]]),
        &[floats(24)],
    );
    check(
        "reshape wrongly",
        with(13, "Reshape", x, &[&[5, -1]]),
        &[None],
    );
    check(
        "old reshape",
        on(1, "Reshape", &[x]).ints("shape", &[4, -1]),
        &[floats(24)],
    );
    check(
        "squeeze",
        with(13, "Squeeze", &[1, 3, 1], &[&[0]]),
        &[floats(3)],
    );
    check(
        "unsqueeze",
        on(11, "Unsqueeze", &[x]).ints("axes", &[0, 4]),
        &[floats(24)],
    );
    check(
        "transpose",
        on(13, "Transpose", &[x]).ints("perm", &[2, 0, 1]),
        &[floats(24)],
    );
    check(
        "expand",
        with(13, "Expand", &[3, 1], &[&[2, 1, 6]]),
        &[floats(36)],
    );
}

/// A dimension of 2^64 - 2 under attributes of 2^63 - 1: sums beyond i128, were it not refused.
#[test]
fn dimensions_beyond_any_memory_are_unknown() {
    const HUGE: i64 = i64::MAX;
    let model = with(13, "Tile", &[1, 1, HUGE], &[&[1, 1, 2]])
        .input("w", FLOAT, &[1, 1, HUGE])
        .node("ConvTranspose", &["out", "w"], &["up"])
        .ints("strides", &[HUGE])
        .ints("dilations", &[HUGE]);
    // Both inputs, what Tile makes, and the output.
    let report = read("op.onnx", &model.encode()).unwrap().report;
    assert_eq!(report.unknown_sizes, 4);
}

#[test]
fn moves() {
    let x: &[i64] = &[2, 3, 4];
    check("tile", with(13, "Tile", x, &[&[1, 2, 3]]), &[floats(144)]);
    check(
        "concat",
        on(13, "Concat", &[x, &[2, 5, 4]]).int("axis", -2),
        &[floats(64)],
    );
    check(
        "pad",
        on(2, "Pad", &[x]).ints("pads", &[0, 1, 0, 0, 1, 2]),
        &[floats(2 * 5 * 6)],
    );
    check(
        "gather",
        with(13, "Gather", x, &[&[0, 2, 2, 1]]).int("axis", 1),
        &[floats(32)],
    );
    check(
        "space",
        on(13, "DepthToSpace", &[&[1, 8, 2, 3]]).int("blocksize", 2),
        &[floats(48)],
    );
}

#[test]
fn reductions_and_parts() {
    let x: &[i64] = &[2, 3, 4];
    check("mean", with(18, "ReduceMean", x, &[&[-1]]), &[floats(6)]);
    check(
        "sum of all",
        on(13, "ReduceSum", &[x]).int("keepdims", 0),
        &[floats(1)],
    );
    check("arg", on(13, "ArgMax", &[x]).int("axis", 2), &[Some(8 * 6)]);
    let split = Model::new(13)
        .input("x", FLOAT, &[7, 2])
        .known("s", &[3, 4]);
    check(
        "split",
        split.node("Split", &["x", "s"], &["a", "b"]),
        &[floats(6), floats(8)],
    );
    let parts = Model::new(18).input("x", FLOAT, &[7, 2]);
    let parts = parts
        .node("Split", &["x"], &["a", "b"])
        .int("num_outputs", 2);
    check("split evenly", parts, &[floats(8), floats(6)]);
    let top = Model::new(11).input("x", FLOAT, x).known("k", &[2]);
    check(
        "top",
        top.node("TopK", &["x", "k"], &["v", "i"]),
        &[floats(12), Some(96)],
    );
    check(
        "one hot",
        with(11, "OneHot", &[6], &[&[10], &[0, 1]]),
        &[Some(480)],
    );
}

#[test]
fn slices() {
    for (start, end, step, n) in [
        (0, 10, 1, 10),
        (2, 100, 3, 3),
        (-3, i64::MAX, 1, 3),
        (9, 0, -1, 9),
        (-1, i64::MIN, -2, 5),
        (-1, i64::MIN, -1, 10),
        (8, 2, 1, 0),
    ] {
        let model = with(13, "Slice", &[10, 5], &[&[start], &[end], &[0], &[step]]);
        check(&format!("{start}:{end}:{step}"), model, &[floats(5 * n)]);
    }
    check(
        "no step",
        with(13, "Slice", &[10, 5], &[&[0], &[5], &[0], &[0]]),
        &[None],
    );
    let old = on(9, "Slice", &[&[10, 5]])
        .ints("starts", &[1])
        .ints("ends", &[-1]);
    check("old", old.ints("axes", &[1]), &[floats(30)]);
}

/// What exporters make of `x.view(x.size(0), x.size(1) * 2, -1)`: the shape is computed in the model.
#[test]
fn shapes_are_followed_as_numbers() {
    let model = Model::new(13)
        .input("x", FLOAT, &[6, 4, 10])
        .known("zero", &[0])
        .weight(int_tensor("one", &[], &[1]))
        .known("two", &[2])
        .known("rest", &[-1])
        .node("Shape", &["x"], &["shape"])
        .node("Gather", &["shape", "zero"], &["rows"])
        .node("Gather", &["shape", "one"], &["columns"])
        .node("Unsqueeze", &["columns", "zero"], &["columns1"])
        .node("Mul", &["columns1", "two"], &["wide"])
        .node("Concat", &["rows", "wide", "rest"], &["wanted"])
        .int("axis", 0)
        .node("Reshape", &["x", "wanted"], &["y"])
        .node("Transpose", &["y"], &["t"])
        .node("Gather", &["t", "zero"], &["out"])
        .int("axis", 1);
    // y is 6 x 8 x 5, t is 5 x 8 x 6, one of its second axis is left.
    check("computed shape", model, &[floats(5 * 6)]);
}

#[test]
fn more_arithmetic_of_shapes() {
    let base = || Model::new(13).input("x", FLOAT, &[12]);
    let model = base()
        .known("a", &[7, -1])
        .known("b", &[2, -1])
        .known("ones", &[1, 1])
        .node("Equal", &["b", "a"], &["same"])
        .node("Div", &["a", "b"], &["quotient"])
        .node("Where", &["same", "ones", "quotient"], &["chosen"])
        .node("Slice", &["chosen", "start", "end"], &["first"])
        .node("ReduceProd", &["chosen"], &["n"])
        .int("keepdims", 0)
        .node("Range", &["zero", "n", "one"], &["numbers"])
        .node("Concat", &["first", "rest"], &["wanted"])
        .int("axis", 0)
        .node("Expand", &["numbers", "wanted"], &["out"])
        .known("start", &[0])
        .known("end", &[1])
        .known("rest", &[3])
        .weight(int_tensor("zero", &[], &[0]))
        .weight(int_tensor("one", &[], &[1]));
    // 7 / 2 = 3 towards zero; chosen is [3, 1], their product 3, so numbers is 0, 1, 2 and stretches to 3 x 3.
    check("arithmetic", model, &[Some(8 * 9)]);
    let fill = base()
        .known("n", &[2])
        .node("ConstantOfShape", &["n"], &["dims"])
        .tensor("value", &int_tensor("", &[1], &[4]))
        .node("Expand", &["y", "dims"], &["out"])
        .input("y", FLOAT, &[1]);
    check("filled", fill, &[floats(16)]);
}

#[test]
fn declared_shapes_fill_gaps_only() {
    let model = on(13, "NonZero", &[&[4]]).declare("out", INT64, &[1, 3]);
    let Imported { graph, report } = read("op.onnx", &model.encode()).unwrap();
    assert_eq!(graph.tensor_bytes(graph.n_tensors() as u32 - 1), 24);
    assert_eq!(report.unknown_ops["NonZero"], 1);
    assert_eq!(
        report.warnings(),
        ["1 ops of the unknown kind `NonZero` cost a launch and their bytes only"]
    );
    // Inference wins over what the model says.
    check(
        "relu",
        on(13, "Relu", &[&[4]]).declare("out", FLOAT, &[5]),
        &[floats(4)],
    );
}

#[test]
fn other_domains_are_unknown() {
    let model = on(13, "MatMul", &[&[4, 4], &[4, 4]]).domain("example.org");
    let Imported { report, .. } = read("op.onnx", &model.encode()).unwrap();
    assert_eq!(report.unknown_ops["example.org::MatMul"], 1);
    let gelu = on(13, "FastGelu", &[&[4, 4]]).domain("com.microsoft");
    check("fused", gelu, &[floats(16)]);
}

#[test]
fn open_dimensions_come_from_the_options() {
    let model = on(13, "Relu", &[&[-1, 6]]).encode();
    let Imported { graph, report } = read("op.onnx", &model).unwrap();
    assert_eq!(graph.tensor_bytes(1), 24);
    assert_eq!(report.assumed_dims["n"], 1);
    // A declaration that inference makes superfluous assumes nothing.
    let declared = on(13, "Relu", &[&[6]]).declare("out", FLOAT, &[-1]);
    check("declared", declared, &[floats(6)]);
    let mut options = ReadOptions {
        open_dim: 3,
        ..ReadOptions::default()
    };
    let bytes = |options: &ReadOptions| {
        let imported = read_bytes("op.onnx", &model, options)
            .unwrap()
            .single()
            .unwrap();
        (
            imported.graph.tensor_bytes(1),
            imported.report.assumed_dims.len(),
        )
    };
    assert_eq!(bytes(&options), (72, 1));
    options.dims.insert("n".into(), 5);
    assert_eq!(bytes(&options), (120, 0));
}

#[test]
fn views_and_folded_ops_cost_nothing() {
    let model = Model::new(13)
        .input("x", FLOAT, &[2, 8])
        .known("s", &[4, 4])
        .weight(int_tensor("w", &[4, 4], &[1; 16]))
        .node("Reshape", &["x", "s"], &["y"])
        .node("Transpose", &["w"], &["t"])
        .node("Add", &["y", "y"], &["out"]);
    let Imported { graph, report } = read("op.onnx", &model.encode()).unwrap();
    let ops = 0..graph.n_ops() as u32;
    let costs: Vec<_> = ops
        .map(|op| (graph.op_kind(op), graph.cost_ns(0, op) > 0))
        .collect();
    let free = [
        "Initializer",
        "Initializer",
        "Input",
        "Reshape",
        "Transpose",
    ];
    let expected: Vec<_> = free
        .map(|kind| (kind, false))
        .into_iter()
        .chain([("Add", true)])
        .collect();
    assert_eq!(costs, expected);
    assert_eq!(report.folded_ops, 1);
    let y = graph.outputs(3).start;
    assert_eq!(graph.alias_of(y), Some(graph.outputs(2).start));
    // The sum reads its one input once.
    assert_eq!(graph.inputs(5), [y]);
}

#[test]
fn subgraphs_are_one_op_with_what_they_capture() {
    let inner = Model::new(13)
        .known("k", &[1])
        .node("Add", &["outer", "k"], &["sum"])
        .node("Mul", &["sum", "deep"], &["product"]);
    let nested = Model::new(13)
        .node("If", &["k"], &["z"])
        .subgraph("then_branch", &inner.graph());
    let model = Model::new(13)
        .input("condition", 9, &[])
        .input("outer", FLOAT, &[4])
        .input("deep", FLOAT, &[4])
        .known("k", &[1])
        .node("If", &["condition"], &["out"])
        .subgraph("then_branch", &inner.graph())
        .subgraph("else_branch", &nested.graph())
        .declare("out", FLOAT, &[4]);
    let Imported { graph, report } = read("op.onnx", &model.encode()).unwrap();
    let last = graph.n_ops() as u32 - 1;
    assert_eq!(graph.op_kind(last), "If");
    let producers = graph
        .inputs(last)
        .iter()
        .map(|&t| graph.op_name(graph.producer(t)));
    let producers: Vec<&str> = producers.collect();
    assert_eq!(producers, ["k", "condition", "outer", "deep"]);
    assert_eq!(report.ops_with_subgraphs, 1);
    assert_eq!(graph.tensor_bytes(graph.outputs(last).start), 16);
}

#[test]
fn weights_in_other_files_are_counted_not_read() {
    use crate::onnx_model::{bytes, number};
    let external = [
        number(1, 1000),
        number(2, 1),
        bytes(8, b"w"),
        bytes(13, &bytes(1, b"location")),
        number(14, 1),
    ];
    let model = on(13, "Relu", &[&[4]]).weight(external.concat());
    let Imported { graph, report } = read("op.onnx", &model.encode()).unwrap();
    assert_eq!(report.external_weights, 1);
    assert_eq!(graph.tensor_bytes(0), 4000);
}
