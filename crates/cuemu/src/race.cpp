// Finds accesses of two CUDA threads to one byte, at least one a write and not both atomic, that
// nothing orders; and accesses outside every buffer.
//
// g++ -fsanitize=thread calls a function before each access of a kernel. Those functions are
// defined here, in place of ThreadSanitizer's own: the order that CUDA gives is narrower than that
// of mutexes, and needs neither a run time nor one kernel thread per millisecond. What orders two
// accesses (PTX ISA, "Memory consistency model"):
//   - being of one thread, or of different launches;
//   - a barrier of the block between them;
//   - __syncwarp between them, for the lanes that took part (shuffles and votes order nothing);
//   - a fence, an atomic write, an atomic read of what it wrote or of a later update, a fence. The
//     four may be of several threads of a block, with barriers between (__threadfence is the
//     sequentially consistent fence, so its order follows that of the atomics).
// Every word of a buffer (every byte, once something smaller was accessed) remembers its last two
// writes and last two reads that are not known to be ordered before a later one. Which of two
// threads runs first does not matter.
#include "race.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// The library's image, bounded by the linker.
extern "C" {
extern const unsigned char __ehdr_start[] __attribute__((visibility("hidden")));
extern const unsigned char _end[] __attribute__((visibility("hidden")));
}

namespace cuemu::race {
namespace {

constexpr unsigned LANES = 32, MAX_WARPS = 32, MAX_THREADS = LANES * MAX_WARPS;

// ---- what threads know of each other

using Clocks = std::array<uint32_t, LANES>; // of a warp's lanes, each counted by its own lane

// All accesses of a block before a number of barriers, and of one warp after them, up to its lanes' clocks.
struct Reach {
    uint32_t barriers;
    Clocks clocks;
};

// What happened before, by block and warp: run * MAX_WARPS + warp.
using Knowledge = std::map<uint64_t, Reach>;

// What orders this place of a program after accesses of other blocks and warps.
struct Ordering {
    Knowledge acquired; // happened before
    Knowledge observed; // read from atomics: happens before whatever the next fence is before
    Knowledge fenced;   // happened before a fence that is before: what atomics publish

