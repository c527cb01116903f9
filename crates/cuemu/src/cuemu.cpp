// Runs CUDA kernels on the CPU: each CUDA thread of a block is a fiber, blocks run one after
// another. A fiber runs until it waits at a barrier or for other lanes of its warp, or returns;
// then the next ready lane of the same warp runs (its stack is likely in the cache), then the next
// warp. The order of blocks, warps and lanes follows from the seed alone; seed 0 is the order of
// their indices.
#include "cuemu.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>

#include "fiber.h"
#include "race.h"

// Bounds of the static __shared__ memory that no file has for itself (templates and inline
// functions), and of the kernel table; set by the linker. An empty library has no table.
extern "C" {
extern unsigned char cuemu_shared_begin[] __attribute__((visibility("hidden")));
extern unsigned char cuemu_shared_end[] __attribute__((visibility("hidden")));
extern const cuemu::Kernel *const __start_cuemu_kernels[] __attribute__((weak, visibility("hidden")));
extern const cuemu::Kernel *const __stop_cuemu_kernels[] __attribute__((weak, visibility("hidden")));
}

namespace cuemu {

Visible visible;

namespace {

constexpr unsigned MAX_THREADS = 1024, LANES = 32, MAX_WARPS = MAX_THREADS / LANES;
constexpr unsigned MAX_BLOCK[3] = {1024, 1024, 64};
constexpr unsigned MAX_GRID[3] = {0x7fffffff, 0xffff, 0xffff};
constexpr unsigned MAX_SHARED_BYTES = 227 * 1024; // compute capability 9.0 and 10.0
constexpr size_t PAGE = 4096;
#ifdef CUEMU_ADDRESS
constexpr size_t STACK_BYTES = 256 * 1024; // red zones around every local array
#else
constexpr size_t STACK_BYTES = 64 * 1024;
#endif

// A thread that was made ready keeps the state it waited in until it runs.
enum class State : uint8_t { fresh, running, in_collective, at_barrier, returned };

struct Thread {
    Fiber fiber;
    State state;
    uint8_t lane;
    uint16_t stack;
    uint3 index;
    // of the collective or barrier it waits at
    Collective kind;
    unsigned mask;
    int argument, width;
    uint64_t operand, result;
    Site site;
};

// Lanes that meet in one collective: those of `mask`, of which `arrived` are here.
struct Rendezvous {
    unsigned mask, arrived;
    Collective kind;
};

struct Warp {
    Thread *threads;
    unsigned live;       // lanes that have not returned
    unsigned live_slots; // the same lanes, as places in the order of running
    unsigned ready;      // places
    unsigned n_meetings;
    Rendezvous meetings[LANES]; // masks are disjoint
};

struct Meeting { // all threads of the block
    unsigned n_arrived, n_true;
    int result;
    Barrier kind;
    Site site;
};

struct Launch {
    const Kernel *kernel;
    unsigned n_threads, n_warps;
    unsigned n_live;
    unsigned ready_warps; // places
    uint8_t lane_at[LANES], slot_of_lane[LANES]; // the order of running, and its inverse
    uint8_t warp_at[MAX_WARPS], slot_of_warp[MAX_WARPS];
    Meeting meeting;
    bool failed;
    char *error;
    size_t error_bytes;
};

Thread threads[MAX_THREADS];
Warp warps[MAX_WARPS];
Launch launch;
Fiber home;
Thread *current;
Warp *current_warp;

// ---- stacks

// One mapping for all, each stack above a page that faults, touched only where it is used.
unsigned char *arena;
uint16_t free_stacks[MAX_THREADS];
unsigned n_free_stacks;

bool map_stacks() {
    if (arena != nullptr) return true;
    const size_t stride = PAGE + STACK_BYTES;
    void *mapped = mmap(nullptr, MAX_THREADS * stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    arena = static_cast<unsigned char *>(mapped);
    for (size_t i = 0; i < MAX_THREADS; ++i) mprotect(arena + i * stride, PAGE, PROT_NONE);
    return true;
}

void free_all_stacks() {
    n_free_stacks = MAX_THREADS;
    for (unsigned i = 0; i < MAX_THREADS; ++i) free_stacks[i] = uint16_t(MAX_THREADS - 1 - i);
}

[[noreturn]] void thread_main();

void take_stack(Thread &thread) {
    thread.stack = free_stacks[--n_free_stacks];
    const Stack stack = {arena + thread.stack * (PAGE + STACK_BYTES) + PAGE, STACK_BYTES};
    // Tops at one address modulo the page would share few sets of the first cache.
    prepare(thread.fiber, stack, thread.stack % LANES * 320, thread_main);
}

// ---- errors

void describe(const char *format, va_list arguments, const Thread *thread) {
    if (launch.failed) return;
    launch.failed = true;
    char *to = launch.error;
    size_t left = launch.error_bytes;
    const auto advance = [&](int written) {
        const size_t step = written < 0 ? 0 : size_t(written) < left ? size_t(written) : left;
        to += step;
        left -= step;
    };
    if (thread != nullptr) {
        const uint3 b = visible.block_idx, t = thread->index;
        advance(snprintf(to, left, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", launch.kernel->name, b.x,
                         b.y, b.z, t.x, t.y, t.z));
    }
    advance(vsnprintf(to, left, format, arguments));
}

__attribute__((format(printf, 1, 2))) int refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    describe(format, arguments, nullptr);
    va_end(arguments);
    return 1;
}

// Leaves the block for good; its other fibers are abandoned where they wait.
[[noreturn]] void go_home() {
    switch_fiber(current->fiber, home, true);
    __builtin_unreachable();
}

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    describe(format, arguments, current);
    va_end(arguments);
    go_home();
}

// An error names a file without its folders.
const char *file_of(Site site) {
    const char *slash = strrchr(site.file, '/');
    return slash != nullptr ? slash + 1 : site.file;
}

const char *name_of(Collective kind) {
    static const char *const names[] = {
        "__syncwarp",        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync", "__shfl_xor_sync",
        "__ballot_sync",     "__any_sync",        "__all_sync",        "__match_any_sync", "__reduce_add_sync",
        "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync",
    };
    return names[unsigned(kind)];
}

void describe_wait(const Thread &thread, char *to, size_t bytes) {
    const uint3 t = thread.index;
    if (thread.state == State::at_barrier)
        snprintf(to, bytes, "thread (%u, %u, %u) waits at the barrier at %s:%d", t.x, t.y, t.z, file_of(thread.site),
                 thread.site.line);
    else
        snprintf(to, bytes, "thread (%u, %u, %u) waits in %s with mask 0x%08x at %s:%d", t.x, t.y, t.z,
                 name_of(thread.kind), thread.mask, file_of(thread.site), thread.site.line);
}

// Every thread waits. Names one that waits in a collective, if any, and one that waits elsewhere.
[[noreturn]] void deadlock() {
    const Thread *first = nullptr, *second = nullptr;
    for (unsigned i = 0; i < launch.n_threads; ++i)
        if (threads[i].state == State::in_collective && first == nullptr) first = &threads[i];
    for (unsigned i = 0; i < launch.n_threads; ++i) {
        const Thread &thread = threads[i];
        if (thread.state != State::in_collective && thread.state != State::at_barrier) continue;
        if (first == nullptr) first = &thread;
        const bool elsewhere = thread.state != first->state || thread.mask != first->mask || thread.kind != first->kind;
        if (second == nullptr && elsewhere) second = &thread;
    }
    char here[512] = "", there[512] = "";
    if (first != nullptr) describe_wait(*first, here, sizeof here);
    if (second != nullptr) describe_wait(*second, there, sizeof there);
    current = const_cast<Thread *>(first);
    fail("deadlock: %s%s%s", here, second != nullptr ? "; " : "", there);
}

// ---- the choice of the next thread

// Null: none is ready.
Thread *next_ready() {
    if (current_warp->ready == 0) {
        launch.ready_warps &= ~(1u << launch.slot_of_warp[current_warp - warps]);
        if (launch.ready_warps == 0) return nullptr;
        current_warp = &warps[launch.warp_at[__builtin_ctz(launch.ready_warps)]];
    }
    const unsigned slot = unsigned(__builtin_ctz(current_warp->ready));
    current_warp->ready &= current_warp->ready - 1;
    return &current_warp->threads[launch.lane_at[slot]];
}

void run(Thread &next) {
    current = &next;
    visible.thread_idx = next.index;
    visible.n_atomics = 0;
}

// Lets others run until someone has made this thread ready.
void wait() {
    Thread &self = *current;
    Thread *next = next_ready();
    if (next == nullptr) deadlock();
    if (next->state == State::fresh) take_stack(*next);
    next->state = State::running;
    run(*next);
    switch_fiber(self.fiber, next->fiber, false);
}

// ---- warp collectives

// What a shuffle's lane reads: its own value where CUDA says so; where CUDA leaves it undefined
// (the source is not in the mask, or has returned), all bits set, which is a NaN.
uint64_t shuffled(const Warp &warp, const Rendezvous &meeting, const Thread &thread) {
    const int lane = thread.lane, width = thread.width, first = lane & ~(width - 1), end = first + width;
    const int argument = thread.argument & 31; // PTX takes five bits
    int source;
    switch (thread.kind) {
    case Collective::shfl: source = first + (argument & (width - 1)); break;
    case Collective::shfl_up: source = lane - argument < first ? lane : lane - argument; break;
    case Collective::shfl_down: source = lane + argument >= end ? lane : lane + argument; break;
    default: source = (lane ^ argument) >= end ? lane : lane ^ argument; break; // may reach a lower group
    }
    if ((meeting.arrived >> source & 1) == 0) return ~uint64_t(0);
    return warp.threads[source].operand;
}

uint64_t matching(const Warp &warp, const Rendezvous &meeting, uint64_t operand) {
    uint64_t lanes = 0;
    for (unsigned left = meeting.arrived; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(__builtin_ctz(left));
        if (warp.threads[lane].operand == operand) lanes |= uint64_t(1) << lane;
    }
    return lanes;
}

uint64_t reduced(const Warp &warp, const Rendezvous &meeting) {
    unsigned left = meeting.arrived;
    const Thread &first = warp.threads[__builtin_ctz(left)];
    uint64_t result = meeting.kind == Collective::ballot || meeting.kind == Collective::any ||
                              meeting.kind == Collective::all
                          ? matching(warp, meeting, 1)
                          : first.operand;
    if (meeting.kind == Collective::any) return result != 0;
    if (meeting.kind == Collective::all) return result == meeting.arrived;
    if (meeting.kind == Collective::ballot) return result;
    for (left &= left - 1; left != 0; left &= left - 1) {
        const uint64_t operand = warp.threads[__builtin_ctz(left)].operand;
        // Signed operands come sign-extended, unsigned ones zero-extended: one comparison serves both.
        const bool less = int64_t(operand) < int64_t(result);
        switch (meeting.kind) {
        case Collective::reduce_add: result += operand; break;
        case Collective::reduce_min: result = less ? operand : result; break;
        case Collective::reduce_max: result = less ? result : operand; break;
        case Collective::reduce_and: result &= operand; break;
        case Collective::reduce_or: result |= operand; break;
        default: result ^= operand; break;
        }
    }
    return result;
}

bool is_shuffle(Collective kind) { return kind >= Collective::shfl && kind <= Collective::shfl_xor; }

// Gives every lane its result and makes all ready but the running one. The meeting is over.
void finish(Warp &warp, Rendezvous &meeting) {
    const bool same_for_all = !is_shuffle(meeting.kind) && meeting.kind != Collective::match_any;
    const uint64_t common = same_for_all && meeting.kind != Collective::syncwarp ? reduced(warp, meeting) : 0;
    for (unsigned left = meeting.arrived; left != 0; left &= left - 1) {
        Thread &thread = warp.threads[__builtin_ctz(left)];
        thread.result = same_for_all                            ? common
                        : meeting.kind == Collective::match_any ? matching(warp, meeting, thread.operand)
                                                                : shuffled(warp, meeting, thread);
        if (&thread == current) continue;
        warp.ready |= 1u << launch.slot_of_lane[thread.lane];
    }
    if (meeting.kind == Collective::syncwarp)
        race::warp_synchronised(uint32_t(&warp - warps), meeting.arrived);
    meeting = warp.meetings[--warp.n_meetings];
}

// The meeting that lanes of `mask` have begun, or a new one. Lanes that disagree end the launch.
Rendezvous &meeting_of(Warp &warp, Collective kind, unsigned mask, Site site) {
    for (unsigned i = 0; i < warp.n_meetings; ++i) {
        Rendezvous &meeting = warp.meetings[i];
        if (meeting.mask == mask && meeting.kind == kind) return meeting;
        if ((meeting.mask & mask) == 0) continue;
        char other[512];
        describe_wait(warp.threads[__builtin_ctz(meeting.arrived)], other, sizeof other);
        fail("calls %s with mask 0x%08x at %s:%d while %s: lanes of one mask call the same function with the same mask",
             name_of(kind), mask, file_of(site), site.line, other);
    }
    Rendezvous &meeting = warp.meetings[warp.n_meetings++];
    meeting = {mask, 0, kind};
    return meeting;
}

// ---- barriers

void release_barrier() {
    Meeting &meeting = launch.meeting;
    meeting.result = meeting.kind == Barrier::count         ? int(meeting.n_true)
                     : meeting.kind == Barrier::conjunction ? meeting.n_true == meeting.n_arrived
                                                            : meeting.n_true != 0;
    for (unsigned i = 0; i < launch.n_warps; ++i) {
        if (warps[i].live == 0) continue;
        warps[i].ready = warps[i].live_slots;
        launch.ready_warps |= 1u << launch.slot_of_warp[i];
    }
    race::block_synchronised();
    meeting.n_arrived = meeting.n_true = 0;
}

bool same(Site a, Site b) { return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0); }

