//! R-GCN at the size of AM (one epoch, kernel by kernel and as a whole), and the message passing of a placement policy.
//!
//! The graph is random with AM's counts (DGL's page of the data set): 1,666,764 nodes, 5,988,321 triples, 266 relations with
//! the inverse ones; relations are as skewed as a Zipf law makes them. The model is the paper's: 40 bases, 10 hidden
//! columns, one-hot input, self loops, 11 classes; plain gradient descent.

use shardgraph_device::basis::{
    BasisShape, BlockShape, CoefficientGradient, Descent, Edges, Relational, Scratch, Weights,
    inverse_counts,
};
use shardgraph_device::messages::{Direction, EdgeGraph, Message, Reduce, Reduced, Upstream};
use shardgraph_device::{Binary, Buffer, Device, Error};

use crate::graphs::Draws;
use crate::report::{Report, Work};

const HIDDEN: BasisShape = BasisShape {
    n_bases: 40,
    width: 10,
};
const N_CLASSES: usize = 11;
const OUTPUT: BlockShape = BlockShape {
    n_blocks: 1,
    rows: HIDDEN.width,
    cols: N_CLASSES,
};

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let graph = graph(report)?;
    let mut epoch = Epoch::new(report, &graph)?;
    let forward = Work::bytes(graph.forward_bytes(HIDDEN));
    report.case("rgcn basis pairs AM", forward, || epoch.first_layer(&graph))?;
    let n_items = graph.incoming().n_items();
    let sums = Work::bytes(4 * HIDDEN.width * (n_items + epoch.n_nodes) + 8 * n_items);
    report.case("rgcn sums AM", sums, || epoch.sum_first(&graph))?;
    let backward = Work::bytes(graph.backward_bytes(HIDDEN));
    report.case("rgcn basis step AM", backward, || epoch.step_bases(&graph))?;
    report.case("rgcn epoch AM", Work::default(), || epoch.run(&graph))?;
    messages(report)
}

fn graph(report: &Report) -> Result<Relational, Error> {
    let (n_nodes, n_triples, n_relations) = (
        report.size(1_666_764, 60),
        report.size(5_988_321, 150),
        report.size(133, 4) as u32,
    );
    let mut draws = Draws(16);
    let (mut sources, mut relations, mut destinations) = (vec![], vec![], vec![]);
    for _ in 0..n_triples {
        let mut node = || (draws.next() % n_nodes as u64) as u32;
        let (u, v) = (node(), node());
        let skewed = (f64::from(n_relations).powf(draws.unit()) - 1.0) as u32;
        let relation = skewed.min(n_relations - 1);
        sources.extend([u, v]);
        destinations.extend([v, u]);
        relations.extend([relation, relation + n_relations]);
    }
    for node in 0..n_nodes as u32 {
        sources.push(node);
        destinations.push(node);
        relations.push(2 * n_relations);
    }
    let edges = Edges {
        n_sources: n_nodes,
        n_destinations: n_nodes,
        n_relations: 2 * n_relations as usize + 1,
        sources: &sources,
        relations: &relations,
        destinations: &destinations,
        weights: &inverse_counts(&relations, &destinations),
    };
    Relational::upload(&report.device, &edges, &[0, n_nodes as u32])
}

/// Parameters, activations and gradients of the two layers.
struct Epoch {
    device: Device,
    n_nodes: usize,
    bases: Buffer,
    coefficients: Buffer,
    out_bases: Buffer,
    out_coefficients: Buffer,
    pairs: Buffer,
    sums: Buffer,
    hidden: Buffer,
    out_pairs: Buffer,
    logits: Buffer,
    grad_hidden: Buffer,
    grad_by_range: Buffer,
    scratch: Scratch,
    out_scratch: Buffer,
    grad_weights: Buffer,
    grad_out_bases: Buffer,
    grad_out_coefficients: Buffer,
}

impl Epoch {
    fn new(report: &Report, graph: &Relational) -> Result<Self, Error> {
        let device = report.device.clone();
        let n_nodes = report.size(1_666_764, 60);
        let n_relations = 2 * report.size(133, 4) + 1;
        let n_weights = OUTPUT.rows * OUTPUT.cols;
        let mut draws = Draws(17);
        let mut random = |n: usize| device.upload(&draws.floats(n));
        Ok(Self {
            n_nodes,
            bases: random(n_nodes * HIDDEN.n_bases * HIDDEN.width)?,
            coefficients: random(n_relations * HIDDEN.n_bases)?,
            out_bases: random(HIDDEN.n_bases * n_weights)?,
            out_coefficients: random(n_relations * HIDDEN.n_bases)?,
            pairs: device.zeros(graph.n_pairs() * HIDDEN.width)?,
            sums: device.zeros(n_nodes * HIDDEN.width)?,
            hidden: device.zeros(n_nodes * HIDDEN.width)?,
            out_pairs: device.zeros(graph.n_pairs() * N_CLASSES)?,
            logits: device.zeros(n_nodes * N_CLASSES)?,
            grad_hidden: device.zeros(n_nodes * HIDDEN.width)?,
            grad_by_range: device.zeros(graph.n_ranges() * n_relations * HIDDEN.n_bases)?,
            scratch: graph.scratch(HIDDEN.n_bases)?,
            out_scratch: device.zeros(graph.weights_scratch_len(OUTPUT))?,
            grad_weights: device.zeros(graph.n_ranges() * n_relations * n_weights)?,
            grad_out_bases: device.zeros(HIDDEN.n_bases * n_weights)?,
            grad_out_coefficients: device.zeros(n_relations * HIDDEN.n_bases)?,
            device,
        })
    }

