//! The rules of A.4 that make a schedule valid, checked in one pass.

use crate::{Error, ErrorKind, Problem, Schedule, Step};

/// What has happened before the step that is being checked.
struct Seen<'p, 'g> {
    problem: &'p Problem<'g>,
    schedule: &'p Schedule,
    ran: Vec<bool>,
    /// Copies of tensors on devices, tensor-major.
    present: Vec<bool>,
}

/// # Errors
/// `Schedule`: a placement of the wrong length, on a device that does not exist or not as `fix_largest` or a
/// colocation group wants it, an op that runs
/// twice, never, or without one of its inputs, a transfer that is impossible, repeated or of no use.
pub(crate) fn check(problem: &Problem<'_>, schedule: &Schedule) -> Result<(), Error> {
    check_placement(problem, schedule)?;
    let graph = problem.graph;
    let mut seen = Seen {
        problem,
        schedule,
        ran: vec![false; graph.n_ops()],
        present: vec![false; graph.n_tensors() * problem.n_devices()],
    };
    for (idx, &step) in schedule.steps.iter().enumerate() {
        match step {
            Step::Op(op) => seen.op(idx, op)?,
            Step::Transfer { tensor, to } => seen.transfer(idx, tensor, usize::from(to))?,
        }
    }
    if let Some(op) = seen.ran.iter().position(|&ran| !ran) {
        return Err(invalid(format!(
            "op `{}` never runs",
            graph.op_name(op as u32)
        )));
    }
    Ok(())
}

fn check_placement(problem: &Problem<'_>, schedule: &Schedule) -> Result<(), Error> {
    let (n_ops, n_devices) = (problem.graph.n_ops(), problem.n_devices());
    if schedule.placement.len() != n_ops {
        return Err(invalid(format!(
            "the placement has {} devices for {n_ops} ops; one each is needed",
            schedule.placement.len()
        )));
    }
    let misplaced = |&d: &u8| usize::from(d) >= n_devices;
    if let Some(op) = schedule.placement.iter().position(misplaced) {
        return Err(invalid(format!(
            "op `{}` is placed on device {}; the devices are 0..{n_devices}",
            problem.graph.op_name(op as u32),
            schedule.placement[op]
        )));
    }
    let fixed = problem.fixed_op();
    if let Some(op) = fixed.filter(|&op| schedule.placement[op as usize] != 0) {
        return Err(invalid(format!(
            "op `{}` is placed on device {}; by `fix_largest` it belongs on device 0 (`Schedule::pinned` exchanges the two)",
            problem.graph.op_name(op),
            schedule.placement[op as usize]
        )));
    }
    problem.check_colocation(&schedule.placement)
}

impl Seen<'_, '_> {
    fn op(&mut self, idx: usize, op: u32) -> Result<(), Error> {
        let (graph, n) = (self.problem.graph, self.problem.n_devices());
        let Some(ran) = self.ran.get_mut(op as usize) else {
            return Err(invalid(format!(
                "step {idx} runs op {op}, which does not exist; the ops are 0..{}",
                graph.n_ops()
            )));
        };
        if std::mem::replace(ran, true) {
            return Err(invalid(format!(
                "step {idx} runs op `{}` a second time",
                graph.op_name(op)
            )));
        }
        let device = usize::from(self.schedule.placement[op as usize]);
        for &tensor in graph.inputs(op) {
            let available = if self.problem.is_transferred(tensor) {
                self.present[tensor as usize * n + device]
            } else {
                self.ran[graph.producer(tensor) as usize]
            };
            if !available {
                return Err(invalid(format!(
                    "step {idx} runs op `{}` on device {device}, where the output {tensor} of `{}` is not available",
                    graph.op_name(op),
                    graph.op_name(graph.producer(tensor))
                )));
            }
        }
        for tensor in graph.outputs(op) {
            self.present[tensor as usize * n + device] = true;
        }
        Ok(())
    }

    fn transfer(&mut self, idx: usize, tensor: u32, to: usize) -> Result<(), Error> {
        let (graph, n) = (self.problem.graph, self.problem.n_devices());
        let fail = |why: String| {
            Err(invalid(format!(
                "step {idx} sends tensor {tensor} to device {to}, {why}"
            )))
        };
        if tensor as usize >= graph.n_tensors() || to >= n {
            let n_tensors = graph.n_tensors();
            return fail(format!(
                "but the tensors are 0..{n_tensors} and the devices 0..{n}"
            ));
        }
        let producer = graph.producer(tensor);
        let placement = &self.schedule.placement;
        if !self.ran[producer as usize] {
            return fail(format!(
                "before its producer `{}` ran",
                graph.op_name(producer)
            ));
        }
        let needed = graph
            .consumers(tensor)
            .iter()
            .any(|&c| usize::from(placement[c as usize]) == to);
        if !self.problem.is_transferred(tensor) || !needed {
            return fail("which nothing needs".to_owned());
        }
        let at = tensor as usize * n + to;
        if std::mem::replace(&mut self.present[at], true) {
            return fail("where it is already".to_owned());
        }
        Ok(())
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Schedule, message)
}
