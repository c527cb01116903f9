//! A rank's sources in tiles, for a device that does not hold them all: rows and messages lie in
//! the host's memory, and while one tile is worked on, another thread takes the one before it back
//! and brings the next. Nothing of a tile is kept but its steps: messages are added to their sums
//! at once, and made again for the gradients.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use shardgraph_collectives::Timeout;
use shardgraph_device::Timer;

use crate::Error;
use crate::layer::optimiser::Moments;
use crate::layer::plan::LayerPlan;
use crate::memory::{Array, Held, Memory, Purpose};

/// The tiles of a rank, and what was moved for them.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    /// The sources of each tile, layer by layer.
    pub(crate) layers: Vec<Vec<Range<usize>>>,
    /// The bytes of each tile, layer by layer: where rows are read, and where they take steps.
    bytes: Vec<Vec<[u64; 2]>>,
    buffers: RefCell<[Tile; 2]>,
    /// The buffers of a dry run.
    dry: RefCell<[Held; 2]>,
    pub(crate) traffic: Cell<Traffic>,
}

/// The bytes moved between the host and the device, and the time of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Both ways.
    pub(crate) n_bytes: u64,
    /// Seconds that the loader copied.
    pub(crate) copy_s: f64,
    /// Seconds of those that the work waited for it.
    pub(crate) wait_s: f64,
}

impl Traffic {
    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            n_bytes: self.n_bytes + other.n_bytes,
            copy_s: self.copy_s + other.copy_s,
            wait_s: self.wait_s + other.wait_s,
        }
    }
}

/// Some sources on the device.
#[derive(Debug, Default)]
pub(crate) struct Tile {
    pub(crate) sources: Range<usize>,
    pub(crate) rows: Array<f32>,
    pub(crate) moments: Moments,
    /// Room for a gradient of the rows, where one is wanted.
    pub(crate) gradients: Array<f32>,
    pub(crate) plan: LayerPlan,
    held: Held,
}

impl Tile {
    fn n_numbers(&self) -> usize {
        self.rows.len() + self.moments.len()
    }

    fn n_bytes(&self) -> u64 {
        4 * (self.n_numbers() + self.gradients.len()) as u64 + self.plan.n_bytes()
    }
}

/// The rows of a pass.
pub(crate) enum Rows<'a> {
    /// None: the units that are read stay on the device.
    None,
    /// They are read.
    Read(&'a [f32]),
    /// They take a step.
    Step(&'a mut [f32], &'a mut Moments),
}

/// The host memory that tiles come from.
pub(crate) struct Store<'a> {
    pub(crate) plan: &'a LayerPlan,
    pub(crate) rows: Rows<'a>,
    /// Their sizes.
    pub(crate) shape: TileRows,
    /// True if the rows that take a step have a gradient beside them.
    pub(crate) has_gradients: bool,
    /// The account of tiles.
    pub(crate) memory: Memory,
}

/// The rows that a layer's tiles bring, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TileRows {
    /// Numbers in a row; 0 where the tiles bring none.
    pub(crate) row_len: usize,
    /// True for rows of pairs instead of sources.
    pub(crate) by_pair: bool,
    /// Copies of the rows: themselves, and the moments and gradients that come with them.
    pub(crate) n_copies: usize,
}

impl TileRows {
    /// The numbers of the rows of some sources.
    fn numbers(self, plan: &LayerPlan, sources: &Range<usize>) -> Range<usize> {
        match self.by_pair {
            true => {
                let pair = |source: usize| plan.pair_starts[source] as usize;
                pair(sources.start) * self.row_len..pair(sources.end) * self.row_len
            }
            false => sources.start * self.row_len..sources.end * self.row_len,
        }
    }

    /// The bytes of some sources as a tile.
    fn tile_bytes(self, plan: &LayerPlan, sources: &Range<usize>) -> u64 {
        let pairs = plan.pair_starts[sources.start]..plan.pair_starts[sources.end];
        let send = |pair: u32| plan.send_starts[pair as usize];
        let n_sends = send(pairs.end) - send(pairs.start);
        let n_numbers = self.n_copies * self.numbers(plan, sources).len();
        let n_words = sources.len() + 1 + 2 * pairs.len() + 1;
        4 * (n_numbers + n_words) as u64 + 8 * u64::from(n_sends)
    }
}

