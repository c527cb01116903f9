//! Right programs give right results, whatever the order of blocks, warps and lanes.

use shardgraph_cuemu::compile::Build;

use crate::arguments;
use crate::emulator::{Emulator, Shape, scattered};

const SEEDS: std::ops::Range<u64> = 0..12;

/// Small integers: every order of a float sum gives the same bits.
fn small_floats(n: u32) -> Vec<f32> {
    scattered(n).iter().map(|x| (x % 17) as f32).collect()
}

#[test]
fn sums_with_barriers() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x = small_floats(5 * 256);
    let expected: Vec<f32> = x.chunks(256).map(|block| block.iter().sum()).collect();
    for seed in SEEDS {
        let (x, out) = (emulator.memory(&x), emulator.unwritten::<f32>(5));
        let shape = Shape::line(5, 256).seed(seed);
        emulator
            .launch("tree_sum", shape, arguments![&x, &out])
            .unwrap();
        assert_eq!(out.to_vec(), expected, "seed {seed}");
    }
}

#[test]
fn sums_with_shuffles_for_every_kind_of_block() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for n_threads in [1, 2, 31, 32, 33, 48, 63, 64, 65, 255, 256, 257, 1023, 1024] {
        let n = 3 * n_threads - n_threads / 2;
        let x = small_floats(n);
        let blocks = x.chunks(n_threads as usize);
        let expected: Vec<f32> = blocks.map(|block| block.iter().sum()).collect();
        for seed in SEEDS {
            let (x, out) = (emulator.memory(&x), emulator.unwritten::<f32>(3));
            let shape = Shape::line(3, n_threads).seed(seed).shared_bytes(128);
            emulator
                .launch("warp_sum", shape, arguments![&x, n, &out])
                .unwrap();
            assert_eq!(out.to_vec(), expected, "{n_threads} threads, seed {seed}");
        }
    }
}

#[test]
fn argmax_of_scattered_numbers() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x: Vec<f32> = scattered(3000).iter().map(|&x| x as i32 as f32).collect();
    let mut largest = 0;
    for (i, value) in x.iter().enumerate() {
        if *value > x[largest] {
            largest = i;
        }
    }
    for seed in SEEDS {
        let (x, best) = (emulator.memory(&x), emulator.memory(&[0_u64]));
        let shape = Shape::line(4, 128).seed(seed);
        emulator
            .launch("argmax", shape, arguments![&x, 3000_u32, &best])
            .unwrap();
        assert_eq!(!(best.to_vec()[0] as u32) as usize, largest, "seed {seed}");
    }
}

/// The source lane of each shuffle, from the table of `shfl.sync` in the PTX ISA.
fn source_lanes(lane: usize, argument: i32, width: usize) -> [usize; 4] {
    let first = lane / width * width;
    let last = first + width - 1;
    let argument = (argument & 31) as usize;
    let or_own = |source: usize, is_valid: bool| if is_valid { source } else { lane };
    [
        first + argument % width,
        or_own(lane.wrapping_sub(argument), lane >= first + argument),
        or_own(lane + argument, lane + argument <= last),
        or_own(lane ^ argument, lane ^ argument <= last),
    ]
}

#[test]
fn shuffles_of_every_width() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x = scattered(32);
    for width in [1, 2, 4, 8, 16, 32] {
        for argument in 0..40 {
            let (input, out) = (emulator.memory(&x), emulator.unwritten::<u32>(128));
            let shape = Shape::line(1, 32).seed(argument as u64);
            emulator
                .launch(
                    "shuffles",
                    shape,
                    arguments![&input, argument, width as i32, &out],
                )
                .unwrap();
            let out = out.to_vec();
            for lane in 0..32 {
                let sources = source_lanes(lane, argument, width);
                for (row, source) in sources.into_iter().enumerate() {
                    let got = out[32 * row + lane];
                    assert_eq!(
                        got, x[source],
                        "row {row}, lane {lane}, {argument}, width {width}"
                    );
                }
            }
        }
    }
}