    fn first_layer(&mut self, graph: &Relational) -> Result<(), Error> {
        graph.basis_pairs(HIDDEN, &self.bases, &self.coefficients, &mut self.pairs)
    }

    fn sum_first(&mut self, graph: &Relational) -> Result<(), Error> {
        let width = HIDDEN.width;
        self.device
            .gather_sum(graph.incoming(), width, &self.pairs, &mut self.sums)
    }

    /// `pairs` holds their gradient.
    fn step_bases(&mut self, graph: &Relational) -> Result<(), Error> {
        let descent = Descent {
            rate: 1e-3,
            decay: 5e-4,
        };
        let gradient = CoefficientGradient {
            by_range: &mut self.grad_by_range,
            scratch: &mut self.scratch,
        };
        let (bases, coefficients) = (&mut self.bases, &self.coefficients);
        graph.basis_pairs_step(
            (HIDDEN, descent),
            bases,
            coefficients,
            &self.pairs,
            gradient,
        )
    }

    /// Forward, backward and the step of the large parameters. The logits stand in for their own gradient.
    fn run(&mut self, graph: &Relational) -> Result<(), Error> {
        self.first_layer(graph)?;
        self.sum_first(graph)?;
        self.device.relu(&self.sums, &mut self.hidden)?;
        let weights = Weights::Bases {
            bases: &self.out_bases,
            coefficients: &self.out_coefficients,
        };
        let device = &self.device;
        graph.transform(OUTPUT, weights, &self.hidden, &mut self.out_pairs)?;
        device.gather_sum(
            graph.incoming(),
            N_CLASSES,
            &self.out_pairs,
            &mut self.logits,
        )?;
        self.backward(graph)
    }

    fn backward(&mut self, graph: &Relational) -> Result<(), Error> {
        let device = &self.device;
        let weights = Weights::Bases {
            bases: &self.out_bases,
            coefficients: &self.out_coefficients,
        };
        device.gather_sum(
            graph.outgoing(),
            N_CLASSES,
            &self.logits,
            &mut self.out_pairs,
        )?;
        let operands = (&self.hidden, &self.out_pairs);
        graph.weights_grad(
            OUTPUT,
            operands,
            &mut self.out_scratch,
            &mut self.grad_weights,
        )?;
        graph.bases_grad(
            OUTPUT,
            (&self.out_bases, &self.out_coefficients),
            &self.grad_weights,
            &mut self.grad_out_bases,
            &mut self.grad_out_coefficients,
        )?;
        // The pairs' activations are not needed any more: their place is working memory, then their gradient's.
        graph.transform_grad(
            OUTPUT,
            weights,
            &self.out_pairs,
            &mut self.pairs,
            &mut self.grad_hidden,
        )?;
        let masked = (&self.grad_hidden, &self.sums);
        device.binary(Binary::WherePositive, masked.0, masked.1, &mut self.hidden)?;
        device.gather_sum(
            graph.outgoing(),
            HIDDEN.width,
            &self.hidden,
            &mut self.pairs,
        )?;
        self.step_bases(graph)
    }
}

/// One direction of a message-passing layer and its gradients, on a graph with a million edges.
fn messages(report: &Report) -> Result<(), Error> {
    let device = &report.device;
    let (n_nodes, n_edges, width) = (report.size(200_000, 40), report.size(1_000_000, 100), 64);
    let mut draws = Draws(18);
    let mut ends = || -> Vec<u32> {
        (0..n_edges)
            .map(|_| (draws.next() % n_nodes as u64) as u32)
            .collect()
    };
    let graph = EdgeGraph::upload(device, n_nodes, &ends(), &ends())?;
    let table = device.upload(&Draws(19).floats(n_nodes * width))?;
    let edge = device.upload(&Draws(20).floats(n_edges * width))?;
    let mut out = device.zeros(n_nodes * width)?;
    let message = Message {
        neighbour: Some(&table),
        own: Some(&table),
        edge: Some(&edge),
        relu: true,
    };
    let kind = (Direction::Incoming, Reduce::Mean);
    let work = Work::bytes(4 * width * (2 * n_edges + 2 * n_nodes) + 12 * n_edges);
    report.case("message reduce k=64", work, || {
        graph.reduce(kind, width, &message, &mut out)
    })?;
    let mut grad = device.zeros(n_nodes * width)?;
    let upstream = Upstream {
        direction: Direction::Incoming,
        kind: Reduced::By(Reduce::Mean),
        gradient: &out,
    };
    let work = Work::bytes(4 * width * (3 * n_edges + 2 * n_nodes) + 12 * n_edges);
    report.case("message gradient k=64", work, || {
        graph.neighbour_grad(&upstream, width, &message, &mut grad)
    })?;
    Ok(())
}
