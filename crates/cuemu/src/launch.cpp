// The library's C interface: the table of kernels, memory, and launches of whole grids.
#include <cstdlib>
#include <mutex>
#include <numeric>

#include "race.h"
#include "scheduler.h"

// Bounds of the static __shared__ memory that no file has for itself (templates and inline
// functions), and of the kernel table; set by the linker. An empty library has no table.
extern "C" {
extern unsigned char cuemu_shared_begin[] __attribute__((visibility("hidden")));
extern unsigned char cuemu_shared_end[] __attribute__((visibility("hidden")));
extern const cuemu::Kernel *const __start_cuemu_kernels[] __attribute__((weak, visibility("hidden")));
extern const cuemu::Kernel *const __stop_cuemu_kernels[] __attribute__((weak, visibility("hidden")));
}

namespace cuemu {
namespace {

constexpr unsigned MAX_BLOCK[3] = {1024, 1024, 64};
constexpr unsigned MAX_GRID[3] = {0x7fffffff, 0xffff, 0xffff};
constexpr unsigned MAX_SHARED_BYTES = 227 * 1024; // compute capability 9.0 and 10.0

void fill_with_nan(unsigned char *begin, unsigned char *end) {
#ifdef CUEMU_ADDRESS
    // Word by word, for the bytes between two variables are red zones, which memset would report.
    for (volatile uint64_t *word = reinterpret_cast<uint64_t *>(begin); word < reinterpret_cast<uint64_t *>(end);)
        *word++ = ~uint64_t(0);
#else
    memset(begin, 0xff, size_t(end - begin));
#endif
}

// Each block once, in an order that costs no memory: steps of a length coprime to the number of blocks.
void run_grid(const Kernel &kernel, const uint32_t grid[3], uint32_t shared_bytes, uint64_t seed) {
    const uint64_t n_blocks = uint64_t(grid[0]) * grid[1] * grid[2];
    SplitMix64 random = {seed};
    uint64_t step = 1, block = 0;
    if (seed != 0) {
        block = random.below(n_blocks);
        do step = 1 + random.below(n_blocks);
        while (std::gcd(step, n_blocks) != 1);
    }
    for (uint64_t i = 0; i < n_blocks && !error.is_set; ++i) {
        visible.block_idx = {unsigned(block % grid[0]), unsigned(block / grid[0] % grid[1]),
                             unsigned(block / grid[0] / grid[1])};
        fill_with_nan(cuemu_shared_begin, cuemu_shared_end);
        fill_with_nan(kernel.shared_begin, kernel.shared_end);
        memset(visible.dynamic_shared, 0xff, shared_bytes);
        run_block(seed != 0 ? &random : nullptr);
        block = (block + step) % n_blocks; // both under 2^63
    }
}

unsigned n_kernels() { return unsigned(__stop_cuemu_kernels - __start_cuemu_kernels); }

const Kernel *find_kernel(const char *name) {
    for (unsigned i = 0; i < n_kernels(); ++i)
        if (strcmp(__start_cuemu_kernels[i]->name, name) == 0) return __start_cuemu_kernels[i];
    return nullptr;
}

// 0, or the error is written.
int check_shape(const Kernel &kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes) {
    const char *name = kernel.name;
    for (int i = 0; i < 3; ++i) {
        if (grid[i] == 0 || grid[i] > MAX_GRID[i])
            return refuse("kernel %s: a grid of %u x %u x %u blocks; each is at least 1, at most %u x %u x %u", name,
                          grid[0], grid[1], grid[2], MAX_GRID[0], MAX_GRID[1], MAX_GRID[2]);
        if (block[i] == 0 || block[i] > MAX_BLOCK[i])
            return refuse("kernel %s: a block of %u x %u x %u threads; each is at least 1, at most %u x %u x %u", name,
                          block[0], block[1], block[2], MAX_BLOCK[0], MAX_BLOCK[1], MAX_BLOCK[2]);
    }
    const uint64_t n_threads = uint64_t(block[0]) * block[1] * block[2];
    if (n_threads > MAX_THREADS)
        return refuse("kernel %s: a block of %llu threads; at most %u", name, (unsigned long long)n_threads,
                      MAX_THREADS);
    if (n_threads > kernel.max_threads)
        return refuse("kernel %s: a block of %llu threads; its __launch_bounds__ are %u", name,
                      (unsigned long long)n_threads, kernel.max_threads);
    if (shared_bytes > MAX_SHARED_BYTES)
        return refuse("kernel %s: %u bytes of dynamic shared memory; at most %u", name, shared_bytes, MAX_SHARED_BYTES);
    return 0;
}

// Kernels read copies, so that the caller's memory is none of theirs.
int copy_arguments(const Kernel &kernel, void **args, uint32_t n_args) {
    if (n_args != kernel.n_parameters)
        return refuse("kernel %s takes %u arguments (%s), was given %u", kernel.name, kernel.n_parameters,
                      kernel.signature, n_args);
    for (uint32_t i = 0; i < n_args; ++i) {
        if (args[i] == nullptr) return refuse("kernel %s: argument %u is null", kernel.name, i);
        memcpy(&visible.values[i], args[i], kernel.parameter_bytes[i]);
        visible.arguments[i] = &visible.values[i];
    }
    return 0;
}

void *allocate(size_t bytes) {
    void *at = nullptr;
    if (posix_memalign(&at, 256, bytes) != 0) return nullptr; // cuMemAlloc's alignment; exact size, for ASan
    memset(at, 0xff, bytes);
    return at;
}

} // namespace
} // namespace cuemu

