//! Adagrad against f64 loops, and long calls against plain descent.

use super::super::{Mode, Tables};
use super::updates::{host_draws, naive, wide, worst};
use super::{AliasTable, Case, EdgeList, EdgeOrder, Samples, Trainer, case};
use shardgraph_device::{Buffer, Device};

/// Row-Adagrad in f64, one sample after the other: both tables and their sums of squares. A target that is drawn twice shows its own
/// first addition.
struct Naive {
    dim: usize,
    rate: f64,
    tables: [Vec<f64>; 4],
}

impl Naive {
    fn run(case: &Case) -> [Vec<f64>; 4] {
        let squares = |n_rows: usize| vec![0.0; n_rows];
        let mut naive = Naive {
            dim: case.settings.dim,
            rate: f64::from(case.rate),
            tables: [
                wide(&case.vertex()),
                wide(&case.context()),
                squares(case.n_sources),
                squares(case.n_targets),
            ],
        };
        let (sources, targets) = host_draws(case);
        let n_slots = case.settings.n_negatives as usize + 1;
        for (&u, targets) in sources.iter().zip(targets.chunks(n_slots)) {
            naive.sample(u as usize, targets);
        }
        naive.tables
    }

    fn row(&self, table: usize, row: usize) -> Vec<f64> {
        self.tables[table][row * self.dim..][..self.dim].to_vec()
    }

    /// Adds a gradient to a row at the rate of its past.
    fn add(&mut self, table: usize, row: usize, gradient: &[f64]) {
        let sum = &mut self.tables[table + 2][row];
        *sum += gradient.iter().map(|g| g * g).sum::<f64>() / self.dim as f64;
        let rate = self.rate / (*sum + 1e-10).sqrt();
        let row = &mut self.tables[table][row * self.dim..][..self.dim];
        row.iter_mut()
            .zip(gradient)
            .for_each(|(v, g)| *v += rate * g);
    }

    fn sample(&mut self, u: usize, targets: &[u32]) {
        let source = self.row(0, u);
        let found: Vec<Vec<f64>> = targets.iter().map(|&t| self.row(1, t as usize)).collect();
        let mut of_source = vec![0.0; self.dim];
        for (slot, (&t, found)) in targets.iter().zip(&found).enumerate() {
            let dot: f64 = source.iter().zip(found).map(|(a, b)| a * b).sum();
            let label = if slot == 0 { 1.0 } else { 0.0 };
            let weight = label - 1.0 / (1.0 + (-dot).exp());
            let now = self.row(1, t as usize);
            of_source
                .iter_mut()
                .zip(&now)
                .for_each(|(g, v)| *g += weight * v);
            let gradient: Vec<f64> = source.iter().map(|v| weight * v).collect();
            self.add(1, t as usize, &gradient);
        }
        self.add(0, u, &of_source);
    }
}

/// Two tables and their sums of squares on the host.
struct HostTables {
    vertex: Buffer,
    context: Buffer,
    of_vertex: Buffer,
    of_context: Buffer,
}

impl HostTables {
    fn of(case: &Case) -> HostTables {
        HostTables {
            vertex: case.vertex().into(),
            context: case.context().into(),
            of_vertex: vec![0.0; case.n_sources].into(),
            of_context: vec![0.0; case.n_targets].into(),
        }
    }

    fn worst(&self, want: &[Vec<f64>]) -> Vec<f64> {
        let found = [
            &self.vertex,
            &self.context,
            &self.of_vertex,
            &self.of_context,
        ];
        let pairs = found.iter().zip(want);
        pairs.map(|(f, w)| worst(f.as_host().unwrap(), w)).collect()
    }
}

/// What a step takes.
struct Given {
    edges: EdgeList,
    negatives: AliasTable,
}

impl Given {
    fn of(case: &Case) -> Given {
        let device = Device::host();
        Given {
            edges: EdgeList::upload(&device, &case.pairs).unwrap(),
            negatives: AliasTable::from_degrees(&device, &case.degrees).unwrap(),
        }
    }

