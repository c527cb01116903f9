// The start of a vertex-cover episode: the candidates and the largest degree of the state before any pick.
//
// Shapes: degree [n_nodes]; state: cover_loop.cuh, zero before the launch.
// Launch: BLOCK threads, any number of blocks.
// Determinism: integers only.
// Bytes: 4 n_nodes.

#include "kernel.cuh"

#include "cover_loop.cuh"

extern "C" __global__ void __launch_bounds__(256)
    cover_start(const unsigned *degree, unsigned n_nodes, unsigned *state) {
    unsigned max_degree = 0, n_candidates = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * cover::BLOCK;
    for (unsigned long long node = blockIdx.x * cover::BLOCK + threadIdx.x; node < n_nodes; node += step) {
        max_degree = degree[node] > max_degree ? degree[node] : max_degree;
        n_candidates += degree[node] > 0;
    }
    __syncwarp();
    cover::report_degrees(max_degree, n_candidates, state);
}
