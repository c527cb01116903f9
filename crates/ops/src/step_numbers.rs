//! The numbers of an optimiser's step that differ from step to step, in a device's memory: a launch that is captured once
//! and run again finds them there.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch};

use crate::launch::BLOCK;

/// Elements that a block of the kernel sums.
const SUMMED_PER_BLOCK: usize = 4096;

/// Step size, Adam's corrections, and the norm of the gradient with what it is multiplied by, in the memory of a device that
/// is no host.
#[derive(Debug)]
pub struct StepNumbers {
    /// Step size and both corrections.
    numbers: Buffer,
    /// Norm and factor.
    clip: Buffer,
}

impl StepNumbers {
    /// Numbers to be written, on a device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](shardgraph_device::ErrorKind::OutOfMemory).
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            numbers: device.zeros(3)?,
            clip: device.upload(&[0.0, 1.0])?,
        })
    }

    /// Writes the numbers of the next step: its size, and Adam's corrections (1 for other rules).
    ///
    /// # Errors
    /// The device's.
    pub fn write(
        &mut self,
        device: &Device,
        learning_rate: f32,
        corrections: (f32, f32),
    ) -> Result<(), Error> {
        let numbers = [learning_rate, corrections.0, corrections.1];
        device.write(&numbers, &mut self.numbers)
    }

    /// Takes the norm of a gradient, in parts: the next steps multiply it by what makes that at most `max_norm`, and do nothing
    /// where it is not finite.
    ///
    /// # Errors
    /// The device's.
    /// # Determinism
    /// Squares are summed in f64, in an order that depends on the lengths of the parts alone.
    /// # Complexity
    /// A launch for each part, and one.
    pub fn bound<'b>(
        &mut self,
        device: &Device,
        parts: impl Iterator<Item = &'b Buffer> + Clone,
        max_norm: Option<f32>,
    ) -> Result<(), Error> {
        let n_blocks = |part: &Buffer| part.len().div_ceil(SUMMED_PER_BLOCK);
        let n_partials: usize = parts.clone().map(n_blocks).sum();
        let mut partials = device.allocate::<u64>(n_partials)?;
        let mut first = 0;
        for part in parts {
            let args = [
                Arg::read(part),
                Arg::write(&mut partials),
                Arg::u64(part.len() as u64),
                Arg::u64(first as u64),
            ];
            let shape = Launch::blocks(n_blocks(part), BLOCK);
            // SAFETY: the part has the elements, and partials an element for each of its blocks from `first` on.
            unsafe { device.launch("squares_fwd", shape, &args)? };
            first += n_blocks(part);
        }
        let args = [
            Arg::read(&partials),
            Arg::write(&mut self.clip),
            Arg::u64(n_partials as u64),
            Arg::f32(max_norm.unwrap_or(f32::INFINITY)),
        ];
        // SAFETY: partials has the elements, and clip two.
        unsafe { device.launch("clip_fwd", Launch::blocks(1, BLOCK), &args) }
    }

    /// The norm that was taken last, before it was bounded.
    ///
    /// # Errors
    /// The device's.
    pub fn norm(&self, device: &Device) -> Result<f32, Error> {
        Ok(device.download(&self.clip)?[0])
    }

    /// The arguments of a kernel that finds its numbers in memory.
    pub(crate) fn args(&self) -> [Arg<'_>; 2] {
        [Arg::read(&self.numbers), Arg::read(&self.clip)]
    }

    /// The kernel with its numbers as arguments, or in memory.
    pub(crate) fn kernel(numbers: Option<&Self>, names: [&'static str; 2]) -> &'static str {
        names[usize::from(numbers.is_some())]
    }

    /// Refuses numbers in memory for a step on the host.
    pub(crate) fn refuse(op: &str, device: &Device, numbers: Option<&Self>) -> Result<(), Error> {
        match numbers {
            None => Ok(()),
            Some(_) => Err(Error::unsupported(
                &format!("{op} with numbers in a device's memory"),
                device.kind(),
            )),
        }
    }
}