    bool is_empty() const { return acquired.empty() && observed.empty() && fenced.empty(); }
};

struct Knower { // one thread of the running block
    Clocks clocks;     // what it knows of its own warp since the last barrier
    Ordering ordering; // beside what the block has in common
};

Knower knowers[MAX_THREADS];
Ordering in_common;                                       // of the block's threads, at its last barrier
std::unordered_map<const void *, Knowledge> publications; // by the address of an atomic
uint32_t run;       // which block of all there were, from 1
uint32_t first_run; // of this launch
uint32_t barriers;  // that the running block has passed
unsigned n_threads; // of the running block
std::vector<uint3> block_of_run;

void join(Reach &reach, const Reach &other) {
    if (other.barriers < reach.barriers) return;
    if (other.barriers > reach.barriers) {
        reach = other;
        return;
    }
    for (unsigned lane = 0; lane < LANES; ++lane) reach.clocks[lane] = std::max(reach.clocks[lane], other.clocks[lane]);
}

void join(Knowledge &knowledge, const Knowledge &other) {
    for (const auto &[key, reach] : other) {
        const auto [at, is_new] = knowledge.try_emplace(key, reach);
        if (!is_new) join(at->second, reach);
    }
}

void join(Ordering &ordering, const Ordering &other) {
    join(ordering.acquired, other.acquired);
    join(ordering.observed, other.observed);
    join(ordering.fenced, other.fenced);
}

// ---- accesses

struct Access {
    uint32_t run = 0; // 0: none
    uint32_t barriers = 0;
    uint32_t clock = 0;
    uint32_t pc = 0; // from the start of the library
    uint16_t thread = 0;
    bool atomic = false;
    bool update = false; // an atomic that reads what it replaces
};

struct Cell {
    Access writes[2], reads[2];
};

struct Region {
    unsigned char *begin = nullptr; // aligned to words
    size_t bytes = 0;
    bool shared = false;
    size_t granule = 4;    // bytes that one cell stands for: 1 from the first access of less than words on
    Cell *cells = nullptr; // all zero is empty, so untouched pages cost nothing
};

std::vector<Region> regions; // by address
size_t last_region;          // the one found last

bool knows(const Knowledge &knowledge, const Access &access) {
    if (knowledge.empty()) return false;
    const unsigned warp = access.thread / LANES, lane = access.thread % LANES;
    auto at = knowledge.lower_bound(uint64_t(access.run) * MAX_WARPS);
    for (; at != knowledge.end() && at->first / MAX_WARPS == access.run; ++at) {
        const Reach &reach = at->second;
        if (access.barriers < reach.barriers) return true;
        if (access.barriers == reach.barriers && at->first % MAX_WARPS == warp && access.clock <= reach.clocks[lane])
            return true;
    }
    return false;
}

// Whether `old` happened before whatever `now`'s thread does now.
bool is_ordered(const Access &old, const Access &now, bool shared) {
    if (old.run < first_run) return true;
    if (old.run == now.run) {
        if (old.barriers < now.barriers || old.thread == now.thread) return true;
        const bool same_warp = old.thread / LANES == now.thread / LANES;
        if (same_warp && old.clock <= knowers[now.thread].clocks[old.thread % LANES]) return true;
    } else if (shared) {
        return true;
    }
    return knows(in_common.acquired, old) || knows(knowers[now.thread].ordering.acquired, old);
}

Region *region_of(const unsigned char *at) {
    if (last_region < regions.size()) {
        Region &region = regions[last_region];
        if (size_t(at - region.begin) < region.bytes) return &region;
    }
    const auto behind = std::upper_bound(regions.begin(), regions.end(), at,
                                         [](const unsigned char *at, const Region &r) { return at < r.begin; });
    if (behind == regions.begin()) return nullptr;
    last_region = size_t(behind - regions.begin()) - 1;
    Region &region = regions[last_region];
    return size_t(at - region.begin) < region.bytes ? &region : nullptr;
}

Cell *new_cells(size_t n) { return static_cast<Cell *>(calloc(n, sizeof(Cell))); }

// From one cell for each word to one for each byte. False: no memory.
bool refine(Region &region) {
    Cell *const cells = new_cells(region.bytes);
    if (cells == nullptr) return false;
    for (size_t i = 0; i < region.bytes; ++i) cells[i] = region.cells[i / region.granule];
    free(region.cells);
    region.cells = cells;
    region.granule = 1;
    return true;
}

// False: no memory for the cells.
bool add_region(unsigned char *begin, size_t bytes, bool shared) {
    if (bytes == 0) return true;
    Region region;
    region.begin = begin;
    region.bytes = bytes;
    region.shared = shared;
    region.cells = new_cells((bytes + region.granule - 1) / region.granule);
    if (region.cells == nullptr) return false;
    const auto behind = std::upper_bound(regions.begin(), regions.end(), begin,
                                         [](const unsigned char *at, const Region &r) { return at < r.begin; });
    regions.insert(behind, region);
    return true;
}

// ---- reports

// "file:line" for each function that the code was inlined into, innermost first, without the
// emulator's own; needs addr2line, which comes with the linker.
std::string source_line(uint32_t pc) {
    Dl_info library;
    char command[4400], line[1024];
    std::string lines;
    dladdr(__ehdr_start, &library);
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%x 2>/dev/null", library.dli_fname, pc - 1);
    if (FILE *output = popen(command, "r")) {
        while (fgets(line, sizeof line, output) != nullptr) {
            std::string text(line);
            text = text.substr(0, text.find_first_of(" \n"));
            text = text.substr(text.rfind('/') + 1);
            if (text.find("cuemu.h:") == 0 || text[0] == '?') continue;
            lines += (lines.empty() ? "" : ", inlined at ") + text;
        }
        pclose(output);
    }
    snprintf(line, sizeof line, "code offset 0x%x", pc - 1);
    return lines.empty() ? line : lines;
}

std::string place(const Region &region, const unsigned char *at) {
    char text[128];
    snprintf(text, sizeof text, "byte %zu of a %s of %zu bytes", size_t(at - region.begin),
             region.shared ? "block's shared memory" : "buffer", region.bytes);
    return text;
}

std::string verb(const Access &access, bool writes) {
    return std::string(access.atomic ? "atomically " : "") + (writes ? "writes" : "reads");
}

[[noreturn]] void report_race(const Region &region, const unsigned char *at, const Access &old, bool old_writes,
                              const Access &now, bool now_writes) {
    const uint3 block = block_of_run[old.run - first_run], thread = thread_index(old.thread);
    char who[128];
    snprintf(who, sizeof who, "block (%u, %u, %u), thread (%u, %u, %u) ", block.x, block.y, block.z, thread.x, thread.y,
             thread.z);
    const std::string text = "race: " + verb(now, now_writes) + " " + place(region, at) + " at " + source_line(now.pc) +
                             "; " + who + verb(old, old_writes) + " it at " + source_line(old.pc) +
                             "; nothing orders the two";
    fail_in_thread(text.c_str());
}

[[noreturn]] void report_outside(const unsigned char *at, size_t bytes, const Access &now, bool writes) {
    char text[256];
    snprintf(text, sizeof text, "out of bounds: %s %zu bytes at %p", verb(now, writes).c_str(), bytes,
             static_cast<const void *>(at));
    std::string message = text;
    for (const Region &region : regions)
        if (size_t(at - region.begin) < region.bytes + 65536) message += ", that is " + place(region, at);
    message += ", at " + source_line(now.pc);
    fail_in_thread(message.c_str());
}

// ---- the check

// Takes the place of an access that says no more than this one does to any later access; if both do, of none.
void remember(Access (&slots)[2], const Access &now, bool shared) {
    for (Access &old : slots) {
        const bool is_past = old.run < first_run || (shared && old.run != run);
        // A plain access conflicts with more than an atomic one: that does not replace it. An update has
        // observed the atomics before it: what is ordered after it is ordered after them.
        const bool is_covered = is_ordered(old, now, shared) && (old.atomic || !now.atomic);
        if (!is_past && !is_covered && !(old.atomic && now.update)) continue;
        old = now;
        return;
    }
}

void check_cell(const Region &region, const unsigned char *at, const Access &now, bool writes) {
    Cell &cell = region.cells[size_t(at - region.begin) / region.granule];
    const auto conflicts = [&](const Access &old) {
        return old.run != 0 && !(old.atomic && now.atomic) && !is_ordered(old, now, region.shared);
    };
    for (const Access &old : cell.writes)
        if (conflicts(old)) report_race(region, at, old, true, now, writes);
    if (writes)
        for (const Access &old : cell.reads)
            if (conflicts(old)) report_race(region, at, old, false, now, writes);
    remember(writes ? cell.writes : cell.reads, now, region.shared);
}

bool is_in(const void *at, const void *begin, const void *end) { return at >= begin && at < end; }

void check(const void *address, size_t bytes, bool writes, const void *pc, bool atomic = false, bool update = false) {
    const auto *at = static_cast<const unsigned char *>(address);
    const LocalMemory local = local_memory(at);
    if (local == LocalMemory::own || is_in(at, &visible, &visible + 1)) return;
    Access now;
    now.run = run;
    now.barriers = barriers;
    now.thread = uint16_t(running_thread());
    now.clock = knowers[now.thread].clocks[now.thread % LANES];
    now.pc = uint32_t(static_cast<const unsigned char *>(pc) - __ehdr_start);
    now.atomic = atomic;
    now.update = update;
    if (local == LocalMemory::of_another)
        fail_in_thread(("uses another thread's local variable at " + source_line(now.pc)).c_str());
    Region *region = region_of(at);
    if (region == nullptr && is_in(at, __ehdr_start, _end)) return; // constants
    if (region == nullptr || size_t(at - region->begin) + bytes > region->bytes) report_outside(at, bytes, now, writes);
    if ((size_t(at - region->begin) | bytes) % region->granule != 0 && !refine(*region))
        fail_in_thread("no memory to watch a buffer's bytes with");
    for (size_t i = 0; i < bytes; i += region->granule) check_cell(*region, at + i, now, writes);
}

} // namespace

// ---- what the emulator tells

bool allocated(void *at, size_t bytes) { return add_region(static_cast<unsigned char *>(at), bytes, false); }

void freed(void *at) {
    const auto is_it = [=](const Region &region) { return region.begin == at; };
    const auto region = std::find_if(regions.begin(), regions.end(), is_it);
    if (region == regions.end()) return; // of zero bytes
    free(region->cells);
    regions.erase(region);
}

bool launch_begins(const Kernel &kernel, Bytes static_shared, size_t dynamic_bytes) {
    for (size_t i = regions.size(); i-- > 0;)
        if (regions[i].shared) {
            free(regions[i].cells);
            regions.erase(regions.begin() + ptrdiff_t(i));
        }
    publications.clear();
    block_of_run.clear();
    first_run = run + 1;
    return add_region(static_shared.begin, size_t(static_shared.end - static_shared.begin), true) &&
           add_region(kernel.shared_begin, size_t(kernel.shared_end - kernel.shared_begin), true) &&
           add_region(visible.dynamic_shared, dynamic_bytes, true);
}

void block_begins(unsigned threads_of_block) {
    ++run;
    barriers = 0;
    n_threads = threads_of_block;
    block_of_run.push_back(visible.block_idx);
    in_common = Ordering{};
    for (unsigned i = 0; i < n_threads; ++i) {
        knowers[i] = Knower{};
        knowers[i].clocks[i % LANES] = 1;
    }
}

void block_synchronised() {
    ++barriers;
    for (unsigned i = 0; i < n_threads; ++i) {
        Ordering &ordering = knowers[i].ordering;
        if (ordering.is_empty()) continue;
        join(in_common, ordering);
        ordering = Ordering{};
    }
}

void warp_synchronised(unsigned warp, unsigned lanes) {
    Knower *const first = knowers + warp * LANES;
    Knower all{};
    for (unsigned lane = 0; lane < LANES; ++lane) {
        if ((lanes >> lane & 1) == 0) continue;
        for (unsigned i = 0; i < LANES; ++i) all.clocks[i] = std::max(all.clocks[i], first[lane].clocks[i]);
        join(all.ordering, first[lane].ordering);
    }
    for (unsigned lane = 0; lane < LANES; ++lane) {
        if ((lanes >> lane & 1) == 0) continue;
        first[lane] = all;
        ++first[lane].clocks[lane];
    }
}

void thread_fence() {
    const unsigned thread = running_thread();
    Knower &self = knowers[thread];
    Ordering &ordering = self.ordering;
    join(ordering.acquired, ordering.observed);
    join(ordering.acquired, in_common.observed);
    join(ordering.fenced, in_common.acquired);
    join(ordering.fenced, ordering.acquired);
    join(ordering.fenced, {{uint64_t(run) * MAX_WARPS + thread / LANES, {barriers, self.clocks}}});
    ++self.clocks[thread % LANES]; // what comes now is not covered
}

} // namespace cuemu::race

