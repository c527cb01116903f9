// One warp's 16 x 8 x 16 product on tensor cores, bf16 or fp16 in, f32 sums; the split of an f32 into bf16 parts; and
// the transposition of 8 x 8 numbers of 16 bits.
//
// Fragment layout (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"), with group = lane / 4 and
// t = lane % 4: a[0], a[1] hold rows group and group + 8 at columns 2 t, 2 t + 1; a[2], a[3] the same rows at columns
// 2 t + 8, 2 t + 9; b[0] holds rows 2 t, 2 t + 1 of column group, b[1] rows 2 t + 8, 2 t + 9; sum[0], sum[1] are row
// group at columns 2 t, 2 t + 1, sum[2], sum[3] row group + 8. The lower half of a register is the lower index.
#pragma once

#include "kernel.cuh"

namespace {

// The bits of the bf16 nearest to x, ties to even. NaN stays NaN; what is beyond the largest bf16 becomes infinite.
__device__ inline unsigned bf16_bits(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fc0u;
    }
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

__device__ inline float bf16_value(unsigned bits) { return __uint_as_float(bits << 16); }

#ifndef CUEMU

__device__ inline void mma_16x8x16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_16x8x16_f16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Lane 4 g + t gives columns 2 t, 2 t + 1 of row g, and gets rows 2 t, 2 t + 1 of column g; the lower half of a
// register is the lower number.
__device__ inline unsigned transposed_8x8(unsigned row) {
    unsigned column;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
    return column;
}

#else

// The twin: the same fragments, laid out in shared memory (8 warps at most) and summed in f32 in order of the inner
// index. Tensor cores align the 16 terms and cut them instead of rounding each sum, so the last bits differ.
template <class Value>
__device__ inline void mma_twin(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Value value) {
    __shared__ unsigned fragments[8][32][6];
    unsigned (&warp)[32][6] = fragments[threadIdx.x / 32u];
    const unsigned lane = threadIdx.x % 32u;
    const unsigned group = lane / 4u;
    const unsigned t = lane % 4u;
    for (unsigned i = 0; i < 4u; ++i) {
        warp[lane][i] = a[i];
    }
    warp[lane][4] = b[0];
    warp[lane][5] = b[1];
    __syncwarp();
    for (unsigned inner = 0; inner < 16u; ++inner) {
        const unsigned half = inner / 8u; // 0 for the inner indices 0..8, which a[0], a[1] and b[0] hold
        const unsigned pair = inner % 8u / 2u;
        const unsigned shift = 16u * (inner % 2u);
        const float upper = value((warp[4u * group + pair][2u * half] >> shift) & 0xffffu);
        const float lower = value((warp[4u * group + pair][2u * half + 1u] >> shift) & 0xffffu);
        const float left = value((warp[8u * t + pair][4u + half] >> shift) & 0xffffu);
        const float right = value((warp[8u * t + 4u + pair][4u + half] >> shift) & 0xffffu);
        sum[0] += upper * left;
        sum[1] += upper * right;
        sum[2] += lower * left;
        sum[3] += lower * right;
    }
    __syncwarp(); // read before the next product writes
}

__device__ inline void mma_16x8x16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_twin(sum, a, b, bf16_value);
}

__device__ inline void mma_16x8x16_f16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_twin(sum, a, b, [](unsigned bits) { return half_to_float(static_cast<unsigned short>(bits)); });
}

__device__ inline unsigned transposed_8x8(unsigned row) {
    const unsigned lane = threadIdx.x % 32u;
    const unsigned shift = 16u * (lane / 4u % 2u); // column g is in half g % 2 of the lanes with t = g / 2
    const unsigned low = __shfl_sync(0xffffffffu, row, 8u * (lane % 4u) + lane / 8u);
    const unsigned high = __shfl_sync(0xffffffffu, row, 8u * (lane % 4u) + 4u + lane / 8u);
    return ((low >> shift) & 0xffffu) | ((high >> shift) << 16);
}

#endif

} // namespace