impl Store<'_> {
    fn numbers(&self, sources: &Range<usize>) -> Range<usize> {
        self.shape.numbers(self.plan, sources)
    }

    /// Brings some sources.
    fn load(&self, sources: Range<usize>, tile: &mut Tile) {
        let numbers = self.numbers(&sources);
        let (rows, moments) = match &self.rows {
            Rows::None => (&[][..], None),
            Rows::Read(rows) => (&rows[numbers.clone()], None),
            Rows::Step(rows, moments) => (&rows[numbers.clone()], Some(&**moments)),
        };
        tile.rows.refill(rows);
        let has_gradients = self.has_gradients && moments.is_some();
        let gradients = if has_gradients { rows } else { &[] };
        tile.gradients.refill(gradients);
        tile.gradients.fill(0.0);
        let part = |of: fn(&Moments) -> &Array<f32>| {
            let values = moments.map(of).filter(|values| !values.is_empty());
            values.map_or(&[][..], |values| &values[numbers.clone()])
        };
        tile.moments.first.refill(part(|moments| &moments.first));
        tile.moments.second.refill(part(|moments| &moments.second));
        self.plan.copy_to(sources.clone(), &mut tile.plan);
        tile.sources = sources;
        tile.held = Held::default();
        tile.held = self.memory.hold(Purpose::Weights, tile.n_bytes());
    }

    /// Takes the rows of a tile back, where they have taken a step.
    fn take_back(&mut self, tile: &Tile) -> u64 {
        let numbers = self.numbers(&tile.sources);
        let Rows::Step(rows, moments) = &mut self.rows else {
            return 0;
        };
        rows[numbers.clone()].copy_from_slice(&tile.rows);
        let tiles = [&tile.moments.first, &tile.moments.second];
        let wholes = [&mut moments.first, &mut moments.second];
        for (whole, tile) in wholes.into_iter().zip(tiles) {
            if !tile.is_empty() {
                whole[numbers.clone()].copy_from_slice(tile);
            }
        }
        4 * tile.n_numbers() as u64
    }
}

/// Ranges of sources, each of at most `capacity` bytes; one that is larger by itself is a tile of
/// its own.
fn cut(n_sources: usize, capacity: u64, bytes: impl Fn(&Range<usize>) -> u64) -> Vec<Range<usize>> {
    let mut tiles = Vec::new();
    let mut start = 0;
    for end in 1..=n_sources {
        if end - start > 1 && bytes(&(start..end)) > capacity {
            tiles.push(start..end - 1);
            start = end - 1;
        }
    }
    if start < n_sources {
        tiles.push(start..n_sources);
    }
    tiles
}

/// The sources that tiles are cut from.
pub(crate) struct TileSource<'a> {
    pub(crate) plans: &'a [Arc<LayerPlan>],
    /// The rows of the first layer; the others' inputs stay on the device.
    pub(crate) rows: TileRows,
}

impl TileSource<'_> {
    fn bytes(&self, layer: usize, sources: &Range<usize>) -> u64 {
        let rows = if layer == 0 {
            self.rows
        } else {
            TileRows::default()
        };
        rows.tile_bytes(&self.plans[layer], sources)
    }

    /// Bytes of the largest source.
    pub(crate) fn largest(&self) -> u64 {
        let of_layer = |layer: usize| {
            let sources = 0..self.plans[layer].n_sources();
            sources.map(move |source| self.bytes(layer, &(source..source + 1)))
        };
        let layers = 0..self.plans.len();
        layers.flat_map(of_layer).max().unwrap_or(0)
    }

    /// Tiles of at most `capacity` bytes where their sources allow it.
    pub(crate) fn cut(&self, capacity: u64) -> Tiles {
        let cut_layer = |layer: usize| {
            let bytes = |sources: &Range<usize>| self.bytes(layer, sources);
            cut(self.plans[layer].n_sources(), capacity, bytes)
        };
        let layers: Vec<Vec<_>> = (0..self.plans.len()).map(cut_layer).collect();
        let read = TileSource {
            plans: self.plans,
            rows: TileRows {
                n_copies: 1,
                ..self.rows
            },
        };
        let bytes = layers.iter().enumerate().map(|(layer, tiles)| {
            let bytes = |tile| [&read, self].map(|of| of.bytes(layer, tile));
            tiles.iter().map(bytes).collect()
        });
        Tiles {
            bytes: bytes.collect(),
            ..Tiles::new(layers)
        }
    }
}

