//! Sparse products of every back end and storage form against plain loops in f64.

use std::collections::BTreeSet;

use proptest::prelude::*;
use shardgraph_device::{Device, DeviceKind};

use super::{close, devices, gpus};
use crate::adjacency::Storage;
use crate::sparse::{DeviceLists, Tiles};
use crate::{
    self as ops, Adjacency, BitPath, MaskedProduct, ResidentAdjacency, RowIndex, SparseProduct,
};

/// A matrix as a set of entries with weights, from which every storage form is made.
#[derive(Debug, Clone)]
struct Matrix {
    n_rows: usize,
    n_columns: usize,
    entries: Vec<(usize, usize)>,
    weights: Option<Vec<f32>>,
}

impl Matrix {
    fn new(n_rows: usize, n_columns: usize, entries: &BTreeSet<(usize, usize)>) -> Self {
        let inside = |&&(row, column): &&(usize, usize)| row < n_rows && column < n_columns;
        Self {
            n_rows,
            n_columns,
            entries: entries.iter().filter(inside).copied().collect(),
            weights: None,
        }
    }

    fn row_ptr(&self) -> Vec<u64> {
        let before = |row: usize| self.entries.iter().filter(|e| e.0 < row).count() as u64;
        (0..=self.n_rows).map(before).collect()
    }

    fn columns(&self) -> Vec<u32> {
        self.entries.iter().map(|e| e.1 as u32).collect()
    }

    fn words(&self) -> (Vec<u64>, usize) {
        let words_per_row = self.n_rows.div_ceil(64);
        let mut words = vec![0u64; self.n_columns * words_per_row];
        for &(row, column) in &self.entries {
            words[column * words_per_row + row / 64] |= 1 << (row % 64);
        }
        (words, words_per_row)
    }

    /// `sum_u A[v, u] x[u]` in f64.
    fn naive(&self, width: usize, x: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut out = vec![0.0; self.n_rows * width];
        for (i, &(row, column)) in self.entries.iter().enumerate() {
            let weight = self.weights.as_ref().map_or(1.0, |w| f64::from(w[i]));
            for j in 0..width {
                out[row * width + j] += weight * x(column * width + j);
            }
        }
        out
    }

    fn product<'a>(&self, adjacency: Adjacency<'a>, width: usize) -> SparseProduct<'a> {
        SparseProduct {
            adjacency,
            n_rows: self.n_rows,
            n_columns: self.n_columns,
            width,
        }
    }

    /// This matrix in every form and path that a device has, each resident.
    fn forms(&self, device: &Device) -> Vec<ResidentAdjacency> {
        let (row_ptr, columns) = (self.row_ptr(), self.columns());
        let values = self.weights.as_deref();
        let mut forms =
            vec![ResidentAdjacency::upload(device, lists(&row_ptr, &columns, values)).unwrap()];
        if !device.is_host() {
            // Every row that a warp needs two reads for is a long row here.
            let cut = DeviceLists::upload_cut_at(32, device, &row_ptr, &columns, values);
            let cut = Storage::Lists(Box::new(cut.unwrap()));
            forms.push(ResidentAdjacency::with_storage(cut, self.n_columns));
        }
        if self.weights.is_none() {
            forms.extend(self.bit_forms(device));
        }
        if self.weights.is_none() && device.kind() == DeviceKind::Host {
            forms.extend(self.tiles());
        }
        forms
    }

    /// Tiles of this matrix however sparse it is, made of lists and of bits.
    fn tiles(&self) -> [ResidentAdjacency; 2] {
        let (words, words_per_row) = self.words();
        let of_lists = Tiles::of_lists(&self.row_ptr(), &self.columns());
        let of_bits = Tiles::of_bits(&words, words_per_row, self.n_rows);
        [of_lists, of_bits].map(|tiles| {
            let n_columns = tiles.n_columns();
            ResidentAdjacency::with_storage(Storage::Tiles(tiles), n_columns)
        })
    }

    fn bit_forms(&self, device: &Device) -> Vec<ResidentAdjacency> {
        let (words, words_per_row) = self.words();
        let words = bits(&words, words_per_row);
        if device.kind() == DeviceKind::Host {
            return vec![ResidentAdjacency::upload(device, words).unwrap()];
        }
        let mut forms = Vec::new();
        for path in [BitPath::Exact, BitPath::Fast, BitPath::Portable] {
            forms.push(
                ResidentAdjacency::upload(device, words)
                    .unwrap()
                    .with_bit_path(path),
            );
            let mut cut = ResidentAdjacency::upload(device, words)
                .unwrap()
                .with_bit_path(path);
            if let Storage::Bits(bits) = &mut cut.storage {
                bits.split = 64;
            }
            forms.push(cut);
        }
        forms
    }
}

