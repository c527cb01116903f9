//! Contexts: what all of a run shares, and what all jobs of an order share.

use shardgraph_device::{Device, DeviceKind};
use shardgraph_random::KeyedRng;

use super::clock::Clock;
use super::rank_devices::RankDevices;
use super::reports::LossSum;
use super::resident_edges::{RankBucket, ResidentEdges};
use super::warm_start::WarmStart;
use super::worker_pool::WorkerPool;
use crate::edges::Bucket;
use crate::kernels::sgns::{self, AliasTable, EdgeList, Settings};
use crate::memory::{Held, Memory, Purpose};
use crate::schedule::{BucketPass, Layout, Planner};
use crate::{Config, Error, Mode, Store};

/// Samples whose gradients are summed before a row changes, in the deterministic mode of a device.
const BATCH: u32 = 64;

/// Graph, settings and device of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunContext<'r> {
    pub(super) store: &'r Store,
    pub(super) config: &'r Config,
    pub(super) device: &'r Device,
    /// It, and those of the other ranks.
    pub(super) devices: &'r RankDevices,
    /// Groups of the tables' parts.
    pub(super) layout: Layout,
    /// Rows to start from, in place of random ones.
    pub(super) warm_start: Option<&'r WarmStart<'r>>,
    /// Where losses are added, if passes are reported.
    pub(super) losses: Option<&'r LossSum>,
    /// Buckets that stay in the device's memory.
    pub(super) resident: &'r ResidentEdges,
    /// The account of all that is in memory.
    pub(super) memory: &'r Memory,
}

impl<'r> RunContext<'r> {
    /// Orders draw from different streams.
    pub(super) fn seed(&self, order: u32) -> u64 {
        let seed = self.config.seed.wrapping_mul(2);
        seed.wrapping_add(u64::from(order - 1))
    }

    /// The row of the first table that a node of an order starts from, if it has one.
    pub(super) fn start_row(&self, order: u32, node: u32) -> Option<&[f32]> {
        let orders = self.config.order.each().iter();
        let at = orders.take_while(|&&other| other != order).count();
        self.warm_start?.row(node, at * self.config.dim)
    }

    /// Threads that work on rows in host memory; a device has one stream.
    pub(super) fn row_pool(&self) -> WorkerPool {
        WorkerPool {
            n_threads: match self.device.kind() {
                DeviceKind::Host => self.config.threads,
                _ => 1,
            },
        }
    }

    /// Parts of a group.
    pub(super) fn parts(&self, group: u32) -> std::ops::Range<u32> {
        let size = self.store.n_parts() / self.layout.n_groups;
        group * size..(group + 1) * size
    }

    /// Threads of the host train, each on rows that it has to itself.
    pub(super) fn is_on_host(&self) -> bool {
        self.device.kind() == DeviceKind::Host
    }

    /// Threads that train: all of the host, or the one that feeds a device.
    pub(super) fn n_scheduled_threads(&self) -> usize {
        match self.is_on_host() {
            true => self.config.threads.min(self.store.n_parts() as usize),
            false => 1,
        }
    }

