//! The updates themselves: against f64 loops, finite differences, one another, and across geometries.

use proptest::prelude::*;

use super::super::{DOT_CLAMP, Element, narrow};
use super::devices::{devices, gpus};
use super::{
    ALL, AliasTable, Case, EdgeList, EdgeOrder, LaunchSize, Mode, ONE_WARP, Samples, Settings,
    Tables, Trainer, case, fraction,
};
use shardgraph_device::Device;

/// `table[row] += factor * addend`.
fn add(table: &mut [f64], row: u32, factor: f64, addend: &[f64]) {
    let row = &mut table[row as usize * addend.len()..][..addend.len()];
    row.iter_mut()
        .zip(addend)
        .for_each(|(t, a)| *t += factor * a);
}

/// Plain sequential descent in f64 on draws that the host made; order 1 where `context` is empty. Each run of `frozen`
/// samples reads its negatives' rows as the run found them, and adds to them when it ends: 1 is plain descent.
pub(super) fn naive(
    case: &Case,
    vertex: Vec<f64>,
    context: Vec<f64>,
    frozen: usize,
) -> [Vec<f64>; 3] {
    let (dim, n_slots) = (case.settings.dim, case.settings.n_negatives as usize + 1);
    let (sources, targets) = host_draws(case);
    let second = usize::from(!context.is_empty()); // the table of the targets
    let mut tables = [vertex, context];
    let mut losses = Vec::new();
    for (sources, targets) in sources.chunks(frozen).zip(targets.chunks(frozen * n_slots)) {
        let before = tables[second].clone();
        let mut late = Vec::new();
        for (&u, targets) in sources.iter().zip(targets.chunks(n_slots)) {
            let source = tables[0][u as usize * dim..][..dim].to_vec();
            let (mut gradient, mut loss, mut own) = (vec![0.0; dim], 0.0, 0.0);
            for (slot, &target) in targets.iter().enumerate() {
                let table = if slot == 0 { &tables[second] } else { &before };
                let row = &table[target as usize * dim..][..dim];
                let x: f64 = source.iter().zip(row).map(|(a, b)| a * b).sum();
                let sigmoid = 1.0 / (1.0 + (-x).exp());
                loss -= if slot == 0 {
                    sigmoid.ln()
                } else {
                    (1.0 - sigmoid).ln()
                };
                let label = if slot == 0 { 1.0 } else { 0.0 };
                let factor = f64::from(case.rate) * (label - sigmoid);
                add(&mut gradient, 0, factor, row);
                match slot {
                    0 => own = factor,
                    _ => late.push((target, factor, source.clone())),
                }
            }
            add(&mut tables[second], targets[0], own, &source);
            add(&mut tables[0], u, 1.0, &gradient);
            losses.push(loss);
        }
        for (target, factor, source) in late {
            add(&mut tables[second], target, factor, &source);
        }
    }
    let [vertex, context] = tables;
    [vertex, context, losses]
}

/// How long the negatives of a group stand still: on the host for the group, on a GPU where they are kept in shared memory.
fn frozen_samples(case: &Case, device: &Device) -> usize {
    let Settings {
        dim,
        n_negatives,
        group,
        mode,
        ..
    } = case.settings;
    let on_host = device.kind() == shardgraph_device::DeviceKind::Host;
    let is_at_once = mode == Mode::Hogwild;
    let rows = 2 * n_negatives as usize * 4 * dim.next_multiple_of(128); // for one warp
    let in_shared = n_negatives > 0 && dim.is_multiple_of(4) && dim <= 256 && rows <= 48 << 10;
    if is_at_once && (on_host || in_shared) {
        group as usize
    } else {
        1
    }
}

fn naive_order2(case: &Case, device: &Device) -> [Vec<f64>; 3] {
    naive(
        case,
        wide(&case.vertex()),
        wide(&case.context()),
        frozen_samples(case, device),
    )
}

pub(super) fn naive_order1(case: &Case, device: &Device) -> Vec<f64> {
    let [table, _, _] = naive(
        case,
        wide(&case.vertex()),
        Vec::new(),
        frozen_samples(case, device),
    );
    table
}

