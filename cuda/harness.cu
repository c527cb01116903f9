// A program that runs one kernel file on its own: it allocates, checks the kernel against a plain loop on the
// processor, and times it. For work on a kernel where there is a GPU and an nvcc and nothing else:
//
//   nvcc -std=c++17 -O3 -Icuda -arch=native -DHARNESS_SGNS -o harness cuda/harness.cu && ./harness
//
// HARNESS_OPTIMISER, HARNESS_SPARSE or HARNESS_SGNS names the file: ops/optimiser.cu, ops/sparse_csr.cu or
// line/sgns.cu. The number of repeats is the only argument. A line each: kernel, work, milliseconds (the median of the
// repeats), rate. The exit code is 1 where a kernel differs from its plain loop.
//
// With HARNESS_EMULATED a C++ compiler makes the same program for the emulator's library, whose path is then the first
// argument: tests run the checks so, and HARNESS_PLANTED makes a plain loop wrong. `cargo xtask kernels` compiles each
// of the three.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef HARNESS_EMULATED
#include <dlfcn.h>
#elif defined(HARNESS_OPTIMISER)
#include "ops/optimiser.cu"
#elif defined(HARNESS_SPARSE)
#include "ops/sparse_csr.cu"
#elif defined(HARNESS_SGNS)
#include "line/sgns.cu"
#endif

namespace harness {

// ---- The device: memory, launches, times. Nothing here returns after an error.

#ifdef HARNESS_EMULATED
struct Emulator {
    void *(*alloc)(size_t);
    int (*launch)(const char *, const uint32_t *, const uint32_t *, uint32_t, void **, uint32_t, uint64_t, char *,
                  size_t);
} emulator;

void open(const char *path) {
    void *const library = dlopen(path, RTLD_NOW);
    if (library == nullptr) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    emulator.alloc = reinterpret_cast<void *(*)(size_t)>(dlsym(library, "cuemu_alloc"));
    emulator.launch = reinterpret_cast<decltype(emulator.launch)>(dlsym(library, "cuemu_launch"));
}

void *allocate(size_t bytes) { return emulator.alloc(bytes); }
void to_device(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void to_host(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

using Kernel = const char *;
#define KERNEL(name) #name

void launch(Kernel kernel, unsigned blocks, unsigned threads, std::vector<void *> args) {
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    char text[1024];
    const auto n = static_cast<uint32_t>(args.size());
    if (emulator.launch(kernel, grid, block, 0, args.data(), n, 1, text, sizeof text) == 0) return;
    fprintf(stderr, "%s: %s\n", kernel, text);
    exit(2);
}

template <class F> double milliseconds(F &&f) {
    f();
    return 0.0;
}
#else
void check(cudaError_t status, const char *call) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
    exit(2);
}

void *allocate(size_t bytes) {
    void *at = nullptr;
    check(cudaMalloc(&at, bytes), "cudaMalloc");
    return at;
}
void to_device(void *to, const void *from, size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}
void to_host(void *to, const void *from, size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

using Kernel = const void *;
#define KERNEL(name) reinterpret_cast<const void *>(&name)

void launch(Kernel kernel, unsigned blocks, unsigned threads, std::vector<void *> args) {
    check(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), args.data(), 0, nullptr), "cudaLaunchKernel");
}

template <class F> double milliseconds(F &&f) {
    cudaEvent_t first, last;
    check(cudaEventCreate(&first), "cudaEventCreate");
    check(cudaEventCreate(&last), "cudaEventCreate");
    check(cudaEventRecord(first), "cudaEventRecord");
    f();
    check(cudaEventRecord(last), "cudaEventRecord");
    check(cudaEventSynchronize(last), "cudaEventSynchronize");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, first, last), "cudaEventElapsedTime");
    check(cudaEventDestroy(first), "cudaEventDestroy");
    check(cudaEventDestroy(last), "cudaEventDestroy");
    return ms;
}
#endif

