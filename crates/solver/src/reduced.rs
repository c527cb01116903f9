//! A cover by exact reductions and a policy in turn.

use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{Reduction, Rules, reduce, reduce_given};
use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;

use crate::{Error, Solution};

/// Of the policy's picks on what the rules leave, one in so many is kept before the rules go on.
const KEPT_OF: usize = 16;

/// What [`solve_reduced`] found.
#[derive(Debug, Clone)]
pub struct ReducedSolution {
    /// The rules applied to the whole graph, before the policy.
    pub reduction: Reduction,
    /// A cover of the kernel of `reduction`.
    pub kernel_cover: Vec<u32>,
    /// The cover of the graph: `kernel_cover` lifted, ascending.
    pub cover: Vec<u32>,
    /// How often the policy was run.
    pub n_rounds: u32,
    /// Policy evaluations in all rounds.
    pub n_steps: u64,
    /// Seconds for the first reduction.
    pub reduction_seconds: f64,
    /// Seconds for all.
    pub seconds: f64,
}

/// Covers a graph: exact rules shrink it, the policy covers what is left, its first picks are kept, and so on until nothing is left.
///
/// `solve_one` runs the policy on a graph. The picks are the policy's and the rules lose nothing to them: what can be worse than the
/// optimum is a pick. The policy's first cover, all picks kept, is the answer where the rounds find no smaller one.
///
/// # Errors
/// Those of `solve_one`.
///
/// # Complexity
/// One run of the policy and one reduction for each round; a round keeps a sixteenth of the picks, so that there are some dozens.
///
/// # Determinism
/// That of `solve_one`.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve, solve_reduced};
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let policy = TrainedPolicy::shipped()?;
/// let found = solve_reduced(&petersen, &mut |part| {
///     solve(part, &policy, &SolveOptions::default(), &mut |_, _| ())
/// })?;
/// assert_eq!(found.cover.len(), 6);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_reduced(
    graph: &Graph,
    solve_one: &mut dyn FnMut(&Adjacency) -> Result<Solution, Error>,
) -> Result<ReducedSolution, Error> {
    let timer = Timer::wall();
    let reduction = reduce(graph, &Rules::all(), &Budget::unlimited());
    let reduction_seconds = timer.elapsed_s();
    let rounds = Rounds::run(reduction.kernel(), solve_one)?;
    let mut kernel_cover = Vec::new();
    for round in rounds.reductions.iter().rev() {
        kernel_cover = round.lift(&kernel_cover).map_err(unfit)?;
    }
    if let Some(first) = rounds
        .first
        .filter(|first| first.len() < kernel_cover.len())
    {
        kernel_cover = first;
    }
    let cover = reduction.lift(&kernel_cover).map_err(unfit)?;
    Ok(ReducedSolution {
        reduction,
        kernel_cover,
        cover,
        n_rounds: rounds.reductions.len() as u32,
        n_steps: rounds.n_steps,
        reduction_seconds,
        seconds: timer.elapsed_s(),
    })
}

/// What the rules leave after each of the policy's turns.
struct Rounds {
    /// Of the kernel, then of what the reduction before left.
    reductions: Vec<Reduction>,
    /// The policy's cover of the kernel, all picks kept.
    first: Option<Vec<u32>>,
    n_steps: u64,
}

impl Rounds {
    fn run(
        kernel: &Graph,
        solve_one: &mut dyn FnMut(&Adjacency) -> Result<Solution, Error>,
    ) -> Result<Rounds, Error> {
        let mut rounds = Rounds {
            reductions: Vec::new(),
            first: None,
            n_steps: 0,
        };
        loop {
            let left = rounds.reductions.last().map_or(kernel, Reduction::kernel);
            if left.n_nodes() == 0 {
                return Ok(rounds);
            }
            let solution = solve_one(&Adjacency::from_graph(left.clone()))?;
            let kept = &solution.nodes[..solution.nodes.len().div_ceil(KEPT_OF)];
            let next = reduce_given(left, kept, &Rules::all(), &Budget::unlimited());
            rounds.reductions.push(next.map_err(unfit)?);
            rounds.n_steps += solution.n_steps;
            rounds.first.get_or_insert(solution.nodes);
        }
    }
}

/// Covers come from checked solutions, so that none of them is refused.
fn unfit(error: shardgraph_classical::Error) -> Error {
    Error::internal(format!("a cover does not fit its reduction: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SolveOptions, TrainedPolicy, check_cover, solve};

    #[test]
    fn covers_are_covers_and_no_larger_than_those_of_the_policy_on_the_kernel() {
        let policy = TrainedPolicy::shipped().unwrap();
        let options = SolveOptions::default();
        for (spec, seed) in [
            ("er:200:0.05", 1),
            ("er:150:0.03", 2),
            ("ba:300:4", 3),
            ("er:0:0.5", 4),
            ("er:7:0", 5),
        ] {
            let spec: shardgraph_graph::generate::GeneratorSpec = spec.parse().unwrap();
            let graph = spec.graph(seed).unwrap();
            let mut first_size = None;
            let found = solve_reduced(&graph, &mut |part| {
                let solution = solve(part, &policy, &options, &mut |_, _| ())?;
                first_size.get_or_insert(solution.nodes.len());
                Ok(solution)
            });
            let found = found.unwrap();
            check_cover(&Adjacency::from_graph(graph), &found.cover).unwrap();
            let size = found.kernel_cover.len();
            assert!(size <= first_size.unwrap_or(0));
            assert_eq!(found.cover.len(), size + found.reduction.offset() as usize);
            assert_eq!(found.n_rounds == 0, found.reduction.kernel().n_nodes() == 0);
        }
    }
}
