//! What an op of an ONNX model costs: the time of a launch, then that of its arithmetic or of its bytes, whichever is longer.
//!
//! An estimate, not a measurement. A multiplication and an addition are two FLOPs; inputs are read once and outputs written once.

/// A device as the roofline model has it.
///
/// # Source
/// Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Nanoseconds before an op's work begins.
    pub launch_ns: u64,
    /// Floating-point operations in a nanosecond.
    pub flops_per_ns: f64,
    /// Bytes read or written in a nanosecond.
    pub bytes_per_ns: f64,
}

impl Roofline {
    /// The device that this project's data was made for, so that imported models compare with it: 15.7 TFLOP/s in f32 and 900 GB/s,
    /// both in full, and 5 us for a launch.
    pub const V100: Roofline = Roofline {
        launch_ns: 5_000,
        flops_per_ns: 15_700.0,
        bytes_per_ns: 900.0,
    };

    /// The cost of an op with that many floating-point operations and bytes, in nanoseconds.
    ///
    /// ```
    /// use shardgraph_costgraph_io::Roofline;
    /// // 4096 x 4096 x 4096: bound by arithmetic.
    /// assert_eq!(Roofline::V100.cost_ns(2 << 36, 3 * (4 << 24)), 5_000 + 8_754_073);
    /// // An addition of 2^20 numbers: bound by bytes.
    /// assert_eq!(Roofline::V100.cost_ns(1 << 20, 3 * (4 << 20)), 5_000 + 13_981);
    /// ```
    #[must_use]
    pub fn cost_ns(&self, flops: u64, bytes: u64) -> u64 {
        let work_ns = (flops as f64 / self.flops_per_ns).max(bytes as f64 / self.bytes_per_ns);
        self.launch_ns + work_ns.round() as u64
    }
}