/// Sources and targets of a case.
pub(super) fn host_draws(case: &Case) -> (Vec<u32>, Vec<u32>) {
    let device = Device::host();
    let edges = EdgeList::upload(&device, &case.pairs).unwrap();
    let negatives = AliasTable::from_degrees(&device, &case.degrees).unwrap();
    let mut trainer = Trainer::new(&device, case.settings).unwrap();
    let order = EdgeOrder::Listed { first: 1 };
    let (first, count) = (case.first, case.count);
    let samples = Samples {
        edges: &edges,
        negatives: &negatives,
        order,
        reversed: case.reversed,
        first,
        count,
    };
    let rows = case.n_sources.max(case.n_targets);
    let mut table = device.zeros::<f32>(rows * case.settings.dim).unwrap();
    let pass = trainer
        .pass(&samples, 0.0, &Tables::Order1(&mut table))
        .unwrap();
    (pass.sources, pass.targets)
}

pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

pub(super) fn worst(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let differences = got.iter().zip(want).map(|(&g, w)| (f64::from(g) - w).abs());
    differences.fold(
        0.0,
        |worst, d| if d > worst || d.is_nan() { d } else { worst },
    )
}

fn dims() -> impl Strategy<Value = usize> {
    prop_oneof![
        1usize..6,
        31usize..34,
        63usize..66,
        Just(96),
        127usize..130,
        Just(132),
        255usize..258,
        Just(260)
    ]
}

/// Rates of 0.002 move rows by some 1e-3, so what is missing or doubled is 20 times this.
const LIMIT: f64 = 5e-5;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// One warp runs samples in order; a row that comes twice in a sample may differ by second-order terms.
    #[test]
    fn order_2_is_sequential_descent(
        dim in dims(),
        n_negatives in prop_oneof![0u32..7, Just(30), Just(31)],
        n_edges in 1usize..12,
        group in prop_oneof![Just(1u32), Just(3), Just(16)],
    ) {
        let mut case = case(dim, n_negatives, n_edges);
        case.settings.group = group;
        (case.first, case.rate) = (48, 0.002);
        for device in devices() {
            let want = naive_order2(&case, &device);
            let [vertex, context, losses] = case.order2(&device, ONE_WARP);
            let errors = [worst(&vertex, &want[0]), worst(&context, &want[1]), worst(&losses, &want[2])];
            let limit = if n_negatives > 6 { 25.0 * LIMIT } else { LIMIT }; // rows move more, and come many times
            // More than three targets do not all stand in registers: one that comes twice sees its first addition.
            let of_losses = if n_negatives > 2 { f64::INFINITY } else { LIMIT };
            let limits = [limit, limit, of_losses];
            prop_assert!(errors.iter().zip(limits).all(|(e, l)| *e < l), "{} {:?}", device.kind(), errors);
            let tables = case.order2_without_losses(&device, ONE_WARP);
            for (table, want) in tables.iter().zip(&want) {
                let error = worst(table, want);
                prop_assert!(error < limit, "{} without losses {error}", device.kind());
            }
        }
    }

    #[test]
    fn order_1_is_sequential_descent_on_one_table(
        dim in dims(),
        n_negatives in 0u32..7,
        n_edges in 1usize..12,
        group in prop_oneof![Just(1u32), Just(4)],
    ) {
        let mut case = case(dim, n_negatives, n_edges);
        case.settings.group = group;
        case.rate = 0.002;
        case.n_sources = 9;
        for device in devices() {
            let want = naive_order1(&case, &device);
            let mut table = device.upload(&case.vertex()).unwrap();
            case.step(&device, ONE_WARP, Tables::Order1(&mut table), None);
            let error = worst(&device.download(&table).unwrap(), &want);
            prop_assert!(error < LIMIT, "{} {}", device.kind(), error);
        }
    }

    /// A batch of 1 is plain descent, now exactly in order on every back end.
    #[test]
    fn batches_of_one_are_sequential_descent(dim in dims(), n_negatives in 0u32..7, n_edges in 1usize..8) {
        let mut case = case(dim, n_negatives, n_edges);
        case.settings.mode = Mode::Deterministic { batch: 1 };
        for device in devices() {
            let want = naive_order2(&case, &device);
            let [vertex, context, losses] = case.order2(&device, ALL);
            let errors = [worst(&vertex, &want[0]), worst(&context, &want[1]), worst(&losses, &want[2])];
            prop_assert!(errors.iter().all(|e| *e < 2e-5), "{} {:?}", device.kind(), errors);
        }
    }
}

