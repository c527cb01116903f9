//! Observations scaled to -1 to 1 by the bounds of their space.

use crate::error::Error;
use crate::space::{Bounds, Space, SpaceKind};
use crate::threads::Threads;
use crate::vector::{Actions, VectorStep};
use crate::vector_environment::VectorEnvironment;

/// A vector of environments in which each number of a box with finite bounds is scaled to -1 to 1.
///
/// Numbers without a bound, flags and discrete numbers stay as they are. Networks learn faster from
/// inputs of like size: the speed of Mountain Car's car is at most 0.07.
///
/// ```
/// use shardgraph_environments::space::Space;
/// use shardgraph_environments::{Autoreset, ScaledObservations, VectorEnvironment, named_environment};
///
/// let cars = named_environment("mountain-car", &Default::default(), 4, Autoreset::SameStep)?;
/// let cars = ScaledObservations::new(cars)?;
/// assert_eq!(cars.observation_space(), Space::boxed(&[2], -1.0, 1.0)?);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Debug)]
pub struct ScaledObservations {
    inner: Box<dyn VectorEnvironment>,
    space: Space,
    columns: Vec<Column>,
    observations: Vec<f32>,
    final_observations: Vec<f32>,
}

/// The scale of one float of an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column {
    middle: f32,
    /// 1 / half the distance of the bounds.
    factor: f32,
}

const AS_IT_IS: Column = Column {
    middle: 0.0,
    factor: 1.0,
};

impl Column {
    fn of(low: f32, high: f32) -> Column {
        let half = 0.5 * (high - low);
        if !(low.is_finite() && half.is_finite() && half > 0.0) {
            return AS_IT_IS;
        }
        Column {
            middle: low + half,
            factor: 1.0 / half,
        }
    }

    fn apply(self, x: f32) -> f32 {
        (x - self.middle) * self.factor
    }
}

impl ScaledObservations {
    /// Scales the observations of `inner`.
    ///
    /// # Errors
    /// When the observation space has no fixed width.
    pub fn new(inner: Box<dyn VectorEnvironment>) -> Result<ScaledObservations, Error> {
        let mut columns = Vec::with_capacity(inner.observation_space().flat_width()?);
        let space = scaled(&inner.observation_space(), &mut columns)?;
        let n_floats = inner.observations().len();
        let mut scaled = ScaledObservations {
            space,
            columns,
            observations: vec![0.0; n_floats],
            final_observations: vec![0.0; n_floats],
            inner,
        };
        scaled.show();
        Ok(scaled)
    }

    fn show(&mut self) {
        let rows = self.observations.chunks_exact_mut(self.columns.len());
        for (out, row) in rows.zip(self.inner.observations().chunks_exact(self.columns.len())) {
            write_row(&self.columns, row, out);
        }
    }
}

fn write_row(columns: &[Column], row: &[f32], out: &mut [f32]) {
    for ((out, &x), column) in out.iter_mut().zip(row).zip(columns) {
        *out = column.apply(x);
    }
}

/// The space of scaled values; appends the columns of its floats.
fn scaled(space: &Space, columns: &mut Vec<Column>) -> Result<Space, Error> {
    match space.kind() {
        SpaceKind::Box { shape, low, high } => {
            let first = columns.len();
            let n: usize = shape.iter().product();
            columns.extend((0..n).map(|idx| Column::of(low.at(idx), high.at(idx))));
            let bounds = |bounds: &Bounds| {
                let scale = |(idx, column): (usize, &Column)| column.apply(bounds.at(idx));
                let all: Vec<f32> = columns[first..].iter().enumerate().map(scale).collect();
                match all.iter().all(|bound| bound.total_cmp(&all[0]).is_eq()) {
                    true => Bounds::All(all[0]),
                    false => Bounds::Each(all),
                }
            };
            Space::boxed(shape, bounds(low), bounds(high))
        }
        SpaceKind::Dict { spaces } => {
            let members = spaces
                .iter()
                .map(|(name, space)| Ok((name.clone(), scaled(space, columns)?)));
            Space::dict(members.collect::<Result<_, Error>>()?)
        }
        SpaceKind::Tuple { spaces } => {
            let members = spaces.iter().map(|space| scaled(space, columns));
            Space::tuple(members.collect::<Result<_, Error>>()?)
        }
        SpaceKind::Discrete { .. } | SpaceKind::MultiBinary { .. } | SpaceKind::Graph { .. } => {
            columns.extend((0..space.flat_width()?).map(|_| AS_IT_IS));
            Ok(space.clone())
        }
    }
}

impl VectorEnvironment for ScaledObservations {
    fn n_environments(&self) -> usize {
        self.inner.n_environments()
    }

    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn action_space(&self) -> Space {
        self.inner.action_space()
    }

    fn reset(&mut self, seed: u64) {
        self.inner.reset(seed);
        self.show();
    }

    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        self.inner.reset_where(marks)?;
        self.show();
        Ok(())
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error> {
        self.inner.step(actions)?;
        self.show();
        let rows = self.final_observations.chunks_exact_mut(self.columns.len());
        for (idx, out) in rows.enumerate() {
            if let Some(row) = self.inner.final_observation(idx) {
                write_row(&self.columns, row, out);
            }
        }
        Ok(self.inner.last_step())
    }

    fn set_threads(&mut self, threads: &Threads) {
        self.inner.set_threads(threads);
    }

    fn last_step(&self) -> &VectorStep {
        self.inner.last_step()
    }

    fn observations(&self) -> &[f32] {
        &self.observations
    }

    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        let n = self.columns.len();
        self.inner.final_observation(idx)?;
        Some(&self.final_observations[idx * n..(idx + 1) * n])
    }

    fn action_mask(&self) -> Option<&[bool]> {
        self.inner.action_mask()
    }

    fn final_action_mask(&self, idx: usize) -> Option<&[bool]> {
        self.inner.final_action_mask(idx)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.inner.to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.inner.restore(bytes)?;
        self.show();
        Ok(())
    }
}
