//! fp16 tables: near f32 tables, without bias, each change taken.

use shardgraph_device::{Buffer, Device};

use super::super::{narrow, widen};
use super::devices::{devices, gpus};
use super::updates::{naive, naive_order1, wide, worst};
use super::{ALL, Case, Mode, ONE_WARP, Tables, case};

fn upload_halves(device: &Device, values: &[f32]) -> Buffer<u16> {
    let halves: Vec<u16> = values.iter().map(|&v| narrow(v)).collect();
    device.upload(&halves).unwrap()
}

fn download_halves(device: &Device, table: &Buffer<u16>) -> Vec<f32> {
    device
        .download(table)
        .unwrap()
        .into_iter()
        .map(widen)
        .collect()
}

/// A step of a half below 1 is at most 2^-11, and a row is rounded some ten times; rows move by ten times that.
fn check_halves(got: &[f32], want: &[f64], before: &[f32]) -> Result<(), String> {
    let (error, moved) = (worst(got, want), worst(before, want));
    // Towards 0, as a rounding that cuts would show.
    let shrunk = got
        .iter()
        .zip(want)
        .map(|(&g, w)| (w - f64::from(g)) * w.signum());
    let bias = shrunk.sum::<f64>() / want.len() as f64;
    match error < 1.2e-2 && moved > 2e-2 && bias.abs() < 1e-4 {
        true => Ok(()),
        false => Err(format!("error {error}, moved {moved}, bias {bias}")),
    }
}

/// Both rows of an edge from a node to itself are one: neither change is lost.
#[test]
fn loops_in_one_half_table_take_both_changes() {
    for (n_negatives, group) in [(1, 4), (5, 4), (5, 40), (5, 1)] {
        let mut case = case(64, n_negatives, 40);
        (case.settings.group, case.n_sources, case.rate) = (group, 9, 0.4);
        case.pairs = (0..40).flat_map(|i| [i % 9, i % 9]).collect();
        for device in gpus() {
            let want = naive_order1(&case, &device);
            let mut table = upload_halves(&device, &case.vertex());
            case.step(&device, ONE_WARP, Tables::Order1(&mut table), None);
            let (got, moved) = (
                download_halves(&device, &table),
                worst(&case.vertex(), &want),
            );
            let error = worst(&got, &want);
            let is_near = error < moved / 10.0;
            assert!(
                is_near,
                "{} {n_negatives} {group}: {error} of {moved}",
                device.kind()
            );
        }
    }
}

/// fp16 tables follow f32 tables to within their rounding, in every kernel.
#[test]
fn half_tables_follow_full_tables() {
    for (dim, n_negatives, group, mode) in [
        (128, 5, 1, Mode::Hogwild), // on the host, a few samples at a time
        (75, 5, 1, Mode::Hogwild),
        (128, 3, 1, Mode::Hogwild),
        (128, 3, 4, Mode::Hogwild),
        (128, 3, 16, Mode::Hogwild), // the last group is not whole
        (200, 3, 1, Mode::Hogwild),
        (200, 3, 4, Mode::Hogwild),
        (67, 3, 1, Mode::Hogwild),
        (64, 3, 1, Mode::Deterministic { batch: 4 }),
    ] {
        let mut case = case(dim, n_negatives, 24);
        (case.settings.group, case.settings.mode) = (group, mode);
        // Few targets are drawn twice by a sample: those may show their own first addition in one precision and not in the other.
        (case.n_targets, case.degrees) = (200, vec![1; 200]);
        for device in devices() {
            let [of_vertex, of_context, _] = case.order2(&device, ONE_WARP);
            let mut vertex = upload_halves(&device, &case.vertex());
            let mut context = upload_halves(&device, &case.context());
            let tables = Tables::Order2 {
                vertex: &mut vertex,
                context: &mut context,
            };
            case.step(&device, ONE_WARP, tables, None);
            let got = [vertex, context].map(|table| download_halves(&device, &table));
            for ((got, want), before) in got
                .iter()
                .zip([wide(&of_vertex), wide(&of_context)].iter())
                .zip([case.vertex(), case.context()])
            {
                let checked = check_halves(got, want, &before);
                assert!(
                    checked.is_ok(),
                    "{} {dim} {n_negatives} {group} {checked:?}",
                    device.kind()
                );
            }
        }
    }
}

