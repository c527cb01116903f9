//! An array of `f32` with a copy in host memory and one in a device's, each made when it is asked for.
//!
//! Parameters and an optimiser's moments are such arrays. A step of training on a device reads and writes the device's copy
//! alone; the host's is made when a checkpoint, a policy file or a test reads it.

use std::sync::{Arc, OnceLock};

use shardgraph_device::{Buffer, Device};

use crate::Error;

/// One array in parts, whose newest values are in host memory, on a device, or in both. Clones share the device's buffers until
/// one of them writes.
#[derive(Debug, Clone)]
pub(crate) struct Mirror {
    /// The whole array; empty while the device's values are newer.
    host: OnceLock<Vec<f32>>,
    device: OnceLock<Parts>,
}

/// The copy on a device: a buffer for each part.
#[derive(Debug, Clone)]
struct Parts {
    device: Device,
    buffers: Vec<Arc<Buffer>>,
    /// Another one where a buffer is another one.
    identity: Identity,
}

/// Stands for buffers on a device: equal for the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<()>);

impl Identity {
    fn new() -> Self {
        Self(Arc::new(()))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Mirror {
    pub(crate) fn new(values: Vec<f32>) -> Self {
        Self {
            host: OnceLock::from(values),
            device: OnceLock::new(),
        }
    }

    /// The values.
    ///
    /// # Panics
    /// Where they are on a device that no longer gives them; [`Mirror::sync`] before it makes that an error.
    pub(crate) fn host(&self) -> &[f32] {
        self.host.get_or_init(|| {
            self.download()
                .expect("the device gives the values: call sync for an error in place of this")
        })
    }

    /// The values for writing; the device's copy goes.
    ///
    /// # Panics
    /// As [`Mirror::host`].
    pub(crate) fn host_mut(&mut self) -> &mut Vec<f32> {
        self.host();
        self.device = OnceLock::new();
        self.host.get_mut().expect("filled above")
    }

    /// Copies the values to the host, where the device's are newer.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if self.host.get().is_none() {
            let values = self.download()?;
            self.host.get_or_init(|| values);
        }
        Ok(())
    }

    fn download(&self) -> Result<Vec<f32>, Error> {
        let mut values = Vec::new();
        if let Some(parts) = self.device.get() {
            for buffer in &parts.buffers {
                values.extend(parts.device.download(buffer)?);
            }
        }
        Ok(values)
    }

    /// Which buffers the device's copy is in, where there is one.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.device.get().map(|parts| parts.identity.clone())
    }

    /// Whether the values are on a device.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.device.get().map(|parts| &parts.device)
    }

    /// The copy on this device, made by the first call; `offsets` are the parts' ends, with a 0 before them.
    pub(crate) fn buffers(
        &self,
        device: &Device,
        offsets: &[usize],
    ) -> Result<Vec<Arc<Buffer>>, Error> {
        if let Some(parts) = self.device.get()
            && parts.is_on(device)
        {
            return Ok(parts.buffers.clone());
        }
        let parts = self.upload(device, offsets)?;
        let buffers = parts.buffers.clone();
        // A copy on another device stays the one that is kept.
        self.device.get_or_init(|| parts);
        Ok(buffers)
    }

    /// The copy on this device for writing, no buffer of which is shared; the host's copy goes.
    pub(crate) fn buffers_mut(
        &mut self,
        device: &Device,
        offsets: &[usize],
    ) -> Result<&mut [Arc<Buffer>], Error> {
        if !self.device.get().is_some_and(|parts| parts.is_on(device)) {
            let parts = self.upload(device, offsets)?;
            self.device = OnceLock::from(parts);
        }
        let parts = self.device.get_mut().expect("set above");
        for buffer in &mut parts.buffers {
            if Arc::get_mut(buffer).is_none() {
                let mut own = device.allocate(buffer.len())?;
                device.copy(buffer, &mut own)?;
                *buffer = Arc::new(own);
                parts.identity = Identity::new();
            }
        }
        self.host = OnceLock::new();
        Ok(&mut parts.buffers)
    }

    fn upload(&self, device: &Device, offsets: &[usize]) -> Result<Parts, Error> {
        self.sync()?;
        let values = self.host();
        let upload = |ends: &[usize]| Ok(Arc::new(device.upload(&values[ends[0]..ends[1]])?));
        let buffers: Result<_, Error> = offsets.windows(2).map(upload).collect();
        Ok(Parts {
            device: device.clone(),
            buffers: buffers?,
            identity: Identity::new(),
        })
    }
}

impl PartialEq for Mirror {
    fn eq(&self, other: &Self) -> bool {
        self.host() == other.host()
    }
}

impl Parts {
    fn is_on(&self, device: &Device) -> bool {
        self.buffers.iter().all(|buffer| device.owns(buffer))
    }
}
