//! Plans with the proposals of a policy: the paper's REGAL.

use shardgraph_costgraph::{Decoder, DeviceSet, Graph, Problem};
use shardgraph_random::KeyedRng;

use crate::error::Error;
use crate::method::Method;
use crate::options::{GeneticOptions, PlaceOptions};
use crate::place::{genetic, planned};
use crate::plan::{Draft, Plan};
use crate::policy::Policy;
use crate::portfolio::portfolio;
use crate::starts::cheap_starts;
use crate::watch::{Search, Watch};

/// Makes a plan as [`crate::place_watched`] does, by the genetic algorithm with a policy's proposals.
///
/// The budget includes the short search that the policy's features come from, which has the policy's numbers, whatever the options say;
/// the better of the two searches' plans is taken. The second search has the options' numbers and, but for [`Method::Regal`] and
/// [`Method::Idrs`], the cheap schedules of [`Method::SeededBrkga`] among its first chromosomes: the plan is then no worse than they are.
/// That of [`Method::Idrs`] crosses nothing: all its chromosomes but the best are drawn anew in each generation. Without a decoder of
/// the options the policy's is taken. [`Method::Portfolio`] has a genetic search with these proposals beside its own, over the decoders
/// that it has without a policy. Any other method of the options' counts as [`Method::SeededRegal`].
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
            "evaluations = {}: the features of the policy {} take {} of them: expected more than that",
            options.evaluations,
            policy.source(),
            config.feature_evaluations
        )));
    }
    if options.method == Method::Portfolio {
        return planned(graph, devices, options, watch, &|problem, search| {
            portfolio(problem, options, Some(policy), search)
        });
    }
    let options = PlaceOptions {
        method: match options.method {
            method @ (Method::Idrs | Method::Regal) => method,
            _ => Method::SeededRegal,
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
            population: 100,
            elites: 1,
            mutants: 99,
            populations: 1,
            ..options.genetic
        },
        _ => options.genetic,
    };
    PlaceOptions {
        evaluations,
        genetic,
        // Not the numbers of the first search again.
        seed: KeyedRng::new(options.seed, "regal search", 0).next_u64(),
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
    let (features, short_seconds) = policy.config().features_on(problem, options, search)?;
    let mut draft = Draft {
        schedule: Decoder::new(problem, options.decoder()).schedule(&features.best.keys),
        evaluations: features.evaluations,
        history: features.history.clone(),
        proposal_seconds: Some(search.seconds() - short_seconds),
        baselines: Vec::new(),
    };
    // Somebody who looks on may have ended the first search.
    if features.evaluations < n_of_features || search.is_ended() {
        return Ok(draft);
    }
    let proposals = policy.propose(problem, &features, options.seed)?;
    draft.proposal_seconds = Some(search.seconds() - short_seconds);
    let options = second(options, options.evaluations - n_of_features);
    let starts = match options.method {
        Method::SeededRegal => cheap_starts(problem),
        _ => &[],
    };
    search.n_before = n_of_features;
    let (found, fitness) = genetic(problem, &options, starts, Some(proposals), search)?;
    let before = features.best.fitness;
    draft
        .history
        .extend(found.history.into_iter().map(|mut generation| {
            generation.evaluations += n_of_features;
            generation.best = generation.best.min(before);
            generation
        }));
    draft.evaluations += found.evaluations;
    if fitness < before {
        draft.schedule = found.schedule;
    }
    Ok(draft)
}

#[cfg(test)]
mod tests;