/// The tables and the losses after calls of so many samples each, on the host; `element` makes the
/// numbers of the tables.
fn in_calls<T: Element>(
    case: &Case,
    element: fn(f32) -> T,
    has_one_table: bool,
    counts: &[u64],
) -> ([Vec<T>; 2], Vec<f32>) {
    let device = Device::host();
    let edges = EdgeList::upload(&device, &case.pairs).unwrap();
    let negatives = AliasTable::from_degrees(&device, &case.degrees).unwrap();
    let mut trainer = Trainer::new(&device, case.settings).unwrap();
    let table = |values: Vec<f32>| {
        let values: Vec<T> = values.into_iter().map(element).collect();
        device.upload(&values).unwrap()
    };
    let (mut vertex, mut context) = (table(case.vertex()), table(case.context()));
    let (mut first, mut all_losses) = (0, Vec::new());
    for &count in counts {
        let samples = Samples {
            edges: &edges,
            negatives: &negatives,
            order: EdgeOrder::Listed { first },
            reversed: false,
            first,
            count,
        };
        let mut losses = device.zeros(count as usize).unwrap();
        let (vertex, context) = (&mut vertex, &mut context);
        let tables = match has_one_table {
            true => Tables::Order1(vertex),
            false => Tables::Order2 { vertex, context },
        };
        let step = trainer.step(&samples, case.rate, tables, Some(&mut losses));
        step.unwrap();
        all_losses.extend(device.download(&losses).unwrap());
        first += count;
    }
    let tables = [vertex, context].map(|table| device.download(&table).unwrap());
    (tables, all_losses)
}

/// The host works on a few samples at a time where they have no row in common: the bits are those of one sample after the other. With 9
/// rows they meet often, with 90 seldom.
#[test]
fn a_call_on_the_host_is_its_samples_one_by_one() {
    for (dim, n_negatives, n_rows) in [(128, 5, 9), (128, 5, 90), (67, 5, 40), (20, 4, 9)] {
        let mut case = case(dim, n_negatives, 150);
        (case.n_sources, case.n_targets, case.rate) = (n_rows, n_rows, 0.1);
        let ids = (0..300).map(|i| ((fraction(i) + 0.5) * 1e4) as u32 % n_rows as u32);
        (case.pairs, case.degrees) = (ids.collect(), vec![1; n_rows]);
        calls_do_not_show(&case, |x| x);
        calls_do_not_show(&case, narrow);
    }
}

fn calls_do_not_show<T: Element + PartialEq>(case: &Case, element: fn(f32) -> T) {
    for has_one_table in [false, true] {
        let together = in_calls(case, element, has_one_table, &[150]);
        assert!(together.1.iter().all(|&loss| loss > 0.0));
        let alone = in_calls(case, element, has_one_table, &[1; 150]);
        let (settings, n_rows) = (case.settings, case.n_sources);
        assert!(together == alone, "{settings:?} {n_rows} {has_one_table}");
    }
}

