//! The cost model of the bench `collectives`: counted work, and constants found again.

#[allow(dead_code, reason = "the bench uses all of it")]
#[path = "../../benches/collectives/cost/mod.rs"]
mod model;

use model::{Fit, Measured, Network, Work, fit};
use shardgraph_collectives::{Algorithm, OpKind};

#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn work_of(op: OpKind, algorithm: Algorithm, bytes: usize, n_ranks: u32, local: u32) -> Work {
    let network = Network {
        ranks_per_node: local,
        cores_per_node: local,
        ..Network::default()
    };
    Work::of(op, algorithm, bytes, n_ranks, &network).unwrap()
}

/// Counted by hand for six ranks with one megabyte each.
#[test]
fn six_ranks() {
    let n = f64::from(1 << 20);
    let parts = work_of(
        OpKind::AllReduce,
        Algorithm::ReduceScatterAllGather,
        1 << 20,
        6,
        1,
    );
    assert_eq!((parts.steps, parts.rank.messages), (2.0, 20.0));
    assert!((parts.wire_bytes - n * 10.0 / 6.0).abs() < 1.0);
    let two_each = work_of(
        OpKind::AllReduce,
        Algorithm::ReduceScatterAllGather,
        1 << 20,
        6,
        2,
    );
    assert!((two_each.wire_bytes - n * 16.0 / 6.0).abs() < 1.0);
    assert!((two_each.node.bytes - 2.0 * two_each.rank.bytes).abs() < 1.0);
    let whole = work_of(OpKind::AllReduce, Algorithm::Direct, 1 << 20, 6, 1);
    assert!((whole.wire_bytes - 5.0 * n).abs() < 1.0);
    let gather = work_of(OpKind::AllGather, Algorithm::Direct, 6 << 20, 6, 1);
    assert!((gather.wire_bytes - 5.0 * n).abs() < 1.0);
}

#[test]
fn on_one_machine_nothing_goes_over_the_wire() {
    for op in [
        OpKind::AllReduce,
        OpKind::Broadcast,
        OpKind::AllGather,
        OpKind::Barrier,
    ] {
        for algorithm in Algorithm::ALL {
            for n_ranks in 1..=9 {
                let work = work_of(op, algorithm, 100_000, n_ranks, 9);
                assert!(work.wire_bytes.abs() < 1e-9, "{op} {algorithm} {n_ranks}");
                let is_alone = n_ranks == 1;
                assert_eq!(work == Work::default(), is_alone, "{op} {algorithm}");
            }
        }
    }
}

/// A machine has no less to do than its busiest rank, and more bytes are never less work.
#[test]
fn loads_grow_with_bytes() {
    for op in [OpKind::AllReduce, OpKind::Broadcast, OpKind::ReduceScatterV] {
        for algorithm in Algorithm::ALL {
            for n_ranks in [2, 3, 5, 64, 1024] {
                for local in [1, 2, 64] {
                    let of = |bytes| work_of(op, algorithm, bytes, n_ranks, local);
                    let (small, large) = (of(1000), of(10_000_000));
                    assert!(large.steps >= small.steps);
                    assert!(large.rank.bytes > small.rank.bytes);
                    assert!(large.node.bytes > small.node.bytes);
                    assert!(large.wire_bytes >= small.wire_bytes);
                    let busy = small.node.messages >= small.rank.messages - 1e-9;
                    assert!(busy, "{op} {algorithm} {n_ranks} {local}");
                }
            }
        }
    }
}

const TRUE: Network = Network {
    latency: 8e-6,
    message: 2e-6,
    byte: 3e-10,
    reduced_byte: 1e-10,
    wire_byte: 0.0,
    ranks_per_node: u32::MAX,
    cores_per_node: 2,
};

#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn of_model(noise: impl Fn(usize) -> f64) -> Vec<Measured> {
    let mut all = Vec::new();
    for algorithm in Algorithm::ALL {
        for n_ranks in [1, 2, 3, 4, 6] {
            for shift in 3..24 {
                let (op, bytes) = (OpKind::AllReduce, 1 << shift);
                let work = Work::of(op, algorithm, bytes, n_ranks, &TRUE).unwrap();
                all.push(Measured {
                    op,
                    algorithm,
                    bytes,
                    n_ranks,
                    seconds: TRUE.seconds(&work) * noise(all.len()),
                });
            }
        }
    }
    all
}

fn near(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

fn assert_near_truth(fit: &Fit, relative: f64) {
    let Network {
        latency,
        message,
        byte,
        reduced_byte,
        ..
    } = fit.network;
    assert!(near(latency, TRUE.latency, relative), "{fit:?}");
    assert!(near(message, TRUE.message, relative), "{fit:?}");
    assert!(near(byte, TRUE.byte, relative), "{fit:?}");
    assert!(near(reduced_byte, TRUE.reduced_byte, relative), "{fit:?}");
}

#[test]
fn finds_the_constants_that_made_the_times() {
    let fit = fit(&of_model(|_| 1.0), 2).unwrap();
    assert_near_truth(&fit, 1e-6);
    assert!(fit.p90_error < 1e-6);
    assert_eq!(fit.n_measured, 2 * 4 * 21);
}

/// One time in seven is far too long, as on a machine that does something else now and then.
#[test]
fn outliers_do_not_carry_the_fit() {
    let noise = |i: usize| {
        if i % 7 == 3 {
            4.0
        } else {
            1.0 + 0.01 * (i % 3) as f64
        }
    };
    let fit = fit(&of_model(noise), 2).unwrap();
    assert_near_truth(&fit, 0.1);
    assert!(fit.median_error < 0.03, "{fit:?}");
}

#[test]
fn constants_are_never_below_zero() {
    // Longer buffers that take less time want a negative byte.
    let mut measured = of_model(|_| 1.0);
    for m in &mut measured {
        m.seconds = 1e-3 / (m.bytes as f64).ln();
    }
    let Network {
        latency,
        message,
        byte,
        reduced_byte,
        ..
    } = fit(&measured, 2).unwrap().network;
    assert!(
        [latency, message, byte, reduced_byte]
            .iter()
            .all(|&x| x >= 0.0)
    );
}

#[test]
fn too_little_is_no_fit() {
    assert!(fit(&[], 2).is_none());
    let mut alone = of_model(|_| 1.0);
    alone.retain(|m| m.n_ranks == 1);
    assert!(fit(&alone, 2).is_none());
}
