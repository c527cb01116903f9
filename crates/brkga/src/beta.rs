//! Beta distributions for single keys, drawn from tables of their inverse distribution function.
//!
//! A gamma ratio costs several times a uniform number and is 0/0 for the smallest shapes; a table costs one load and one
//! multiplication, and has no such corner.

use std::sync::{Arc, OnceLock};

use crate::error::Error;
use shardgraph_random::KeyedRng;

mod quantile;

/// The shape of a Beta distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beta {
    alpha: f64,
    beta: f64,
}

impl Beta {
    /// The uniform distribution, Beta(1, 1).
    pub const UNIFORM: Beta = Beta {
        alpha: 1.0,
        beta: 1.0,
    };

    /// The distribution with density proportional to x^(alpha - 1) (1 - x)^(beta - 1).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Proposal`] unless both are within [0.0001, 1000].
    pub fn new(alpha: f64, beta: f64) -> Result<Beta, Error> {
        let range = 1e-4..=1e3;
        if range.contains(&alpha) && range.contains(&beta) {
            return Ok(Beta { alpha, beta });
        }
        Err(Error::proposal(format!(
            "Beta({alpha}, {beta}): expected two numbers of [0.0001, 1000]"
        )))
    }

    /// The distribution for level `m` of `k` means and level `v` of `k` variances: mean mu = (m+1)/(k+1), variance
    /// mu (1-mu) (v+1)/(k+1), so that alpha = mu nu and beta = (1-mu) nu with nu = (k-v)/(v+1).
    ///
    /// Levels (2, 1) of 5 are the uniform distribution; 2, 4 and 16 levels have no pair that is.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Proposal`] unless `m < k`, `v < k` and k is within 2..=64.
    ///
    /// # Source
    /// Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs", A.6.
    pub fn quantised(m: u32, v: u32, k: u32) -> Result<Beta, Error> {
        if !(2..=64).contains(&k) || m >= k || v >= k {
            return Err(Error::proposal(format!(
                "levels ({m}, {v}) of {k}: expected two levels below k, and k from 2 to 64"
            )));
        }
        // As fractions of integers, so that (2, 1) of 5 is (1, 1) exactly.
        let nu_over = f64::from((v + 1) * (k + 1));
        let alpha = f64::from((m + 1) * (k - v)) / nu_over;
        let beta = f64::from((k - m) * (k - v)) / nu_over;
        Beta::new(alpha, beta)
    }

    /// The first shape.
    #[must_use]
    pub fn alpha(self) -> f64 {
        self.alpha
    }

    /// The second shape.
    #[must_use]
    pub fn beta(self) -> f64 {
        self.beta
    }
}

/// 2^9 cells of equal probability.
const CELL_BITS: u32 = 9;
const N_CELLS: usize = 1 << CELL_BITS;
/// A key is made of 24 random bits: the cell, and the place in it.
const FRACTION_BITS: u32 = 24 - CELL_BITS;

/// A cell's lower end, and the step to its upper end for one unit of the fraction.
type Cell = [f32; 2];

/// Tables for drawing from Beta distributions: made once, shared by any number of searches.
///
/// Table 0 is the uniform distribution ([`BetaTables::UNIFORM`]), table i + 1 the i-th shape given. A clone shares the tables.
///
/// ```
/// use shardgraph_brkga::{Beta, BetaTables, Brkga, Config};
///
/// // Mutants that tend to put the first key high, the second low, and the third anywhere.
/// let tables = BetaTables::new(&[Beta::new(5.0, 1.0)?, Beta::new(1.0, 5.0)?])?;
/// let search = Brkga::new(3, &Config::default())?.with_proposals(&tables, vec![1, 2, BetaTables::UNIFORM])?;
/// let decode = |keys: &[f32]| (u64::from(keys[0] < keys[1]), 0);
/// assert_eq!(search.run(&mut [decode])?.best.fitness, (0, 0));
/// # Ok::<(), shardgraph_brkga::Error>(())
/// ```
///
/// # Determinism
/// The tables have the same bits on every machine: their logarithms and exponentials are computed in software.
///
/// # Complexity
/// 4 KiB and less than a tenth of a millisecond a table; a key that is drawn costs one load and one multiplication.
///
/// Between the ends of a cell a key is linear in its uniform number: the distribution function of what is drawn is exact at the
/// 511 inner borders, up to the rounding to f32, and within 1/512 everywhere. What is below the smallest normal f32 is 0, what
/// would round to 1 is the largest f32 below it.
#[derive(Clone, Debug)]
pub struct BetaTables {
    shapes: Arc<[Beta]>,
    tables: Arc<[[Cell; N_CELLS]]>,
}

impl BetaTables {
    /// The choice for a key that is uniform.
    pub const UNIFORM: u16 = 0;

    /// A table for each shape.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Proposal`] for more than 65535 shapes.
    pub fn new(shapes: &[Beta]) -> Result<BetaTables, Error> {
        check_count(shapes.len())?;
        let shapes: Arc<[Beta]> = [Beta::UNIFORM].iter().chain(shapes).copied().collect();
        Ok(BetaTables {
            tables: shapes.iter().map(|shape| table(*shape)).collect(),
            shapes,
        })
    }