/// What `votes` gives, one row a vote.
fn expected_votes(x: &[u32]) -> Vec<Vec<u32>> {
    let lanes = |f: &dyn Fn(u32) -> bool| {
        (0..32).fold(0, |mask, lane| mask | u32::from(f(x[lane])) << lane)
    };
    let same = |value: u32| vec![value; 32];
    let signed = || x.iter().map(|&x| x as i32);
    vec![
        same(lanes(&|x| x & 1 == 1)),
        same(u32::from(x.contains(&7))),
        same(u32::from(!x.contains(&7))),
        x.iter().map(|own| lanes(&|x| x & 3 == own & 3)).collect(),
        same(x.iter().fold(0, |sum, x| sum.wrapping_add(*x))),
        same(*x.iter().min().unwrap()),
        same(*x.iter().max().unwrap()),
        same(x.iter().fold(!0, |all, x| all & x)),
        same(x.iter().fold(0, |any, x| any | x)),
        same(x.iter().fold(0, |odd, x| odd ^ x)),
        same(signed().min().unwrap() as u32),
        same(signed().max().unwrap() as u32),
    ]
}

#[test]
fn votes_matches_and_reductions() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let with_seven = {
        let mut x = scattered(32);
        x[9] = 7;
        x
    };
    for x in [scattered(32), with_seven, vec![0x8000_0001; 32]] {
        for seed in SEEDS {
            let (input, out) = (emulator.memory(&x), emulator.unwritten::<u32>(12 * 32));
            let shape = Shape::line(1, 32).seed(seed);
            emulator
                .launch("votes", shape, arguments![&input, &out])
                .unwrap();
            let rows: Vec<Vec<u32>> = out.to_vec().chunks(32).map(<[u32]>::to_vec).collect();
            assert_eq!(rows, expected_votes(&x));
        }
    }
}

#[test]
fn votes_of_a_block() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for n in [1, 32, 33, 100, 1024] {
        for n_set in [0, 1, n / 2, n] {
            let x: Vec<u32> = (0..n).map(|i| u32::from((i * 7) % n < n_set)).collect();
            let n_set: i32 = x.iter().sum::<u32>() as i32;
            let (input, out) = (
                emulator.memory(&x),
                emulator.unwritten::<i32>(3 * n as usize),
            );
            let shape = Shape::line(1, n).seed(u64::from(n));
            emulator
                .launch("block_votes", shape, arguments![&input, &out])
                .unwrap();
            let expected = [n_set, i32::from(n_set == n as i32), i32::from(n_set != 0)];
            assert!(out.to_vec().chunks(3).all(|votes| votes == expected));
        }
    }
}

#[test]
fn parts_of_a_warp_go_their_own_ways() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x: Vec<u32> = scattered(32).iter().map(|x| x % 1000).collect();
    for seed in SEEDS {
        let (input, out) = (emulator.memory(&x), emulator.unwritten::<u32>(32));
        let shape = Shape::line(1, 32).seed(seed);
        emulator
            .launch("half_warps", shape, arguments![&input, &out])
            .unwrap();
        let sums = [x[..16].iter().sum(), x[16..].iter().sum::<u32>()];
        assert_eq!(out.to_vec(), [[sums[0]; 16], [sums[1]; 16]].concat());
    }
}

#[test]
fn returned_lanes_are_not_waited_for() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for seed in SEEDS {
        let out = emulator.memory(&[9_u32; 96]);
        let shape = Shape::line(1, 96).seed(seed);
        emulator
            .launch("early_return", shape, arguments![40_u32, &out])
            .unwrap();
        let expected = [vec![!0; 32], vec![0xff; 8], vec![9; 56]].concat();
        assert_eq!(out.to_vec(), expected);
    }
}

#[test]
fn places_in_three_dimensions() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for seed in SEEDS {
        let out = emulator.unwritten::<u32>(24 * 60);
        let shape = Shape {
            grid: [2, 3, 4],
            block: [5, 4, 3],
            shared_bytes: 0,
            seed,
        };
        emulator.launch("places", shape, arguments![&out]).unwrap();
        let expected: Vec<u32> = (0..24)
            .flat_map(|b| (0..60).map(move |t| b * 1000 + t))
            .collect();
        assert_eq!(out.to_vec(), expected);
    }
}