    pub(super) fn planner(&self, order: u32) -> Result<Planner<'r>, Error> {
        let planner = Planner {
            store: self.store,
            order,
            seed: self.seed(order),
            layout: self.layout,
            has_small_jobs: !self.is_on_host(),
        };
        planner.check(self.config.epochs)?;
        Ok(planner)
    }

    fn settings(&self, order: u32) -> Settings {
        let mut settings = self.config.settings();
        settings.seed = self.seed(order);
        settings.mode = match (self.is_on_host(), self.config.mode_on(self.device.kind())) {
            (true, _) => match self.config.edges_in_flight {
                None => sgns::Mode::Hogwild, // one sample after the other
                Some(batch) => sgns::Mode::Deterministic { batch },
            },
            (false, Mode::Deterministic) => sgns::Mode::Deterministic { batch: BATCH },
            (false, Mode::Hogwild) => sgns::Mode::Hogwild,
        };
        settings
    }

    /// The devices' streams, rank by rank; the host has one.
    pub(super) fn streams(&self) -> Result<Vec<Stream>, Error> {
        let n_streams = match self.device.kind() {
            DeviceKind::Host => 1,
            _ => self.config.queues,
        };
        let ranks = self.devices.each().iter().enumerate();
        let streams = ranks.flat_map(|of| (0..n_streams).map(move |_| of));
        let stream = |(rank, device): (usize, &Device)| -> Result<Stream, Error> {
            let (device, copies) = match device.kind() {
                DeviceKind::Host => (device.clone(), device.clone()),
                _ => (device.new_stream()?, device.new_stream()?),
            };
            let parts = 0..self.store.n_parts();
            let negatives = parts.map(|part| self.negatives(&device, part));
            let negatives = negatives.collect::<Result<_, _>>()?;
            Ok(Stream {
                device,
                copies,
                rank,
                negatives,
            })
        };
        streams.map(stream).collect()
    }

    /// Noise distribution of a part: degree^0.75.
    pub(super) fn negatives(&self, device: &Device, part: u32) -> Result<Negatives, Error> {
        let mut held = self.hold_on(device, Purpose::Negatives);
        if self.memory.is_dry() {
            let n_rows = self.store.partition().n_rows(part);
            held.set(AliasTable::bytes_of(n_rows.into()));
            return Ok(Negatives {
                table: None,
                _held: held,
            });
        }
        let degrees = self.store.degrees_of(part);
        let weights: Vec<f64> = degrees.iter().map(|&d| f64::from(d).powf(0.75)).collect();
        let table = match weights.iter().any(|&weight| weight > 0.0) {
            true => Some(AliasTable::upload(device, &weights)?),
            false => None,
        };
        let n_rows = table.as_ref().map_or(0, AliasTable::len);
        held.set(AliasTable::bytes_of(n_rows as u64));
        Ok(Negatives { table, _held: held })
    }

    /// Counts what is made on a device, where that is the host: the others have memory of their own.
    pub(super) fn hold_on(&self, device: &Device, purpose: Purpose) -> Held {
        match device.kind() {
            DeviceKind::Host => self.memory.hold(purpose, 0),
            _ => Held::default(),
        }
    }
}

/// Noise distribution of a part; none where no row of it has an edge, and in a dry run.
#[derive(Debug)]
pub(super) struct Negatives {
    pub(super) table: Option<AliasTable>,
    _held: Held,
}

/// A stream of a device with what its kernels read; the host has one.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) device: Device,
    /// A stream beside it, on which the edges of the next bucket come while the kernels of this one run.
    pub(super) copies: Device,
    pub(super) rank: usize,
    /// Noise distribution of each part.
    pub(super) negatives: Vec<Negatives>,
}

impl Stream {
    /// Bytes that went to the device on both streams.
    pub(super) fn to_device_bytes(&self) -> u64 {
        let streams = [&self.device, &self.copies];
        streams
            .map(|stream| stream.traffic().to_device_bytes)
            .iter()
            .sum()
    }

    /// A bucket on this stream's device.
    pub(super) fn rank_bucket(&self, bucket_pass: BucketPass) -> RankBucket {
        RankBucket {
            rank: self.rank,
            bucket: bucket_pass.bucket(),
        }
    }
}

/// Edges of a bucket on a stream; none in a dry run.
#[derive(Debug)]
pub(super) struct UploadedEdges {
    pub(super) list: EdgeList,
    _held: Held,
}

/// What all jobs of an order share.
#[derive(Debug)]
pub(super) struct OrderContext<'s> {
    pub(super) run: RunContext<'s>,
    pub(super) planner: Planner<'s>,
    pub(super) settings: Settings,
    pub(super) streams: &'s [Stream],
    first_rate: f32,
    /// Samples of all passes of the order.
    pub(super) n_samples: u64,
    pub(super) clock: &'s Clock,
}

