//! Host kernels: dense and sparse products, and column sums of a bit matrix.
#![expect(
    clippy::unwrap_used,
    reason = "a bench has no caller to hand an error to"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_device::{Device, MatMul};
use shardgraph_ops::{Adjacency, SparseProduct, matmul, sparse_product};
use shardgraph_solver::kernels::bits::{ColumnSumScratch, column_sums};

fn numbers(n: usize) -> Vec<u32> {
    let next = |x: &mut u32| {
        *x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(*x)
    };
    std::iter::successors(Some(1u32), |&x| next(&mut { x }))
        .take(n)
        .collect()
}

/// A batch through the layers of a small network, and the two products of the backward pass of its largest one.
fn dense(c: &mut Criterion) {
    let cases = [
        ((512, 32, 32), (false, false)),
        ((1, 120, 84), (false, false)),
        ((128, 4, 120), (false, false)),
        ((128, 120, 84), (false, false)),
        ((128, 84, 2), (false, false)),
        ((120, 128, 84), (true, false)),
        ((84, 128, 2), (true, false)),
        ((128, 84, 120), (false, true)),
        ((128, 2, 84), (false, true)),
    ];
    let device = Device::host();
    let mut group = c.benchmark_group("device/matmul");
    for ((rows, inner, cols), (transpose_a, transpose_b)) in cases {
        let shape = MatMul {
            rows,
            inner,
            cols,
            transpose_a,
            transpose_b,
        };
        let (a, b) = (
            device.zeros(rows * inner).unwrap(),
            device.zeros(inner * cols).unwrap(),
        );
        let mut out = device.zeros(rows * cols).unwrap();
        group.throughput(Throughput::Elements((2 * rows * inner * cols) as u64));
        let mark = |transposed: bool| if transposed { "t" } else { "" };
        let (a_mark, b_mark) = (mark(transpose_a), mark(transpose_b));
        group.bench_function(format!("{rows}x{inner}{a_mark}x{cols}{b_mark}"), |bench| {
            bench.iter(|| matmul(&device, shape, &a, &b, black_box(&mut out)).unwrap());
        });
    }
    group.finish();
}

fn sparse(c: &mut Criterion) {
    const N: usize = 2000;
    const DEGREE: usize = 300;
    let device = Device::host();
    let row_ptr: Vec<u64> = (0..=N as u64).map(|i| i * DEGREE as u64).collect();
    let columns: Vec<u32> = numbers(N * DEGREE).iter().map(|x| x % N as u32).collect();
    let x = device.zeros(N * 32).unwrap();
    let mut out = device.zeros(N * 32).unwrap();
    let mut group = c.benchmark_group("device/sparse_product");
    group.throughput(Throughput::Bytes((N * DEGREE * (4 + 128)) as u64));
    group.bench_function("csr/2000/300/32", |b| {
        let adjacency = Adjacency::Csr {
            row_ptr: &row_ptr,
            columns: &columns,
            values: None,
        };
        let product = SparseProduct {
            adjacency,
            n_rows: N,
            n_columns: N,
            width: 32,
        };
        b.iter(|| sparse_product(&device, product, &x, black_box(&mut out)).unwrap());
    });
    group.finish();
}

fn bits(c: &mut Criterion) {
    const WORDS: usize = 64;
    let words: Vec<u64> = numbers(4096 * WORDS)
        .iter()
        .map(|&x| u64::from(x) << 16)
        .collect();
    let selected: Vec<u32> = (0..4096).filter(|row| row % 7 == 0).collect();
    let mut sums = vec![0; 64 * WORDS];
    let mut scratch = ColumnSumScratch::default();
    let mut group = c.benchmark_group("device/column_sums");
    group.throughput(Throughput::Bytes((selected.len() * WORDS * 8) as u64));
    group.bench_function("4096/586", |b| {
        b.iter(|| column_sums(&words, WORDS, &selected, black_box(&mut sums), &mut scratch));
    });
    group.finish();
}

criterion_group!(benches, dense, sparse, bits);
criterion_main!(benches);
