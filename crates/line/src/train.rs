//! Training: from a store to an embedding, order by order, pass by pass, step by step.

mod cell;
mod pager;
mod plan;
mod step;
#[cfg(test)]
mod tests;

use shardgraph_device::sgns::AliasTable;
use shardgraph_device::{Device, Timer};

use crate::schedule::Schedule;
use crate::{Config, Embedding, Error, Precision, Store};
use cell::Cell;
use pager::Pager;
use plan::{Planner, Step};
use step::Shared;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples done, of all orders.
    pub samples: u64,
    /// Samples of the whole run.
    pub n_samples: u64,
}

/// What a run made, and what it took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trained {
    /// The columns of order 1, then those of order 2, as far as each was trained.
    pub embedding: Embedding,
    /// Samples of all orders.
    pub n_samples: u64,
    /// Seconds of training, without reading the graph.
    pub seconds: f64,
}

impl Trained {
    /// Samples a second.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        self.n_samples as f64 / self.seconds.max(1e-9)
    }
}

/// Trains an embedding.
///
/// Nodes without an edge keep the small random rows that they began with.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_line::{Config, NodeLabels, Store, train};
///
/// let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]; // two triangles with a bridge
/// let store = Store::from_edges(6, &edges, 1, NodeLabels::numbers(6))?;
/// let config = Config { dim: 8, epochs: 200, ..Config::default() };
/// let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
/// assert_eq!((trained.embedding.n_nodes(), trained.embedding.dim()), (6, 16));
/// assert!(trained.embedding.nearest(0, 2).iter().all(|near| near.node < 3));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// Settings that make no sense, buckets that cannot be read, and what the device fails with.
///
/// # Complexity
/// [`Config::bytes_per_sample`] of random rows for each of `orders * epochs * E` samples, on `threads` threads, but at most
/// as many as there are parts (half as many for order 1).
///
/// # Determinism
/// On the host the bits depend on the store, the settings and the seed, and not on the number of threads.
///
/// # Source
/// Tang et al., "LINE: Large-scale information network embedding" (WWW 2015).
pub fn train(
    store: &Store,
    config: &Config,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, Error> {
    config.check()?;
    let timer = Timer::start(device);
    let mut run = Run {
        store,
        config,
        device,
        progress,
        done: 0,
    };
    let mut embedding: Option<Embedding> = None;
    for &order in config.order.each() {
        let of_order = match config.precision {
            Precision::Fp32 => run.order::<f32>(order)?,
            Precision::Fp16 => run.order::<u16>(order)?,
        };
        embedding = Some(match embedding {
            None => of_order,
            Some(first) => first.join(&of_order)?,
        });
    }
    Ok(Trained {
        embedding: embedding.expect("each setting has an order"),
        n_samples: run.done,
        seconds: timer.elapsed_s(),
    })
}

/// A run in progress.
struct Run<'r> {
    store: &'r Store,
    config: &'r Config,
    device: &'r Device,
    progress: &'r mut dyn FnMut(Progress),
    /// Samples of all orders so far.
    done: u64,
}

impl<'r> Run<'r> {
    /// Trains one order from its start.
    fn order<T: Cell>(&mut self, order: u32) -> Result<Embedding, Error> {
        let planner = self.planner(order);
        let shared = self.shared(&planner)?;
        let mut pager = Pager::<T>::new(self.store, self.device, self.config, order)?;
        for pass in 0..self.config.epochs {
            for step in planner.pass(pass) {
                self.step(&shared, &mut pager, &step)?;
            }
        }
        pager.into_embedding()
    }

    fn step<T: Cell>(
        &mut self,
        shared: &Shared<'_>,
        pager: &mut Pager<T>,
        step: &Step,
    ) -> Result<(), Error> {
        let jobs = step.jobs.iter().map(|job| pager.take(job)).collect();
        for work in shared.run(jobs, self.config.threads)? {
            pager.put_back(work);
        }
        self.done += step.jobs.iter().map(plan::Job::n_samples).sum::<u64>();
        let n_orders = self.config.order.each().len() as u64;
        (self.progress)(Progress {
            samples: self.done,
            n_samples: n_orders * shared.n_samples,
        });
        Ok(())
    }

    fn planner(&self, order: u32) -> Planner<'r> {
        Planner {
            store: self.store,
            order,
            seed: seed_of(self.config, order),
            schedule: Schedule::Auto,
            n_groups: 1,
            capacity: 2,
        }
    }

    fn shared(&self, planner: &Planner<'r>) -> Result<Shared<'r>, Error> {
        let negatives = (0..self.store.n_parts()).map(|part| self.negatives(part));
        let mut settings = self.config.settings();
        settings.seed = planner.seed;
        Ok(Shared {
            store: self.store,
            device: self.device,
            settings,
            negatives: negatives.collect::<Result<_, _>>()?,
            first_rate: self.config.first_rate(),
            n_samples: planner.samples_of_a_pass() * u64::from(self.config.epochs),
        })
    }

    /// The noise of a part: degree^0.75.
    fn negatives(&self, part: u32) -> Result<Option<AliasTable>, Error> {
        let degrees = self.store.degrees_of(part);
        let weights: Vec<f64> = degrees.iter().map(|&d| f64::from(d).powf(0.75)).collect();
        match weights.iter().any(|&weight| weight > 0.0) {
            true => Ok(Some(AliasTable::upload(self.device, &weights)?)),
            false => Ok(None),
        }
    }
}

/// Orders draw from different streams.
fn seed_of(config: &Config, order: u32) -> u64 {
    config
        .seed
        .wrapping_mul(2)
        .wrapping_add(u64::from(order - 1))
}
