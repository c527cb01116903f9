//! The sparse products, each beside cuSPARSE on the same matrix in the same run.
//!
//! The work of lists is counted as the gather that it is: 4 B of id and `4 k` B of row for each entry, and the rows of the
//! result. Where the rows of `x` fit the second-level cache the rate may be above the copy rate. Bits are counted as `2 n^2 k` operations and `n^2 / 8` B.

use shardgraph_device::Error;
use shardgraph_ops::{
    Adjacency, BitPath, MaskedProduct, ResidentAdjacency, SparseProduct, masked_sparse_product,
    sparse_product,
};

use crate::cusparse::Peer;
use crate::graphs::{Draws, Lists, erdos_renyi};
use crate::report::{Report, Work};

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let dense = erdos_renyi(report.size(21000, 130), 0.15, 7);
    for k in [32, 64, 128] {
        products(report, "er-21000-0.15", &dense, k)?;
    }
    masked(report, "er-21000-0.15", &dense)?;
    bits(report, "er-21000-0.15", &dense)?;
    let sparse = erdos_renyi(report.size(200_000, 200), 50.0 / 200_000.0, 8);
    products(report, "er-200000-degree-50", &sparse, 32)
}

fn products(report: &Report, name: &str, graph: &Lists, k: usize) -> Result<(), Error> {
    let device = &report.device;
    let (n, n_entries) = (graph.n_nodes, graph.n_entries());
    let x = device.upload(&Draws(9).floats(n * k))?;
    let mut out = device.zeros(n * k)?;
    let lists = Adjacency::Csr {
        row_ptr: &graph.row_ptr,
        columns: &graph.columns,
        values: None,
    };
    let resident = ResidentAdjacency::upload(device, lists)?;
    let product = SparseProduct {
        adjacency: Adjacency::Resident(&resident),
        n_rows: n,
        n_columns: n,
        width: k,
    };
    let work = Work::bytes(n_entries * (4 + 4 * k) + 4 * n * k + 8 * n).flop(n_entries * k);
    let series = format!("sparse product {name} k={k}");
    let ours = report.case(&series, work, || {
        sparse_product(device, product, &x, &mut out)
    })?;
    let Some(mut peer) = Peer::new(device, graph, k)? else {
        println!("INFO:cusparse:not measured (no GPU, or libcusparse.so is not installed)");
        return Ok(());
    };
    let series = format!("cusparse product {name} k={k}");
    let theirs = report.case(&series, work, || peer.multiply(&x))?;
    peer.check(device, &out)?;
    let series = format!("sparse product {name} k={k}");
    report.metric(&series, "against_cusparse", theirs / ours, "times");
    Ok(())
}

/// What the policy's layers 3 to L launch: a mask over half of the nodes, a scale, a bias and relu, in one pass.
fn masked(report: &Report, name: &str, graph: &Lists) -> Result<(), Error> {
    let device = &report.device;
    let (n, k) = (graph.n_nodes, 32);
    let resident = ResidentAdjacency::upload(
        device,
        Adjacency::Csr {
            row_ptr: &graph.row_ptr,
            columns: &graph.columns,
            values: None,
        },
    )?;
    let mut draws = Draws(10);
    let keep: Vec<f32> = (0..n).map(|_| (draws.next() % 2) as f32).collect();
    for n_states in [1, 8] {
        let keep: Vec<f32> = keep.iter().flat_map(|&keep| vec![keep; n_states]).collect();
        let keep = device.upload(&keep)?;
        let scale = device.upload(&vec![0.5; n_states])?;
        let x = device.upload(&Draws(11).floats(n * k * n_states))?;
        let bias = device.upload(&Draws(12).floats(n * k * n_states))?;
        let mut out = device.zeros(n * k * n_states)?;
        let product = MaskedProduct {
            adjacency: Adjacency::Resident(&resident),
            n_rows: n,
            n_columns: n,
            n_states,
            width: k,
            first_row: 0,
            keep: Some(&keep),
            scale: Some(&scale),
            bias: Some(&bias),
            relu: true,
        };
        // Half of the rows are read, and a quarter of the pairs has both ends.
        let pairs = graph.n_entries() / 4;
        let work = Work::bytes(pairs * 2 * 4 + pairs * 4 * k * n_states + 12 * n * k * n_states);
        let series = format!("masked product {name} k=32 states={n_states}");
        report.case(&series, work, || {
            masked_sparse_product(device, product, &x, &mut out)
        })?;
    }
    Ok(())
}

fn bits(report: &Report, name: &str, graph: &Lists) -> Result<(), Error> {
    let device = &report.device;
    let n = graph.n_nodes;
    let words = graph.words();
    for (path, path_name) in [
        (BitPath::Exact, "exact"),
        (BitPath::Fast, "fast"),
        (BitPath::Portable, "portable"),
    ] {
        let resident = ResidentAdjacency::upload(
            device,
            Adjacency::Bits {
                words: &words,
                words_per_row: graph.words_per_row(),
            },
        )?;
        let resident = resident.with_bit_path(path);
        for k in [32, 128] {
            let x = device.upload(&Draws(13).floats(n * k))?;
            let mut out = device.zeros(n * k)?;
            let product = SparseProduct {
                adjacency: Adjacency::Resident(&resident),
                n_rows: n,
                n_columns: n,
                width: k,
            };
            let work = Work::bytes(n * n / 8 + 8 * n * k).flop(2 * n * n * k);
            let series = format!("bit product {name} k={k} {path_name}");
            report.case(&series, work, || {
                sparse_product(device, product, &x, &mut out)
            })?;
        }
    }
    Ok(())
}
