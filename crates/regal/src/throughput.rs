//! Placements of pipelines: as many micro-batches a second as a search can get.

use shardgraph_costgraph::baseline::{
    ClusterSearch, Hierarchy, component_placement, heft, multilevel_partition,
};
use shardgraph_costgraph::{
    DeviceSet, Graph, ModelOptions, Objective, Pipeline, Problem, period_bound,
};

use crate::error::Error;
use crate::options::PlaceOptions;
use crate::prefixes::{Stage, before_last, stages};
use crate::watch::{Search, Watch, unwatched};

/// Evaluations between two looks at what the search does.
const TURN: u64 = 80;
/// Turns without a shorter period after which it goes on from elsewhere.
const PATIENCE: u32 = 4;
/// By how much the parts of a partition may exceed their share.
const SLACKS: [f64; 3] = [0.02, 0.1, 0.4];

/// A pipeline, checked, with what it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelinePlan {
    /// What runs where and when.
    pub pipeline: Pipeline,
    /// By how much the worst device exceeds its memory.
    pub excess_bytes: u64,
    /// No pipeline has a shorter period.
    pub bound_ns: u64,
    /// The period of everything on the best single device.
    pub one_device: Pipeline,
    /// Placements that were evaluated.
    pub evaluations: u64,
    /// What the clock said about making it.
    pub seconds: f64,
}

impl PipelinePlan {
    /// How many times as many micro-batches as on the best single device come out in a second.
    #[must_use]
    pub fn speedup(&self) -> f64 {
        self.one_device.period_ns as f64 / self.pipeline.period_ns.max(1) as f64
    }

    /// How far the period is above the bound, as a fraction of the bound; none where that is 0.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        crate::plan::ratio(self.pipeline.period_ns, self.bound_ns).map(|ratio| ratio - 1.0)
    }
}

/// Places a graph for a short period between micro-batches; of the options, the evaluations, the seed and the model count.
///
/// Partitions, HEFT's placement and single devices are where a local search over clusters starts; the plan is never worse than the best
/// single device, nor than that for the first of the devices: (bytes beyond the memory, period, latency) is minimised.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec, TensorSpec};
/// use shardgraph_regal::{PlaceOptions, place_pipeline};
///
/// let mut builder = GraphBuilder::new("chain");
/// let ops: Vec<u32> = (0..8).map(|op| builder.op(OpSpec::new(format!("{op}"), 10))).collect();
/// for pair in ops.windows(2) {
///     builder.tensor(TensorSpec::new(pair[0], 64, &[pair[1]]));
/// }
/// let (graph, devices) = (builder.build()?, DeviceSet::uniform(4, None)?);
/// let plan = place_pipeline(&graph, &devices, &PlaceOptions::default())?;
/// assert_eq!((plan.pipeline.period_ns, plan.speedup()), (20, 4.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Options` for 0 evaluations, `Graph` when graph and devices do not fit together.
///
/// # Determinism
/// The same options give the same plan on every machine.
pub fn place_pipeline(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
) -> Result<PipelinePlan, Error> {
    unwatched(|watch| place_pipeline_watched(graph, devices, options, watch))
}