fn order(emulator: &Emulator, seed: u64) -> Vec<u32> {
    let (next, out) = (
        emulator.memory(&[0_u32]),
        emulator.unwritten::<u32>(7 * 100),
    );
    let shape = Shape::line(7, 100).seed(seed);
    emulator
        .launch("order", shape, arguments![&next, &out])
        .unwrap();
    out.to_vec()
}

#[test]
fn the_order_follows_from_the_seed() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let natural: Vec<u32> = (0..700).collect();
    assert_eq!(order(emulator, 0), natural);
    let mut n_sorted = [0; 3]; // blocks, warps of a block, lanes of its warps
    for seed in 1..30 {
        let one = order(emulator, seed);
        assert_eq!(one, order(emulator, seed));
        assert_ne!(one, order(emulator, seed + 1));
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, natural);
        let is_sorted = |order: &[u32]| order.is_sorted();
        let warps: Vec<u32> = one[..100].iter().map(|thread| thread / 32).collect();
        n_sorted[0] += usize::from(one.chunks(100).is_sorted_by_key(|block| block[0] / 100));
        n_sorted[1] += usize::from(is_sorted(&warps));
        n_sorted[2] += usize::from(one[..100].chunk_by(|a, b| a / 32 == b / 32).all(is_sorted));
        let blocks: Vec<u32> = one.chunks(100).map(|block| block[0] / 100).collect();
        let one_block_a_time = one.chunks(100).zip(blocks);
        assert!(
            one_block_a_time
                .into_iter()
                .all(|(b, n)| b.iter().all(|t| t / 100 == n))
        );
    }
    // Of 4 warps one order in 24 is sorted.
    assert!(
        n_sorted[0] < 3 && n_sorted[1] < 8 && n_sorted[2] == 0,
        "{n_sorted:?}"
    );
}

#[test]
fn shared_memory_starts_as_nan_in_every_block() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let out = emulator.memory(&[0_u32; 96]);
    let shape = Shape::line(3, 32).shared_bytes(128);
    emulator
        .launch("unwritten_shared", shape, arguments![&out])
        .unwrap();
    assert_eq!(out.to_vec(), vec![!0; 96]);
    assert!(
        emulator
            .unwritten::<f32>(33)
            .to_vec()
            .iter()
            .all(|x| x.is_nan())
    );
}

#[test]
fn signatures_are_those_of_the_compiled_functions() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let table = emulator.table();
    let signature = |kernel: &str| {
        let found: Vec<_> = table.iter().filter(|(name, _)| name == kernel).collect();
        assert_eq!(found.len(), 1, "{kernel}");
        found[0].1.clone()
    };
    assert_eq!(signature("every_type"), "fuiUhb&f&b*f*u*i&U*h*U");
    assert_eq!(signature("tree_sum"), "&f*f");
    assert_eq!(signature("early_return"), "u*u");
}

#[test]
fn every_type_arrives() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let (floats, bytes) = (emulator.memory(&[64.0_f32]), emulator.memory(&[128_u8]));
    let out = emulator.memory(&[0_u64; 2]);
    let null = 0_u64;
    let values = arguments![
        1.0_f32, 2_u32, 4_i32, 8_u64, 16_u16, 32_u8, &floats, &bytes, null, null, null, null, null,
        &out
    ];
    emulator
        .launch("every_type", Shape::line(1, 1), values)
        .unwrap();
    assert_eq!(out.to_vec(), [255, 1]);
}

#[test]
fn launches_from_many_threads_take_turns() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x = small_floats(512);
    let expected: Vec<f32> = x.chunks(256).map(|block| block.iter().sum()).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (x, expected) = (&x, &expected);
            scope.spawn(move || {
                for turn in 0..20 {
                    let (x, out) = (emulator.memory(x), emulator.unwritten::<f32>(2));
                    let shape = Shape::line(2, 256).seed(seed * 100 + turn);
                    emulator
                        .launch("tree_sum", shape, arguments![&x, &out])
                        .unwrap();
                    assert_eq!(out.to_vec(), *expected);
                }
            });
        }
    });
}
