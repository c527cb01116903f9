//! Memory of the devices while list scheduling decides, when the ops that will read a tensor are not placed yet.
//!
//! A tensor stays where it was made until its last reader has run. A copy elsewhere goes after each op that reads it; should a
//! later op read it there once more, it will have stayed all the time, and the levels since then rise. So a level is never less than
//! what the finished schedule will use, and more only where the last readers of a tensor used a copy.

use crate::{Problem, graph::NONE};

/// A count that never reaches 0.
const FOREVER: u32 = 1 << 31;

/// Of a copy that does not exist; else the step after which nobody holds it, as far as is known.
const NO_COPY: u32 = NONE;

/// A copy that an op is reading or a view keeps.
const HELD: u32 = NONE - 1;

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    limits: Vec<u64>,
    resident: Vec<u64>,
    /// By device: steps and the memory in use at them, those only that no later one reaches; ascending steps.
    levels: Vec<Vec<(u32, u64)>>,
    peaks: Vec<u64>,
    /// By tensor: readers that have not run, and views where it was made.
    left: Vec<u32>,
    /// By tensor and device where it was not made: [`NO_COPY`], [`HELD`] or a step.
    copies: Vec<u32>,
    /// By tensor and device where it was not made: views there.
    views: Vec<u32>,
    step: u32,
    /// The excess so far: going up to it once more costs nothing.
    excess: u64,
    /// Copies to be taken up again, with the step since when, while a device is tried out.
    revived: Vec<(u32, u64)>,
}

