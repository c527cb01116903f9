//! What a plan is to be made with.

use serde::{Deserialize, Serialize};
use shardgraph_brkga::Config;
use shardgraph_costgraph::{DecoderKind, ModelOptions, Objective};

use crate::method::Method;

/// What a plan is to be made with; the command line's flags have the same names.
///
/// ```
/// use shardgraph_regal::PlaceOptions;
/// let options: PlaceOptions = serde_json::from_str(r#"{"objective": "memory", "evaluations": 1000, "decoder": "flush"}"#)?;
/// assert_eq!((options.seed, options.genetic.population), (1, 50));
/// assert!(serde_json::from_str::<PlaceOptions>(r#"{"budget": 1000}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceOptions {
    /// What to minimise.
    pub objective: Objective,
    /// How the plan is made.
    pub method: Method,
    /// How chromosomes become schedules. Absent: `list` for the runtime, `paper` for memory, where list scheduling has no say.
    pub decoder: Option<DecoderKind>,
    /// Schedules that a search evaluates: warm starts, chromosomes that are decoded, moves of a local search. [`Method::Portfolio`] and
    /// pipelines search on each number of devices; [`crate::total_evaluations`] says what that makes in all.
    pub evaluations: u64,
    /// The one seed.
    pub seed: u64,
    /// Threads that decode; the plan does not depend on them.
    pub threads: usize,
    /// Join ops that lose nothing by running right after another before the search, and part them again in the plan.
    pub contract: bool,
    /// Runs of the noisy greedy.
    pub greedy_runs: u64,
    /// The genetic algorithm's numbers.
    pub genetic: GeneticOptions,
    /// Those of [`Method::TunedBrkga`].
    pub tuned: GeneticOptions,
    /// What the performance model leaves open.
    pub model: ModelOptions,
}

impl Default for PlaceOptions {
    fn default() -> PlaceOptions {
        PlaceOptions {
            objective: Objective::Runtime,
            method: Method::default(),
            decoder: None,
            evaluations: 5000,
            seed: 1,
            threads: 1,
            contract: false,
            greedy_runs: 20,
            genetic: GeneticOptions::default(),
            tuned: GeneticOptions::tuned(),
            model: ModelOptions::default(),
        }
    }
}

impl PlaceOptions {
    /// The decoder: the one asked for, or the objective's.
    #[must_use]
    pub fn decoder(&self) -> DecoderKind {
        self.decoder.unwrap_or(match self.objective {
            Objective::Runtime => DecoderKind::List,
            Objective::Memory => DecoderKind::Paper,
        })
    }
}

/// The genetic algorithm's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneticOptions {
    /// Chromosomes in a population.
    pub population: u32,
    /// The best of them, which live on.
    pub elites: u32,
    /// New random ones in each generation.
    pub mutants: u32,
    /// The probability that a child takes a key from its elite parent.
    pub rho: f64,
    /// Populations side by side.
    pub populations: u32,
    /// Generations between migrations; 0 means never: then several populations never meet.
    pub migration_generations: u32,
    /// The best chromosomes of each population that a migration copies into every other one.
    pub migrants: u32,
    /// The first shape of the Beta distribution of ops' random keys; both shapes 1 is the uniform distribution. Decoders see only
    /// which key is higher: what this changes is how ops rank among transfers, so for `list` it changes nothing.
    pub alpha: f64,
    /// Its second shape.
    pub beta: f64,
}

/// The paper's "BRKGA 5K", in as far as its Table 1 comes out in scale, and what the portfolio is best with among populations of 50 and 100.
impl Default for GeneticOptions {
    fn default() -> GeneticOptions {
        let config = Config::default();
        GeneticOptions {
            population: 50,
            elites: 10,
            mutants: 10,
            rho: config.rho,
            populations: config.populations,
            migration_generations: config.migration_generations,
            migrants: config.migrants,
            alpha: 1.0,
            beta: 1.0,
        }
    }
}

impl GeneticOptions {
    /// The numbers that were best for the runtime of synthetic graphs, among 648 settings and with the paper's decoder.
    ///
    /// `cargo xtask repro regal tune` searches again, on graphs that no table reports. For real graphs other numbers were found, which stand in
    /// `benches/regal/`.
    #[must_use]
    pub fn tuned() -> GeneticOptions {
        GeneticOptions {
            elites: 15,
            mutants: 5,
            beta: 4.0,
            ..GeneticOptions::default()
        }
    }

    /// With a budget and a seed, what the engine takes.
    #[must_use]
    pub fn config(&self, evaluations: u64, seed: u64) -> Config {
        Config {
            population: self.population,
            elites: self.elites,
            mutants: self.mutants,
            rho: self.rho,
            populations: self.populations,
            migration_generations: self.migration_generations,
            migrants: self.migrants,
            evaluations,
            seed,
            ..Config::default()
        }
    }
}
