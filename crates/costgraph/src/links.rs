//! Links by name: bandwidths and latencies that were measured between devices of today.

use crate::Link;

/// A link that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedLink {
    /// What command lines call it.
    pub name: &'static str,
    /// Bandwidth and latency.
    pub link: Link,
    /// What the numbers are and where they come from.
    pub source: &'static str,
}

/// The links with names, slowest first.
///
/// A latency is that of one copy as a program sees it, between the call and the arrival, not that of a single remote load.
///
/// ```
/// use shardgraph_costgraph::NAMED_LINKS;
/// let pcie = NAMED_LINKS.iter().find(|named| named.name == "pcie4").unwrap();
/// // 24 MB in a millisecond and the latency.
/// assert_eq!(pcie.link.transfer_ns(24_000_000), 1_010_000);
/// ```
pub const NAMED_LINKS: [NamedLink; 5] = [
    NamedLink {
        name: "ethernet100",
        link: link(11.5, 20_000),
        source: "100 Gbit/s (12.5 GB/s) less 8 % of framing, and 20 us of a message through a network library: estimates",
    },
    NamedLink {
        name: "pcie4",
        link: link(24.0, 10_000),
        source: "PCIe 4.0 x16 has 31.5 GB/s; copies between two cards reach about 24 each way, and 10 to 17 us through the host's \
                 memory (p2pBandwidthLatencyTest; github.com/NVIDIA/nccl/issues/1127)",
    },
    NamedLink {
        name: "pcie5",
        link: link(54.0, 6_000),
        source: "PCIe 5.0 x16 has 63 GB/s; 54.3 GB/s and 6.1 us under load between cards behind switches \
                 (github.com/lukealonso/p2pmark)",
    },
    NamedLink {
        name: "nvlink4",
        link: link(371.0, 5_000),
        source: "450 GB/s each way on HGX H100, of which copies reach 371 to 377 (github.com/NVIDIA/nccl/issues/1264); 5 us for the \
                 launch of a copy: an estimate",
    },
    NamedLink {
        name: "unlimited",
        link: Link::FREE,
        source: "transfers take no time, as in the experiments of the REGAL paper",
    },
];

const fn link(bandwidth_gbs: f64, latency_ns: u64) -> Link {
    Link {
        bandwidth_gbs,
        latency_ns,
    }
}