    /// A table for each pair of levels of [`Beta::quantised`]; [`BetaTables::quantised_choice`] is a pair's index.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Proposal`] unless k is within 2..=64.
    pub fn quantised(k: u32) -> Result<BetaTables, Error> {
        Beta::quantised(0, 0, k)?;
        let pairs = (0..k * k).map(|i| Beta::quantised(i / k, i % k, k));
        BetaTables::new(&pairs.collect::<Result<Vec<_>, _>>()?)
    }

    /// The index of level `m` of the mean and `v` of the variance in the tables of `k` levels.
    ///
    /// # Panics
    /// When `m` or `v` is not below `k`, or k is above 64.
    #[must_use]
    pub fn quantised_choice(m: u32, v: u32, k: u32) -> u16 {
        assert!(
            m < k && v < k && k <= 64,
            "levels ({m}, {v}) of {k}: expected two levels below k, and k at most 64"
        );
        (1 + m * k + v) as u16
    }

    /// The number of tables, the uniform one included: choices are below it.
    #[must_use]
    pub fn n_tables(&self) -> usize {
        self.shapes.len()
    }

    /// The same distribution, as table 0 if it is uniform.
    pub(crate) fn canonical(&self, choice: u16) -> u16 {
        match self.shapes[usize::from(choice)] == Beta::UNIFORM {
            true => BetaTables::UNIFORM,
            false => choice,
        }
    }

    /// Draws each key from its choice's distribution; two of each random number.
    pub(crate) fn draw(&self, stream: &mut KeyedRng, choices: &[u16], keys: &mut [f32]) {
        let (pairs, last) = keys.as_chunks_mut::<2>();
        let (choice_pairs, last_choice) = choices.as_chunks::<2>();
        for (pair, choices) in pairs.iter_mut().zip(choice_pairs) {
            let bits = stream.next_u64();
            *pair = [
                self.quantile(choices[0], bits as u32 >> 8),
                self.quantile(choices[1], (bits >> 40) as u32),
            ];
        }
        for (last, choice) in last.iter_mut().zip(last_choice) {
            *last = self.quantile(*choice, stream.next_u64() as u32 >> 8);
        }
    }

    /// The quantile of `share` / 2^24, for a share below that.
    #[inline]
    pub(crate) fn quantile(&self, choice: u16, share: u32) -> f32 {
        let cell = (share >> FRACTION_BITS) as usize & (N_CELLS - 1);
        let fraction = share & ((1 << FRACTION_BITS) - 1);
        let [lowest, step] = self.tables[usize::from(choice)][cell];
        lowest + step * fraction as f32
    }
}

/// Tables of some shapes, each made when it is first asked for and kept: for many searches, each of which needs a few of them.
///
/// ```
/// use shardgraph_brkga::{Beta, BetaCache};
///
/// let cache = BetaCache::new(vec![Beta::new(5.0, 1.0)?, Beta::new(1.0, 5.0)?]);
/// assert_eq!(cache.tables(&[1])?.n_tables(), 2); // the uniform one, and that of the second shape
/// # Ok::<(), shardgraph_brkga::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BetaCache {
    shapes: Arc<[Beta]>,
    tables: Arc<[OnceLock<Box<[Cell; N_CELLS]>>]>,
}

impl BetaCache {
    /// Of these shapes, without any table yet. Clones share the tables.
    #[must_use]
    pub fn new(shapes: Vec<Beta>) -> BetaCache {
        BetaCache {
            tables: shapes.iter().map(|_| OnceLock::new()).collect(),
            shapes: shapes.into(),
        }
    }

    /// The tables of the shapes with these indices, in their order, behind the uniform one.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Proposal`] for an index beyond the last shape, and for more than 65535 of them.
    ///
    /// # Complexity
    /// 4 KiB are copied for each; those that were not asked for before are made.
    pub fn tables(&self, indices: &[usize]) -> Result<BetaTables, Error> {
        check_count(indices.len())?;
        let (mut shapes, mut tables) = (vec![Beta::UNIFORM], vec![table(Beta::UNIFORM)]);
        for &index in indices {
            let Some(&shape) = self.shapes.get(index) else {
                let n = self.shapes.len();
                return Err(Error::proposal(format!(
                    "shape {index}: expected one of {n}, from 0 on"
                )));
            };
            shapes.push(shape);
            tables.push(**self.tables[index].get_or_init(|| Box::new(table(shape))));
        }
        Ok(BetaTables {
            shapes: shapes.into(),
            tables: tables.into(),
        })
    }
}

fn check_count(n: usize) -> Result<(), Error> {
    match n <= usize::from(u16::MAX) {
        true => Ok(()),
        false => Err(Error::proposal(format!(
            "{n} shapes: expected at most 65535"
        ))),
    }
}

/// The cells of one shape. A uniform key comes out as a multiple of 2^-24, as it does without a table.
fn table(shape: Beta) -> [Cell; N_CELLS] {
    let borders: Vec<f32> = if shape == Beta::UNIFORM {
        (0..=N_CELLS).map(|i| i as f32 / N_CELLS as f32).collect()
    } else {
        quantile::borders(shape, N_CELLS)
    };
    let mut cells = [[0.0; 2]; N_CELLS];
    for (cell, ends) in cells.iter_mut().zip(borders.windows(2)) {
        let step = (ends[1] - ends[0]) / (1u32 << FRACTION_BITS) as f32;
        *cell = [ends[0], if step.is_normal() { step } else { 0.0 }];
    }
    cells
}

#[cfg(test)]
mod tests;
