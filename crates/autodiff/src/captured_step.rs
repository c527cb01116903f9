//! A step of training on a device as one launch: a recorded program, its gradient and the optimiser's step, captured.

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, Graph};
use shardgraph_ops::StepNumbers;

use crate::mirror::Identity;
use crate::program::record;
use crate::{Adam, Error, Params, Plan, Program, RmsProp, Sgd, Var};

/// A step of training that a device runs by one launch, on parameters and moments in its memory.
///
/// The first run records the program's operations, the norm of its gradient, the optimiser's step and the move of frozen
/// parameters as one graph; later runs copy the inputs that were set, three numbers of the step, and launch it. What a graph was
/// recorded with (buffers of parameters and moments, constants of the optimiser) is compared before each launch, and where it
/// is another the step is recorded again.
///
/// # Determinism
/// The same bits as the operations one by one, but for dense products: a graph has the project's kernels, not the vendor's.
/// # Complexity
/// A copy for each input that was set, one for the numbers, a launch, and a copy of two numbers back.
#[derive(Debug)]
pub struct CapturedStep {
    device: Device,
    program: Program,
    numbers: StepNumbers,
    target_rate: Option<f32>,
    solo: Comm,
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    graph: Graph,
    key: Key,
}

/// What the recorded launches depend on beside the program.
#[derive(Debug, PartialEq)]
struct Key {
    buffers: [Option<Identity>; 3],
    constants: [u32; 4],
    max_norm: Option<u32>,
}