impl<'s> OrderContext<'s> {
    pub(super) fn new(
        run: RunContext<'s>,
        order: u32,
        streams: &'s [Stream],
        clock: &'s Clock,
    ) -> Result<OrderContext<'s>, Error> {
        let planner = run.planner(order)?;
        Ok(OrderContext {
            settings: run.settings(order),
            streams,
            first_rate: run.config.first_rate(),
            n_samples: planner.samples_of_a_pass() * u64::from(run.config.epochs),
            planner,
            clock,
            run,
        })
    }

    /// Whether hogwild kernels of a device work: they take a bucket in one launch, and put its edges into their order themselves.
    /// The deterministic mode has the host's order and rates.
    pub(super) fn takes_a_bucket_at_once(&self) -> bool {
        !self.run.is_on_host() && self.settings.mode == sgns::Mode::Hogwild
    }

    /// Reads a bucket; without weights, its edges come in an order drawn for this visit, unless a device is to draw it.
    pub(super) fn bucket(&self, bucket_pass: BucketPass) -> Result<Bucket, Error> {
        self.clock.preparing(|| {
            let (i, j) = bucket_pass.bucket();
            let mut bucket = self.run.store.bucket(i, j, self.run.memory)?;
            if !self.run.store.is_weighted() && !self.takes_a_bucket_at_once() {
                let mut rng = KeyedRng::new(self.settings.seed, "line edges", bucket_pass.number);
                rng.shuffle(&mut bucket.pairs);
            }
            Ok(bucket)
        })
    }

    /// Gives a stream the edges of a bucket.
    pub(super) fn upload(&self, stream: &Stream, bucket: Bucket) -> Result<UploadedEdges, Error> {
        self.clock.preparing(|| {
            let memory = self.run.memory;
            let (n_edges, is_weighted) = (bucket.pairs.len(), self.run.store.is_weighted());
            let pairs = bucket.pairs.as_flattened();
            let mut held = self.run.hold_on(&stream.copies, Purpose::Edges);
            held.set(EdgeList::bytes_of(n_edges as u64, is_weighted));
            let mut list = match is_weighted {
                false => EdgeList::upload(&stream.copies, pairs)?,
                true => {
                    let weights = bucket.weights.iter().map(|&w| f64::from(w));
                    let weights = memory.collect(Purpose::Edges, bucket.weights.len(), weights);
                    let scratch = AliasTable::scratch_bytes(n_edges as u64);
                    let _scratch = memory.hold(Purpose::Edges, scratch);
                    match memory.is_dry() {
                        true => EdgeList::upload(&stream.copies, pairs)?,
                        false => EdgeList::upload_weighted(&stream.copies, pairs, &weights)?,
                    }
                }
            };
            list.adopt(&stream.device)?;
            Ok(UploadedEdges { list, _held: held })
        })
    }

    /// The edges of a bucket in an order drawn for this visit, where a device draws it.
    pub(super) fn permuted(
        &self,
        stream: &Stream,
        bucket_pass: BucketPass,
        edges: &EdgeList,
    ) -> Result<Option<EdgeList>, Error> {
        if edges.is_weighted() || !self.takes_a_bucket_at_once() {
            return Ok(None);
        }
        let mut rng = KeyedRng::new(self.settings.seed, "line edges", bucket_pass.number);
        Ok(Some(edges.permuted(&stream.device, rng.next_u64())?))
    }

    /// Learning rate: falls in a line from the first one to a ten-thousandth of it.
    pub(super) fn learning_rate(&self, sample: u64) -> f32 {
        let left = 1.0 - sample as f64 / self.n_samples as f64;
        (f64::from(self.first_rate) * left.max(1e-4)) as f32
    }
}
