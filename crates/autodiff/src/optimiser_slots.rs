//! What optimisers keep for each trained parameter.

use shardgraph_device::{Buffer, Device};

use crate::gradient_parts::for_each_trained;
use crate::mirror::{Identity, Mirror};
use crate::params::unshared;
use crate::{DeviceGradient, Error, Params};

/// Two values of an optimiser for each trained parameter, where its steps are taken.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptimiserSlots([Mirror; 2]);

impl OptimiserSlots {
    pub(crate) fn new(n_params: usize, initial: [f32; 2]) -> Self {
        Self(initial.map(|value| Mirror::new(vec![value; n_params])))
    }

    /// Both arrays.
    ///
    /// # Panics
    /// As [`Mirror::host`].
    pub(crate) fn host(&self) -> [&[f32]; 2] {
        self.0.each_ref().map(Mirror::host)
    }

    /// Both for writing.
    ///
    /// # Panics
    /// As [`Mirror::host`].
    pub(crate) fn host_mut(&mut self) -> [&mut [f32]; 2] {
        self.0.each_mut().map(|slot| slot.host_mut().as_mut_slice())
    }

    /// Copies both to the host, where a device has newer ones.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(Mirror::sync)
    }

    /// Brings both to a device, in buffers that nothing shares; gives which they are.
    pub(crate) fn prepare(
        &mut self,
        device: &Device,
        offsets: &[usize],
    ) -> Result<[Option<Identity>; 2], Error> {
        for slot in &mut self.0 {
            slot.buffers_mut(device, offsets)?;
        }
        Ok(self.0.each_ref().map(Mirror::identity))
    }

    /// A step on a device: `step` gets the values of each trained parameter that the loss depends on,
    /// its derivatives and both of its slots.
    pub(crate) fn step_on_device(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
        step: impl Fn(&mut Buffer, &Buffer, [&mut Buffer; 2]) -> Result<(), shardgraph_device::Error>,
    ) -> Result<(), Error> {
        let [first, second] = &mut self.0;
        let offsets = params.trained_offsets();
        let first = first.buffers_mut(device, offsets)?;
        let second = second.buffers_mut(device, offsets)?;
        for_each_trained(device, params, gradient, |i, values, grad| {
            let slots = [unshared(&mut first[i]), unshared(&mut second[i])];
            Ok(step(values, grad, slots)?)
        })
    }
}
