//! Schedules (a placement and a total order of ops and transfers, A.4) and what each step of one does to time and memory.

use crate::{Error, Outcome, Problem, accounts::Accounts, replay};

/// One simulation time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// An op runs on the device where it is placed.
    Op(u32),
    /// A tensor goes from its producer's device to another.
    Transfer {
        /// What is sent.
        tensor: u32,
        /// The receiving device.
        to: u8,
    },
}

/// A placement and a total order of ops and transfers.
///
/// ```
/// use shardgraph_costgraph::*;
///
/// let mut builder = GraphBuilder::new("pair");
/// let a = builder.op(OpSpec::new("a", 5));
/// let b = builder.op(OpSpec::new("b", 7));
/// builder.tensor(TensorSpec::new(a, 100, &[b]));
/// let graph = builder.build()?;
/// let problem = Problem::new(&graph, &DeviceSet::uniform(2, None)?, Objective::Runtime, ModelOptions::default())?;
/// let schedule = Schedule {
///     placement: vec![1, 0], // the largest op belongs on device 0
///     steps: vec![Step::Op(a), Step::Transfer { tensor: 0, to: 0 }, Step::Op(b)],
/// };
/// let simulation = schedule.simulate(&problem)?;
/// assert_eq!(simulation.outcome.runtime_ns, 12);
/// assert_eq!(simulation.peaks, [100, 100]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// The device of each op.
    pub placement: Vec<u8>,
    /// Every op once, and one transfer for each tensor and device that needs one.
    pub steps: Vec<Step>,
}

/// When a step starts and ends, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Start.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
}

/// A device's memory around one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPoint {
    /// The step, an index into [`Schedule::steps`].
    pub step: u32,
    /// The device.
    pub device: u8,
    /// In use while the step runs.
    pub during_bytes: u64,
    /// In use after it.
    pub after_bytes: u64,
}

/// What a schedule does, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// Runtime, peak and excess.
    pub outcome: Outcome,
    /// The peak of each device.
    pub peaks: Vec<u64>,
    /// When each step runs.
    pub spans: Vec<Span>,
    /// Memory in use at each step: one point for an op, two (sender, receiver) for a transfer.
    pub memory: Vec<MemoryPoint>,
}

impl Schedule {
    /// The same with device 0 and another exchanged where [`Problem::fixed_op`] is not on device 0. Devices are interchangeable
    /// wherever there is such an op, so this costs nothing.
    ///
    /// # Panics
    /// When the placement has no device for that op.
    #[must_use]
    pub fn pinned(mut self, problem: &Problem<'_>) -> Schedule {
        let fixed_on = problem
            .fixed_op()
            .map_or(0, |op| self.placement[op as usize]);
        let exchange = |device: &mut u8| match *device {
            0 => *device = fixed_on,
            other if other == fixed_on => *device = 0,
            _ => (),
        };
        if fixed_on > 0 {
            self.placement.iter_mut().for_each(exchange);
            for step in &mut self.steps {
                if let Step::Transfer { to, .. } = step {
                    exchange(to);
                }
            }
        }
        self
    }

    /// Checks the schedule by the independent [`replay`] and simulates it.
    ///
    /// # Errors
    /// `Schedule` when the schedule breaks a rule of A.4, or when the two computations disagree.
    ///
    /// # Complexity
    /// That of [`replay`].
    pub fn verify(&self, problem: &Problem<'_>) -> Result<Simulation, Error> {
        let simulation = self.simulate(problem)?;
        let expected = replay(problem, self)?;
        if simulation.outcome != expected {
            return Err(Error::new(
                crate::ErrorKind::Schedule,
                format!(
                    "the replay of a schedule gives {expected:?} where its simulation gave {:?}",
                    simulation.outcome
                ),
            ));
        }
        Ok(simulation)
    }

    /// Simulates the schedule in one pass.
    ///
    /// # Errors
    /// `Schedule` when the schedule breaks a rule of A.4; the message names the step.
    pub fn simulate(&self, problem: &Problem<'_>) -> Result<Simulation, Error> {
        crate::validity::check(problem, self)?;
        Ok(self.run(problem))
    }

    /// As `simulate`, for schedules known to be valid.
    pub(crate) fn run(&self, problem: &Problem<'_>) -> Simulation {
        let mut accounts = Accounts::new(problem);
        accounts.placement.copy_from_slice(&self.placement);
        accounts.start::<true>(problem, |_, _| {});
        let mut memory = Vec::with_capacity(self.steps.len() * 2);
        let mut spans = Vec::with_capacity(self.steps.len());
        for (idx, &step) in self.steps.iter().enumerate() {
            let (from, to) = self.ends(problem, step);
            let mut point = |device: usize, during_bytes, after_bytes| {
                memory.push(MemoryPoint {
                    step: idx as u32,
                    device: device as u8,
                    during_bytes,
                    after_bytes,
                });
            };
            // Set aside, so that this step's own maximum shows.
            let peak = std::mem::take(&mut accounts.peak[to]);
            let sender_bytes = accounts.resident[from];
            let span = match step {
                Step::Op(op) => accounts.op::<true>(problem, op, to),
                Step::Transfer { tensor, .. } => {
                    let span = accounts.transfer::<true>(problem, tensor, from, to);
                    point(from, sender_bytes, accounts.resident[from]);
                    span
                }
            };
            point(to, accounts.peak[to], accounts.resident[to]);
            accounts.peak[to] = accounts.peak[to].max(peak);
            spans.push(span);
        }
        Simulation {
            outcome: accounts.outcome(problem),
            peaks: accounts.peak,
            spans,
            memory,
        }
    }

    /// The sending and the receiving device; the same for an op.
    fn ends(&self, problem: &Problem<'_>, step: Step) -> (usize, usize) {
        match step {
            Step::Op(op) => {
                let device = usize::from(self.placement[op as usize]);
                (device, device)
            }
            Step::Transfer { tensor, to } => {
                let producer = problem.graph.producer(tensor);
                (
                    usize::from(self.placement[producer as usize]),
                    usize::from(to),
                )
            }
        }
    }
}
