//! The gradient of a step of training, where it was computed.

use std::sync::Arc;

use shardgraph_device::{Buffer, Device, MatMul};
use shardgraph_ops::{self as ops, Binary};

use crate::params::unshared;
use crate::{Error, ParamId, Params};

/// The derivatives of a loss by all trained parameters, in the memory in which they were computed.
#[derive(Debug, Clone)]
pub enum Gradient {
    /// In host memory, as one flat run laid out as [`Params::trained`].
    Host(Vec<f32>),
    /// In the memory of another device.
    Device(DeviceGradient),
}

/// Derivatives by all trained parameters in the memory of a device that is no host.
#[derive(Debug, Clone)]
pub struct DeviceGradient {
    /// For each trained parameter a buffer; none where the loss does not depend on it.
    parts: Vec<Option<Arc<Buffer>>>,
}

impl DeviceGradient {
    pub(crate) fn new(parts: Vec<Option<Arc<Buffer>>>) -> Self {
        Self { parts }
    }

    /// The derivatives that are there.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Buffer> + Clone {
        self.parts.iter().flatten().map(|part| &**part)
    }

    /// A flat run, uploaded in the parameters' parts.
    pub(crate) fn upload(device: &Device, params: &Params, flat: &[f32]) -> Result<Self, Error> {
        if flat.len() != params.trained_len() {
            return Err(lengths(params, flat.len()));
        }
        let upload = |ends: &[usize]| Ok(Some(Arc::new(device.upload(&flat[ends[0]..ends[1]])?)));
        let parts: Result<Vec<_>, Error> =
            params.trained_offsets().windows(2).map(upload).collect();
        Ok(Self::new(parts?))
    }

    /// The Euclidean norm, of which one element is copied to the host.
    ///
    /// # Errors
    /// The device's.
    /// # Determinism
    /// Squares are summed in f32, in the order of [`ops::matmul`].
    pub fn norm(&self, device: &Device) -> Result<f32, Error> {
        let mut total = device.zeros(1)?;
        for part in self.parts() {
            let product = MatMul {
                rows: 1,
                inner: part.len(),
                cols: 1,
                transpose_a: false,
                transpose_b: false,
            };
            let (mut square, mut sum) = (device.allocate(1)?, device.allocate(1)?);
            ops::matmul(device, product, part, part, &mut square)?;
            ops::binary(device, Binary::Add, &total, &square, &mut sum)?;
            total = sum;
        }
        Ok(device.download(&total)?[0].sqrt())
    }

    /// Adds `decay` times a trained parameter to its derivative: weight decay, in place where no program shares it.
    ///
    /// # Errors
    /// For a frozen parameter; the device's.
    pub fn add_decay(
        &mut self,
        device: &Device,
        params: &Params,
        id: ParamId,
        decay: f32,
    ) -> Result<(), Error> {
        let Some(part) = self.parts.get_mut(id.0 as usize) else {
            let name = params.name(id);
            let text = format!("weight decay: `{name}` is frozen, trained parameters have it");
            return Err(Error::Usage(text));
        };
        let values = params.buffer(id, device)?;
        let mut sum = match part.take().map(Arc::try_unwrap) {
            None => device.zeros(values.len())?,
            Some(Ok(own)) => own,
            Some(Err(shared)) => {
                let mut own = device.allocate(shared.len())?;
                device.copy(&shared, &mut own)?;
                own
            }
        };
        // A step of descent: sum -= -decay * values.
        ops::sgd(device, -decay, &mut sum, &values, None)?;
        *part = Some(Arc::new(sum));
        Ok(())
    }

    /// Multiplies all derivatives by a factor.
    ///
    /// # Errors
    /// The device's.
    pub fn scale(&mut self, device: &Device, factor: f32) -> Result<(), Error> {
        for part in self.parts.iter_mut().flatten() {
            let mut scaled = device.allocate(part.len())?;
            ops::scale(device, factor, part, &mut scaled)?;
            *part = Arc::new(scaled);
        }
        Ok(())
    }
}

/// Runs a step for each trained parameter on a device that is no host, with its place, values and derivatives.
pub(crate) fn for_each_trained(
    device: &Device,
    params: &mut Params,
    gradient: &DeviceGradient,
    mut step: impl FnMut(usize, &mut Buffer, &Buffer) -> Result<(), Error>,
) -> Result<(), Error> {
    let grads = &gradient.parts;
    let n_values = grads.iter().flatten().map(|grad| grad.len()).sum();
    if grads.len() + 1 != params.trained_offsets().len() {
        return Err(lengths(params, n_values));
    }
    let values = params.trained_buffers(device)?;
    for (i, (values, grad)) in values.iter_mut().zip(grads).enumerate() {
        match grad {
            Some(grad) => step(i, unshared(values), grad)?,
            None => {
                let zeros = device.zeros(values.len())?;
                step(i, unshared(values), &zeros)?;
            }
        }
    }
    Ok(())
}

fn lengths(params: &Params, given: usize) -> Error {
    Error::Usage(format!(
        "optimiser: expected {} derivatives, given {given}: make an optimiser for each model",
        params.trained_len()
    ))
}