impl Ledger {
    pub(super) fn new(problem: &Problem<'_>) -> Ledger {
        let (n, n_tensors) = (problem.n_devices(), problem.graph.n_tensors());
        let devices = problem.devices.devices();
        Ledger {
            limits: devices
                .iter()
                .map(|device| device.memory_bytes.unwrap_or(u64::MAX))
                .collect(),
            resident: vec![0; n],
            levels: vec![Vec::new(); n],
            peaks: vec![0; n],
            left: vec![0; n_tensors],
            copies: vec![NO_COPY; n_tensors * n],
            views: vec![0; n_tensors * n],
            step: 0,
            excess: 0,
            revived: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, problem: &Problem<'_>) {
        self.resident.fill(0);
        self.levels.iter_mut().for_each(Vec::clear);
        self.peaks.fill(0);
        self.copies.fill(NO_COPY);
        self.views.fill(0);
        (self.step, self.excess) = (0, 0);
        for (left, tensor) in self.left.iter_mut().zip(0..) {
            let kept = if problem.is_kept(tensor) { FOREVER } else { 0 };
            *left = problem.graph.consumers(tensor).len() as u32 + kept;
        }
    }

    /// The excess so far.
    pub(super) fn excess(&self) -> u64 {
        self.excess
    }

    /// The excess when `op` comes next, on `device`.
    pub(super) fn excess_with(
        &mut self,
        problem: &Problem<'_>,
        placement: &[u8],
        op: u32,
        device: usize,
    ) -> u64 {
        let graph = problem.graph;
        let mut level = self.resident[device];
        self.revived.clear();
        for &tensor in graph.inputs(op) {
            let copy = self.copies[tensor as usize * self.limits.len() + device];
            if home(problem, placement, tensor) == device || copy == HELD {
                continue;
            }
            let bytes = graph.tensor_bytes(tensor);
            level += bytes;
            if copy != NO_COPY {
                self.revived.push((copy, bytes));
            }
        }
        level += made_bytes(problem, op) + graph.internal_bytes(op);
        level = level.max(self.peaks[device]);
        self.revived.sort_unstable();
        let mut risen = 0;
        for &(since, bytes) in &self.revived {
            risen += bytes;
            let levels = &self.levels[device];
            let later = levels.get(levels.partition_point(|level| level.0 <= since));
            level = level.max(later.map_or(0, |later| later.1 + risen));
        }
        level += persistent_bytes(problem, op);
        level.saturating_sub(self.limits[device]).max(self.excess)
    }

    /// Runs `op` on the device where it was placed, after the transfers of its inputs.
    pub(super) fn run(&mut self, problem: &Problem<'_>, placement: &[u8], op: u32) {
        let (graph, device) = (problem.graph, usize::from(placement[op as usize]));
        let n = self.limits.len();
        self.raise_all(device, persistent_bytes(problem, op));
        for &tensor in graph.inputs(op) {
            let slot = tensor as usize * n + device;
            if home(problem, placement, tensor) == device || self.copies[slot] == HELD {
                continue;
            }
            let bytes = graph.tensor_bytes(tensor);
            self.resident[device] += bytes;
            if self.copies[slot] != NO_COPY {
                self.raise_since(device, self.copies[slot], bytes);
            }
            self.copies[slot] = HELD;
        }
        self.resident[device] += made_bytes(problem, op);
        self.note_level(device, self.resident[device] + graph.internal_bytes(op));
        self.hold_bases(problem, placement, op, device);
        for &tensor in graph.inputs(op) {
            let slot = tensor as usize * n + device;
            // Already gone where the last view of the copy was an input as well.
            if self.copies[slot] == HELD && self.views[slot] == 0 {
                self.drop_copy(problem, tensor, device);
            }
            self.left[tensor as usize] -= 1;
            if self.left[tensor as usize] == 0 {
                self.free(problem, placement, tensor);
            }
        }
        for tensor in graph.outputs(op) {
            if self.left[tensor as usize] == 0 {
                self.free(problem, placement, tensor);
            }
        }
        self.step += 1;
        let over = self.peaks[device].saturating_sub(self.limits[device]);
        self.excess = self.excess.max(over);
    }

    /// Outputs that are views hold what they are views of.
    fn hold_bases(&mut self, problem: &Problem<'_>, placement: &[u8], op: u32, device: usize) {
        for tensor in problem.graph.outputs(op) {
            let Some(base) = problem.graph.alias_of(tensor) else {
                continue;
            };
            if home(problem, placement, base) == device {
                self.left[base as usize] += 1;
            } else {
                self.views[base as usize * self.limits.len() + device] += 1;
            }
        }
    }

    /// Nobody will read the tensor any more: it goes from where it was made.
    fn free(&mut self, problem: &Problem<'_>, placement: &[u8], mut tensor: u32) {
        let device = home(problem, placement, tensor);
        while let Some(base) = problem.graph.alias_of(tensor) {
            if home(problem, placement, base) != device {
                let views = &mut self.views[base as usize * self.limits.len() + device];
                *views -= 1;
                if *views == 0 {
                    self.drop_copy(problem, base, device);
                }
                return;
            }
            self.left[base as usize] -= 1;
            if self.left[base as usize] > 0 {
                return;
            }
            tensor = base;
        }
        self.resident[device] -= problem.graph.tensor_bytes(tensor);
    }

    /// Nobody is known to read the copy any more.
    fn drop_copy(&mut self, problem: &Problem<'_>, tensor: u32, device: usize) {
        self.resident[device] -= problem.graph.tensor_bytes(tensor);
        self.copies[tensor as usize * self.limits.len() + device] = self.step;
    }

    fn note_level(&mut self, device: usize, level: u64) {
        let levels = &mut self.levels[device];
        while levels.last().is_some_and(|last| last.1 <= level) {
            levels.pop();
        }
        levels.push((self.step, level));
        self.peaks[device] = self.peaks[device].max(level);
    }

    /// What was in use after step `since` was more by `bytes`.
    fn raise_since(&mut self, device: usize, since: u32, bytes: u64) {
        let levels = &mut self.levels[device];
        let mut first = levels.partition_point(|level| level.0 <= since);
        levels[first..].iter_mut().for_each(|l| l.1 += bytes);
        let Some(&(_, level)) = levels.get(first) else {
            return;
        };
        self.peaks[device] = self.peaks[device].max(level);
        while first > 0 && levels[first - 1].1 <= level {
            levels.remove(first - 1);
            first -= 1;
        }
    }

    fn raise_all(&mut self, device: usize, bytes: u64) {
        self.resident[device] += bytes;
        self.peaks[device] += bytes;
        self.levels[device].iter_mut().for_each(|l| l.1 += bytes);
    }
}

/// What the op's outputs take; those that are views take nothing.
fn made_bytes(problem: &Problem<'_>, op: u32) -> u64 {
    let graph = problem.graph;
    let made = graph.outputs(op).filter(|&t| graph.alias_of(t).is_none());
    made.map(|tensor| graph.tensor_bytes(tensor)).sum()
}

fn persistent_bytes(problem: &Problem<'_>, op: u32) -> u64 {
    if problem.has_persistent {
        problem.graph.persistent_bytes(op)
    } else {
        0
    }
}

fn home(problem: &Problem<'_>, placement: &[u8], tensor: u32) -> usize {
    usize::from(placement[problem.graph.producer(tensor) as usize])
}
