// Stacks of execution that a thread switches between by itself.
//
// On x86-64 a switch saves and loads the registers that a call must keep, about ten instructions;
// elsewhere (or with CUEMU_UCONTEXT) it is swapcontext, which enters the operating system. Address
// sanitizer is told of each switch, or it would take one stack for another's overrun.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(CUEMU_UCONTEXT)
#define CUEMU_OWN_SWITCH
#else
#include <ucontext.h>
#endif

#ifdef CUEMU_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuemu {

struct Stack {
    unsigned char *bottom = nullptr;
    size_t bytes = 0;
};

struct Fiber {
#ifdef CUEMU_OWN_SWITCH
    void *stack_pointer = nullptr;
#else
    ucontext_t context{};
#endif
    Stack stack; // of the operating system's thread: known once a fiber was entered from it
    void *fake_stack = nullptr;
};

#ifdef CUEMU_OWN_SWITCH
// System V ABI: rbx, rbp, r12..r15 and rsp survive a call; so do the rounding modes, which nothing here changes.
extern "C" void cuemu_switch(void **save_stack_pointer, void *load_stack_pointer);
asm(R"(
    .text
    .p2align 4
    .type cuemu_switch, @function
cuemu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cuemu_switch, .-cuemu_switch
)");
#endif

// Forgets the red zones of frames that nothing returns from. A frame that is returned from has none left: clearing a stack for
// each fiber would cost more than most fibers run.
inline void forget_frames(unsigned char *begin, size_t bytes) {
#ifdef CUEMU_ADDRESS
    __asan_unpoison_memory_region(begin, bytes);
#endif
    (void)begin, (void)bytes;
}

// Makes `fiber` start in `entry`, which never returns, at `offset` bytes below the top of `stack`.
inline void prepare(Fiber &fiber, Stack stack, size_t offset, void (*entry)()) {
    fiber.stack = stack;
#ifdef CUEMU_OWN_SWITCH
    // Six zero registers, the address that `ret` takes, and a zero where a return address would be:
    // the ABI wants rsp + 8 to be a multiple of 16 at a function's first instruction.
    void **top = reinterpret_cast<void **>(stack.bottom + stack.bytes - offset);
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.stack_pointer = top;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack.bottom;
    fiber.context.uc_stack.ss_size = stack.bytes - offset;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
#endif
}

// Goes from one to the other; returns when something switches back to `from`. With `ends`, nothing will.
inline void switch_fiber(Fiber &from, Fiber &to, bool ends) {
#ifdef CUEMU_ADDRESS
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.stack.bottom, to.stack.bytes);
#endif
#ifdef CUEMU_OWN_SWITCH
    cuemu_switch(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.context, &to.context);
#endif
#ifdef CUEMU_ADDRESS
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
    (void)ends;
}

// First in every entry function; `home` is the fiber of the operating system's thread, and is where
// an entry function was called from whenever `home` is not known yet.
inline void entered(Fiber &home) {
#ifdef CUEMU_ADDRESS
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (home.stack.bottom == nullptr)
        home.stack = {static_cast<unsigned char *>(const_cast<void *>(bottom)), bytes};
#endif
    (void)home;
}

} // namespace cuemu
