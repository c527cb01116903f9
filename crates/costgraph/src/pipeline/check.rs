//! A second look at a pipeline: some micro-batches laid out one by one.

use super::{Pipeline, PipelineTransfer, invalid};
use crate::{Error, Problem};

/// What one op or transfer of one micro-batch occupies.
struct Busy {
    resource: usize,
    start_ns: u64,
    end_ns: u64,
}

impl Pipeline {
    /// Lays out as many micro-batches as are under way together, and one more, and looks at each device, link and input.
    ///
    /// Nothing is shared with the way in which pipelines are made: no places within a period, no loads.
    ///
    /// # Errors
    /// `Schedule`: a placement of the wrong length or on a device that does not exist, a group on two devices, two things at once on a device or link, an op before its
    /// inputs, a transfer before its tensor, or a latency that is not that of a micro-batch.
    ///
    /// # Complexity
    /// O(m (ops + uses) log (m (ops + uses))) time for m micro-batches.
    pub fn check(&self, problem: &Problem<'_>) -> Result<(), Error> {
        let (graph, n) = (problem.graph(), problem.n_devices());
        let is_placed = self.placement.iter().all(|&device| usize::from(device) < n);
        if self.placement.len() != graph.n_ops()
            || self.op_starts_ns.len() != graph.n_ops()
            || !is_placed
        {
            return Err(invalid(
                "a pipeline needs a device and a start for each op".into(),
            ));
        }
        problem.check_colocation(&self.placement)?;
        for op in 0..graph.n_ops() as u32 {
            self.check_inputs(problem, op)?;
        }
        for sent in &self.transfers {
            if sent.start_ns < self.end_of(problem, graph.producer(sent.tensor)) {
                let tensor = sent.tensor;
                return Err(invalid(format!(
                    "tensor {tensor} is sent before it is made"
                )));
            }
        }
        self.check_resources(problem)
    }

    fn end_of(&self, problem: &Problem<'_>, op: u32) -> u64 {
        let device = usize::from(self.placement[op as usize]);
        self.op_starts_ns[op as usize] + problem.cost_ns(op, device)
    }

    fn end_of_transfer(&self, problem: &Problem<'_>, sent: &PipelineTransfer) -> u64 {
        let from = usize::from(self.placement[problem.graph().producer(sent.tensor) as usize]);
        sent.start_ns + problem.transfer_ns(sent.tensor, from, usize::from(sent.to))
    }

    fn check_inputs(&self, problem: &Problem<'_>, op: u32) -> Result<(), Error> {
        let graph = problem.graph();
        let home = self.placement[op as usize];
        for &tensor in graph.inputs(op) {
            let producer = graph.producer(tensor);
            let is_here = self.placement[producer as usize] == home;
            let there = if is_here || !problem.is_transferred(tensor) {
                Some(self.end_of(problem, producer))
            } else {
                let mut sent = self.transfers.iter();
                let sent = sent.find(|sent| sent.tensor == tensor && sent.to == home);
                sent.map(|sent| self.end_of_transfer(problem, sent))
            };
            if there.is_none_or(|there| there > self.op_starts_ns[op as usize]) {
                return Err(invalid(format!(
                    "op `{}` starts before tensor {tensor} is on its device",
                    graph.op_name(op)
                )));
            }
        }
        Ok(())
    }

    fn check_resources(&self, problem: &Problem<'_>) -> Result<(), Error> {
        let (graph, n) = (problem.graph(), problem.n_devices());
        let mut once: Vec<Busy> = Vec::new();
        for op in 0..graph.n_ops() as u32 {
            once.push(Busy {
                resource: usize::from(self.placement[op as usize]),
                start_ns: self.op_starts_ns[op as usize],
                end_ns: self.end_of(problem, op),
            });
        }
        for sent in &self.transfers {
            let from = usize::from(self.placement[graph.producer(sent.tensor) as usize]);
            let to = usize::from(sent.to);
            let resources = match problem.options().asynchronous {
                true => vec![n + from * n + to],
                false => vec![from, to],
            };
            let (start_ns, end_ns) = (sent.start_ns, self.end_of_transfer(problem, sent));
            once.extend(resources.into_iter().map(|resource| Busy {
                resource,
                start_ns,
                end_ns,
            }));
        }
        let latency = once.iter().map(|busy| busy.end_ns).max().unwrap_or(0);
        if latency != self.latency_ns {
            return Err(invalid(format!(
                "a micro-batch takes {latency} ns, not {}",
                self.latency_ns
            )));
        }
        let mut all: Vec<(usize, u64, u64)> = Vec::new();
        for batch in 0..=self.n_in_flight() {
            let shift = batch * self.period_ns;
            let busy = once.iter().filter(|busy| busy.start_ns < busy.end_ns);
            all.extend(busy.map(|b| (b.resource, b.start_ns + shift, b.end_ns + shift)));
        }
        all.sort_unstable();
        let overlap = all
            .windows(2)
            .find(|pair| pair[0].0 == pair[1].0 && pair[1].1 < pair[0].2);
        match overlap {
            None => Ok(()),
            Some(pair) => Err(invalid(format!(
                "two things run at once on device or link {} at {} ns",
                pair[0].0, pair[1].1
            ))),
        }
    }
}