/// The columns and negatives that kernels are compiled for and others, in whole blocks and a rest, with rows that come twice in a block. At
/// this rate, negatives that stand still for more or fewer samples are far away.
#[test]
fn groups_are_descent_on_negatives_that_stand_still_for_a_block() {
    for (dim, n_negatives, group) in [
        (128, 5, 16),
        (128, 5, 4),
        (128, 5, 32),
        (128, 6, 16),
        (112, 5, 16),
        (67, 11, 16),
        (33, 3, 8),
    ] {
        let mut case = case(dim, n_negatives, 41);
        (case.settings.group, case.rate, case.n_sources) = (group, 0.1, 9);
        let device = Device::host();
        let frozen = group.min(16) as usize;
        let [vertex, context] = [wide(&case.vertex()), wide(&case.context())];
        let order_2 = |frozen| naive(&case, vertex.clone(), context.clone(), frozen);
        let order_1 = |frozen| naive(&case, vertex.clone(), Vec::new(), frozen);
        let found = case.order2(&device, ALL);
        let mut table = device.upload(&case.vertex()).unwrap();
        case.step(&device, ALL, Tables::Order1(&mut table), None);
        let found_1 = device.download(&table).unwrap();
        let worst_of = |want: [Vec<f64>; 3], want_1: &[f64]| {
            let worst_of_2 = found.iter().zip(&want).map(|(f, w)| worst(f, w));
            [worst_of_2.fold(0.0, f64::max), worst(&found_1, want_1)]
        };
        let errors = worst_of(order_2(frozen), &order_1(frozen)[0]);
        let others = worst_of(order_2(frozen / 2), &order_1(frozen / 2)[0]);
        assert!(
            errors.iter().all(|e| *e < 1e-5),
            "{dim} {group} {errors:?} {others:?}"
        );
        assert!(
            others.iter().all(|e| *e > 1e-3),
            "{dim} {group} {errors:?} {others:?}"
        );
    }
}

/// Samples that share no row can run in any order: then hogwild is exact, on any number of warps.
#[test]
fn samples_apart_from_one_another_are_exact_on_many_warps() {
    for dim in [64, 100, 128, 192, 67] {
        let mut case = case(dim, 0, 40);
        (case.n_sources, case.n_targets) = (40, 40);
        case.pairs = (0..40).flat_map(|i| [i, (i * 7 + 3) % 40]).collect();
        case.degrees = vec![1; 40];
        for device in devices() {
            let want = naive_order2(&case, &device);
            let [vertex, context, losses] = case.order2(&device, ALL);
            let errors = [
                worst(&vertex, &want[0]),
                worst(&context, &want[1]),
                worst(&losses, &want[2]),
            ];
            assert!(
                errors.iter().all(|e| *e < 2e-6),
                "{} {dim} {errors:?}",
                device.kind()
            );
        }
    }
}

/// Updates of one row by many warps all arrive: with a small rate, sequential and concurrent descent agree to second
/// order, while a lost update would be missing at first order.
#[test]
fn no_atomic_addition_is_lost() {
    for group in [1, 8] {
        let mut case = case(128, 5, 64);
        case.pairs = (0..64).flat_map(|i| [i % 2, i % 3]).collect();
        case.settings.group = group;
        case.rate = 1e-4;
        let (vertex, context) = (case.vertex(), case.context());
        let want = naive(&case, wide(&vertex), wide(&context), 1);
        let moved = worst(&vertex, &want[0]).min(worst(&context, &want[1]));
        for device in gpus() {
            let got = case.order2(&device, ALL);
            let without = case.order2_without_losses(&device, ALL);
            let tables = got[..2].iter().chain(&without);
            let errors = tables
                .zip(want[..2].iter().cycle())
                .map(|(g, w)| worst(g, w));
            let error = errors.fold(0.0, f64::max);
            assert!(
                moved > 1e-3 && error < moved / 100.0,
                "{} {error} of {moved}",
                device.kind()
            );
        }
    }
}

/// The deterministic mode gives the same bits for any number of blocks, any cut into calls, and each time.
#[test]
fn batches_do_not_depend_on_the_geometry() {
    for dim in [33, 128] {
        let mut case = case(dim, 5, 50);
        (case.settings.mode, case.settings.group) = (Mode::Deterministic { batch: 16 }, 4);
        for device in devices() {
            let reference = case.order2(&device, ALL);
            for size in [ONE_WARP, LaunchSize::new(1, 128), LaunchSize::new(3, 64)] {
                assert_eq!(case.order2(&device, size), reference, "{}", device.kind());
            }
        }
    }
}