// ---- the life of a thread

// The running thread has returned: those who waited for it alone go on.
void retire() {
    Warp &warp = *current_warp;
    current->state = State::returned;
    warp.live &= ~(1u << current->lane);
    warp.live_slots &= ~(1u << launch.slot_of_lane[current->lane]);
    --launch.n_live;
    for (unsigned i = warp.n_meetings; i-- > 0;)
        if (warp.meetings[i].arrived == (warp.meetings[i].mask & warp.live)) finish(warp, warp.meetings[i]);
    if (launch.n_live != 0 && launch.meeting.n_arrived == launch.n_live) release_barrier();
}

// A returned thread leaves its stack to the next fresh one, so that a kernel that never waits uses one stack.
[[noreturn]] void thread_main() {
    entered(home);
    for (;;) {
        launch.kernel->call(visible.arguments);
        retire();
        Thread &self = *current, *const next = next_ready();
        if (next == nullptr) {
            if (launch.n_live != 0) deadlock();
            free_stacks[n_free_stacks++] = self.stack;
            go_home();
        }
        const bool fresh = next->state == State::fresh;
        next->state = State::running;
        run(*next);
        if (fresh) {
            next->fiber.stack = self.fiber.stack;
            next->stack = self.stack;
            continue;
        }
        free_stacks[n_free_stacks++] = self.stack;
        switch_fiber(self.fiber, next->fiber, true);
        __builtin_unreachable();
    }
}