/// As [`place_pipeline`], with somebody who looks on.
///
/// # Errors
/// As [`place_pipeline`].
///
/// # Determinism
/// As [`place_pipeline`], without a deadline and for an `on_progress` that decides by what it sees.
pub fn place_pipeline_watched(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    watch: &mut Watch<'_>,
) -> Result<PipelinePlan, Error> {
    if options.evaluations == 0 {
        return Err(Error::options("evaluations = 0: expected at least 1"));
    }
    let mut search = Search::new(watch);
    let model = ModelOptions {
        fix_largest: false,
        ..options.model
    };
    let problem = Problem::new(graph, devices, Objective::Runtime, model)?;
    // Not contracted: a chain is one op for a single pass, and a pipeline for many.
    let stages = stages(&problem, options.evaluations);
    let bound = period_bound(&problem);
    let mut n_before = 0;
    let before = before_last(
        &problem,
        &stages,
        &mut search,
        &mut |problem, stage, before, search| {
            let (placement, n_done) = searched(problem, stage, options.seed, before, search);
            n_before += n_done;
            search.n_before += n_done;
            let (excess, period, _) = Pipeline::new(problem, &placement).fitness(problem);
            Ok((placement, (excess, period) > (0, bound)))
        },
    )?;
    let last = stages.last().copied();
    let last = last.ok_or_else(|| Error::options("no devices"))?;
    let (placement, n_done) = searched(&problem, last, options.seed, before, &mut search);
    let evaluations = n_before + n_done;
    let alone = (0..devices.len()).map(|device| {
        let mut placement = vec![device as u8; graph.n_ops()];
        problem.colocate(&mut placement);
        Pipeline::new(&problem, &placement)
    });
    let by_fitness = |pipeline: &Pipeline| pipeline.fitness(&problem);
    let one_device = alone.min_by_key(by_fitness);
    let one_device = one_device.ok_or_else(|| Error::options("no devices"))?;
    let found = Pipeline::new(&problem, &placement);
    let pipeline = match by_fitness(&found) < by_fitness(&one_device) {
        true => found,
        false => one_device.clone(),
    };
    let seconds = search.seconds();
    pipeline.check(&problem)?;
    Ok(PipelinePlan {
        excess_bytes: by_fitness(&pipeline).0,
        pipeline,
        bound_ns: period_bound(&problem),
        one_device,
        evaluations,
        seconds,
    })
}

/// The best placement on the devices of a stage, and the evaluations that it took.
fn searched(
    problem: &Problem<'_>,
    stage: Stage,
    seed: u64,
    before: Option<Vec<u8>>,
    watch: &mut Search<'_, '_>,
) -> (Vec<u8>, u64) {
    let hierarchy = Hierarchy::new(problem, seed);
    let starts = starts(problem, &hierarchy, stage.evaluations, before, watch);
    let mut n_done = starts.len() as u64;
    let bound = period_bound(problem);
    let mut search = ClusterSearch::for_pipelines(problem, &hierarchy, &starts[0], seed);
    let (mut n_restarts, mut n_stalled) = (0, 0);
    while n_done < stage.evaluations && search.best() > (0, bound) {
        let before = search.best();
        if n_stalled >= PATIENCE {
            n_restarts += 1;
            n_stalled = 0;
            search.restart(&starts[n_restarts % starts.len()]);
            n_done += 1;
        }
        let turn = TURN.min(stage.evaluations - n_done);
        (0..turn).for_each(|_| search.step());
        n_done += turn;
        n_stalled = if search.best() < before {
            0
        } else {
            n_stalled + 1
        };
        if !watch.goes_on(n_done, search.best()) {
            break;
        }
    }
    (search.placement().to_vec(), n_done)
}

/// Placements to start from, the best first; at least one, and no more than there are evaluations.
fn starts(
    problem: &Problem<'_>,
    hierarchy: &Hierarchy,
    evaluations: u64,
    before: Option<Vec<u8>>,
    watch: &mut Search<'_, '_>,
) -> Vec<Vec<u8>> {
    let (n, n_ops) = (problem.n_devices(), problem.graph().n_ops());
    let mut makers: Vec<Box<dyn Fn() -> Vec<u8> + '_>> = Vec::new();
    if let Some(placement) = before {
        makers.push(Box::new(move || placement.clone()));
    }
    if let Some(placement) = component_placement(problem) {
        makers.push(Box::new(move || placement.clone()));
    }
    for device in 0..n {
        makers.push(Box::new(move || vec![device as u8; n_ops]));
    }
    let mut n_parts = n;
    while n_parts > 1 {
        for slack in SLACKS {
            makers.push(Box::new(move || {
                multilevel_partition(problem, hierarchy, n_parts, slack)
            }));
        }
        n_parts = n_parts.div_ceil(2);
    }
    makers.push(Box::new(|| heft(problem).placement));
    let mut found = Vec::new();
    for make in makers
        .into_iter()
        .take(usize::try_from(evaluations).unwrap_or(usize::MAX))
    {
        if found.is_empty() || !watch.is_late() {
            let mut placement = make();
            problem.colocate(&mut placement);
            found.push((
                Pipeline::new(problem, &placement).fitness(problem),
                placement,
            ));
        }
    }
    found.sort();
    found.into_iter().map(|(_, placement)| placement).collect()
}
