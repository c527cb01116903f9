//! Jobs of several vertex parts, and buckets without samples in them: what no store of few parts
//! has.

use super::{buffer_in_memory, context, run, small, two_communities};
use crate::schedule::{BucketPass, Job};
use crate::train::context::OrderContext;
use crate::train::export::{Columns, RowsByNode, rows_to_values};
use crate::train::*;
use crate::{ImportOptions, Order, Precision, import_file};

#[test]
fn many_parts_give_the_same_bits_with_any_number_of_threads() {
    let store = two_communities(130, 32);
    for (order, precision) in [
        (Order::First, Precision::Fp32),
        (Order::Second, Precision::Fp32),
        (Order::Second, Precision::Fp16),
        (Order::Both, Precision::Fp32),
    ] {
        let one = Config {
            precision,
            ..small(order)
        };
        let expected = run(&store, &one);
        for threads in [2, 3, 5, 8] {
            let many = Config {
                threads,
                ..one.clone()
            };
            assert!(run(&store, &many) == expected, "{many:?}");
        }
    }
}

/// Each pass trains the rows that it names: a job has the bits of its passes, each as a job of two
/// parts.
#[test]
fn a_job_of_many_parts_is_its_passes_one_after_the_other() {
    let store = two_communities(130, 64);
    let config = small(Order::Second);
    let (device, clock) = (Device::host(), Clock::default());
    let run = context(&store, &config, &device);
    let planner = run.planner(2).unwrap();
    let streams = run.streams().unwrap();
    let order = OrderContext::new(run, 2, &streams, &clock).unwrap();
    let alone = |bucket_pass: &BucketPass| Job {
        order: 2,
        vertex_parts: vec![bucket_pass.vertex],
        context_part: Some(bucket_pass.context),
        bucket_passes: vec![*bucket_pass],
    };
    let trained = |cut: &dyn Fn(&Job) -> Vec<Job>| {
        let mut buffer = buffer_in_memory::<f32>(run, 2);
        let steps = (0..2).flat_map(|pass| planner.pass(pass));
        for job in steps.flat_map(|step| step.rounds.concat()) {
            assert_eq!(job.vertex_parts.len(), 4);
            for job in cut(&job) {
                let mut loaded = buffer.take_job(&job);
                order.train_job(&mut loaded).unwrap();
                buffer.put_job(loaded);
            }
        }
        let mut rows = RowsByNode::default();
        let columns = Columns {
            n_columns: config.dim,
            first: 0,
        };
        let tables = buffer.end_order().unwrap().unwrap();
        rows_to_values(&run, &tables[0], columns, &mut rows).unwrap();
        rows.values
    };
    let whole = trained(&|job| vec![job.clone()]);
    let cut = trained(&|job| job.bucket_passes.iter().map(alone).collect());
    assert!(whole == cut);
}

/// Fewer edges than buckets, and buckets whose edges all have weight 0: they have no samples, and
/// are no error.
#[test]
fn weighted_graphs_with_empty_buckets_are_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("g.txt");
    let edge = |k: u32| {
        (
            k * 7 % 61,
            k * 11 % 59 + 61,
            [0.0, 0.5, 2.0][k as usize % 3],
        )
    };
    let lines = (0..150).map(edge).map(|(u, v, w)| format!("{u} {v} {w}\n"));
    std::fs::write(&text, lines.collect::<String>()).unwrap();
    for n_parts in [2, 16, 64] {
        let path = folder.path().join(format!("{n_parts}.store"));
        let options = ImportOptions {
            weighted: true,
            parts: Some(n_parts),
            ..ImportOptions::default()
        };
        import_file(&text, &path, &options).unwrap();
        let store = Store::open(&path).unwrap();
        for order in [Order::First, Order::Second, Order::Both] {
            let one = small(order);
            let expected = run(&store, &one);
            let three = Config { threads: 3, ..one };
            assert_eq!(run(&store, &three), expected, "{three:?}");
        }
    }
}