pub(super) fn lists<'a>(
    row_ptr: &'a [u64],
    columns: &'a [u32],
    values: Option<&'a [f32]>,
) -> Adjacency<'a> {
    Adjacency::Csr {
        row_ptr,
        columns,
        values,
    }
}

pub(super) fn bits(words: &[u64], words_per_row: usize) -> Adjacency<'_> {
    Adjacency::Bits {
        words,
        words_per_row,
    }
}

/// Sixteenths: sums and products of them are exact in f32, in any order.
fn sixteenth(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (mixed % 127) as f32 / 16.0 - 4.0
}

/// Numbers with all 24 bits in use and exponents over a range of 2^12.
fn rough(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let size = f32::from_bits(0x3f80_0001 | (mixed >> 41) as u32);
    let sign = if mixed & 1 == 0 { 1.0 } else { -1.0 };
    sign * size * (2.0f32).powi((mixed >> 8) as i32 % 7 - 3)
}

fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(super) fn run(device: &Device, product: SparseProduct<'_>, x: &[f32]) -> Vec<f32> {
    let mut out = device
        .upload(&vec![f32::NAN; product.n_rows * product.width])
        .unwrap();
    let x = device.upload(x).unwrap();
    ops::sparse_product(device, product, &x, &mut out).unwrap();
    device.download(&out).unwrap()
}

/// A masked product of some [`Matrix`]; the operands on the host.
struct Masked {
    n_states: usize,
    width: usize,
    first_row: usize,
    keep: Option<Vec<f32>>,
    scale: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    relu: bool,
}

impl Masked {
    fn kept(&self, node: usize, state: usize) -> f32 {
        let kept = |keep: &Vec<f32>| keep[node * self.n_states + state];
        self.keep.as_ref().map_or(1.0, kept)
    }

    /// Node and state of an element.
    fn place(&self, i: usize) -> (usize, usize) {
        (
            i / (self.n_states * self.width),
            i / self.width % self.n_states,
        )
    }

    fn naive(&self, matrix: &Matrix) -> Vec<f64> {
        let masked_x = |i: usize| {
            let (node, state) = self.place(i);
            f64::from(self.kept(node, state) * sixteenth(i))
        };
        let mut sums = matrix.naive(self.n_states * self.width, masked_x);
        for (i, sum) in sums.iter_mut().enumerate() {
            let (row, state) = self.place(i);
            *sum *= f64::from(self.kept(self.first_row + row, state));
            *sum *= self
                .scale
                .as_ref()
                .map_or(1.0, |scale| f64::from(scale[state]));
            *sum += self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
            if self.relu {
                *sum = sum.max(0.0);
            }
        }
        sums
    }

    /// The device's result, with NaN wherever `x` is masked.
    fn run(&self, device: &Device, matrix: &Matrix, form: &ResidentAdjacency) -> Vec<f32> {
        let row = self.n_states * self.width;
        let mut x: Vec<f32> = (0..matrix.n_columns * row).map(sixteenth).collect();
        for (i, x) in x.iter_mut().enumerate() {
            let (node, state) = self.place(i);
            if self.kept(node, state) == 0.0 {
                *x = f32::NAN;
            }
        }
        let optional = [&self.keep, &self.scale, &self.bias];
        let [keep, scale, bias] =
            optional.map(|values| values.as_ref().map(|values| device.upload(values).unwrap()));
        let product = MaskedProduct {
            adjacency: Adjacency::Resident(form),
            n_rows: matrix.n_rows,
            n_columns: matrix.n_columns,
            n_states: self.n_states,
            width: self.width,
            first_row: self.first_row,
            keep: keep.as_ref(),
            scale: scale.as_ref(),
            bias: bias.as_ref(),
            relu: self.relu,
        };
        let mut out = device.upload(&vec![f32::NAN; matrix.n_rows * row]).unwrap();
        let x = device.upload(&x).unwrap();
        ops::masked_sparse_product(device, product, &x, &mut out).unwrap();
        device.download(&out).unwrap()
    }
}

