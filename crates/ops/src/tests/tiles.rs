//! Blocks in tiles against the same blocks as lists: bit for bit, for sizes around those of a tile and of a block of rows.

use proptest::prelude::*;
use shardgraph_device::{Device, ErrorKind};

use super::sparse::{bits, lists, run};
use crate::{self as ops, Adjacency, ResidentAdjacency, SparseProduct};

/// Lists of a random matrix in which `percent` of the places are taken.
fn matrix(n_rows: usize, n_columns: usize, percent: u64, seed: u64) -> (Vec<u64>, Vec<u32>) {
    let (mut row_ptr, mut columns, mut state) = (vec![0], Vec::new(), seed);
    for _ in 0..n_rows {
        for column in 0..n_columns as u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if (state >> 33) % 100 < percent {
                columns.push(column);
            }
        }
        row_ptr.push(columns.len() as u64);
    }
    (row_ptr, columns)
}

/// For each column a bit for each of its rows.
fn words(row_ptr: &[u64], columns: &[u32], n_columns: usize) -> (Vec<u64>, usize) {
    let words_per_row = (row_ptr.len() - 1).div_ceil(64);
    let mut words = vec![0; n_columns * words_per_row];
    for (row, bounds) in row_ptr.windows(2).enumerate() {
        for &column in &columns[bounds[0] as usize..bounds[1] as usize] {
            words[column as usize * words_per_row + row / 64] |= 1u64 << (row % 64);
        }
    }
    (words, words_per_row)
}

/// Numbers of many sizes, zeros of both signs among them, and one that is none.
fn operand(n: usize, seed: u64) -> Vec<f32> {
    let number = |i: u64| {
        let mixed = (i ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match mixed >> 60 {
            0 => -0.0,
            1 => 0.0,
            _ => (mixed >> 40) as u32 as f32 * (2.0f32).powi((mixed % 29) as i32 - 30) - 0.01,
        }
    };
    let mut x: Vec<f32> = (0..n as u64).map(number).collect();
    if let Some(x) = x.get_mut(n / 2) {
        *x = f32::INFINITY;
    }
    x
}

fn product(adjacency: Adjacency<'_>, shape: (usize, usize), width: usize) -> SparseProduct<'_> {
    let (n_rows, n_columns) = shape;
    SparseProduct {
        adjacency,
        n_rows,
        n_columns,
        width,
    }
}

fn n_columns() -> impl Strategy<Value = usize> {
    prop_oneof![Just(40usize), 254usize..258, 509usize..512]
}

fn n_rows() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..4, Just(64), Just(65), 1023usize..1027]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tiles_have_the_bits_of_lists(
        (n_rows, n_columns) in (n_rows(), n_columns()),
        percent in prop_oneof![Just(30u64), Just(60), Just(100)],
        width in prop_oneof![Just(1usize), Just(7), Just(8), Just(16), Just(31), Just(32), Just(33), Just(48), Just(64)],
        seed in any::<u64>(),
    ) {
        let device = Device::host();
        let (row_ptr, columns) = matrix(n_rows, n_columns, percent, seed);
        let shape = (n_rows, n_columns);
        let x = operand(n_columns * width, seed);
        let bits_of = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let lists = lists(&row_ptr, &columns, None);
        let want = bits_of(run(&device, product(lists, shape, width), &x));
        let (words, words_per_row) = words(&row_ptr, &columns, n_columns);
        let mut n_blocks = 0;
        for block in [lists, bits(&words, words_per_row)] {
            if let Some(block) = ResidentAdjacency::for_products(&device, block, n_rows).unwrap() {
                let product = product(Adjacency::Resident(&block), shape, width);
                prop_assert_eq!(&bits_of(run(&device, product, &x)), &want);
                n_blocks += 1;
            }
        }
        // Below 258 columns 30 % are more than six entries a row and tile; of bits, few rows fill a small part of a word.
        prop_assert!(n_blocks > 0 || n_columns > 255 || n_rows < 4);
    }
}

#[test]
fn sparse_unsorted_and_weighted_blocks_keep_their_form() {
    let device = Device::host();
    let tiles = |block, n_rows| ResidentAdjacency::for_products(&device, block, n_rows).unwrap();
    let (row_ptr, columns) = ([0, 6, 12], [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    assert!(tiles(lists(&row_ptr, &columns, None), 2).is_some());
    assert!(tiles(lists(&row_ptr, &columns, Some(&[1.0; 12])), 2).is_none());
    let descending = [0, 1, 2, 3, 5, 4, 0, 1, 2, 3, 4, 5];
    assert!(tiles(lists(&row_ptr, &descending, None), 2).is_none());
    // A column that a row names twice counts twice; a tile has no room for more than 255 entries of a row.
    let twice = [0, 1, 2, 3, 4, 5, 0, 1, 2, 2, 3, 4];
    assert!(tiles(lists(&row_ptr, &twice, None), 2).is_none());
    assert!(tiles(lists(&[0, 300], &[0; 300], None), 1).is_none());
    assert!(tiles(lists(&[0, 5, 11], &columns[..11], None), 2).is_none());
    assert!(tiles(lists(&[0], &[], None), 0).is_none());
    assert!(tiles(bits(&[u64::MAX; 64], 1), 64).is_none()); // as bytes eight times as large
    assert!(tiles(bits(&[0x5555; 64], 1), 8).is_some());
}

#[test]
fn tiles_take_a_byte_an_entry() {
    let device = Device::host();
    let (row_ptr, columns) = matrix(1030, 520, 100, 1);
    let block = ResidentAdjacency::for_products(&device, lists(&row_ptr, &columns, None), 1030);
    let block = block.unwrap().unwrap();
    assert_eq!(block.host_bytes(), Some(1030 * 520 + 515 * 3));
}

#[test]
fn tiles_of_another_shape_or_for_another_purpose_are_refused() {
    let device = Device::host();
    let (row_ptr, columns) = ([0, 6, 12], [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    let block = ResidentAdjacency::for_products(&device, lists(&row_ptr, &columns, None), 2);
    let block = block.unwrap().unwrap();
    let mut out = device.zeros(3).unwrap();
    let x = device.zeros(6).unwrap();
    let product = product(Adjacency::Resident(&block), (3, 6), 1);
    let error = ops::sparse_product(&device, product, &x, &mut out).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Length { .. }), "{error}");
    let (mut out, x) = (device.zeros(2).unwrap(), device.zeros(5).unwrap());
    let product = SparseProduct {
        n_rows: 2,
        n_columns: 5,
        ..product
    };
    let error = ops::sparse_product(&device, product, &x, &mut out).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Index { .. }), "{error}");
    let error = block.block().unwrap_err();
    assert!(error.to_string().contains("for products alone"), "{error}");
}
