//! The whole solve loop on the device: a closed-form policy over one large graph, as lists and as bits.

use std::num::NonZeroU32;

use shardgraph_device::{Error, Timer};
use shardgraph_ops::{Adjacency, ResidentAdjacency};
use shardgraph_solver::kernels::cover::{Episode, Rules, Scale, ScorePieces, Select};

use crate::graphs::{Lists, erdos_renyi};
use crate::report::Report;

/// Samples of a whole solve.
const N_SAMPLES: usize = 3;

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let graph = erdos_renyi(report.size(21000, 90), 0.15, 7);
    let words = graph.words();
    let lists = Adjacency::Csr {
        row_ptr: &graph.row_ptr,
        columns: &graph.columns,
        values: None,
    };
    let bits = Adjacency::Bits {
        words: &words,
        words_per_row: graph.words_per_row(),
    };
    let covers = [
        solve(report, "solve er-21000-0.15 bits", bits)?,
        solve(report, "solve er-21000-0.15 lists", lists)?,
    ];
    assert_eq!(covers[0], covers[1], "both storages pick the same nodes");
    assert!(covers_all(&graph, &covers[0]), "every edge is covered");
    Ok(())
}

fn solve(report: &Report, series: &str, adjacency: Adjacency<'_>) -> Result<Vec<u32>, Error> {
    let device = &report.device;
    let graph = ResidentAdjacency::upload(device, adjacency)?;
    let mut cover = Vec::new();
    for _ in 0..N_SAMPLES {
        let timer = Timer::start(device);
        // Degree, less the neighbours' mean degree in two pieces: the shape of a trained two-layer policy.
        let score = ScorePieces {
            starts: &[0.0, 0.6],
            alpha: &[1.0, 1.12],
            beta: &[-0.1, -0.3],
        };
        let rules = Rules {
            score,
            scale: Scale::LargestDegree,
            select: Select::Fixed(NonZeroU32::MIN),
            keep_isolated: false,
        };
        let mut episode = Episode::start(device, &graph, rules)?;
        let progress = loop {
            let progress = episode.advance()?;
            if progress.is_done {
                break progress;
            }
        };
        cover = episode.cover()?;
        let seconds = timer.finish_s()?;
        report.metric(series, "time", seconds, "s");
        let steps = f64::from(progress.n_steps.max(1));
        report.metric(series, "step", seconds / steps * 1e6, "us");
    }
    Ok(cover)
}

fn covers_all(graph: &Lists, cover: &[u32]) -> bool {
    let mut is_picked = vec![false; graph.n_nodes];
    cover
        .iter()
        .for_each(|&node| is_picked[node as usize] = true);
    graph.row_ptr.windows(2).enumerate().all(|(node, bounds)| {
        let neighbors = &graph.columns[bounds[0] as usize..bounds[1] as usize];
        is_picked[node] || neighbors.iter().all(|&u| is_picked[u as usize])
    })
}
