//! The published graphs that the data folder holds: all import, with the counts that other programs find in them.

use serde_json::Value;
use shardgraph_costgraph::Graph;
use shardgraph_costgraph::topology::{in_degree_hash, structural_hash};
use shardgraph_costgraph_io::{Format, Imported, ReadOptions, read_bytes, read_graphs};
use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

const FOLDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/costgraphs"
);

fn existing(name: &str) -> Option<PathBuf> {
    let path = Path::new(FOLDER).join(name);
    if !path.exists() {
        println!("SKIPPED: costgraphs/{name} is not in the data folder");
    }
    path.exists().then_some(path)
}

fn imports(path: &Path) -> Vec<Imported> {
    let graphs = read_graphs(path, &ReadOptions::default()).unwrap();
    graphs.map(Result::unwrap).collect()
}

fn total_cost(graph: &Graph) -> u64 {
    (0..graph.n_ops() as u32)
        .map(|op| graph.cost_ns(0, op))
        .sum()
}

fn total_bytes(graph: &Graph) -> u64 {
    (0..graph.n_tensors() as u32)
        .map(|t| graph.tensor_bytes(t))
        .sum()
}

/// File, nodes, output_infos, input_infos, compute_cost of all nodes in us, size of all outputs, as a Python reader of the wire
/// format counts them.
const TENSORFLOW: [(&str, usize, usize, usize, u64, u64); 16] = [
    ("ConvNeXtTiny_fwd", 1121, 1121, 1248, 23432, 7_406_270_352),
    (
        "ConvNeXtTiny_train",
        3856,
        3914,
        4583,
        72439,
        19_565_164_716,
    ),
    ("DenseNet121_fwd", 2914, 2914, 3092, 15550, 4_231_976_564),
    (
        "DenseNet121_train",
        14112,
        14290,
        16937,
        66461,
        18_162_993_860,
    ),
    ("EfficientNetB0_fwd", 1793, 1891, 1951, 7862, 4_038_524_576),
    (
        "EfficientNetB0_train",
        8461,
        8634,
        10097,
        35689,
        15_790_691_433,
    ),
    ("InceptionV3_fwd", 1838, 1838, 1966, 17993, 2_753_486_140),
    (
        "InceptionV3_train",
        9494,
        9623,
        11350,
        66405,
        11_603_396_328,
    ),
    ("MobileNetV2_fwd", 824, 824, 851, 4597, 1_838_310_416),
    ("MobileNetV2_train", 5073, 5108, 6072, 22530, 7_570_616_616),
    ("NASNetMobile_fwd", 3781, 3781, 3808, 6143, 2_302_047_260),
    (
        "NASNetMobile_train",
        20833,
        21105,
        25583,
        22897,
        7_859_009_272,
    ),
    ("ResNet50_fwd", 1510, 1510, 1578, 16588, 3_834_758_988),
    ("ResNet50_train", 6664, 6717, 7856, 60915, 13_408_869_688),
    ("VGG16_fwd", 129, 129, 127, 38225, 3_265_599_880),
    ("VGG16_train", 422, 435, 550, 113_364, 7_323_861_928),
];

#[test]
fn tensorflow_graphs() {
    let mut graphs = Vec::new();
    for (name, n_nodes, n_outputs, n_inputs, cost_us, bytes) in TENSORFLOW {
        let Some(path) = existing(&format!("tf_costgraph/{name}.pb.gz")) else {
            continue;
        };
        let all = imports(&path);
        let Imported { graph, report } = &all[0];
        assert_eq!(
            (all.len(), graph.name(), report.format),
            (1, name, Format::CostGraph)
        );
        assert!(
            report.warnings().is_empty(),
            "{name}: {:?}",
            report.warnings()
        );
        let tensors = 0..graph.n_tensors() as u32;
        let data: Vec<u32> = tensors.filter(|&t| !graph.is_control(t)).collect();
        let n_uses: usize = data.iter().map(|&t| graph.consumers(t).len()).sum();
        assert_eq!(
            (graph.n_ops(), data.len(), n_uses),
            (n_nodes, n_outputs, n_inputs),
            "{name}"
        );
        assert_eq!(
            (total_cost(graph), total_bytes(graph)),
            (cost_us * 1000, bytes),
            "{name}"
        );
        graphs.push(graph.clone());
    }
    if graphs.len() == TENSORFLOW.len() {
        assert_eq!(n_different(&graphs, in_degree_hash), 16);
        assert_eq!(n_different(&graphs, structural_hash), 16);
    }
}

fn n_different(graphs: &[Graph], hash: fn(&Graph) -> u64) -> usize {
    graphs.iter().map(hash).collect::<BTreeSet<u64>>().len()
}

/// The numbers that each line states of itself, read by serde_json without the reader under test.
fn stated(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn sum(rows: &Value, column: usize) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[column].as_u64().unwrap()).sum()
}

