//! The optimum of tiny graphs by trying everything; what heuristics and bounds are tested against.

use crate::{Error, ErrorKind, Outcome, Problem, Schedule, Step};

/// The best schedule of all, by the problem's objective.
///
/// # Errors
/// `TooLarge` when there are more than `max_schedules` complete schedules.
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
    /// Tries all devices for the ops from `op` on; false when there are more than allowed.
    fn place(&mut self, op: usize) -> bool {
        if op == self.schedule.placement.len() {
            let placement = &self.schedule.placement;
            if self.problem.check_colocation(placement).is_err() {
                return true;
            }
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

    /// Tries all orders of the items that remain; false when there are more than allowed.
    fn order(&mut self, items: &mut Vec<Step>) -> bool {
        if items.is_empty() {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let outcome = self.schedule.run(self.problem).outcome;
            let objective = self.problem.objective;
            let is_better =
                |best: &(Schedule, Outcome)| outcome.fitness(objective) < best.1.fitness(objective);
            if self.best.as_ref().is_none_or(is_better) {
                self.best = Some((self.schedule.clone(), outcome));
            }
            return true;
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

#[cfg(test)]
mod tests {
    use super::optimum;
    use crate::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem};

    #[test]
    fn as_many_schedules_as_are_allowed_are_tried() {
        let mut builder = GraphBuilder::new("two orders");
        for name in ["a", "b"] {
            builder.op(OpSpec::new(name, 1));
        }
        let graph = builder.build().unwrap();
        let devices = DeviceSet::uniform(1, None).unwrap();
        let options = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        assert_eq!(optimum(&problem, 2).unwrap().1.runtime_ns, 2);
        let text = optimum(&problem, 1).unwrap_err().to_string();
        assert!(text.starts_with("more than 1 schedules"), "{text}");
    }
}