/// The optimiser of a [`CapturedStep`].
#[derive(Debug)]
pub enum OptimiserMut<'a> {
    /// Adam.
    Adam(&'a mut Adam),
    /// Gradient descent.
    Sgd(&'a mut Sgd),
    /// RMSProp.
    RmsProp(&'a mut RmsProp),
}

impl CapturedStep {
    /// Loads a plan with a gradient for steps on a device that is no host.
    ///
    /// # Errors
    /// [`Error::Usage`] for the host, a plan of several ranks, and one without [`crate::Recorder::output_param_gradient`]; the
    /// device's.
    pub fn load(plan: Plan, device: &Device) -> Result<Self, Error> {
        let why = match (device.is_host(), plan.world.size, &plan.outputs.gradient) {
            (true, ..) => Some("the host launches nothing: run the program"),
            (_, 2.., _) => Some("ranks exchange values inside it: run the program"),
            (.., None) => Some("the plan has no gradient: call Recorder::output_param_gradient"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(Error::Usage(format!("captured step: {why}")));
        }
        Ok(Self {
            program: plan.resident().load(device)?,
            numbers: StepNumbers::new(device)?,
            device: device.clone(),
            target_rate: None,
            solo: Comm::solo(),
            recorded: None,
        })
    }

    /// The same with [`Params::blend_trained_into_frozen`] by `tau` behind each step.
    pub fn with_target_rate(mut self, tau: f32) -> Self {
        self.target_rate = Some(tau);
        self
    }

    /// As [`Program::set_input`].
    ///
    /// # Errors
    /// As [`Program::set_input`].
    pub fn set_input(&mut self, var: Var, values: &[f32]) -> Result<(), Error> {
        self.program.set_input(var, values)
    }

    /// As [`Program::input_mut`].
    ///
    /// # Errors
    /// As [`Program::input_mut`].
    pub fn input_mut(&mut self, var: Var) -> Result<&mut [f32], Error> {
        self.program.input_mut(var)
    }

    /// As [`Program::read`], of the last run.
    ///
    /// # Errors
    /// As [`Program::read`].
    pub fn read(&self, name: &str) -> Result<Vec<f32>, Error> {
        self.program.read(name)
    }

    /// Computes the gradient with the present parameters and inputs, bounds its norm by `max_norm`, and takes a step of the
    /// optimiser against it. Gives the norm before it was bounded; where that is not finite, no step was taken.
    ///
    /// # Errors
    /// [`Error::Usage`] for parameters of other shapes; the device's, after which the next run records again.
    pub fn run(
        &mut self,
        params: &mut Params,
        mut optimiser: OptimiserMut<'_>,
        max_norm: Option<f32>,
    ) -> Result<f32, Error> {
        let norm = self.run_recorded(params, &mut optimiser, max_norm);
        match norm {
            Ok(norm) if norm.is_finite() => optimiser.count_step(),
            Ok(_) => {}
            Err(_) => self.recorded = None,
        }
        norm
    }

    fn run_recorded(
        &mut self,
        params: &mut Params,
        optimiser: &mut OptimiserMut<'_>,
        max_norm: Option<f32>,
    ) -> Result<f32, Error> {
        self.program.check_params(params)?;
        params.trained_buffers(&self.device)?; // from now on the device's values are the newest
        let [first, second] = optimiser.prepare(&self.device, params)?;
        let key = Key {
            buffers: [params.identity(), first, second],
            constants: optimiser.constants(),
            max_norm: max_norm.map(f32::to_bits),
        };
        self.program.write_inputs(&mut self.solo)?;
        let (rate, corrections) = optimiser.numbers();
        self.numbers.write(&self.device, rate, corrections)?;
        if self
            .recorded
            .as_ref()
            .is_none_or(|recorded| recorded.key != key)
        {
            self.recorded = None; // its memory is used again
            let graph = self.record(params, optimiser, max_norm)?;
            self.recorded = Some(Recorded { graph, key });
        }
        if let Some(recorded) = &self.recorded {
            recorded.graph.launch()?;
        }
        Ok(self.numbers.norm(&self.device)?)
    }

    fn record(
        &mut self,
        params: &mut Params,
        optimiser: &mut OptimiserMut<'_>,
        max_norm: Option<f32>,
    ) -> Result<Graph, Error> {
        let (device, program, numbers) = (&self.device, &mut self.program, &mut self.numbers);
        let (solo, target_rate) = (&mut self.solo, self.target_rate);
        record(device, || {
            program.launch_steps(solo, Some(params))?;
            program.release_params();
            let gradient = program.device_gradient()?;
            numbers.bound(device, gradient.parts(), max_norm)?;
            optimiser.launch_step(device, params, &gradient, numbers)?;
            match target_rate {
                Some(tau) => params.blend_trained_into_frozen(tau),
                None => Ok(()),
            }
        })
    }
}

impl OptimiserMut<'_> {
    /// Step size and corrections of the next step.
    fn numbers(&self) -> (f32, (f32, f32)) {
        match self {
            Self::Adam(adam) => (adam.learning_rate, adam.corrections()),
            Self::Sgd(sgd) => (sgd.learning_rate, (1.0, 1.0)),
            Self::RmsProp(rms_prop) => (rms_prop.learning_rate, (1.0, 1.0)),
        }
    }

    /// What its launches have by value: the rule's number, and the bits of its constants.
    fn constants(&self) -> [u32; 4] {
        let bits = |rule, [a, b, c]: [f32; 3]| [rule, a.to_bits(), b.to_bits(), c.to_bits()];
        match self {
            Self::Adam(adam) => bits(0, [adam.beta1, adam.beta2, adam.epsilon]),
            Self::Sgd(_) => [1, 0, 0, 0],
            Self::RmsProp(rule) => bits(2, [rule.decay, rule.momentum, rule.epsilon]),
        }
    }

    /// Brings the moments to a device; gives in which buffers they are.
    fn prepare(
        &mut self,
        device: &Device,
        params: &Params,
    ) -> Result<[Option<Identity>; 2], Error> {
        let offsets = params.trained_offsets();
        match self {
            Self::Adam(adam) => adam.slots_mut().prepare(device, offsets),
            Self::Sgd(_) => Ok([None, None]),
            Self::RmsProp(rms_prop) => rms_prop.slots_of_device().prepare(device, offsets),
        }
    }

    fn launch_step(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &crate::DeviceGradient,
        numbers: &StepNumbers,
    ) -> Result<(), Error> {
        let numbers = Some(numbers);
        match self {
            Self::Adam(adam) => adam.launch_step(device, params, gradient, numbers),
            Self::Sgd(sgd) => sgd.launch_step(device, params, gradient, numbers),
            Self::RmsProp(rule) => rule.launch_step(device, params, gradient, numbers),
        }
    }

    fn count_step(&mut self) {
        if let Self::Adam(adam) = self {
            adam.n_steps += 1;
        }
    }
}