#[test]
fn json_lines() {
    for (name, n_graphs, median, max, n_topologies) in [
        ("graphnet.jsonl.gz", 292, 931, 5360, 291),
        ("torch_graphs.jsonl.gz", 172, 1257, 10130, 168),
        ("msr_graphs.jsonl.gz", 24, 326, 2012, 16),
    ] {
        let Some(path) = existing(name) else {
            continue;
        };
        let (imports, stated) = (imports(&path), stated(&path));
        assert_eq!(
            (imports.len(), stated.len()),
            (n_graphs, n_graphs),
            "{name}"
        );
        for (Imported { graph, .. }, line) in imports.iter().zip(&stated) {
            let counts = [graph.n_ops(), graph.n_tensors(), graph.n_uses()];
            let expected = ["o", "t", "e"].map(|key| line[key].as_u64().unwrap() as usize);
            assert_eq!(counts, expected, "{}", graph.name());
            assert_eq!(graph.name(), line["name"].as_str().unwrap());
            assert_eq!(total_cost(graph), sum(&line["ops"], 2), "{}", graph.name());
            assert_eq!(
                total_bytes(graph),
                sum(&line["tensors"], 1),
                "{}",
                graph.name()
            );
        }
        let graphs: Vec<Graph> = imports.into_iter().map(|i| i.graph).collect();
        let mut sizes: Vec<usize> = graphs.iter().map(Graph::n_ops).collect();
        sizes.sort_unstable();
        let found = (sizes[(n_graphs - 1) / 2], sizes[n_graphs - 1]);
        assert_eq!(found, (median, max), "{name}");
        assert_eq!(n_different(&graphs, in_degree_hash), n_topologies, "{name}");
    }
}

/// A line of msr_graphs.jsonl put back into the JSON that it was made from.
fn workload(line: &Value) -> Vec<u8> {
    let ms = |ns: &Value| ns.as_f64().unwrap() / 1e6;
    let cpu = line["cpu_cost"].as_array().unwrap();
    let node = |op: usize| {
        serde_json::json!({
            "id": 10 * op, "name": line["ops"][op][1], "supportedOnFpga": true, "isBackwardNode": false,
            "cpuLatency": ms(&cpu[op]), "fpgaLatency": ms(&line["ops"][op][2]), "size": line["ops"][op][4],
        })
    };
    let nodes: Vec<Value> = (0..cpu.len()).map(node).collect();
    let mut edges = Vec::new();
    for tensor in line["tensors"].as_array().unwrap() {
        for consumer in tensor[3].as_array().unwrap() {
            let id = |op: &Value| 10 * op.as_u64().unwrap();
            edges.push(serde_json::json!({
                "sourceId": id(&tensor[0]), "destId": id(consumer), "cost": 0.5, "size": tensor[1],
            }));
        }
    }
    let file = serde_json::json!({
        "maxSizePerFPGA": line["mem_limit"], "maxFPGAs": line["devices"], "maxCPUs": line["cpus"],
        "nodes": nodes, "edges": edges,
    });
    serde_json::to_vec(&file).unwrap()
}

#[test]
fn dnn_partitioning_json() {
    let Some(path) = existing("msr_graphs.jsonl.gz") else {
        return;
    };
    for (line, expected) in stated(&path).iter().zip(imports(&path)) {
        let imported = read_bytes("workload.json", &workload(line), &ReadOptions::default());
        let Imported { graph, report } = imported.unwrap().single().unwrap();
        let (wanted, name) = (&expected.graph, expected.graph.name());
        let counts = |graph: &Graph| [graph.n_ops(), graph.n_tensors(), graph.n_uses()];
        assert_eq!(counts(&graph), counts(wanted), "{name}");
        for op in 0..graph.n_ops() as u32 {
            let costs = |graph: &Graph| [graph.cost_ns(0, op), graph.cost_ns(1, op)];
            assert_eq!(costs(&graph), costs(wanted), "{name}, op {op}");
            // What this importer holds to be persistent, the JSON lines have as scratch memory.
            let sizes = [graph.persistent_bytes(op), wanted.internal_bytes(op)];
            assert_eq!(sizes[0], sizes[1], "{name}, op {op}");
        }
        assert_eq!(total_bytes(&graph), total_bytes(wanted), "{name}");
        assert_eq!(report.memory_bytes, expected.report.memory_bytes, "{name}");
        assert_eq!(report.devices, expected.report.devices, "{name}");
        assert_eq!(report.cpus, expected.report.cpus, "{name}");
    }
}

#[test]
fn synthetic_samples() {
    let mut found = Vec::new();
    for i in 0..20 {
        let Some(path) = existing(&format!("synthetic_sample/g{i:04}.pbtxt")) else {
            continue;
        };
        let all = imports(&path);
        let text = fs::read_to_string(&path).unwrap();
        let count = |field: &str| {
            text.lines()
                .filter(|line| line.trim_start().starts_with(field))
                .count()
        };
        let Imported { graph, report } = &all[0];
        assert_eq!((all.len(), report.format), (1, Format::CostGraphText));
        assert_eq!(graph.n_ops(), count("node {"), "{i}");
        let is_control = |&t: &u32| graph.is_control(t);
        let control = (0..graph.n_tensors() as u32).filter(is_control);
        let n_control_uses: usize = control.clone().map(|t| graph.consumers(t).len()).sum();
        assert_eq!(n_control_uses, count("control_input:"), "{i}");
        assert_eq!(
            graph.n_tensors() - control.count(),
            count("output_info {"),
            "{i}"
        );
        assert_eq!(
            graph.n_uses() - n_control_uses,
            count("input_info {"),
            "{i}"
        );
        found.push(graph.n_ops());
    }
    if found.len() == 20 {
        found.sort_unstable();
        assert_eq!((found[0], found[19]), (52, 197));
    }
}
