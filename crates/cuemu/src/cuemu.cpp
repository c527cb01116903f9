// Runs CUDA kernels on the CPU: each CUDA thread of a block is a fiber, blocks run one after
// another. A fiber runs until it waits at a barrier or for other lanes of its warp, or returns;
// then the next ready lane of the same warp runs (its stack is likely in the cache), then the next
// warp. The order of blocks, warps and lanes follows from the seed alone; seed 0 is the order of
// their indices.
#include "cuemu.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>

#include "fiber.h"
#include "race.h"
#include "scheduler.h"

namespace cuemu {

Visible visible;
Error error;

namespace {

constexpr unsigned LANES = 32, MAX_WARPS = MAX_THREADS / LANES;
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
struct WarpMeeting {
    unsigned mask, arrived;
    Collective kind;
};

struct Warp {
    Thread *threads;
    unsigned live;       // lanes that have not returned
    unsigned live_slots; // the same lanes; a slot is a place in the order of running
    unsigned ready;      // slots
    unsigned n_meetings;
    WarpMeeting meetings[LANES]; // masks are disjoint
};

struct BlockMeeting { // all threads, at a barrier
    unsigned n_arrived, n_true;
    int result;
    Barrier kind;
    Site site;
};

struct Block { // the running one
    const Kernel *kernel;
    unsigned n_threads, n_warps;
    unsigned n_live;
    unsigned ready_warps; // slots
    uint8_t lane_at[LANES], slot_of_lane[LANES]; // the order of running, and its inverse
    uint8_t warp_at[MAX_WARPS], slot_of_warp[MAX_WARPS];
    BlockMeeting meeting;
};

Thread threads[MAX_THREADS];
Warp warps[MAX_WARPS];
Block block;
Fiber home;
Thread *current;
Warp *current_warp;

// ---- stacks

// One mapping for all, each stack above a page that faults, touched only where it is used.
unsigned char *arena;
uint16_t free_stacks[MAX_THREADS];
unsigned n_free_stacks;
bool has_abandoned_fibers; // by an error

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
    if (error.is_set) return;
    error.is_set = true;
    char *to = error.text;
    size_t left = error.bytes;
    const auto advance = [&](int written) {
        const size_t step = written < 0 ? 0 : size_t(written) < left ? size_t(written) : left;
        to += step;
        left -= step;
    };
    if (thread != nullptr) {
        const uint3 b = visible.block_idx, t = thread->index;
        advance(snprintf(to, left, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", block.kernel->name, b.x,
                         b.y, b.z, t.x, t.y, t.z));
    }
    advance(vsnprintf(to, left, format, arguments));
}

// Leaves the block for good.
[[noreturn]] void go_home() {
    switch_fiber(current->fiber, home, true);
    __builtin_unreachable();
}

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    describe(format, arguments, current);
    va_end(arguments);
    has_abandoned_fibers = true; // this one, and the block's others where they wait
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
    for (unsigned i = 0; i < block.n_threads; ++i)
        if (threads[i].state == State::in_collective && first == nullptr) first = &threads[i];
    for (unsigned i = 0; i < block.n_threads; ++i) {
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
        block.ready_warps &= ~(1u << block.slot_of_warp[current_warp - warps]);
        if (block.ready_warps == 0) return nullptr;
        current_warp = &warps[block.warp_at[__builtin_ctz(block.ready_warps)]];
    }
    const unsigned slot = unsigned(__builtin_ctz(current_warp->ready));
    current_warp->ready &= current_warp->ready - 1;
    return &current_warp->threads[block.lane_at[slot]];
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
uint64_t shuffled(const Warp &warp, const WarpMeeting &meeting, const Thread &thread) {
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

uint64_t matching(const Warp &warp, const WarpMeeting &meeting, uint64_t operand) {
    uint64_t lanes = 0;
    for (unsigned left = meeting.arrived; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(__builtin_ctz(left));
        if (warp.threads[lane].operand == operand) lanes |= uint64_t(1) << lane;
    }
    return lanes;
}

uint64_t reduced(const Warp &warp, const WarpMeeting &meeting) {
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
void finish(Warp &warp, WarpMeeting &meeting) {
    const bool same_for_all = !is_shuffle(meeting.kind) && meeting.kind != Collective::match_any;
    const uint64_t common = same_for_all && meeting.kind != Collective::syncwarp ? reduced(warp, meeting) : 0;
    for (unsigned left = meeting.arrived; left != 0; left &= left - 1) {
        Thread &thread = warp.threads[__builtin_ctz(left)];
        thread.result = same_for_all                            ? common
                        : meeting.kind == Collective::match_any ? matching(warp, meeting, thread.operand)
                                                                : shuffled(warp, meeting, thread);
        if (&thread == current) continue;
        warp.ready |= 1u << block.slot_of_lane[thread.lane];
    }
    if (meeting.kind == Collective::syncwarp)
        race::warp_synchronised(uint32_t(&warp - warps), meeting.arrived);
    meeting = warp.meetings[--warp.n_meetings];
}

// The meeting that lanes of `mask` have begun, or a new one. Lanes that disagree end the block.
WarpMeeting &meeting_of(Warp &warp, Collective kind, unsigned mask, Site site) {
    for (unsigned i = 0; i < warp.n_meetings; ++i) {
        WarpMeeting &meeting = warp.meetings[i];
        if (meeting.mask == mask && meeting.kind == kind) return meeting;
        if ((meeting.mask & mask) == 0) continue;
        char other[512];
        describe_wait(warp.threads[__builtin_ctz(meeting.arrived)], other, sizeof other);
        fail("calls %s with mask 0x%08x at %s:%d while %s: lanes of one mask call the same function with the same mask",
             name_of(kind), mask, file_of(site), site.line, other);
    }
    WarpMeeting &meeting = warp.meetings[warp.n_meetings++];
    meeting = {mask, 0, kind};
    return meeting;
}

// ---- barriers

void release_barrier() {
    BlockMeeting &meeting = block.meeting;
    meeting.result = meeting.kind == Barrier::count         ? int(meeting.n_true)
                     : meeting.kind == Barrier::conjunction ? meeting.n_true == meeting.n_arrived
                                                            : meeting.n_true != 0;
    for (unsigned i = 0; i < block.n_warps; ++i) {
        if (warps[i].live == 0) continue;
        warps[i].ready = warps[i].live_slots;
        block.ready_warps |= 1u << block.slot_of_warp[i];
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
    warp.live_slots &= ~(1u << block.slot_of_lane[current->lane]);
    --block.n_live;
    for (unsigned i = warp.n_meetings; i-- > 0;)
        if (warp.meetings[i].arrived == (warp.meetings[i].mask & warp.live)) finish(warp, warp.meetings[i]);
    if (block.n_live != 0 && block.meeting.n_arrived == block.n_live) release_barrier();
}

// A returned thread leaves its stack to the next fresh one, so that a kernel that never waits uses one stack.
[[noreturn]] void thread_main() {
    entered(home);
    for (;;) {
        block.kernel->call(visible.arguments);
        retire();
        Thread &self = *current, *const next = next_ready();
        if (next == nullptr) {
            if (block.n_live != 0) deadlock();
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

// ---- blocks

void choose_order(uint8_t *at, uint8_t *slot_of, unsigned n, SplitMix64 *random) {
    for (unsigned i = 0; i < n; ++i) at[i] = uint8_t(i);
    if (random != nullptr)
        for (unsigned i = n; i > 1; --i) std::swap(at[i - 1], at[random->below(i)]);
    for (unsigned i = 0; i < n; ++i) slot_of[at[i]] = uint8_t(i);
}

void begin_block(SplitMix64 *random) {
    choose_order(block.lane_at, block.slot_of_lane, LANES, random);
    choose_order(block.warp_at, block.slot_of_warp, block.n_warps, random);
    block.n_live = block.n_threads;
    block.meeting = {};
    block.ready_warps = block.n_warps == 32 ? ~0u : (1u << block.n_warps) - 1;
    for (unsigned w = 0; w < block.n_warps; ++w) {
        Warp &warp = warps[w];
        warp.threads = threads + w * LANES;
        warp.live = warp.live_slots = 0;
        const unsigned lanes = block.n_threads - w * LANES < LANES ? block.n_threads - w * LANES : LANES;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            warp.threads[lane].state = State::fresh;
            warp.live |= 1u << lane;
            warp.live_slots |= 1u << block.slot_of_lane[lane];
        }
        warp.ready = warp.live_slots;
        warp.n_meetings = 0;
    }
    race::block_begins(block.n_threads);
}

} // namespace

// ---- what a launch calls

bool map_stacks() {
    if (arena != nullptr) return true;
    const size_t stride = PAGE + STACK_BYTES;
    void *mapped = mmap(nullptr, MAX_THREADS * stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    for (size_t i = 0; i < MAX_THREADS; ++i)
        if (mprotect(static_cast<unsigned char *>(mapped) + i * stride, PAGE, PROT_NONE) != 0) {
            munmap(mapped, MAX_THREADS * stride);
            return false;
        }
    arena = static_cast<unsigned char *>(mapped);
    return true;
}

int refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    describe(format, arguments, nullptr);
    va_end(arguments);
    return 1;
}

void set_block(const Kernel &kernel, const uint32_t size[3]) {
    block.kernel = &kernel;
    block.n_threads = size[0] * size[1] * size[2];
    block.n_warps = (block.n_threads + LANES - 1) / LANES;
    for (unsigned i = 0; i < block.n_threads; ++i) {
        threads[i].lane = uint8_t(i % LANES);
        threads[i].index = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    }
    if (has_abandoned_fibers) forget_frames(arena, MAX_THREADS * (PAGE + STACK_BYTES));
    has_abandoned_fibers = false;
    free_all_stacks(); // an error leaves some taken
    home = Fiber{};    // of whichever thread calls
}

void run_block(SplitMix64 *random) {
    begin_block(random);
    current_warp = &warps[block.warp_at[0]];
    Thread &first = *next_ready();
    take_stack(first);
    first.state = State::running;
    run(first);
    switch_fiber(home, first.fiber, false);
}

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
    WarpMeeting &meeting = meeting_of(warp, kind, mask, site);
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
    BlockMeeting &meeting = block.meeting;
    if (meeting.n_arrived == 0) {
        meeting.kind = kind;
        meeting.site = site;
    } else if (meeting.kind != kind || !same(meeting.site, site)) {
        fail("reaches the barrier at %s:%d while others of its block wait at the barrier at %s:%d", file_of(site),
             site.line, file_of(meeting.site), meeting.site.line);
    }
    meeting.n_true += predicate;
    ++meeting.n_arrived;
    if (meeting.n_arrived == block.n_live) {
        release_barrier();
        // The running thread goes on; it is not among those to be run.
        current_warp->ready &= ~(1u << block.slot_of_lane[current->lane]);
        return meeting.result;
    }
    current->site = site;
    current->state = State::at_barrier;
    wait();
    return block.meeting.result;
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

