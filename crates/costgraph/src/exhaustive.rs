//! The optimum of tiny graphs by trying everything; what heuristics and bounds are tested against.

use crate::{Error, ErrorKind, Outcome, Problem, Schedule, Step};

/// The best schedule of all, by the problem's objective.
///
/// # Errors
/// `TooLarge` after `max_schedules` complete schedules.
///
/// # Complexity
/// The number of schedules: devices^ops placements, each with all its topological orders. For graphs of about 8 ops.
pub fn optimum(problem: &Problem<'_>, max_schedules: u64) -> Result<(Schedule, Outcome), Error> {
    let mut search = Search {
        problem,
        schedule: Schedule::default(),
        best: None,
        left: max_schedules,
    };
    search.schedule.placement = vec![0; problem.graph.n_ops()];
    if !search.place(0) {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "more than {max_schedules} schedules; only smaller graphs can be searched exhaustively"
            ),
        ));
    }
    search
        .best
        .ok_or_else(|| Error::new(ErrorKind::Schedule, "no schedule was found"))
}

struct Search<'p, 'g> {
    problem: &'p Problem<'g>,
    schedule: Schedule,
    best: Option<(Schedule, Outcome)>,
    left: u64,
}

impl Search<'_, '_> {
    /// Tries all devices for the ops from `op` on; false when the limit was reached.
    fn place(&mut self, op: usize) -> bool {
        if op == self.schedule.placement.len() {
            let mut items = self.items();
            return self.order(&mut items);
        }
        let is_fixed = self.problem.fixed_op() == Some(op as u32);
        let n = if is_fixed {
            1
        } else {
            self.problem.n_devices()
        };
        (0..n as u8).all(|device| {
            self.schedule.placement[op] = device;
            self.place(op + 1)
        })
    }

    fn items(&self) -> Vec<Step> {
        let (graph, placement) = (self.problem.graph, &self.schedule.placement);
        let mut items: Vec<Step> = (0..graph.n_ops() as u32).map(Step::Op).collect();
        for tensor in (0..graph.n_tensors() as u32).filter(|&t| self.problem.is_transferred(t)) {
            let consumers = graph.consumers(tensor).iter();
            let mut to: Vec<u8> = consumers.map(|&c| placement[c as usize]).collect();
            to.sort_unstable();
            to.dedup();
            to.retain(|&device| device != placement[graph.producer(tensor) as usize]);
            items.extend(to.into_iter().map(|to| Step::Transfer { tensor, to }));
        }
        items
    }

    /// Tries all orders of the items that remain; false when the limit was reached.
    fn order(&mut self, items: &mut Vec<Step>) -> bool {
        if items.is_empty() {
            let outcome = self.schedule.run(self.problem).outcome;
            let objective = self.problem.objective;
            let is_better =
                |best: &(Schedule, Outcome)| outcome.fitness(objective) < best.1.fitness(objective);
            if self.best.as_ref().is_none_or(is_better) {
                self.best = Some((self.schedule.clone(), outcome));
            }
            self.left = self.left.saturating_sub(1);
            return self.left > 0;
        }
        for at in 0..items.len() {
            if !self.is_ready(items, items[at]) {
                continue;
            }
            let step = items.remove(at);
            self.schedule.steps.push(step);
            let go_on = self.order(items);
            self.schedule.steps.pop();
            items.insert(at, step);
            if !go_on {
                return false;
            }
        }
        true
    }

    /// True when nothing among `items` has to come before `step`.
    fn is_ready(&self, items: &[Step], step: Step) -> bool {
        let (graph, placement) = (self.problem.graph, &self.schedule.placement);
        match step {
            Step::Transfer { tensor, .. } => !items.contains(&Step::Op(graph.producer(tensor))),
            Step::Op(op) => graph.inputs(op).iter().all(|&tensor| {
                let to = placement[op as usize];
                !items.contains(&Step::Op(graph.producer(tensor)))
                    && !items.contains(&Step::Transfer { tensor, to })
            }),
        }
    }
}
