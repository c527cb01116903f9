//! How many kernel threads a second the emulator runs: threads that never wait, that shuffle 32
//! times, that meet at 32 barriers. The race build is measured on the same kernels.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench has no caller to hand an error to; a skip is printed"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardgraph_cuemu::compile::Build;

#[path = "../tests/suite/emulator.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod emulator;

use emulator::{Emulator, Shape};

const N_BLOCKS: u32 = 64;
const N_THREADS: u32 = 256 * N_BLOCKS;

/// AddressSanitizer has to be in the process from its start: with its library in
/// `SHARDGRAPH_EMULATED_LIBRARY`, as `cuemu-build` says, `plain` measures that.
fn throughput(c: &mut Criterion) {
    for build in [Build::Plain, Build::Race] {
        let Some(emulator) = Emulator::open(build) else {
            return;
        };
        let shape = Shape::line(N_BLOCKS, 256).seed(1);
        let x = emulator.memory(&[1_u32; N_THREADS as usize]);
        let y = emulator.memory(&[1_u32; N_THREADS as usize]);
        let mut group = c.benchmark_group(format!("cuemu/{}", emulator.build()));
        group.throughput(Throughput::Elements(u64::from(N_THREADS)));
        group.bench_function("without_switch", |b| {
            let values = arguments![0.5_f32, &x, N_THREADS, &y];
            b.iter(|| emulator.launch("without_switch", shape, values));
        });
        for kernel in ["with_shuffles", "with_barriers"] {
            let values = arguments![&x, &y];
            group.bench_function(kernel, |b| {
                b.iter(|| emulator.launch(kernel, shape, values));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
