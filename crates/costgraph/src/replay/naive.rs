//! The replay's times and peaks by the definitions of A.4, every step against every other: what `replay` is tested against.

use super::*;
use crate::tests::random_problems::{for_problems, keys};
use crate::{Decoder, DecoderKind, DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec};

/// Start and end of each step: a step starts when the last of all those has ended that it must wait for.
fn spans(view: &View<'_, '_>) -> Vec<(u64, u64)> {
    let steps = &view.schedule.steps;
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (idx, &step) in steps.iter().enumerate() {
        let earlier = steps[..idx].iter().zip(&spans);
        let waited_for = earlier.filter(|(earlier, _)| must_wait(view, **earlier, step));
        let start = waited_for.map(|(_, span)| span.1).max().unwrap_or(0);
        spans.push((start, start + view.duration(step)));
    }
    spans
}

/// True when `later` cannot start before `earlier` has ended.
fn must_wait(view: &View<'_, '_>, earlier: Step, later: Step) -> bool {
    let busy = view.occupied(earlier);
    if view.occupied(later).iter().any(|d| busy.contains(d)) {
        return true;
    }
    let graph = view.problem.graph();
    match (earlier, later) {
        (Step::Op(before), Step::Op(op)) => graph
            .inputs(op)
            .iter()
            .any(|&t| graph.producer(t) == before && !view.problem.is_transferred(t)),
        (Step::Op(before), Step::Transfer { tensor, .. }) => graph.producer(tensor) == before,
        (Step::Transfer { tensor, to }, Step::Op(op)) => {
            view.device_of(op) == usize::from(to) && graph.inputs(op).contains(&tensor)
        }
        // One link, one transfer at a time; where transfers occupy devices this was caught above.
        (Step::Transfer { tensor, to }, Step::Transfer { tensor: t, to: d }) => {
            to == d && view.sender(tensor) == view.sender(t)
        }
    }
}

/// The largest memory in use at any step, for each device: at each step the sum over all copies that are there.
fn peaks(view: &View<'_, '_>) -> Vec<u64> {
    let copies = view.copies();
    let peak = |device: usize| {
        let in_use = |(idx, step): (usize, &Step)| {
            let is_there = |c: &&TensorCopy| c.device == device && c.first <= idx && idx <= c.last;
            let tensors: u64 = copies.iter().filter(is_there).map(|c| c.bytes).sum();
            let scratch = match *step {
                Step::Op(op) if view.device_of(op) == device => {
                    view.problem.graph().internal_bytes(op)
                }
                _ => 0,
            };
            view.persistent(device) + tensors + scratch
        };
        let steps = view.schedule.steps.iter().enumerate();
        steps.map(in_use).max().unwrap_or(0)
    };
    (0..view.problem.n_devices()).map(peak).collect()
}

#[test]
fn longest_paths_and_sums_are_what_the_definitions_say() {
    for_problems(400, 40, |problem, seed| {
        for kind in DecoderKind::ALL {
            let schedule = Decoder::new(problem, kind).schedule(&keys(seed, problem));
            let view = View::new(problem, &schedule);
            assert_eq!(view.spans(), spans(&view), "{kind:?}");
            assert_eq!(view.peaks(), peaks(&view), "{kind:?}");
        }
    });
}

/// Steps of no length that need nothing of each other are as many arcs as there are steps, not as many as there are pairs.
#[test]
fn a_graph_of_empty_ops_is_checked_in_no_time() {
    const N_OPS: u32 = 300_000;
    let mut builder = GraphBuilder::new("empty ops");
    for _ in 0..N_OPS {
        builder.op(OpSpec::new("", 0));
    }
    let graph = builder.build().unwrap();
    let devices = DeviceSet::uniform(2, None).unwrap();
    let options = ModelOptions::default();
    let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
    let schedule = Schedule {
        placement: (0..N_OPS).map(|op| (op % 2) as u8).collect(),
        steps: (0..N_OPS).map(Step::Op).collect(),
    };
    assert_eq!(replay(&problem, &schedule).unwrap().runtime_ns, 0);
}
