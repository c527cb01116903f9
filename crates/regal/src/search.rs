//! The genetic algorithm on a placement problem.

use shardgraph_brkga::{Beta, BetaTables, Brkga, Config, Generation, Outcome};
use shardgraph_costgraph::{Decoder, Problem};

use crate::error::Error;
use crate::options::PlaceOptions;

/// Distributions for the random keys of one problem's chromosomes.
pub struct Proposals {
    /// The distributions.
    pub tables: BetaTables,
    /// One of them for each key.
    pub choices: Vec<u16>,
}

/// Runs the genetic algorithm on a problem with the options' decoder, budget, seed, threads and numbers.
///
/// The starts are chromosomes of the problem; each counts as one evaluation. Without proposals, the random keys of ops have the
/// options' one distribution, those of transfers are uniform.
///
/// # Errors
/// `Options` for 0 threads and for more chromosomes than memory holds, `Genetic` for numbers, starts or proposals out of range.
///
/// # Determinism
/// The same bytes for any number of threads.
pub fn search(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: Vec<Vec<f32>>,
    proposals: Option<Proposals>,
) -> Result<Outcome, Error> {
    search_watched(problem, options, starts, proposals, &mut |_| true)
}

/// As [`search`]; `watch` sees the best after each generation, and ends the search by returning false.
///
/// # Errors
/// As [`search`].
///
/// # Determinism
/// As [`search`], for a `watch` that decides by the generation alone.
pub fn search_watched(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: Vec<Vec<f32>>,
    proposals: Option<Proposals>,
    watch: &mut dyn FnMut(Generation) -> bool,
) -> Result<Outcome, Error> {
    if options.threads == 0 {
        return Err(Error::options("threads = 0: expected at least 1"));
    }
    let config = options.genetic.config(options.evaluations, options.seed);
    check_memory(problem.n_keys(), &config)?;
    let mut search = Brkga::new(problem.n_keys(), &config)?.with_starts(starts)?;
    let shape = Beta::new(options.genetic.alpha, options.genetic.beta)?;
    if let Some(Proposals { tables, choices }) = proposals {
        search = search.with_proposals(&tables, choices)?;
    } else if shape != Beta::UNIFORM {
        search = search.with_proposals(&BetaTables::new(&[shape])?, op_choices(problem))?;
    }
    let decoder = || {
        let mut decoder = Decoder::new(problem, options.decoder());
        move |keys: &[f32]| decoder.fitness(keys)
    };
    let mut decoders: Vec<_> = (0..options.threads).map(|_| decoder()).collect();
    loop {
        let stop = search.step(&mut decoders)?;
        let goes_on = search.history().last().is_none_or(|last| watch(*last));
        if stop.is_some() || !goes_on {
            return Ok(search.outcome()?);
        }
    }
}

/// Asks the system whether it would give the memory for all chromosomes, and gives it back at once.
fn check_memory(n_keys: usize, config: &Config) -> Result<(), Error> {
    let wanted = u128::from(config.population) * u128::from(config.populations);
    let n_chromosomes = wanted.min(u128::from(config.evaluations));
    // Members and the room for their children, of 4 bytes a key.
    let bytes = n_chromosomes * 2 * (4 * n_keys as u128 + 64);
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(wanted).map_err(|_| {
        Error::options(format!(
            "{n_chromosomes} chromosomes of {n_keys} keys need about {:.1} GiB, more than this machine gives: make the population smaller",
            bytes as f64 / f64::from(1 << 30)
        ))
    })
}

/// The first distribution for the keys of ops, the uniform one for those of transfers (as A.6 has it).
fn op_choices(problem: &Problem<'_>) -> Vec<u16> {
    let n_op_keys = problem.graph().n_ops() * (problem.n_devices() + 1);
    let mut choices = vec![BetaTables::UNIFORM; problem.n_keys()];
    choices[..n_op_keys].fill(1);
    choices
}