/// fp16 order 1 moves its single table.
#[test]
fn half_order_1_follows_the_naive_table() {
    for (dim, n_negatives, group) in [
        (128, 5, 1),
        (128, 3, 1),
        (128, 3, 4),
        (200, 3, 1),
        (5, 3, 1),
    ] {
        let mut case = case(dim, n_negatives, 16);
        (case.n_sources, case.settings.group) = (9, group);
        for device in devices() {
            let want = naive_order1(&case, &device);
            let mut table = upload_halves(&device, &case.vertex());
            case.step(&device, ONE_WARP, Tables::Order1(&mut table), None);
            let error = worst(&download_halves(&device, &table), &want);
            assert!(
                error < 1e-2,
                "{} {dim} {n_negatives} {group} {error}",
                device.kind()
            );
        }
    }
}

/// Edges whose rows no other edge and no negative has: in what order rows of a tile are updated does not matter.
fn apart(dim: usize, n_negatives: u32, group: u32, n_edges: u32) -> Case {
    let mut case = case(dim, n_negatives, n_edges as usize);
    (case.settings.group, case.rate) = (group, 0.4);
    (case.n_sources, case.n_targets) = (4000, 4000);
    case.pairs = (0..n_edges)
        .flat_map(|i| [i, n_edges + (7 * i) % n_edges])
        .collect();
    case.degrees = (0..4000).map(|i| u32::from(i >= 2 * n_edges)).collect();
    case
}

/// Groups on tensor cores and groups in registers or shared memory give the same tables, to within the rounding of halves: whole
/// tiles and rests, several tiles a group, every number of negatives, rows that do not fill a warp.
#[test]
fn tiles_on_tensor_cores_are_descent_on_negatives_that_stand_still() {
    for (dim, n_negatives, group, n_edges) in [
        (128, 5, 16, 16),
        (128, 5, 16, 41),
        (128, 8, 32, 41),
        (128, 1, 40, 41),
        (120, 7, 3, 29),
        (64, 2, 16, 20),
        (8, 6, 8, 41),
    ] {
        let mut case = apart(dim, n_negatives, group, n_edges);
        let before = [case.vertex(), case.context()];
        let [vertex, context] = before.each_ref().map(|table| wide(table));
        let [of_vertex, of_context, _] = naive(&case, vertex.clone(), context, group as usize);
        let [of_table, ..] = naive(&case, vertex, Vec::new(), group as usize);
        for (device, on_tensor_cores) in gpus().iter().flat_map(|d| [(d, false), (d, true)]) {
            case.on_tensor_cores = on_tensor_cores;
            for shape in [ONE_WARP, ALL] {
                let [mut vertex, mut context, mut table] =
                    [&before[0], &before[1], &before[0]].map(|rows| upload_halves(device, rows));
                let tables = Tables::Order2 {
                    vertex: &mut vertex,
                    context: &mut context,
                };
                case.step(device, shape, tables, None);
                case.step(device, shape, Tables::Order1(&mut table), None);
                let wanted = [&of_vertex, &of_context, &of_table];
                for ((got, want), before) in [vertex, context, table]
                    .iter()
                    .zip(wanted)
                    .zip([&before[0], &before[1], &before[0]])
                {
                    let error = worst(&download_halves(device, got), want);
                    let moved = worst(before, want);
                    assert!(
                        error < 2.5e-3 && moved > 0.05,
                        "{} {dim} {n_negatives} {group} {n_edges} {on_tensor_cores}: {error} of {moved}",
                        device.kind()
                    );
                }
            }
        }
    }
}