fn rows() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..4, Just(33), Just(64), Just(65)]
}

/// Entries of a matrix of 65 rows and 70 columns: few, some, or so many that a row takes a warp several reads.
fn entries() -> impl Strategy<Value = BTreeSet<(usize, usize)>> {
    (prop_oneof![Just(3u64), Just(15), Just(95)], any::<u64>()).prop_map(|(percent, seed)| {
        let hash = |i: u64| {
            (i ^ seed)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        };
        let chosen = |i: &u64| hash(hash(*i)) % 100 < percent;
        let place = |i: u64| (i as usize / 70, i as usize % 70);
        (0..65 * 70).filter(chosen).map(place).collect()
    })
}

fn width() -> impl Strategy<Value = usize> {
    prop_oneof![
        1usize..6,
        Just(8),
        Just(9),
        Just(31),
        Just(32),
        Just(33),
        Just(64),
        Just(70),
        Just(128),
        Just(132)
    ]
}

/// A case here runs up to eight forms: fewer of them keep a test below a second.
fn fewer_cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = default.cases / 3;
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(fewer_cases())]

    /// Lists, bits and resident blocks give the same numbers as each other, and the right ones.
    #[test]
    fn sparse_products_match_naive(
        (n_rows, n_columns) in (rows(), prop_oneof![1usize..4, Just(70)]),
        entries in entries(),
        width in width(),
        weighted in any::<bool>(),
    ) {
        let mut matrix = Matrix::new(n_rows, n_columns, &entries);
        if weighted {
            matrix.weights = Some((0..matrix.entries.len()).map(|i| sixteenth(i + 5)).collect());
        }
        let x: Vec<f32> = (0..n_columns * width).map(sixteenth).collect();
        let want = matrix.naive(width, |i| f64::from(x[i]));
        let (row_ptr, columns) = (matrix.row_ptr(), matrix.columns());
        let values = matrix.weights.as_deref();
        let lists = lists(&row_ptr, &columns, values);
        let first = run(&Device::host(), matrix.product(lists, width), &x);
        close(&first, &want)?;
        for device in devices() {
            prop_assert_eq!(&run(&device, matrix.product(lists, width), &x), &first);
            for form in matrix.forms(&device) {
                let got = run(&device, matrix.product(Adjacency::Resident(&form), width), &x);
                prop_assert_eq!(&got, &first);
            }
        }
    }

    /// The masked product is mask, product, scale, bias and relu one after the other; what is masked is not read.
    #[test]
    fn masked_products_match_naive(
        n_rows in rows(),
        entries in entries(),
        (n_states, width) in (1usize..4, prop_oneof![1usize..4, Just(8), Just(32), Just(33), Just(64)]),
        (weighted, masked, scaled) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (biased, relu) in (any::<bool>(), any::<bool>()),
        (first_row, seed) in (0usize..5, any::<u32>()),
    ) {
        let mut matrix = Matrix::new(n_rows, 70, &entries);
        if weighted {
            matrix.weights = Some((0..matrix.entries.len()).map(|i| sixteenth(i + 5)).collect());
        }
        let inside = |i: usize| sixteenth(i ^ seed as usize) >= 0.0;
        let keep = (0..70 * n_states).map(|i| if inside(i) { 1.0 } else { 0.0 }).collect();
        let case = Masked {
            n_states,
            width,
            first_row,
            keep: masked.then_some(keep),
            scale: scaled.then(|| (0..n_states).map(|b| 0.5 / (b + 1) as f32).collect()),
            bias: biased.then(|| (0..n_rows * n_states * width).map(|i| sixteenth(i + 77)).collect()),
            relu,
        };
        let want = case.naive(&matrix);
        for device in devices() {
            for form in matrix.forms(&device) {
                close(&case.run(&device, &matrix, &form), &want)?;
            }
        }
    }

    /// A row's bits do not depend on which other rows a rank has: ranges of own rows give the bits of the whole.
    #[test]
    fn a_row_does_not_depend_on_its_owner(
        entries in entries(),
        width in prop_oneof![Just(1usize), Just(5), Just(32)],
        first in 0usize..2,
    ) {
        let matrix = Matrix::new(65, 70, &entries);
        let x: Vec<f32> = (0..70 * width).map(rough).collect();
        let first = first * 64; // bits are cut at words
        let own: BTreeSet<_> =
            matrix.entries.iter().filter(|e| e.0 >= first).map(|e| (e.0 - first, e.1)).collect();
        let part = Matrix::new(65 - first, 70, &own);
        for device in devices() {
            for (whole, own) in matrix.forms(&device).iter().zip(part.forms(&device)) {
                let whole = run(&device, matrix.product(Adjacency::Resident(whole), width), &x);
                let own = run(&device, part.product(Adjacency::Resident(&own), width), &x);
                prop_assert_eq!(bits_of(&own), bits_of(&whole[first * width..]));
            }
        }
    }
}

