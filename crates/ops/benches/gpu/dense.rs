//! The ceilings (copy and product rate), and the dense kernels of the policy network.

use shardgraph_device::{Error, MatMul};
use shardgraph_ops::{self as ops, Adam, Binary, Loss};

use crate::graphs::Draws;
use crate::report::{Ceilings, Report, Work};

fn product(rows: usize, inner: usize, cols: usize) -> MatMul {
    MatMul {
        rows,
        inner,
        cols,
        transpose_a: false,
        transpose_b: false,
    }
}

/// The rates of a large copy and of a large dense product (cuBLAS, f32 without tensor cores; where it is not installed
/// the project's own kernel, which is no ceiling).
pub(crate) fn ceilings(report: &Report) -> Result<Ceilings, Error> {
    let device = &report.device;
    let n = report.size(1 << 28, 1 << 10);
    let (source, mut target) = (device.zeros::<f32>(n)?, device.zeros::<f32>(n)?);
    let work = Work::bytes(8 * n);
    let copy = report.case("copy 1 GiB", work, || device.copy(&source, &mut target))?;
    let side = report.size(8192, 48);
    let a = device.upload(&Draws(1).floats(side * side))?;
    let mut out = device.zeros(side * side)?;
    let work = Work::default().flop(2 * side * side * side);
    let name = format!("dense product {side}");
    let dense = report.case(&name, work, || {
        ops::matmul(device, product(side, side, side), &a, &a, &mut out)
    })?;
    Ok(Ceilings {
        copy: 8.0 * n as f64 / copy,
        product: device.vendor_products().map(|_| work.flop / dense),
    })
}

/// The shapes of a policy with 64 columns over 21000 nodes times 8 states, and Adam over a large arena.
pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let device = &report.device;
    let (rows, k) = (report.size(8 * 21000, 300), 64);
    let x = device.upload(&Draws(2).floats(rows * k))?;
    let w = device.upload(&Draws(3).floats(k * k))?;
    let mut out = device.zeros(rows * k)?;
    let bounds: Vec<usize> = (0..=rows.div_ceil(256))
        .map(|i| rows.min(256 * i))
        .collect();
    let work = Work::bytes(4 * (2 * rows * k + k * k)).flop(2 * rows * k * k);
    report.case("block product k=64", work, || {
        ops::block_matmul(device, product(rows, k, k), &bounds, &x, &w, &mut out)
    })?;
    let shape = MatMul {
        rows: k,
        inner: rows,
        cols: k,
        transpose_a: true,
        transpose_b: false,
    };
    let mut blocks = device.zeros((bounds.len() - 1) * k * k)?;
    let work = Work::bytes(4 * (2 * rows * k + blocks.len())).flop(2 * rows * k * k);
    report.case("block outer product k=64", work, || {
        ops::block_outer(device, shape, &bounds, &x, &x, &mut blocks)
    })?;
    let n = report.size(1 << 26, 1 << 10);
    let (a, b) = (device.zeros(n)?, device.zeros(n)?);
    let mut sum = device.zeros(n)?;
    report.case("add", Work::bytes(12 * n), || {
        ops::binary(device, Binary::Add, &a, &b, &mut sum)
    })?;
    report.case("relu", Work::bytes(8 * n), || {
        ops::relu(device, &a, &mut sum)
    })?;
    report.case("mse loss", Work::bytes(8 * n), || {
        ops::loss(device, Loss::Mse, &a, &b).map(drop)
    })?;
    adam(report, n)
}

fn adam(report: &Report, n: usize) -> Result<(), Error> {
    let device = &report.device;
    let grad = device.upload(&Draws(4).floats(n))?;
    let (mut params, mut first, mut second) =
        (device.zeros(n)?, device.zeros(n)?, device.zeros(n)?);
    let mut step = Adam {
        learning_rate: 1e-4,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        step: 0,
    };
    report.case("adam", Work::bytes(28 * n), || {
        step.step += 1;
        ops::adam(
            device,
            step,
            &mut params,
            &grad,
            &mut first,
            &mut second,
            None,
        )
    })?;
    Ok(())
}