    fn samples(&self, case: &Case) -> Samples<'_> {
        Samples {
            edges: &self.edges,
            negatives: &self.negatives,
            order: EdgeOrder::Listed { first: 1 },
            reversed: false,
            first: case.first,
            count: case.count,
        }
    }
}

#[test]
fn adagrad_gives_each_row_the_rate_of_its_past() {
    for (dim, n_negatives, group) in [(3, 0, 1), (16, 2, 1), (40, 5, 4), (128, 5, 1), (130, 9, 1)] {
        let mut case = case(dim, n_negatives, 9);
        (case.settings.group, case.rate) = (group, 0.02);
        let given = Given::of(&case);
        let mut trainer = Trainer::new(&Device::host(), case.settings).unwrap();
        let mut alone = HostTables::of(&case);
        let tables = Tables::Order2 {
            vertex: &mut alone.vertex,
            context: &mut alone.context,
        };
        let squares = Tables::Order2 {
            vertex: &mut alone.of_vertex,
            context: &mut alone.of_context,
        };
        trainer
            .step_adagrad(&given.samples(&case), case.rate, tables, squares, None)
            .unwrap();
        let errors = alone.worst(&Naive::run(&case));
        let is_near = errors.iter().all(|e| *e < 2e-5);
        assert!(is_near, "{dim} {n_negatives}: {errors:?}");
    }
}

/// More samples than are drawn at once, groups that straddle such blocks, and edges that come round again. Negatives
/// stand still for a group, up to 16 samples.
#[test]
fn long_calls_are_plain_descent() {
    for (n_negatives, group, reversed) in [
        (5, 1, false),
        (5, 4, false),
        (3, 64, true),
        (0, 1, false),
        (31, 2, false),
    ] {
        let mut case = case(20, n_negatives, 50);
        case.settings.group = group;
        (case.count, case.first, case.rate) = (203, 128, 1e-3);
        (case.n_sources, case.reversed) = (9, reversed);
        let frozen = 16.min(group as usize);
        let want = naive(&case, wide(&case.vertex()), wide(&case.context()), frozen);
        let given = Given::of(&case);
        let samples = Samples {
            reversed,
            ..given.samples(&case)
        };
        let moved = worst(&case.vertex(), &want[0]);
        let errors = after(&case, &samples).worst(&want[..2]);
        // Of 31 negatives among 9 rows, many come twice.
        let limit = if n_negatives > 5 { moved / 100.0 } else { 2e-5 };
        let is_near = errors.iter().all(|e| *e < limit && *e < moved / 50.0);
        assert!(is_near, "{n_negatives} {group}: {errors:?} of {moved}");
    }
}

/// The tables after a step.
fn after(case: &Case, samples: &Samples<'_>) -> HostTables {
    let mut trainer = Trainer::new(&Device::host(), case.settings).unwrap();
    let mut all = HostTables::of(case);
    let tables = Tables::Order2 {
        vertex: &mut all.vertex,
        context: &mut all.context,
    };
    trainer.step(samples, case.rate, tables, None).unwrap();
    all
}

#[test]
fn squares_that_do_not_fit_and_batches_with_adagrad_are_refused() {
    let case = case(4, 1, 3);
    let given = Given::of(&case);
    let refused = |mode: Mode, n_squares: usize| {
        let settings = super::Settings {
            mode,
            ..case.settings
        };
        let mut trainer = Trainer::new(&Device::host(), settings).unwrap();
        let mut all = HostTables::of(&case);
        all.of_context = vec![0.0; n_squares].into();
        let tables = Tables::Order2 {
            vertex: &mut all.vertex,
            context: &mut all.context,
        };
        let squares = Tables::Order2 {
            vertex: &mut all.of_vertex,
            context: &mut all.of_context,
        };
        let step = trainer.step_adagrad(&given.samples(&case), 0.1, tables, squares, None);
        step.map_err(|e| e.to_string())
    };
    assert_eq!(refused(Mode::Hogwild, 9), Ok(()));
    let message = refused(Mode::Hogwild, 8).unwrap_err();
    assert!(message.contains("outside a table of 8 rows"), "{message}");
    let message = refused(Mode::Deterministic { batch: 1 }, 9).unwrap_err();
    assert!(message.contains("Adagrad"), "{message}");
}
