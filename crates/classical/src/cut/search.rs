//! [`Search`]: simulated annealing on the sides, with gains that a move updates in the time of its degree.

use shardgraph_random::{KeyedRng, ln};

use crate::budget::Stopwatch;
use crate::cut::instance::Instance;

/// Entries of the table of exponential quantiles.
const N_QUANTILES: usize = 4096;
/// Sweeps of the first annealing; each one after it takes twice as many, up to the last.
const FIRST_SWEEPS: u64 = 128;
const LAST_SWEEPS: u64 = 1 << 14;
/// First and last temperature, in typical changes of a node's gain and in typical weights.
const HOT: f64 = 0.4;
const COLD: f64 = 0.1;
/// Nodes between two looks at the clock.
const NODES_PER_TICK: usize = 1 << 14;

/// The best cut of one search.
pub(crate) struct Found {
    pub(crate) sides: Vec<bool>,
    pub(crate) cut: i64,
}

/// One search: annealings one after the other, the first from the start, the others from random sides.
pub(crate) struct Search<'a> {
    instance: &'a Instance,
    stopwatch: Stopwatch<'a>,
    random: KeyedRng,
    quantiles: Vec<f64>,
    sides: Vec<bool>,
    /// Change of the cut when a node changes its side.
    gains: Vec<i64>,
    cut: i64,
    best: Found,
    /// Sweeps that were made.
    sweeps: u64,
    max_sweeps: u64,
    is_over: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        instance: &'a Instance,
        start: &[bool],
        random: KeyedRng,
        stopwatch: Stopwatch<'a>,
    ) -> Search<'a> {
        let quantile = |i: usize| -ln((i as f64 + 0.5) / N_QUANTILES as f64);
        let mut search = Search {
            instance,
            stopwatch,
            random,
            quantiles: (0..N_QUANTILES).map(quantile).collect(),
            sides: Vec::new(),
            gains: Vec::new(),
            cut: 0,
            best: Found {
                sides: start.to_vec(),
                cut: instance.cut(start),
            },
            sweeps: 0,
            max_sweeps: 0,
            is_over: false,
        };
        search.restart(start.to_vec());
        search
    }

    fn restart(&mut self, sides: Vec<bool>) {
        let instance = self.instance;
        let gain = |v: usize| {
            let row = instance.row(v);
            row.map(|(u, w)| if sides[u] == sides[v] { w } else { -w })
                .sum()
        };
        self.gains = (0..instance.n_nodes()).map(gain).collect();
        self.cut = instance.cut(&sides);
        self.sides = sides;
    }

    /// The best sides after one descent and so many sweeps of annealing, or when the time is over.
    ///
    /// # Source
    /// Myklebust (2015), "Solving maximum cut problems by simulated annealing".
    pub(crate) fn run(mut self, max_sweeps: u64) -> Vec<bool> {
        self.descend();
        self.max_sweeps = max_sweeps;
        let (hot, cold) = self.temperatures();
        let mut n_sweeps = FIRST_SWEEPS;
        while self.sweeps < max_sweeps && !self.is_over && hot > 0.0 {
            self.anneal(hot, cold, self.planned_sweeps(n_sweeps));
            self.descend();
            n_sweeps = (n_sweeps * 2).min(LAST_SWEEPS);
            let sides = (0..self.sides.len()).map(|_| self.random.chance(0.5));
            let sides = sides.collect();
            self.restart(sides);
        }
        self.best.sides
    }

    /// Sweeps of the next annealing: fewer where the steps or the time that are left do not hold as many.
    fn planned_sweeps(&self, wanted: u64) -> u64 {
        let seconds_per_sweep = self.stopwatch.seconds() / self.sweeps.max(1) as f64;
        let by_time = match self.stopwatch.rest().time_limit {
            Some(rest) if seconds_per_sweep > 0.0 => (rest / seconds_per_sweep) as u64,
            _ => u64::MAX,
        };
        let left = self.max_sweeps.saturating_sub(self.sweeps).min(by_time);
        // What is left over is too short for another annealing.
        match left < wanted + wanted / 2 {
            true => left.max(1),
            false => wanted,
        }
    }

    /// Typical scales of the gains at the two ends of an annealing.
    fn temperatures(&self) -> (f64, f64) {
        let weights = &self.instance.weights;
        let squares: f64 = weights.iter().map(|&w| (w as f64) * (w as f64)).sum();
        let n_entries = weights.len().max(1) as f64;
        let spread = (squares / self.instance.n_nodes().max(1) as f64).sqrt();
        (HOT * spread, COLD * (squares / n_entries).sqrt())
    }

    fn anneal(&mut self, hot: f64, cold: f64, n_sweeps: u64) {
        for sweep in 0..n_sweeps {
            let progress = sweep as f64 / n_sweeps as f64;
            let temperature = hot + (cold.min(hot) - hot) * progress;
            self.sweep(temperature);
            if self.is_over || self.sweeps >= self.max_sweeps {
                return;
            }
        }
    }

    /// Moves that gain, sweep after sweep, until none does.
    fn descend(&mut self) {
        loop {
            let before = self.cut;
            self.sweep(0.0);
            if self.cut == before || self.is_over {
                break;
            }
        }
        self.keep();
    }

    /// Each node in turn changes its side if that gains, or with the probability exp(gain / temperature).
    fn sweep(&mut self, temperature: f64) {
        self.sweeps += 1;
        let most = temperature * self.quantiles[0];
        for v in 0..self.gains.len() {
            if v.is_multiple_of(NODES_PER_TICK) && self.stopwatch.is_late() {
                self.is_over = true;
                return;
            }
            let gain = self.gains[v];
            if gain > 0 || (gain as f64 > -most && self.accepts(gain, temperature)) {
                self.flip(v);
            }
        }
    }

    fn accepts(&mut self, gain: i64, temperature: f64) -> bool {
        let quantile = self.quantiles[self.random.index(N_QUANTILES)];
        gain as f64 > -temperature * quantile
    }

    fn flip(&mut self, v: usize) {
        let side = !self.sides[v];
        self.cut += self.gains[v];
        self.gains[v] = -self.gains[v];
        self.sides[v] = side;
        let row = self.instance.offsets[v]..self.instance.offsets[v + 1];
        let columns = self.instance.columns[row.clone()].iter();
        for (&u, &weight) in columns.zip(&self.instance.weights[row]) {
            let u = u as usize;
            let change = if self.sides[u] == side {
                weight
            } else {
                -weight
            };
            self.gains[u] += 2 * change;
        }
    }

    fn keep(&mut self) {
        if self.cut > self.best.cut {
            self.best.cut = self.cut;
            self.best.sides.clone_from(&self.sides);
        }
    }
}