namespace cuemu {

void note_atomic(const void *at, size_t bytes, Atomic kind, void *pc) {
    using namespace race;
    check(at, bytes, kind != Atomic::load, pc, true, kind == Atomic::update);
    Ordering &ordering = knowers[running_thread()].ordering;
    if (kind != Atomic::store) {
        const auto published = publications.find(at);
        if (published != publications.end()) join(ordering.observed, published->second);
    }
    if (kind == Atomic::load) return;
    if (kind == Atomic::store) publications.erase(at); // its readers read nothing older
    if (in_common.fenced.empty() && ordering.fenced.empty()) return;
    Knowledge &published = publications[at];
    join(published, in_common.fenced);
    join(published, ordering.fenced);
}

} // namespace cuemu

// ---- what g++ calls

#define CUEMU_HOOKS(bytes) \
    void __tsan_read##bytes(void *at) { cuemu::race::check(at, bytes, false, __builtin_return_address(0)); } \
    void __tsan_write##bytes(void *at) { cuemu::race::check(at, bytes, true, __builtin_return_address(0)); } \
    void __tsan_volatile_read##bytes(void *at) { \
        cuemu::note_atomic(at, bytes, cuemu::Atomic::load, __builtin_return_address(0)); \
    } \
    void __tsan_volatile_write##bytes(void *at) { \
        cuemu::note_atomic(at, bytes, cuemu::Atomic::store, __builtin_return_address(0)); \
    }
