//! [`reduce_and_peel`]: a guess wherever no rule applies.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::greedy::edge_greedy;
use crate::vertex_cover::reduce::Reducer;
use crate::vertex_cover::rules::Rules;
use crate::vertex_cover::waiting::Guess;

/// A cover of the graph, ascending: where no rule applies, a guess is made, and the rules go on. All guesses are a node of largest
/// degree in the cover, or all a node of smallest degree outside; the smaller cover is given.
///
/// A smallest cover where nothing needs to be guessed. The linear program is solved before the first guess only. At the time limit
/// the rest is covered by [`edge_greedy`].
///
/// # Complexity
/// As [`reduce`](super::reduce), and after each guess a look at the nodes near what has changed.
///
/// # Source
/// Chang, Li and Zhang (2017), "Computing a near-maximum independent set in linear time by reducing-peeling".
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{Rules, reduce_and_peel};
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// assert_eq!(reduce_and_peel(&petersen, &Rules::all(), &Budget::unlimited()).len(), 6);
/// ```
#[must_use]
pub fn reduce_and_peel(graph: &Graph, rules: &Rules, budget: &Budget<'_>) -> Vec<u32> {
    let stopwatch = Stopwatch::begin(budget);
    let mut reducer = Reducer::new(graph, rules);
    let is_complete = reducer.run(&stopwatch);
    let reduction = reducer.finish(is_complete);
    let kernel = reduction.kernel();
    let largest = peel(kernel, rules, Guess::LargestDegree, &stopwatch);
    let smallest = peel(kernel, rules, Guess::SmallestDegree, &stopwatch);
    let best = match largest.len() <= smallest.len() {
        true => largest,
        false => smallest,
    };
    reduction.grown(&best)
}

/// Guesses and near rules in turn.
fn peel(graph: &Graph, rules: &Rules, guess: Guess, stopwatch: &Stopwatch<'_>) -> Vec<u32> {
    let mut reducer = Reducer::new(graph, rules);
    reducer.stay_near();
    reducer.guess(graph, guess);
    let mut goes_on = reducer.run(stopwatch);
    while goes_on && let Some(v) = reducer.next_guess() {
        match guess {
            Guess::LargestDegree => reducer.take(v),
            Guess::SmallestDegree => {
                let neighbors: Vec<u32> = reducer.neighbors(v).collect();
                neighbors.into_iter().for_each(|u| reducer.take(u));
            }
        }
        goes_on = reducer.run(stopwatch);
    }
    let reduction = reducer.finish(goes_on);
    reduction.grown(&edge_greedy(reduction.kernel()))
}
