//! `shardgraph place --objective throughput`: what is printed of a pipeline.

use serde::Serialize;
use shardgraph_costgraph::Problem;
use shardgraph_regal::PipelinePlan;

use crate::place_answer::{Circumstances, Subject};
use crate::text::Layout;

/// One pipeline. The fields are the keys of the JSON object.
#[derive(Serialize)]
pub(crate) struct ThroughputAnswer<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    /// Nanoseconds between two micro-batches.
    period: u64,
    micro_batches_per_s: f64,
    /// Nanoseconds of one micro-batch from start to end.
    latency: u64,
    in_flight: u64,
    peak_bytes: u64,
    excess_bytes: u64,
    verified: bool,
    lower_bound: u64,
    gap: Option<f64>,
    /// The period of the best single device, divided by the plan's.
    speedup: f64,
    one_device_period: u64,
    /// The fraction of the period in which a device neither runs an op nor transfers, by device.
    idle_shares: Vec<f64>,
    evaluations: u64,
    seconds: f64,
    #[serde(flatten)]
    circumstances: Circumstances,
}

impl<'a> ThroughputAnswer<'a> {
    pub(crate) fn layout(&self) -> Layout<'static> {
        self.subject.layout()
    }

    /// `plan` has been checked: there is no other.
    pub(crate) fn new(
        subject: Subject<'a>,
        problem: &Problem<'_>,
        plan: &PipelinePlan,
        circumstances: Circumstances,
    ) -> Self {
        let pipeline = &plan.pipeline;
        let period = pipeline.period_ns.max(1) as f64;
        let idle = busy_ns(problem, plan).into_iter();
        Self {
            subject,
            period: pipeline.period_ns,
            micro_batches_per_s: 1e9 / period,
            latency: pipeline.latency_ns,
            in_flight: pipeline.n_in_flight(),
            peak_bytes: pipeline.peak_bytes.iter().copied().max().unwrap_or(0),
            excess_bytes: plan.excess_bytes,
            verified: true,
            lower_bound: plan.bound_ns,
            gap: plan.gap(),
            speedup: plan.speedup(),
            one_device_period: plan.one_device.period_ns,
            idle_shares: idle.map(|busy| 1.0 - busy as f64 / period).collect(),
            evaluations: plan.evaluations,
            seconds: plan.seconds,
            circumstances,
        }
    }
}

/// What each device does in a period.
fn busy_ns(problem: &Problem<'_>, plan: &PipelinePlan) -> Vec<u64> {
    let placement = &plan.pipeline.placement;
    let mut busy = vec![0; problem.n_devices()];
    for (op, &device) in (0u32..).zip(placement) {
        busy[usize::from(device)] += problem.cost_ns(op, usize::from(device));
    }
    if !problem.options().asynchronous {
        for sent in &plan.pipeline.transfers {
            let from = usize::from(placement[problem.graph().producer(sent.tensor) as usize]);
            let to = usize::from(sent.to);
            let duration = problem.transfer_ns(sent.tensor, from, to);
            busy[from] += duration;
            busy[to] += duration;
        }
    }
    busy
}
