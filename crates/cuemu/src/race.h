// What the emulator and the race detector (race.cpp) tell each other. Only the race build has one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuemu.h"

namespace cuemu {

struct Bytes {
    unsigned char *begin, *end;
};

#ifdef CUEMU_RACE
namespace race {
// These two: false when there is no memory.
bool allocated(void *at, size_t bytes);
bool launch_begins(const Kernel &kernel, Bytes static_shared, size_t dynamic_bytes);
void freed(void *at);
void block_begins(unsigned n_threads);
void block_synchronised();
void warp_synchronised(unsigned warp, unsigned lanes);
void thread_fence();
} // namespace race

enum class LocalMemory { none, own, of_another };

unsigned running_thread(); // linear, in its block
uint3 thread_index(unsigned thread);
LocalMemory local_memory(const void *at);
// Ends the launch with an error about the running thread.
[[noreturn]] void fail_in_thread(const char *text);
#else
namespace race {
inline bool allocated(void *, size_t) { return true; }
inline void freed(void *) {}
inline bool launch_begins(const Kernel &, Bytes, size_t) { return true; }
inline void block_begins(unsigned) {}
inline void block_synchronised() {}
inline void warp_synchronised(unsigned, unsigned) {}
inline void thread_fence() {}
} // namespace race
#endif

} // namespace cuemu
