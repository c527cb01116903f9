// Rows of `width` floats, summed or copied by teams of lanes: shared by the segment sums and the message kernels.
//
// A row is taken in vectors of W floats (4 where the width allows 16-byte accesses, else 1). The smallest power of two
// of lanes that covers a row forms a group; the groups of a team take the items of a segment in turn, and their sums are
// added in a fixed tree. The order of every sum is therefore a function of (segment length, width) alone.
#pragma once

#include "kernel.cuh"

namespace segments {

template <int W> struct Vector {
    float at[W];
};

template <int W> __device__ inline Vector<W> zero_vector() {
    Vector<W> v;
    for (int i = 0; i < W; ++i) v.at[i] = 0.0f;
    return v;
}

template <int W> __device__ inline Vector<W> load(const float *from) {
    Vector<W> v;
    if constexpr (W == 4) {
        const float4 f = *reinterpret_cast<const float4 *>(from);
        v.at[0] = f.x;
        v.at[1] = f.y;
        v.at[2] = f.z;
        v.at[3] = f.w;
    } else {
        for (int i = 0; i < W; ++i) v.at[i] = from[i];
    }
    return v;
}

template <int W> __device__ inline void store(float *to, const Vector<W> &v) {
    if constexpr (W == 4) {
        *reinterpret_cast<float4 *>(to) = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
    } else {
        for (int i = 0; i < W; ++i) to[i] = v.at[i];
    }
}

template <int W> __device__ inline void add_scaled(Vector<W> &sum, float factor, const Vector<W> &v) {
    for (int i = 0; i < W; ++i) sum.at[i] = fmaf(factor, v.at[i], sum.at[i]);
}

// Lanes in a group: the smallest power of two >= n_vectors, at most a warp.
__device__ inline unsigned group_lanes(unsigned n_vectors) {
    unsigned lanes = 1;
    while (lanes < n_vectors && lanes < 32) lanes <<= 1;
    return lanes;
}

// Adds the sums of the groups of a warp; every lane ends with the total of its column.
template <int W> __device__ inline void add_groups(Vector<W> &sum, unsigned lanes) {
    for (unsigned step = lanes; step < 32; step <<= 1)
        for (int i = 0; i < W; ++i) sum.at[i] += __shfl_xor_sync(0xffffffffu, sum.at[i], step);
}

} // namespace segments