#define CUEMU_UNALIGNED_HOOKS(bytes) \
    void __tsan_unaligned_read##bytes(void *at) { \
        cuemu::race::check(at, bytes, false, __builtin_return_address(0)); \
    } \
    void __tsan_unaligned_write##bytes(void *at) { \
        cuemu::race::check(at, bytes, true, __builtin_return_address(0)); \
    } \
    void __tsan_unaligned_volatile_read##bytes(void *at) { \
        cuemu::note_atomic(at, bytes, cuemu::Atomic::load, __builtin_return_address(0)); \
    } \
    void __tsan_unaligned_volatile_write##bytes(void *at) { \
        cuemu::note_atomic(at, bytes, cuemu::Atomic::store, __builtin_return_address(0)); \
    }

extern "C" {
CUEMU_HOOKS(1)
CUEMU_HOOKS(2)
CUEMU_HOOKS(4)
CUEMU_HOOKS(8)
CUEMU_HOOKS(16)
CUEMU_UNALIGNED_HOOKS(2)
CUEMU_UNALIGNED_HOOKS(4)
CUEMU_UNALIGNED_HOOKS(8)
CUEMU_UNALIGNED_HOOKS(16)
void __tsan_read_range(void *at, size_t bytes) {
    cuemu::race::check(at, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void *at, size_t bytes) {
    cuemu::race::check(at, bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
}
