//! What an op of an ONNX model costs: the time of a launch, then that of its arithmetic or of its bytes, whichever is longer.
//!
//! The constants are those of the graphs that this project's data was made with, so that imported models compare with them:
//! a V100-class device, 15.7 TFLOP/s in f32 and 900 GB/s, and 5 us for a launch. They are an estimate, not a measurement. A
//! multiplication and an addition are two FLOPs; inputs are read once and outputs written once.

/// Nanoseconds before an op's work begins.
pub const LAUNCH_NS: u64 = 5_000;
/// Floating-point operations in a nanosecond.
pub const FLOPS_PER_NS: f64 = 15_700.0;
/// Bytes read or written in a nanosecond.
pub const BYTES_PER_NS: f64 = 900.0;

/// The cost of an op with that many floating-point operations and bytes, in nanoseconds.
///
/// ```
/// use shardgraph_costgraph::import::roofline;
/// // 4096 x 4096 x 4096: bound by arithmetic.
/// assert_eq!(roofline::cost_ns(2 << 36, 3 * (4 << 24)), 5_000 + 8_754_073);
/// // An addition of 2^20 numbers: bound by bytes.
/// assert_eq!(roofline::cost_ns(1 << 20, 3 * (4 << 20)), 5_000 + 13_981);
/// ```
#[must_use]
pub fn cost_ns(flops: u64, bytes: u64) -> u64 {
    let work_ns = (flops as f64 / FLOPS_PER_NS).max(bytes as f64 / BYTES_PER_NS);
    LAUNCH_NS + work_ns.round() as u64
}