// ---- the library's interface, version 1

#define CUEMU_PUBLIC extern "C" __attribute__((visibility("default")))

CUEMU_PUBLIC uint32_t cuemu_abi_version() { return 1; }

// "plain", "address" or "race".
CUEMU_PUBLIC const char *cuemu_build() {
#if defined(CUEMU_RACE)
    return "race";
#elif defined(CUEMU_ADDRESS)
    return "address";
#else
    return "plain";
#endif
}

static std::mutex one_at_a_time;

// Filled with NaN; null when there is no memory.
CUEMU_PUBLIC void *cuemu_alloc(size_t bytes) {
    void *at = cuemu::allocate(bytes);
    if (at == nullptr) return nullptr;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    if (cuemu::race::allocated(at, bytes)) return at;
    free(at);
    return nullptr;
}

CUEMU_PUBLIC void cuemu_free(void *at) {
    {
        const std::lock_guard<std::mutex> lock(one_at_a_time);
        cuemu::race::freed(at);
    }
    free(at);
}

CUEMU_PUBLIC uint32_t cuemu_n_kernels() { return cuemu::n_kernels(); }

// Null past the last.
CUEMU_PUBLIC const char *cuemu_kernel_name(uint32_t i) {
    return i < cuemu::n_kernels() ? __start_cuemu_kernels[i]->name : nullptr;
}

CUEMU_PUBLIC const char *cuemu_kernel_signature(uint32_t i) {
    return i < cuemu::n_kernels() ? __start_cuemu_kernels[i]->signature : nullptr;
}

// Runs the whole grid; 0, or `error` says what stopped it (buffers then hold what was written so far).
CUEMU_PUBLIC int cuemu_launch(const char *name, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                              void **args, uint32_t n_args, uint64_t seed, char *error_text, size_t error_bytes) {
    using namespace cuemu;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    error = {error_text, error_bytes, false};
    if (error_bytes != 0) error_text[0] = '\0';
    const Kernel *kernel = find_kernel(name);
    if (kernel == nullptr) return refuse("no kernel is named %s", name);
    if (check_shape(*kernel, grid, block, shared_bytes) != 0 || copy_arguments(*kernel, args, n_args) != 0) return 1;
    if (!map_stacks()) return refuse("no memory for the stacks of %u threads", MAX_THREADS);
    visible.grid_dim = dim3(grid[0], grid[1], grid[2]);
    visible.block_dim = dim3(block[0], block[1], block[2]);
    visible.dynamic_shared = static_cast<unsigned char *>(allocate(shared_bytes));
    if (visible.dynamic_shared == nullptr) return refuse("no memory for %u bytes of shared memory", shared_bytes);
    set_block(*kernel, block);
    if (race::launch_begins(*kernel, {cuemu_shared_begin, cuemu_shared_end}, shared_bytes))
        run_grid(*kernel, grid, shared_bytes, seed);
    else
        refuse("no memory to watch shared memory with");
    free(visible.dynamic_shared);
    return error.is_set ? 1 : 0;
}
