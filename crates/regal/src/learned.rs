//! Plans with the proposals of a policy: the paper's REGAL.

use shardgraph_costgraph::{Decoder, DeviceSet, Graph, Problem};
use shardgraph_graph::random::Stream;

use crate::error::Error;
use crate::features::features_on;
use crate::method::Method;
use crate::options::{GeneticOptions, PlaceOptions};
use crate::place::{Draft, Plan, Search, Watch, planned};
use crate::policy::Policy;
use crate::search::search_on;

/// Makes a plan as [`crate::place_watched`] does, by the genetic algorithm with a policy's proposals.
///
/// The budget includes the short search that the policy's features come from; the better of the two searches' plans is taken. Where the
/// options' method is [`Method::Idrs`], the second search is one generation of random chromosomes; no other method of theirs counts.
/// Without a decoder of theirs the policy's is taken.
///
/// # Errors
/// As [`crate::place`]; `Policy` for another number of devices or objective than the policy's, `Options` for evaluations that its
/// features use up.
///
/// # Determinism
/// As [`crate::place_watched`].
pub fn place_with_policy(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    policy: &Policy,
    watch: &mut Watch<'_>,
) -> Result<Plan, Error> {
    let config = policy.config();
    if options.evaluations <= config.feature_evaluations {
        return Err(Error::options(format!(
            "evaluations = {}: the policy's features take {} of them: expected more than that",
            options.evaluations, config.feature_evaluations
        )));
    }
    let options = PlaceOptions {
        method: match options.method {
            Method::Idrs => Method::Idrs,
            _ => Method::Regal,
        },
        decoder: Some(options.decoder.unwrap_or(config.decoder)),
        ..options.clone()
    };
    planned(graph, devices, &options, watch, &|problem, search| {
        draft(problem, &options, policy, search)
    })
}

/// The options of the search with proposals.
fn second(options: &PlaceOptions, evaluations: u64) -> PlaceOptions {
    let genetic = match options.method {
        Method::Idrs => GeneticOptions {
            population: u32::try_from(evaluations).unwrap_or(u32::MAX).max(2),
            elites: 1,
            mutants: 0,
            populations: 1,
            ..options.genetic
        },
        _ => options.genetic,
    };
    PlaceOptions {
        evaluations,
        genetic,
        // Not the numbers of the first search again.
        seed: Stream::new(options.seed, "regal search", 0).next_u64(),
        ..options.clone()
    }
}

fn draft(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    policy: &Policy,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    policy.check(problem)?;
    let n_of_features = policy.config().feature_evaluations;
    let features = features_on(problem, options, n_of_features, search)?;
    let (mut best, mut history) = (features.best.clone(), features.history.clone());
    let mut evaluations = features.evaluations;
    // Somebody who looks on may have ended the first search.
    if evaluations == n_of_features && !search.is_ended() {
        let proposals = policy.propose(problem, &features, options.seed)?;
        let options = second(options, options.evaluations - evaluations);
        search.n_before = evaluations;
        let outcome = search_on(problem, &options, Vec::new(), Some(proposals), search)?;
        let before = best.fitness;
        history.extend(outcome.history.into_iter().map(|mut generation| {
            generation.evaluations += evaluations;
            generation.best = generation.best.min(before);
            generation
        }));
        evaluations += outcome.evaluations;
        if outcome.best.fitness < best.fitness {
            best = outcome.best;
        }
    }
    Ok(Draft {
        schedule: Decoder::new(problem, options.decoder()).schedule(&best.keys),
        evaluations,
        history,
    })
}

#[cfg(test)]
mod tests;
