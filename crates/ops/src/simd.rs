//! Loops compiled for several instruction sets; the one that this processor has is chosen at run time.

use std::sync::LazyLock;

use pulp::Arch;

/// The widest instruction set of this processor.
#[inline]
pub(crate) fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

// Loops inside of `dispatch` are compiled once for each instruction set. Their closures give away what they captured,
// so that they are inlined there: one that only borrows is called through a shim for the oldest processor.

/// `out = f(a, b)` element by element.
pub(crate) fn zip(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    let moved = (a, b, out, f);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (a, b, out, f) = moved;
            for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *out = f(a, b);
            }
        },
    );
}

/// `out = f(x)` element by element.
pub(crate) fn map(x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
    let moved = (x, out, f);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (x, out, f) = moved;
            for (out, &x) in out.iter_mut().zip(x) {
                *out = f(x);
            }
        },
    );
}

/// `x[i][..] = factors[i] * x[i][..]` for rows of `width` elements.
pub(crate) fn scale_rows(width: usize, factors: &[f32], x: &mut [f32]) {
    for (row, &factor) in x.chunks_exact_mut(width.max(1)).zip(factors) {
        row.iter_mut().for_each(|v| *v *= factor);
    }
}
