//! The genetic algorithm on a placement problem.

use shardgraph_brkga::{Beta, BetaTables, Brkga, Outcome};
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
/// `Options` for 0 threads, `Genetic` for numbers, starts or proposals out of range.
///
/// # Determinism
/// The same bytes for any number of threads.
pub fn search(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: Vec<Vec<f32>>,
    proposals: Option<Proposals>,
) -> Result<Outcome, Error> {
    if options.threads == 0 {
        return Err(Error::options("threads = 0: expected at least 1"));
    }
    let config = options.genetic.config(options.evaluations, options.seed);
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
    Ok(search.run(&mut decoders)?)
}

/// The first distribution for the keys of ops, the uniform one for those of transfers (as A.6 has it).
fn op_choices(problem: &Problem<'_>) -> Vec<u16> {
    let n_op_keys = problem.graph().n_ops() * (problem.n_devices() + 1);
    let mut choices = vec![BetaTables::UNIFORM; problem.n_keys()];
    choices[..n_op_keys].fill(1);
    choices
}
