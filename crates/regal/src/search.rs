//! The genetic algorithm on a placement problem.

use shardgraph_brkga::{Beta, BetaTables, Brkga, Config, Outcome};
use shardgraph_costgraph::{Decoder, Problem};

use crate::error::Error;
use crate::options::PlaceOptions;
use crate::watch::{Search, unwatched};

/// Distributions for the random keys of one problem's chromosomes.
pub struct Proposals {
    /// The distributions.
    pub tables: BetaTables,
    /// One of them for each key.
    pub choices: Vec<u16>,
    /// The probability that a child takes a key from its elite parent, in place of the options' one.
    pub rho: Option<f64>,
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
    unwatched(|watch| search_on(problem, options, starts, proposals, &mut Search::new(watch)))
}

/// What every genetic search asks of its options.
pub(crate) fn check(options: &PlaceOptions) -> Result<(), Error> {
    if options.threads == 0 {
        return Err(Error::options("threads = 0: expected at least 1"));
    }
    Ok(options
        .genetic
        .config(options.evaluations, options.seed)
        .check()?)
}

/// A genetic search with the options' numbers that is still to be stepped.
pub(crate) fn brkga(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: Vec<Vec<f32>>,
    proposals: Option<Proposals>,
) -> Result<Brkga, Error> {
    check(options)?;
    let mut config = options.genetic.config(options.evaluations, options.seed);
    let proposed = proposals.as_ref().and_then(|proposals| proposals.rho);
    config.rho = proposed.unwrap_or(config.rho);
    check_memory(problem.n_keys(), &config, options.threads)?;
    let mut search = Brkga::new(problem.n_keys(), &config)?.with_starts(starts)?;
    let shape = Beta::new(options.genetic.alpha, options.genetic.beta)?;
    if let Some(Proposals {
        tables, choices, ..
    }) = proposals
    {
        search = search.with_proposals(&tables, choices)?;
    } else if shape != Beta::UNIFORM {
        search = search.with_proposals(&BetaTables::new(&[shape])?, op_choices(problem))?;
    }
    Ok(search)
}

/// As [`search`], with somebody who looks on.
pub(crate) fn search_on(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: Vec<Vec<f32>>,
    proposals: Option<Proposals>,
    watch: &mut Search<'_, '_>,
) -> Result<Outcome, Error> {
    let mut search = brkga(problem, options, starts, proposals)?;
    let decoder = || {
        let mut decoder = Decoder::new(problem, options.decoder());
        move |keys: &[f32]| decoder.fitness(keys)
    };
    let mut decoders: Vec<_> = (0..options.threads).map(|_| decoder()).collect();
    loop {
        let stop = search.step_while(&mut decoders, &mut || !watch.is_late())?;
        let last = search.history().last();
        let goes_on = last.is_none_or(|last| watch.goes_on(last.evaluations, last.best));
        if stop.is_some() || !goes_on {
            return Ok(search.outcome()?);
        }
    }
}

/// Asks the system whether it would give the memory for all chromosomes and decoders, and gives it back at once.
fn check_memory(n_keys: usize, config: &Config, threads: usize) -> Result<(), Error> {
    // Ranks, counts, arrivals and steps of a decoder, each a few bytes a key.
    const DECODER_BYTES_PER_KEY: u128 = 64;
    let wanted = u128::from(config.population) * u128::from(config.populations);
    let n_chromosomes = wanted.min(u128::from(config.evaluations));
    // Members and the room for their children, of 4 bytes a key.
    let chromosome_bytes = n_chromosomes * 2 * (4 * n_keys as u128 + 64);
    let bytes = chromosome_bytes + threads as u128 * DECODER_BYTES_PER_KEY * n_keys as u128;
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(wanted).map_err(|_| {
        Error::options(format!(
            "{n_chromosomes} chromosomes of {n_keys} keys and {threads} decoders need about {:.1} GiB, more than this machine gives: make the population smaller or take fewer threads",
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
