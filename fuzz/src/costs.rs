//! Readers of computation graphs: errors name the file, what was read is written and read again equal, decoders agree with the
//! replay on it, and so do contracted schedules.

use shardgraph_costgraph::{
    Contraction, Decoder, DecoderKind, DeviceSet, Error, Graph, ModelOptions, Objective, Problem,
};
use shardgraph_costgraph_io::{Format, ReadOptions, read_bytes, with_costs};
use shardgraph_costgraph_io::{write_cost_graph_text, write_jsonl};

use crate::bytes::scratch;

/// Larger graphs are only written and read again.
const DECODED_OPS: usize = 200;

/// Reads `data` as `format` and checks every graph in it.
///
/// # Panics
/// When a rule is broken.
pub fn check(data: &[u8], format: Format) {
    let options = ReadOptions {
        format: Some(format),
        max_bytes: 1 << 22,
        ..ReadOptions::default()
    };
    let graphs = match read_bytes("fuzz", data, &options) {
        Ok(graphs) => graphs,
        Err(error) => return check_error(&error),
    };
    for imported in graphs {
        match imported {
            Ok(imported) => check_graph(&imported.graph, data),
            Err(error) => check_error(&error),
        }
    }
}

/// Costs of the ops of a small graph: errors name the file, and a graph has the ops that it had.
///
/// # Panics
/// When a rule is broken.
pub fn measured(data: &[u8]) {
    const GRAPH: &[u8] = include_bytes!("../../crates/costgraph-io/tests/corpus/tiny.pbtxt");
    let graph = read(GRAPH, Format::CostGraphText);
    let path = scratch("costs.csv");
    std::fs::write(&path, data).expect("room for a file");
    match with_costs(&graph, &path, 1.5) {
        Ok((measured, found)) => {
            assert_eq!(measured.n_ops(), graph.n_ops());
            assert!(found.times <= graph.n_ops() && found.sizes <= graph.n_tensors());
        }
        Err(error) => {
            let named = error.to_string().contains(&path.display().to_string());
            assert!(named, "{error}");
        }
    }
}

fn check_error(error: &Error) {
    assert!(error.to_string().starts_with("fuzz"), "{error}");
    assert!(!error.message().is_empty());
}

fn check_graph(graph: &Graph, data: &[u8]) {
    let mut line = Vec::new();
    write_jsonl(graph, &mut line).expect("every graph is a line");
    assert_eq!(&read(&line, Format::Jsonl), graph, "through JSON");
    if graph.n_cost_classes() == 1 {
        let text = text_of(graph);
        let again = read(text.as_bytes(), Format::CostGraphText);
        assert_eq!(text_of(&again), text, "through text");
    }
    if graph.n_ops() <= DECODED_OPS {
        check_schedules(graph, data);
    }
}

fn text_of(graph: &Graph) -> String {
    let mut text = Vec::new();
    write_cost_graph_text(graph, &mut text).expect("one cost class");
    String::from_utf8(text).expect("names are text")
}

fn read(bytes: &[u8], format: Format) -> Graph {
    let options = ReadOptions {
        format: Some(format),
        ..ReadOptions::default()
    };
    let graphs = read_bytes("again", bytes, &options).expect("it says its format");
    let graph = graphs.single().expect("what was written can be read");
    graph.graph
}

fn check_schedules(graph: &Graph, data: &[u8]) {
    let n_devices = 1 + data.first().map_or(1, |&byte| usize::from(byte % 3));
    let limit = (data.len() % 2 == 0).then_some(1 << (data.len() % 40));
    let devices = DeviceSet::uniform(n_devices, limit).expect("some devices");
    // A graph with costs of several classes or too large for a sum is refused with a reason.
    let Ok(problem) = Problem::new(graph, &devices, Objective::Memory, ModelOptions::default())
    else {
        return;
    };
    let keys = keys(&problem, data);
    for kind in DecoderKind::ALL {
        let mut decoder = Decoder::new(&problem, kind);
        let schedule = decoder.schedule(&keys);
        let simulation = schedule.verify(&problem).expect("a valid schedule");
        assert_eq!(decoder.decode(&keys), simulation.outcome, "{kind:?}");
    }
    let contraction = Contraction::new(graph).expect("a checked graph");
    let small = Problem::new(
        contraction.graph(),
        &devices,
        Objective::Memory,
        ModelOptions::default(),
    );
    let small = small.expect("no more than the graph");
    let keys = &keys[..small.n_keys()];
    let schedule = Decoder::new(&small, DecoderKind::Paper).schedule(keys);
    let outcome = schedule.verify(&small).expect("a valid schedule").outcome;
    let expanded = contraction.expand(&schedule).verify(&problem);
    assert_eq!(
        expanded.expect("a valid schedule").outcome,
        outcome,
        "contracted"
    );
}

/// Keys from the input itself.
fn keys(problem: &Problem<'_>, data: &[u8]) -> Vec<f32> {
    let mut state = data.len() as u32 | 1;
    let bytes = data.iter().chain(&[77]).cycle();
    let next = |&byte: &u8| {
        state = state
            .wrapping_mul(747_796_405)
            .wrapping_add(u32::from(byte) * 2 + 1);
        (state >> 8) as f32 / (1u32 << 24) as f32
    };
    bytes.map(next).take(problem.n_keys()).collect()
}