// ---- blocks and launches

struct SplitMix64 { // Steele, Lea and Flood 2014
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    uint64_t below(uint64_t n) { return uint64_t((unsigned __int128)(next()) * n >> 64); }
};

void choose_order(uint8_t *at, uint8_t *place, unsigned n, SplitMix64 *random) {
    for (unsigned i = 0; i < n; ++i) at[i] = uint8_t(i);
    if (random != nullptr)
        for (unsigned i = n; i > 1; --i) std::swap(at[i - 1], at[random->below(i)]);
    for (unsigned i = 0; i < n; ++i) place[at[i]] = uint8_t(i);
}

void fill_with_nan(unsigned char *begin, unsigned char *end) {
#ifdef CUEMU_ADDRESS
    // Word by word, for the bytes between two variables are red zones, which memset would report.
    for (volatile uint64_t *word = reinterpret_cast<uint64_t *>(begin); word < reinterpret_cast<uint64_t *>(end);)
        *word++ = ~uint64_t(0);
#else
    memset(begin, 0xff, size_t(end - begin));
#endif
}

void begin_block(SplitMix64 *random) {
    choose_order(launch.lane_at, launch.slot_of_lane, LANES, random);
    choose_order(launch.warp_at, launch.slot_of_warp, launch.n_warps, random);
    launch.n_live = launch.n_threads;
    launch.meeting = {};
    launch.ready_warps = launch.n_warps == 32 ? ~0u : (1u << launch.n_warps) - 1;
    for (unsigned w = 0; w < launch.n_warps; ++w) {
        Warp &warp = warps[w];
        warp.threads = threads + w * LANES;
        warp.live = warp.live_slots = 0;
        const unsigned lanes = launch.n_threads - w * LANES < LANES ? launch.n_threads - w * LANES : LANES;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            warp.threads[lane].state = State::fresh;
            warp.live |= 1u << lane;
            warp.live_slots |= 1u << launch.slot_of_lane[lane];
        }
        warp.ready = warp.live_slots;
        warp.n_meetings = 0;
    }
    race::block_begins(launch.n_threads);
}

