// What a launch (launch.cpp) asks of the scheduler (cuemu.cpp).
#pragma once

#include "cuemu.h"

namespace cuemu {

constexpr unsigned MAX_THREADS = 1024; // of a block

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

// Of the running launch; the first one stays.
struct Error {
    char *text;
    size_t bytes;
    bool is_set;
};
extern Error error;

// Sets an error that no thread is part of; gives 1.
__attribute__((format(printf, 1, 2))) int refuse(const char *format, ...);

// Makes the stacks, once. False: no memory.
bool map_stacks();

// The kernel and the size of the blocks to come.
void set_block(const Kernel &kernel, const uint32_t size[3]);

// Runs one block until all threads have returned or there is an error. Without random numbers warps
// and lanes run in the order of their indices.
void run_block(SplitMix64 *random);

} // namespace cuemu