// An array on the device; never given back, since the program is short.
template <class T> struct Array {
    T *at;
    size_t n;
    explicit Array(const std::vector<T> &values)
        : at(static_cast<T *>(allocate(values.size() * sizeof(T)))), n(values.size()) {
        set(values);
    }
    void set(const std::vector<T> &values) const { to_device(at, values.data(), n * sizeof(T)); }
    std::vector<T> get() const {
        std::vector<T> values(n);
        to_host(values.data(), at, n * sizeof(T));
        return values;
    }
};

// ---- Numbers, comparisons, reports

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random {
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    unsigned below(uint64_t n) { return static_cast<unsigned>(next() % n); }
    float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }
    std::vector<float> floats(size_t n, float scale) {
        std::vector<float> values(n);
        for (float &value : values) value = scale * uniform();
        return values;
    }
};

#ifdef HARNESS_PLANTED
constexpr double PLANTED = HARNESS_PLANTED; // a factor of the plain loop's result
#else
constexpr double PLANTED = 1.0;
#endif

int n_wrong = 0;

void compare(const char *what, const std::vector<float> &given, const std::vector<double> &wanted, double tolerance) {
    double worst = 0.0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const double want = PLANTED * wanted[i];
        const double far = std::fabs(given[i] - want) / std::max(1.0, std::fabs(want));
        worst = far <= worst ? worst : far; // a NaN is the worst
    }
    const bool is_right = given.size() == wanted.size() && worst <= tolerance;
    printf("%-28s %s: %.2e of %.0e\n", what, is_right ? "right" : "WRONG", worst, tolerance);
    n_wrong += !is_right;
}

int n_repeats = 20;

// Runs it once, then times it; `work` is counted in `unit`.
template <class F> void time(const char *kernel, double work, const char *unit, F &&f) {
    f();
    std::vector<double> all;
    for (int i = 0; i < n_repeats; ++i) all.push_back(milliseconds(f));
    std::sort(all.begin(), all.end());
    const double ms = all[all.size() / 2];
    printf("%-28s %.3g %s, %.4f ms", kernel, work, unit, ms);
    if (ms > 0.0) printf(", %.3g %s/s", work / ms * 1e3, unit);
    printf("\n");
}

unsigned blocks_of(uint64_t n, unsigned each) { return static_cast<unsigned>((n + each - 1) / each); }

#ifdef HARNESS_EMULATED
constexpr bool IS_SMALL = true;
#else
constexpr bool IS_SMALL = false;
#endif

// ---- ops/optimiser.cu

#ifdef HARNESS_OPTIMISER
void run() {
    Random random{1};
    for (unsigned long long n : {1ull, 1023ull, IS_SMALL ? 4096ull : 1ull << 26}) {
        const auto params = random.floats(n, 1.0f), grad = random.floats(n, 1.0f), first = random.floats(n, 0.1f);
        auto second = random.floats(n, 0.1f);
        for (float &v : second) v = v * v;
        float rate = 0.01f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, correction1 = 0.271f,
              correction2 = 0.002997f;
        Array<float> p(params), g(grad), m(first), v(second);
        const auto step = [&] {
            launch(KERNEL(adam_step), blocks_of((n + 3) / 4, 256), 256,
                   {&p.at, &g.at, &m.at, &v.at, &n, &rate, &beta1, &beta2, &epsilon, &correction1, &correction2});
        };
        step();
        std::vector<double> wanted(n);
        for (size_t i = 0; i < n; ++i) {
            const double mi = double(beta1) * first[i] + (1.0 - double(beta1)) * grad[i];
            const double vi = double(beta2) * second[i] + (1.0 - double(beta2)) * grad[i] * grad[i];
            wanted[i] = params[i] - double(rate) * (mi / correction1) / (std::sqrt(vi / correction2) + epsilon);
        }
        compare("adam_step", p.get(), wanted, 1e-5);
        if (n > 4000) time("adam_step", 28.0 * double(n) * 1e-9, "GB", step);
    }
}