/// Two bf16 parts of half of x, doubled: what the fast path makes of a row with one neighbour.
fn two_parts(x: f32) -> f32 {
    let bf16 = |x: f32| {
        let bits = x.to_bits();
        f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
    };
    let half = 0.5 * x;
    let high = bf16(half);
    2.0 * (high + bf16(half - high))
}

/// The bit paths and the most that their split may be off by, relative to the summed sizes.
const SPLIT_ERRORS: [(BitPath, f64); 3] = [
    (BitPath::Exact, 0.0),
    (BitPath::Fast, 1.0 / 131_072.0), // 2^-17
    (BitPath::Portable, 0.0),
];

fn on_path(device: &Device, matrix: &Matrix, path: BitPath, width: usize, x: &[f32]) -> Vec<f32> {
    let (words, words_per_row) = matrix.words();
    let block = ResidentAdjacency::upload(device, bits(&words, words_per_row)).unwrap();
    let block = block.with_bit_path(path);
    run(
        device,
        matrix.product(Adjacency::Resident(&block), width),
        x,
    )
}

/// A single neighbour comes back whole from three parts, and rounded to its 16 or 17 leading bits from two.
#[test]
fn bit_paths_split_as_they_say() {
    let (n, width) = (130usize, 3usize);
    let x: Vec<f32> = (0..n * width).map(rough).collect();
    let ring = (0..n).map(|v| (v, (v + 1) % n)).collect();
    let ring = Matrix::new(n, n, &ring);
    for device in gpus() {
        for (path, error) in SPLIT_ERRORS {
            let got = on_path(&device, &ring, path, width, &x);
            for (i, got) in got.iter().enumerate() {
                let x = x[(i / width + 1) % n * width + i % width];
                let want = if path == BitPath::Fast {
                    two_parts(x)
                } else {
                    x
                };
                assert_eq!(got.to_bits(), want.to_bits(), "{path:?}: {got} of {x}");
                assert!(f64::from((got - x).abs()) <= error * f64::from(x.abs()));
            }
        }
    }
}

/// Sums stay within the stated error of the split and of the accumulation.
#[test]
fn bit_paths_keep_their_error_bounds() {
    let (n, width) = (130usize, 3usize);
    let x: Vec<f32> = (0..n * width).map(rough).collect();
    let entries = (0..n * 20).map(|i| (i % n, (i * i + i / n) % n)).collect();
    let dense = Matrix::new(n, n, &entries);
    let sums = dense.naive(width, |i| f64::from(x[i]));
    let sizes = dense.naive(width, |i| f64::from(x[i].abs()));
    for device in gpus() {
        for (path, error) in SPLIT_ERRORS {
            let accumulation = (n * 3) as f64 * 2.0f64.powi(-22);
            let got = on_path(&device, &dense, path, width, &x);
            for (i, (&got, sum)) in got.iter().zip(&sums).enumerate() {
                let off = (f64::from(got) - sum).abs();
                assert!(
                    off <= (error + accumulation) * sizes[i],
                    "{path:?}: {got} {sum}"
                );
            }
        }
    }
}

