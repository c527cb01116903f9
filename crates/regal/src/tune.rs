//! Picks the genetic algorithm's numbers on a set of graphs, by trying all of a grid: the paper's "Tuned BRKGA".

use serde::{Deserialize, Serialize};
use shardgraph_costgraph::{DeviceSet, Graph, Objective, Problem};

use crate::error::Error;
use crate::options::{GeneticOptions, PlaceOptions};
use crate::plan::ratio;
use crate::search::search;

/// The values to try; the default makes 648 settings, as many as the paper tried (which values those were it does not say).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    /// Sizes of a population.
    pub population: Vec<u32>,
    /// Elites, as fractions of a population.
    pub elite_share: Vec<f64>,
    /// Mutants, as fractions of a population.
    pub mutant_share: Vec<f64>,
    /// Numbers of populations.
    pub populations: Vec<u32>,
    /// First shapes of the Beta distribution of ops' keys.
    pub alpha: Vec<f64>,
    /// Second shapes.
    pub beta: Vec<f64>,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid {
            population: vec![50, 100, 200],
            elite_share: vec![0.1, 0.2, 0.3],
            mutant_share: vec![0.1, 0.2, 0.3],
            populations: vec![1, 3],
            alpha: vec![0.5, 1.0, 2.0],
            beta: vec![0.5, 1.0, 2.0, 4.0],
        }
    }
}

impl Grid {
    /// Every combination; what is not on the grid is taken from `base`.
    #[must_use]
    pub fn settings(&self, base: &GeneticOptions) -> Vec<GeneticOptions> {
        let mut settings = vec![*base];
        let mut cross = |n: usize, set: &dyn Fn(&mut GeneticOptions, usize)| {
            let old = std::mem::take(&mut settings);
            for mut setting in old {
                for i in 0..n {
                    set(&mut setting, i);
                    settings.push(setting);
                }
            }
        };
        let share = |population: u32, share: f64| (f64::from(population) * share).round() as u32;
        cross(self.population.len(), &|s, i| {
            s.population = self.population[i]
        });
        cross(self.elite_share.len(), &|s, i| {
            s.elites = share(s.population, self.elite_share[i])
        });
        cross(self.mutant_share.len(), &|s, i| {
            s.mutants = share(s.population, self.mutant_share[i])
        });
        cross(self.populations.len(), &|s, i| {
            s.populations = self.populations[i]
        });
        cross(self.alpha.len(), &|s, i| s.alpha = self.alpha[i]);
        cross(self.beta.len(), &|s, i| s.beta = self.beta[i]);
        settings
    }
}

/// What a grid search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// Every setting with its mean over the graphs of objective / objective with the options' own numbers; best first, of equals
    /// in the order of the grid.
    pub settings: Vec<(GeneticOptions, f64)>,
}

/// Tries every setting of the grid on every graph, with the options' decoder, budget and seed.
///
/// # Errors
/// `Options` for an empty grid, no graphs, or devices with a limited memory (a mean of runtimes says nothing where plans do not
/// fit); otherwise as [`crate::place`].
///
/// # Complexity
/// (settings + 1) x graphs searches.
pub fn tune(
    graphs: &[Graph],
    devices: &DeviceSet,
    options: &PlaceOptions,
    grid: &Grid,
) -> Result<Tuned, Error> {
    tune_settings(graphs, devices, options, grid.settings(&options.genetic))
}

/// As [`tune`] with these settings in place of a grid's.
///
/// # Errors
/// As [`tune`].
pub fn tune_settings(
    graphs: &[Graph],
    devices: &DeviceSet,
    options: &PlaceOptions,
    settings: Vec<GeneticOptions>,
) -> Result<Tuned, Error> {
    if settings.is_empty() || graphs.is_empty() {
        return Err(Error::options(
            "nothing to tune: expected at least one graph, and one value in each field of the grid",
        ));
    }
    if devices
        .devices()
        .iter()
        .any(|device| device.memory_bytes.is_some())
    {
        return Err(Error::options(
            "tuning compares means of the objective: leave out the limits on memory",
        ));
    }
    let mut sums = vec![0.0; settings.len()];
    for graph in graphs {
        let problem = Problem::new(graph, devices, options.objective, options.model)?;
        let value = |genetic: GeneticOptions| -> Result<u64, Error> {
            let options = PlaceOptions {
                genetic,
                ..options.clone()
            };
            let (first, second) = search(&problem, &options, Vec::new(), None)?.best.fitness;
            Ok(match options.objective {
                Objective::Runtime => second,
                Objective::Memory => first,
            })
        };
        let reference = value(options.genetic)?;
        for (sum, setting) in sums.iter_mut().zip(&settings) {
            // A value above a reference of 0 is infinitely worse.
            *sum += ratio(value(*setting)?, reference).unwrap_or(f64::INFINITY);
        }
    }
    let means = sums.iter().map(|sum| sum / graphs.len() as f64);
    let mut settings: Vec<(GeneticOptions, f64)> = settings.into_iter().zip(means).collect();
    settings.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    Ok(Tuned { settings })
}