// ---- ops/sparse_csr.cu

#elif defined(HARNESS_SPARSE)
void run() {
    Random random{2};
    unsigned n_rows = IS_SMALL ? 61 : 21000, width = 32, states = 1, state_width = 32, first_row = 0;
    unsigned chunk = ~0u, flags = 0;
    const unsigned degree = IS_SMALL ? 9 : 3150;
    std::vector<unsigned long long> row_ptr{0};
    std::vector<unsigned> columns;
    for (unsigned row = 0; row < n_rows; ++row) {
        const unsigned n = row == 0 ? 0 : row == 1 ? 1 : degree;
        for (unsigned i = 0; i < n; ++i) columns.push_back(random.below(n_rows));
        row_ptr.push_back(columns.size());
    }
    const auto x = random.floats(size_t(n_rows) * width, 1.0f);
    Array<unsigned long long> ptr(row_ptr);
    Array<unsigned> ids(columns);
    Array<float> in(x), out(std::vector<float>(x.size(), 7.0f));
    const auto product = [&] {
        launch(KERNEL(sparse_csr_4x8_unit_fwd), blocks_of(n_rows, 8), 256,
               {&ptr.at, &ids.at, &in.at, &in.at, &in.at, &in.at, &in.at, &out.at, &n_rows, &width, &state_width,
                &states, &first_row, &chunk, &flags});
    };
    product();
    std::vector<double> wanted(x.size(), 0.0);
    for (unsigned row = 0; row < n_rows; ++row)
        for (auto i = row_ptr[row]; i < row_ptr[row + 1]; ++i)
            for (unsigned k = 0; k < width; ++k) wanted[size_t(row) * width + k] += x[size_t(columns[i]) * width + k];
    compare("sparse_csr_4x8_unit_fwd", out.get(), wanted, 1e-4);
    const double bytes = 132.0 * double(columns.size()) + (8.0 + 4.0 * width) * n_rows;
    time("sparse_csr_4x8_unit_fwd", bytes * 1e-9, "GB", product);
}

// ---- line/sgns.cu

#elif defined(HARNESS_SGNS)
// The draws of sgns.cuh, in plain C++.
struct Philox {
    unsigned c[4];
    Philox(uint64_t seed, uint64_t counter, unsigned slot, unsigned purpose)
        : c{unsigned(counter), unsigned(counter >> 32), slot, purpose} {
        unsigned k0 = unsigned(seed), k1 = unsigned(seed >> 32);
        for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
            const unsigned n0 = unsigned(p1 >> 32) ^ c[1] ^ k0, n2 = unsigned(p0 >> 32) ^ c[3] ^ k1;
            c[0] = n0, c[1] = unsigned(p1), c[2] = n2, c[3] = unsigned(p0);
        }
    }
};

unsigned drawn_from(const std::vector<unsigned> &table, const Philox &random) {
    const uint64_t n = table.size() / 2, product = random.c[0] * n + (random.c[1] * n >> 32);
    const unsigned index = unsigned(product >> 32);
    return unsigned(product) < table[2 * index] ? index : table[2 * index + 1];
}

