//! The long answer of `--version`: revision and vector instructions.

/// The version, the revision it was built from, and what it computes with here.
pub(crate) fn long() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let revision = option_env!("SHARDGRAPH_REVISION").unwrap_or("unknown");
    let simd = simd();
    format!("{version}\nrevision: {revision}\nvector instructions: {simd}")
}

/// The widest vector instructions of this processor that the host back end has code for.
#[cfg(target_arch = "x86_64")]
fn simd() -> &'static str {
    match (
        is_x86_feature_detected!("avx512f"),
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
    ) {
        (true, _) => "AVX-512",
        (false, true) => "AVX2 with FMA",
        (false, false) => "SSE2",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn simd() -> &'static str {
    "those of the target"
}