/// Bits behind the last own row are no rows, and a matrix of more than one block of rows has all of them.
#[test]
fn bit_matrices_of_several_blocks_keep_their_edges() {
    let (n_rows, n_columns, width) = (577usize, 66usize, 9usize);
    let entries: BTreeSet<_> = (0..n_rows)
        .flat_map(|v| [(v, v % 66), (v, (v * 7 + 3) % 66)])
        .collect();
    let matrix = Matrix::new(n_rows, n_columns, &entries);
    let x: Vec<f32> = (0..n_columns * width).map(sixteenth).collect();
    let want = matrix.naive(width, |i| f64::from(x[i]));
    let (mut words, words_per_row) = matrix.words();
    for row in words.chunks_exact_mut(words_per_row) {
        row[words_per_row - 1] |= !1; // 577 = 9 * 64 + 1
    }
    for device in devices() {
        for path in [BitPath::Exact, BitPath::Portable] {
            let bits = ResidentAdjacency::upload(&device, bits(&words, words_per_row))
                .unwrap()
                .with_bit_path(path);
            let got = run(
                &device,
                matrix.product(Adjacency::Resident(&bits), width),
                &x,
            );
            close(&got, &want).unwrap();
        }
    }
}

/// A hub of more than a thousand entries is summed in chunks.
#[test]
fn long_rows_are_cut_and_added_in_order() {
    let lengths = [1024usize, 1025, 0, 3001, 1];
    let n_columns = 3100;
    let (mut row_ptr, mut columns) = (vec![0u64], Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        columns.extend((0..length).map(|i| ((i * 17 + row) % n_columns) as u32));
        row_ptr.push(columns.len() as u64);
    }
    for (device, width) in devices()
        .iter()
        .flat_map(|d| [1, 4, 6].map(|width| (d, width)))
    {
        let block = ResidentAdjacency::upload(device, lists(&row_ptr, &columns, None)).unwrap();
        let x: Vec<f32> = (0..n_columns * width).map(sixteenth).collect();
        let product = SparseProduct {
            adjacency: Adjacency::Resident(&block),
            n_rows: lengths.len(),
            n_columns,
            width,
        };
        let got = run(device, product, &x);
        for (row, ends) in row_ptr.windows(2).enumerate() {
            let ids = &columns[ends[0] as usize..ends[1] as usize];
            let sum = |j: usize| {
                ids.iter()
                    .map(|&u| f64::from(x[u as usize * width + j]))
                    .sum()
            };
            let want: Vec<f64> = (0..width).map(sum).collect();
            close(&got[row * width..][..width], &want).unwrap();
        }
    }
}

/// So is a scatter of many rows to few.
#[test]
fn scatters_to_few_rows_are_cut_too() {
    let row_of = |i: u32| if i.is_multiple_of(5) { u32::MAX } else { i % 2 };
    let index: Vec<u32> = (0..3100).map(row_of).collect();
    let x: Vec<f32> = (0..index.len() * 3).map(sixteenth).collect();
    let mut want = [0.0f64; 6];
    for (i, &row) in index.iter().enumerate().filter(|(_, row)| **row < 2) {
        (0..3).for_each(|j| want[row as usize * 3 + j] += f64::from(x[i * 3 + j]));
    }
    for device in devices() {
        let by = RowIndex::upload(&device, 2, index.as_slice()).unwrap();
        let mut out = device.upload(&[f32::NAN; 6]).unwrap();
        let x = device.upload(&x).unwrap();
        ops::scatter_rows(&device, &by, 3, &x, &mut out).unwrap();
        close(&device.download(&out).unwrap(), &want).unwrap();
    }
}