void run() {
    Random random{3};
    unsigned n_nodes = IS_SMALL ? 50 : 1138499, dim = 128, n_negatives = 5, group = 1, zero = 0;
    unsigned long long n_edges = IS_SMALL ? 64 : 1 << 22, seed = 9, first_sample = 0, first_edge = 0, count = 64;
    float rate = 0.05f, slope = -0.0005f;
    std::vector<unsigned> edges, alias;
    for (size_t i = 0; i < 2 * n_edges; ++i) edges.push_back(random.below(n_nodes));
    for (unsigned i = 0; i < n_nodes; ++i) alias.insert(alias.end(), {unsigned(random.next()), random.below(n_nodes)});
    const auto vertices = random.floats(size_t(n_nodes) * dim, 0.2f),
               contexts = random.floats(size_t(n_nodes) * dim, 0.2f);
    Array<unsigned> pairs(edges), negatives(alias);
    Array<float> vertex(vertices), context(contexts);
    const auto step = [&](Kernel kernel, unsigned blocks, unsigned threads) {
        launch(kernel, blocks, threads,
               {&pairs.at, &n_edges, &negatives.at, &zero, &zero, &negatives.at, &n_nodes, &dim, &n_negatives, &group,
                &seed, &first_sample, &first_edge, &count, &rate, &slope, &vertex.at, &context.at});
    };
    // One warp takes the samples in order, as the plain loop does.
    step(KERNEL(sgns_order2_f32), 1, 32);
    std::vector<double> v(vertices.begin(), vertices.end()), c(contexts.begin(), contexts.end());
    for (unsigned long long i = 0; i < count; ++i) {
        double *const source = &v[size_t(edges[2 * i]) * dim];
        std::vector<size_t> targets{edges[2 * i + 1]};
        for (unsigned k = 0; k < n_negatives; ++k) targets.push_back(drawn_from(alias, Philox(seed, i, k, 0)));
        std::vector<double> gradient(dim, 0.0), factors;
        for (size_t k = 0; k < targets.size(); ++k) {
            double dot = 0.0;
            for (unsigned d = 0; d < dim; ++d) dot += source[d] * c[targets[k] * dim + d];
            factors.push_back((double(rate) + double(slope) * double(i)) * ((k == 0) - 1.0 / (1.0 + std::exp(-dot))));
            for (unsigned d = 0; d < dim; ++d) gradient[d] += factors[k] * c[targets[k] * dim + d];
        }
        for (size_t k = 0; k < targets.size(); ++k)
            for (unsigned d = 0; d < dim; ++d) c[targets[k] * dim + d] += factors[k] * source[d];
        for (unsigned d = 0; d < dim; ++d) source[d] += gradient[d];
    }
    compare("sgns_order2_f32, vertices", vertex.get(), v, 1e-5);
    compare("sgns_order2_f32, contexts", context.get(), c, 1e-5);
    if (IS_SMALL) return;
    count = n_edges;
    slope = 0.0f;
    time("sgns_order2_f32", double(count), "samples", [&] { step(KERNEL(sgns_order2_f32), 1u << 14, 128); });
    group = 16;
    time("sgns_order2_f32_shared5", double(count), "samples",
         [&] { step(KERNEL(sgns_order2_f32_shared5), 1u << 14, 128); });
    // Halves, all of them 0.1.
    const std::vector<unsigned short> halves(size_t(n_nodes) * dim, 0x2e66);
    Array<unsigned short> half_vertex(halves), half_context(halves);
    const auto half_step = [&](Kernel kernel) {
        launch(kernel, 1u << 14, 128,
               {&pairs.at, &n_edges, &negatives.at, &zero, &zero, &negatives.at, &n_nodes, &dim, &n_negatives, &group,
                &seed, &first_sample, &first_edge, &count, &rate, &slope, &half_vertex.at, &half_context.at});
    };
    time("sgns_order2_f16_shared5", double(count), "samples", [&] { half_step(KERNEL(sgns_order2_f16_shared5)); });
    time("sgns_order2_f16_tensor", double(count), "samples", [&] { half_step(KERNEL(sgns_order2_f16_tensor)); });
}
#else
#error "name a kernel file: HARNESS_OPTIMISER, HARNESS_SPARSE or HARNESS_SGNS"
#endif

} // namespace harness

int main(int n_args, char **args) {
    int next = 1;
#ifdef HARNESS_EMULATED
    if (n_args < 2) {
        fprintf(stderr, "usage: harness EMULATOR [REPEATS]\n");
        return 2;
    }
    harness::open(args[next++]);
#endif
    if (next < n_args) harness::n_repeats = std::max(1, atoi(args[next]));
    harness::run();
    return harness::n_wrong == 0 ? 0 : 1;
}
