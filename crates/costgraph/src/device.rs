//! The machine that a graph is placed on: devices with memory, a cost class and a cost factor, and the links between them.

use crate::{Error, ErrorKind};

/// The most devices a set may have: sets of devices are bits of a u64.
pub const MAX_DEVICES: usize = 64;

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// What timelines call it.
    pub name: String,
    /// How much memory it has; none means no limit.
    pub memory_bytes: Option<u64>,
    /// Which of the graph's cost classes applies ([`crate::Graph::cost_ns`]).
    pub class: usize,
    /// Costs are multiplied by this and rounded to the nearest nanosecond.
    pub cost_factor: f64,
}

/// A directed connection between two devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// In GB/s, which is bytes per nanosecond; infinite for transfers that cost only latency.
    pub bandwidth_gbs: f64,
    /// What every transfer costs, whatever its size.
    pub latency_ns: u64,
}

impl Link {
    /// Transfers that take no time: the paper's experiments.
    pub const FREE: Link = Link {
        bandwidth_gbs: f64::INFINITY,
        latency_ns: 0,
    };

    /// How long `bytes` take: latency plus size over bandwidth, rounded up.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        // The conversion saturates; by an infinite bandwidth the quotient is 0.
        self.latency_ns
            .saturating_add((bytes as f64 / self.bandwidth_gbs).ceil() as u64)
    }
}

/// The devices of a machine and the links between all pairs of them.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, Link};
///
/// let pcie = Link { bandwidth_gbs: 12.0, latency_ns: 5_000 };
/// let devices = DeviceSet::uniform(2, Some(16 << 30))?.with_link(pcie)?;
/// assert_eq!(devices.len(), 2);
/// assert_eq!(devices.link(0, 1).transfer_ns(1_200_000), 105_000);
/// assert!(DeviceSet::uniform(0, None).is_err());
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSet {
    devices: Vec<Device>,
    /// Row: sender; column: receiver.
    links: Vec<Link>,
}

impl DeviceSet {
    /// Equal devices of class 0 called `device 0`, `device 1`, ..., with free links.
    ///
    /// # Errors
    /// `Argument` for no devices or more than [`MAX_DEVICES`].
    pub fn uniform(n_devices: usize, memory_bytes: Option<u64>) -> Result<DeviceSet, Error> {
        // The count is checked before it becomes memory.
        let kept = n_devices.min(MAX_DEVICES + 1);
        let device = |idx| Device {
            name: format!("device {idx}"),
            memory_bytes,
            class: 0,
            cost_factor: 1.0,
        };
        DeviceSet::new((0..kept).map(device).collect())
    }

    /// These devices, with free links.
    ///
    /// # Errors
    /// `Argument` for no devices, more than [`MAX_DEVICES`], or a cost factor that is not positive and finite.
    pub fn new(devices: Vec<Device>) -> Result<DeviceSet, Error> {
        let n = devices.len();
        if n == 0 || n > MAX_DEVICES {
            let found = if n == 0 {
                "no devices"
            } else {
                "too many devices"
            };
            return Err(argument(format!(
                "{found}; from 1 to {MAX_DEVICES} are possible"
            )));
        }
        for device in &devices {
            if !(device.cost_factor > 0.0 && device.cost_factor.is_finite()) {
                return Err(argument(format!(
                    "the cost factor of `{}` is {}; it must be positive and finite",
                    device.name, device.cost_factor
                )));
            }
        }
        Ok(DeviceSet {
            devices,
            links: vec![Link::FREE; n * n],
        })
    }

    /// The same devices with `link` between all pairs.
    ///
    /// # Errors
    /// `Argument` for a bandwidth that is not positive.
    pub fn with_link(mut self, link: Link) -> Result<DeviceSet, Error> {
        check_link(link)?;
        self.links.fill(link);
        Ok(self)
    }

    /// Sets the link from one device to another.
    ///
    /// # Errors
    /// `Argument` for a bandwidth that is not positive or a device that does not exist.
    pub fn set_link(&mut self, from: usize, to: usize, link: Link) -> Result<(), Error> {
        check_link(link)?;
        let n = self.len();
        if from >= n || to >= n {
            return Err(argument(format!(
                "a link {from} -> {to} between devices 0..{n} is not possible"
            )));
        }
        self.links[from * n + to] = link;
        Ok(())
    }

    /// How many devices there are, at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// True when exchanging any two devices changes nothing: one class, cost factor, memory and link for all.
    #[must_use]
    pub fn are_interchangeable(&self) -> bool {
        let first = &self.devices[0];
        let equal = |d: &Device| {
            Device {
                name: first.name.clone(),
                ..d.clone()
            } == *first
        };
        let n = self.len();
        let mut links = (0..n * n)
            .filter(|at| at / n != at % n)
            .map(|at| self.links[at]);
        let link = links.next();
        self.devices.iter().all(equal) && links.all(|other| Some(other) == link)
    }

    /// The first devices and the links between them: what runs on them runs on all.
    ///
    /// # Errors
    /// `Argument` for none, or more than there are.
    pub fn first(&self, n_devices: usize) -> Result<DeviceSet, Error> {
        let n = self.len();
        if n_devices == 0 || n_devices > n {
            return Err(argument(format!(
                "the first {n_devices} of {n} devices: expected from 1 to {n}"
            )));
        }
        let links = (0..n_devices).flat_map(|from| {
            let row = from * n;
            self.links[row..row + n_devices].iter().copied()
        });
        Ok(DeviceSet {
            devices: self.devices[..n_devices].to_vec(),
            links: links.collect(),
        })
    }

    /// The devices in order.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The link from one device to another.
    ///
    /// # Panics
    /// When a device does not exist.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Link {
        assert!(to < self.len(), "device {to} of {}", self.len());
        self.links[from * self.len() + to]
    }
}

fn check_link(link: Link) -> Result<(), Error> {
    // NaN is not greater than 0.
    if link.bandwidth_gbs > 0.0 {
        return Ok(());
    }
    Err(argument(format!(
        "a bandwidth of {} GB/s; it must be positive (infinite for free transfers)",
        link.bandwidth_gbs
    )))
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, message)
}