fn lost(what: &str) -> Error {
    Error::new(Error::Tiles, format!("tiles: {what}"))
}

impl Tiles {
    fn new(layers: Vec<Vec<Range<usize>>>) -> Tiles {
        Tiles {
            layers,
            ..Tiles::default()
        }
    }

    /// These without their buffers, for a dry run.
    pub(crate) fn dry(&self) -> Tiles {
        Tiles {
            bytes: self.bytes.clone(),
            ..Tiles::default()
        }
    }

    /// Counts the tiles that a pass loads, each in the buffer of the last but one; two stay until the next pass.
    pub(crate) fn dry_pass(&self, layer: usize, has_steps: bool, memory: &Memory) {
        let mut buffers = self.dry.borrow_mut();
        for bytes in self.bytes.get(layer).into_iter().flatten() {
            buffers[0] = Held::default();
            buffers[0] = memory.hold(Purpose::Weights, bytes[usize::from(has_steps)]);
            buffers.swap(0, 1);
        }
    }

    /// Calls `work` for each tile of a layer, in the order of the sources.
    ///
    /// # Errors
    /// Those of `work`, and where a tile does not come within the deadline.
    pub(crate) fn pass(
        &self,
        layer: usize,
        store: Store<'_>,
        deadline: Timeout,
        work: &mut dyn FnMut(&mut Tile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let tiles = &self.layers[layer];
        let (to_loader, freed) = channel();
        for tile in self.buffers.take() {
            to_loader.send(tile).map_err(|_| lost("no loader"))?;
        }
        let (to_work, ready) = channel();
        let (result, loaded) = thread::scope(|scope| {
            let load = move || load_all(store, tiles, &freed, &to_work, deadline);
            let loader = thread::Builder::new().spawn_scoped(scope, load);
            let loader = loader.map_err(|e| {
                Error::new(Error::Memory, format!("cannot start a loading thread: {e}"))
            })?;
            let result = work_all(tiles.len(), &ready, to_loader, deadline, work);
            Ok::<_, Error>((result, loader.join()))
        })?;
        let (mut traffic, buffers) = loaded.map_err(|_| lost("the loader ended"))??;
        traffic.wait_s = result?.min(traffic.copy_s);
        self.buffers.replace(buffers);
        self.traffic.set(self.traffic.get().add(traffic));
        Ok(())
    }
}

/// The work's half of a pass: seconds that it waited.
fn work_all(
    n_tiles: usize,
    ready: &Receiver<Tile>,
    freed: Sender<Tile>,
    deadline: Timeout,
    work: &mut dyn FnMut(&mut Tile) -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut waited = 0.0;
    for _ in 0..n_tiles {
        let timer = Timer::wall();
        let tile = ready.recv_timeout(deadline.duration());
        let mut tile = tile.map_err(|_| lost("the next one did not come"))?;
        waited += timer.elapsed_s();
        work(&mut tile)?;
        freed.send(tile).map_err(|_| lost("the loader ended"))?;
    }
    Ok(waited)
}

/// The loader's half: brings each tile into a buffer that is free, and takes what was in it back
/// before. Ends when the work does.
fn load_all(
    mut store: Store<'_>,
    tiles: &[Range<usize>],
    freed: &Receiver<Tile>,
    ready: &Sender<Tile>,
    deadline: Timeout,
) -> Result<(Traffic, [Tile; 2]), Error> {
    let mut traffic = Traffic::default();
    let mut to_come = tiles.iter();
    let mut at_rest = Vec::new();
    while at_rest.len() < 2 {
        let mut tile = match freed.recv_timeout(deadline.duration()) {
            Ok(tile) => tile,
            // The work has failed, and says so itself.
            Err(RecvTimeoutError::Disconnected) => Tile::default(),
            Err(RecvTimeoutError::Timeout) => return Err(lost("one was worked on for too long")),
        };
        let timer = Timer::wall();
        if !tile.sources.is_empty() {
            traffic.n_bytes += store.take_back(&tile);
            tile.sources = 0..0;
        }
        let next = to_come.next();
        if let Some(sources) = next {
            store.load(sources.clone(), &mut tile);
            traffic.n_bytes += tile.n_bytes() - 4 * tile.gradients.len() as u64;
        }
        traffic.copy_s += timer.elapsed_s();
        match next {
            // A work that has failed takes no more.
            Some(_) => drop(ready.send(tile)),
            None => at_rest.push(tile),
        }
    }
    let [first, second]: [Tile; 2] = at_rest
        .try_into()
        .map_err(|_| lost("a buffer is missing"))?;
    Ok((traffic, [first, second]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::plan::{Message, Send};

    /// Source s has one pair with s + 1 messages.
    fn plan(n_sources: u32) -> LayerPlan {
        let mut plan = LayerPlan::begin();
        for source in 0..n_sources {
            let messages: Vec<_> = (0..=source)
                .map(|target| Message {
                    relation: 0,
                    target,
                    weight: 1.0,
                })
                .collect();
            plan.add_source(&messages);
        }
        plan.end()
    }

    #[test]
    fn tiles_cover_the_sources_within_their_capacity() {
        let plan = plan(20);
        let rows = TileRows {
            row_len: 4,
            by_pair: false,
            n_copies: 1,
        };
        let bytes = |sources: &Range<usize>| rows.tile_bytes(&plan, sources);
        for capacity in [0, 100, 250, 400, 10_000] {
            let tiles = cut(20, capacity, bytes);
            assert_eq!((tiles[0].start, tiles[tiles.len() - 1].end), (0, 20));
            assert!(tiles.windows(2).all(|two| two[0].end == two[1].start));
            let fits = |tile: &Range<usize>| tile.len() == 1 || bytes(tile) <= capacity;
            assert!(tiles.iter().all(fits), "{capacity}: {tiles:?}");
            let longer = |tile: &Range<usize>| {
                tile.end == 20 || bytes(&(tile.start..tile.end + 1)) > capacity
            };
            assert!(tiles.iter().all(longer), "{capacity}: {tiles:?}");
        }
    }

    #[test]
    fn each_row_comes_once_with_its_messages_and_goes_back() {
        let plan = plan(9);
        let mut rows: Vec<f32> = (0..18).map(|x| x as f32).collect();
        let (mut moments, memory) = (Moments::default(), Memory::default());
        let tiles = Tiles::new(vec![vec![0..4, 4..5, 5..9]]);
        let mut seen = Vec::new();
        let store = Store {
            plan: &plan,
            rows: Rows::Step(&mut rows, &mut moments),
            shape: TileRows {
                row_len: 2,
                ..TileRows::default()
            },
            has_gradients: false,
            memory: memory.clone(),
        };
        let work = &mut |tile: &mut Tile| {
            for source in 0..tile.sources.len() {
                let sends: Vec<Send> = tile
                    .plan
                    .pairs(source)
                    .flat_map(|pair| tile.plan.sends(pair).to_vec())
                    .collect();
                seen.push((tile.rows[2 * source] as usize, sends.len()));
            }
            tile.rows.iter_mut().for_each(|x| *x += 100.0);
            Ok(())
        };
        tiles.pass(0, store, Timeout::default(), work).unwrap();
        let expected: Vec<(usize, usize)> = (0..9).map(|source| (2 * source, source + 1)).collect();
        assert_eq!(seen, expected);
        assert!(rows.iter().zip(100..).all(|(&x, y)| x as i32 == y));
        let traffic = tiles.traffic.get();
        // 18 numbers each way, and of the plan 9 * 2 + 3 * 2 words and 9 relations, and 45
        // messages.
        assert_eq!(traffic.n_bytes, 2 * 72 + 4 * (9 * 3 + 6) + 8 * 45);
        let held = memory.peak().total();
        assert!(held > 0 && held < traffic.n_bytes);
    }

    #[test]
    fn an_error_ends_the_pass() {
        let plan = plan(6);
        let tiles = Tiles::new(vec![vec![0..2, 2..4, 4..6]]);
        let store = Store {
            plan: &plan,
            rows: Rows::None,
            shape: TileRows::default(),
            has_gradients: false,
            memory: Memory::default(),
        };
        let mut n_calls = 0;
        let work = &mut |_: &mut Tile| {
            n_calls += 1;
            match n_calls {
                2 => Err(lost("planted")),
                _ => Ok(()),
            }
        };
        let error = tiles.pass(0, store, Timeout::default(), work).unwrap_err();
        assert!(error.to_string().contains("planted"), "{error}");
        assert_eq!(n_calls, 2);
    }
}