/// Cut at batch borders, two calls are one.
#[test]
fn calls_cut_at_batches_are_one_call() {
    let mut case = case(20, 3, 48);
    case.settings.mode = Mode::Deterministic { batch: 16 };
    for device in devices() {
        let whole = case.order2(&device, ALL);
        let mut vertex = device.upload(&case.vertex()).unwrap();
        let mut context = device.upload(&case.context()).unwrap();
        let edges = EdgeList::upload(&device, &case.pairs).unwrap();
        let negatives = AliasTable::from_degrees(&device, &case.degrees).unwrap();
        let mut trainer = Trainer::new(&device, case.settings).unwrap();
        for (first, count) in [(0, 32), (32, 16)] {
            let order = EdgeOrder::Listed { first: first + 1 };
            let samples = Samples {
                edges: &edges,
                negatives: &negatives,
                order,
                reversed: false,
                first,
                count,
            };
            let tables = Tables::Order2 {
                vertex: &mut vertex,
                context: &mut context,
            };
            trainer.step(&samples, case.rate, tables, None).unwrap();
        }
        assert_eq!(
            device.download(&vertex).unwrap(),
            whole[0],
            "{}",
            device.kind()
        );
        assert_eq!(
            device.download(&context).unwrap(),
            whole[1],
            "{}",
            device.kind()
        );
    }
}

/// The loss of all samples of a case of 3 columns and 2 negatives.
fn summed_loss(sources: &[u32], targets: &[u32], vertex: &[f64], context: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (&u, targets) in sources.iter().zip(targets.chunks(3)) {
        for (slot, &t) in targets.iter().enumerate() {
            let rows = vertex[u as usize * 3..][..3]
                .iter()
                .zip(&context[t as usize * 3..][..3]);
            let x: f64 = rows.map(|(a, b)| a * b).sum();
            sum += (1.0 + if slot == 0 { (-x).exp() } else { x.exp() }).ln();
        }
    }
    sum
}

/// A batch's update is `-rate` times the gradient of its summed loss, by central differences in f64.
#[test]
fn a_batch_descends_along_the_gradient() {
    let mut case = case(3, 2, 6);
    case.settings.mode = Mode::Deterministic { batch: 6 };
    let (sources, targets) = host_draws(&case);
    let before = [wide(&case.vertex()), wide(&case.context())];
    for device in devices() {
        let after = case.order2(&device, ALL);
        for (table, i) in (0..2).flat_map(|k| (0..before[k].len()).map(move |i| (k, i))) {
            let shifted = |h: f64| {
                let mut tables = before.clone();
                tables[table][i] += h;
                summed_loss(&sources, &targets, &tables[0], &tables[1])
            };
            let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let moved = f64::from(after[table][i]) - before[table][i];
            let error = (moved + f64::from(case.rate) * slope).abs();
            assert!(
                error < 1e-6,
                "{} {table} {i}: moved {moved}, slope {slope}",
                device.kind()
            );
        }
    }
}

/// Enormous rows: the sigmoid saturates, nothing becomes infinite or NaN; a NaN stays one.
#[test]
fn saturated_dots_stay_finite() {
    let mut case = case(4, 2, 5);
    case.settings.mode = Mode::Deterministic { batch: 5 };
    for device in devices() {
        for (value, finite) in [(1e6f32, true), (-1e6, true), (f32::NAN, false)] {
            let mut vertex = device.upload(&[value; 7 * 4]).unwrap();
            let mut context = device.upload(&[1e6f32; 9 * 4]).unwrap();
            let mut losses = device.zeros(5).unwrap();
            let tables = Tables::Order2 {
                vertex: &mut vertex,
                context: &mut context,
            };
            case.step(&device, ALL, tables, Some(&mut losses));
            let losses = device.download(&losses).unwrap();
            assert!(
                losses.iter().all(|l| l.is_finite() == finite),
                "{} {losses:?}",
                device.kind()
            );
            assert!(!finite || losses.iter().all(|l| *l <= 3.0 * DOT_CLAMP + 1.0));
            let rows = device.download(&vertex).unwrap();
            assert!(
                rows.iter().any(|v| v.is_nan()) != finite,
                "{}",
                device.kind()
            );
        }
    }
}

#[test]
fn bytes_of_a_sample_are_those_of_the_notes() {
    let settings = super::settings(128, 5);
    assert_eq!(settings.bytes_per_sample::<f32>() as u64, 7168);
    let shared = Settings {
        group: 16,
        ..settings
    };
    assert_eq!(shared.bytes_per_sample::<u16>() as u64, 1184);
}
