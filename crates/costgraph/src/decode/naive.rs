//! The decoders once more, without ranks, sets or counters: at every step all items are looked at. Judges the fast ones.

use crate::{DecoderKind, Problem, Schedule, Step};

/// Ops and transfers with their codes, highest key first, then lowest code: the order in which ties below are broken.
fn items(problem: &Problem<'_>, schedule: &Schedule, keys: &[f32]) -> Vec<(usize, Step)> {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let o = graph.n_ops();
    let mut items: Vec<(usize, Step)> = (0..o).map(|op| (op, Step::Op(op as u32))).collect();
    for tensor in 0..graph.n_tensors() as u32 {
        let home = schedule.placement[graph.producer(tensor) as usize];
        for to in 0..n as u8 {
            let mut consumers = graph.consumers(tensor).iter();
            let used = consumers.any(|&c| schedule.placement[c as usize] == to);
            if to != home && used && problem.is_transferred(tensor) {
                items.push((
                    o + tensor as usize * n + usize::from(to),
                    Step::Transfer { tensor, to },
                ));
            }
        }
    }
    items.sort_by(|a, b| {
        keys[o * n + b.0]
            .total_cmp(&keys[o * n + a.0])
            .then(a.0.cmp(&b.0))
    });
    items
}

/// What `kind` (any but `List`) makes of `keys`.
pub(super) fn schedule(problem: &Problem<'_>, kind: DecoderKind, keys: &[f32]) -> Schedule {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let o = graph.n_ops();
    let mut schedule = Schedule::default();
    for op in 0..o {
        let row = &keys[op * n..(op + 1) * n];
        let best = row.iter().copied().fold(f32::MIN, f32::max);
        let first = row.iter().position(|&k| k >= best).unwrap();
        let fixed = problem.fixed_op() == Some(op as u32);
        schedule.placement.push(if fixed { 0 } else { first as u8 });
    }
    let mut items = items(problem, &schedule, keys);
    while !items.is_empty() {
        let ready = |step: Step, done: &Schedule| is_ready(problem, done, step);
        let candidates = items.iter().filter(|item| ready(item.1, &schedule));
        let next = match kind {
            DecoderKind::Paper | DecoderKind::Flush => candidates.clone().next(),
            _ => earliest(problem, &schedule, candidates),
        };
        let &(code, step) = next.unwrap();
        items.retain(|item| item.0 != code);
        schedule.steps.push(step);
        let flushes = matches!(kind, DecoderKind::Flush | DecoderKind::TimeAwareFlush);
        if flushes && problem.free_links && !problem.options().asynchronous {
            flush(problem, &mut schedule, &mut items, step);
        }
    }
    schedule
}

fn ends(problem: &Problem<'_>, schedule: &Schedule, tensor: u32, to: u8) -> (u8, u8) {
    let from = schedule.placement[problem.graph().producer(tensor) as usize];
    (from.min(to), from.max(to))
}

fn flush(
    problem: &Problem<'_>,
    schedule: &mut Schedule,
    items: &mut Vec<(usize, Step)>,
    step: Step,
) {
    let Step::Transfer { tensor, to } = step else {
        return;
    };
    let pair = ends(problem, schedule, tensor, to);
    let (go, stay) = items.iter().partition(|item| match item.1 {
        Step::Transfer { tensor, to } => {
            ends(problem, schedule, tensor, to) == pair && is_ready(problem, schedule, item.1)
        }
        Step::Op(_) => false,
    });
    *items = stay;
    let go: Vec<(usize, Step)> = go;
    schedule.steps.extend(go.into_iter().map(|item| item.1));
}

fn is_ready(problem: &Problem<'_>, done: &Schedule, step: Step) -> bool {
    let graph = problem.graph();
    match step {
        Step::Transfer { tensor, .. } => done.steps.contains(&Step::Op(graph.producer(tensor))),
        Step::Op(op) => graph.inputs(op).iter().all(|&tensor| {
            let (producer, to) = (graph.producer(tensor), done.placement[op as usize]);
            let is_local =
                done.placement[producer as usize] == to || !problem.is_transferred(tensor);
            let needed = if is_local {
                Step::Op(producer)
            } else {
                Step::Transfer { tensor, to }
            };
            done.steps.contains(&needed)
        }),
    }
}

/// The time-aware rule: the first candidate of each queue (a device, or a directed pair of them) competes by its start.
fn earliest<'i>(
    problem: &Problem<'_>,
    done: &Schedule,
    candidates: impl Iterator<Item = &'i (usize, Step)>,
) -> Option<&'i (usize, Step)> {
    let mut seen = Vec::new();
    let firsts = candidates.filter(|item| {
        let queue = match item.1 {
            Step::Op(op) => (done.placement[op as usize], done.placement[op as usize]),
            Step::Transfer { tensor, to } => (
                done.placement[problem.graph().producer(tensor) as usize],
                to,
            ),
        };
        let is_first = !seen.contains(&queue);
        seen.push(queue);
        is_first
    });
    firsts.min_by_key(|item| {
        let mut with = done.clone();
        with.steps.push(item.1);
        with.run(problem).spans.pop().unwrap().start_ns
    })
}