void run_block(SplitMix64 *random, uint32_t shared_bytes) {
    fill_with_nan(cuemu_shared_begin, cuemu_shared_end);
    fill_with_nan(launch.kernel->shared_begin, launch.kernel->shared_end);
    memset(visible.dynamic_shared, 0xff, shared_bytes);
    begin_block(random);
    current_warp = &warps[launch.warp_at[0]];
    Thread &first = *next_ready();
    take_stack(first);
    first.state = State::running;
    run(first);
    switch_fiber(home, first.fiber, false);
}

// Each block once, in an order that costs no memory: steps of a length coprime to the number of blocks.
void run_grid(const uint32_t grid[3], uint32_t shared_bytes, uint64_t seed) {
    const uint64_t n_blocks = uint64_t(grid[0]) * grid[1] * grid[2];
    SplitMix64 random = {seed};
    uint64_t step = 1, block = 0;
    if (seed != 0) {
        block = random.below(n_blocks);
        do step = 1 + random.below(n_blocks);
        while (std::gcd(step, n_blocks) != 1);
    }
    for (uint64_t i = 0; i < n_blocks && !launch.failed; ++i) {
        visible.block_idx = {unsigned(block % grid[0]), unsigned(block / grid[0] % grid[1]),
                             unsigned(block / grid[0] / grid[1])};
        run_block(seed != 0 ? &random : nullptr, shared_bytes);
        block = (block + step) % n_blocks; // both under 2^63
    }
}

void set_threads(const uint32_t block[3]) {
    launch.n_threads = block[0] * block[1] * block[2];
    launch.n_warps = (launch.n_threads + LANES - 1) / LANES;
    for (unsigned i = 0; i < launch.n_threads; ++i) {
        threads[i].lane = uint8_t(i % LANES);
        threads[i].index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
    }
}

unsigned n_kernels() { return unsigned(__stop_cuemu_kernels - __start_cuemu_kernels); }

const Kernel *find_kernel(const char *name) {
    for (unsigned i = 0; i < n_kernels(); ++i)
        if (strcmp(__start_cuemu_kernels[i]->name, name) == 0) return __start_cuemu_kernels[i];
    return nullptr;
}

// 0, or the error is written.
int check_shape(const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes) {
    const char *name = launch.kernel->name;
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
    if (n_threads > launch.kernel->max_threads)
        return refuse("kernel %s: a block of %llu threads; its __launch_bounds__ are %u", name,
                      (unsigned long long)n_threads, launch.kernel->max_threads);
    if (shared_bytes > MAX_SHARED_BYTES)
        return refuse("kernel %s: %u bytes of dynamic shared memory; at most %u", name, shared_bytes, MAX_SHARED_BYTES);
    return 0;
}

// Kernels read copies, so that the caller's memory is none of theirs.
int copy_arguments(void **args, uint32_t n_args) {
    const Kernel &kernel = *launch.kernel;
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

// ---- what kernels call

uint64_t collective(Collective kind, unsigned mask, uint64_t operand, int argument, int width, Site site) {
    Thread &self = *current;
    Warp &warp = *current_warp;
    const unsigned bit = 1u << self.lane;
    if ((mask & bit) == 0)
        fail("calls %s with mask 0x%08x, which lacks its own lane %u, at %s:%d", name_of(kind), mask, self.lane,
             file_of(site), site.line);
    if (width < 1 || width > 32 || (width & (width - 1)) != 0)
        fail("calls %s with width %d, which is no power of two up to 32, at %s:%d", name_of(kind), width, file_of(site),
             site.line);
    Rendezvous &meeting = meeting_of(warp, kind, mask, site);
    self.kind = kind;
    self.mask = mask;
    self.operand = operand;
    self.argument = argument;
    self.width = width;
    self.site = site;
    meeting.arrived |= bit;
    if (meeting.arrived == (mask & warp.live)) {
        finish(warp, meeting);
        return self.result;
    }
    self.state = State::in_collective;
    wait();
    return self.result;
}

int barrier(Barrier kind, bool predicate, Site site) {
    Meeting &meeting = launch.meeting;
    if (meeting.n_arrived == 0) {
        meeting.kind = kind;
        meeting.site = site;
    } else if (meeting.kind != kind || !same(meeting.site, site)) {
        fail("reaches the barrier at %s:%d while others of its block wait at the barrier at %s:%d", file_of(site),
             site.line, file_of(meeting.site), meeting.site.line);
    }
    meeting.n_true += predicate;
    ++meeting.n_arrived;
    if (meeting.n_arrived == launch.n_live) {
        release_barrier();
        // The running thread goes on; it is not among those to be run.
        current_warp->ready &= ~(1u << launch.slot_of_lane[current->lane]);
        return meeting.result;
    }
    current->site = site;
    current->state = State::at_barrier;
    wait();
    return launch.meeting.result;
}

void fence() { race::thread_fence(); }

void trap(Site site) { fail("__trap at %s:%d", file_of(site), site.line); }

void spins() {
    fail("spins: %u atomic accesses without a barrier; threads run one after another, so what it waits for cannot come",
         MAX_ATOMICS);
}

unsigned lane() { return current->lane; }

#ifdef CUEMU_RACE
unsigned running_thread() { return unsigned(current - threads); }

LocalMemory local_memory(const void *at) {
    const size_t of_own = size_t(static_cast<const unsigned char *>(at) - current->fiber.stack.bottom);
    if (of_own < STACK_BYTES) return LocalMemory::own;
    const size_t of_arena = size_t(static_cast<const unsigned char *>(at) - arena);
    return of_arena < MAX_THREADS * (PAGE + STACK_BYTES) ? LocalMemory::of_another : LocalMemory::none;
}

uint3 thread_index(unsigned thread) { return threads[thread].index; }

void fail_in_thread(const char *text) { fail("%s", text); }
#endif

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
                              void **args, uint32_t n_args, uint64_t seed, char *error, size_t error_bytes) {
    using namespace cuemu;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    launch.failed = false;
    launch.error = error;
    launch.error_bytes = error_bytes;
    if (error_bytes != 0) error[0] = '\0';
    launch.kernel = find_kernel(name);
    if (launch.kernel == nullptr) return refuse("no kernel is named %s", name);
    if (check_shape(grid, block, shared_bytes) != 0 || copy_arguments(args, n_args) != 0) return 1;
    if (!map_stacks()) return refuse("no memory for the stacks of %u threads", MAX_THREADS);
    visible.grid_dim = dim3(grid[0], grid[1], grid[2]);
    visible.block_dim = dim3(block[0], block[1], block[2]);
    visible.dynamic_shared = static_cast<unsigned char *>(allocate(shared_bytes));
    if (visible.dynamic_shared == nullptr) return refuse("no memory for %u bytes of shared memory", shared_bytes);
    set_threads(block);
    free_all_stacks(); // an error leaves some taken
    home = Fiber{}; // of whichever thread calls
    if (race::launch_begins(*launch.kernel, {cuemu_shared_begin, cuemu_shared_end}, shared_bytes))
        run_grid(grid, shared_bytes, seed);
    else
        refuse("no memory to watch shared memory with");
    free(visible.dynamic_shared);
    return launch.failed ? 1 : 0;
}
