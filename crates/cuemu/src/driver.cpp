// A CUDA driver (libcuda.so) for tests: the part of the driver's C interface that shardgraph-device calls, over the
// emulator's library. Written from the documentation of the interface; of its names and numbers only those that a caller
// needs are here.
//
// It does what a caller must be ready for. Work of a stream runs as late as it may: when the stream or an event behind the
// work is asked for, and then only after one answer CUDA_ERROR_NOT_READY. Memory of the host is read and written when the
// work runs, also by copies from memory that is not pinned. After a kernel's fault every call answers the fault.
//
// A module's image may be anything; its kernels are the emulator's.
//
// A test sets and asks with `test_driver_*`: the emulator's library, faults to plant, counts of calls.
#include <dlfcn.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

using Status = int;
enum : Status {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};
enum : int { SHARED_BYTES = 8, POOLS_SUPPORTED = 115, DEFAULT_SHARED_BYTES = 48 * 1024 };

namespace {

struct Function {
    std::string name;
    std::vector<size_t> widths;
    unsigned shared_bytes = DEFAULT_SHARED_BYTES;
};

struct Launch {
    const Function *function;
    uint32_t grid[3], block[3], shared_bytes;
    std::vector<uint64_t> values;
};

struct Stream;

struct Event {
    Stream *stream = nullptr; // where it was recorded last
    bool has_happened = true;
    bool was_asked = false;
};

// A piece of work: whether it is done. Work that waits for another stream runs that stream.
using Work = std::function<void()>;

struct Stream {
    std::deque<Work> work;
    bool is_capturing = false;
    bool was_asked = false;
    std::vector<Work> captured;

    // Behind the work given so far, or into the graph that is captured.
    void add(Work next) {
        if (is_capturing)
            captured.push_back(std::move(next));
        else
            work.push_back(std::move(next));
    }
};

using Graph = std::vector<Work>;

struct Emulator {
    void *(*alloc)(size_t);
    void (*free)(void *);
    uint32_t (*n_kernels)();
    const char *(*kernel_name)(uint32_t);
    const char *(*kernel_signature)(uint32_t);
    int (*launch)(const char *, const uint32_t *, const uint32_t *, uint32_t, void **, uint32_t, uint64_t, char *, size_t);
};

struct Driver {
    std::mutex mutex;
    Emulator emulator{};
    std::map<std::string, int64_t> plants, counts;
    std::map<std::string, std::unique_ptr<Function>> functions;
    std::map<uintptr_t, size_t> pinned; // first byte and length
    Status dead = SUCCESS;
    uint64_t n_launches = 0;
};

Driver &driver() {
    static Driver *const only = new Driver; // never destroyed: streams may outlive everything else
    return *only;
}

using Lock = std::lock_guard<std::mutex>;

// Counts the call; the fault that ended the context, or that is planted for this call.
Status begin(const char *call) {
    Driver &d = driver();
    d.counts[call] += 1;
    if (d.dead != SUCCESS) return d.dead;
    const auto planted = d.plants.find(call);
    return planted == d.plants.end() ? SUCCESS : static_cast<Status>(planted->second);
}

#define BEGIN(call)                         \
    const Lock lock(driver().mutex);        \
    if (const Status bad = begin(call); bad != SUCCESS) return bad

void run_all(Stream &stream) {
    while (!stream.work.empty()) {
        Work next = std::move(stream.work.front());
        stream.work.pop_front();
        next();
    }
}

void run_until(Stream &stream, const Event &event) {
    while (!event.has_happened && !stream.work.empty()) {
        Work next = std::move(stream.work.front());
        stream.work.pop_front();
        next();
    }
}

bool is_pinned(const void *at, size_t bytes) {
    const auto &pinned = driver().pinned;
    const auto address = reinterpret_cast<uintptr_t>(at);
    auto next = pinned.upper_bound(address);
    return next != pinned.begin() && (--next, address + bytes <= next->first + next->second);
}

void run(Launch launch) {
    Driver &d = driver();
    if (d.dead != SUCCESS) return;
    if (d.plants.count("kernel-fault") != 0) {
        d.dead = static_cast<Status>(d.plants["kernel-fault"]);
        return;
    }
    std::vector<void *> args;
    for (uint64_t &value : launch.values) args.push_back(&value);
    char text[1024];
    const int failed = d.emulator.launch(launch.function->name.c_str(), launch.grid, launch.block, launch.shared_bytes,
                                         args.data(), static_cast<uint32_t>(args.size()), ++d.n_launches, text, sizeof text);
    if (failed != 0) d.dead = LAUNCH_FAILED;
}

template <typename F> void find(void *library, const char *name, F &function) {
    function = reinterpret_cast<F>(dlsym(library, name));
}

std::vector<size_t> widths(const char *signature) {
    std::vector<size_t> widths;
    for (const char *at = signature; *at != '\0'; ++at) {
        if (*at == '*' || *at == '&') {
            widths.push_back(8);
            ++at;
        } else {
            widths.push_back(*at == 'U' ? 8 : *at == 'h' ? 2 : *at == 'b' ? 1 : 4);
        }
    }
    return widths;
}

} // namespace

// ---- what a test sets and asks

API int test_driver_open(const char *emulator) {
    void *const library = dlopen(emulator, RTLD_NOW);
    if (library == nullptr) return 1;
    Emulator &e = driver().emulator;
    find(library, "cuemu_alloc", e.alloc);
    find(library, "cuemu_free", e.free);
    find(library, "cuemu_n_kernels", e.n_kernels);
    find(library, "cuemu_kernel_name", e.kernel_name);
    find(library, "cuemu_kernel_signature", e.kernel_signature);
    find(library, "cuemu_launch", e.launch);
    return e.launch == nullptr;
}

// From now on the call of this name answers `status`; "kernel-fault" is the next kernel, "no-pools" memory without pools,
// "version" the driver's version, "without NAME" a function that a caller who looks it up does not find.
API void test_driver_plant(const char *call, int64_t status) {
    const Lock lock(driver().mutex);
    driver().plants[call] = status;
}

API int64_t test_driver_count(const char *call) {
    const Lock lock(driver().mutex);
    return driver().counts[call];
}

// ---- the device and its context

API Status cuInit(unsigned) { return SUCCESS; }

API Status cuDriverGetVersion(int *version) {
    const Lock lock(driver().mutex);
    const auto planted = driver().plants.find("version");
    *version = planted == driver().plants.end() ? 13000 : static_cast<int>(planted->second);
    return SUCCESS;
}

// One card, or as many as are planted.
static int n_cards() {
    const auto planted = driver().plants.find("cards");
    return planted == driver().plants.end() ? 1 : static_cast<int>(planted->second);
}

API Status cuDeviceGetCount(int *count) {
    *count = n_cards();
    return SUCCESS;
}

API Status cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < n_cards() ? SUCCESS : INVALID_DEVICE;
}

API Status cuDeviceGetName(char *name, int bytes, int) {
    strncpy(name, "test driver", static_cast<size_t>(bytes));
    return SUCCESS;
}

API Status cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = size_t{1} << 30;
    return SUCCESS;
}

API Status cuDeviceGetAttribute(int *value, int attribute, int) {
    const Lock lock(driver().mutex);
    *value = attribute == POOLS_SUPPORTED && driver().plants.count("no-pools") == 0;
    return SUCCESS;
}

// An address of its own for each card; what is behind it is nobody's business.
API Status cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = reinterpret_cast<char *>(&driver()) + device;
    return SUCCESS;
}

API Status cuCtxSetCurrent(void *) {
    BEGIN("cuCtxSetCurrent");
    return SUCCESS;
}

API Status cuGetErrorName(Status status, const char **name) {
    switch (status) {
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
    case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

API Status cuGetErrorString(Status status, const char **text) {
    *text = "as planted";
    return status == SUCCESS ? INVALID_VALUE : SUCCESS;
}

// ---- modules and kernels

API Status cuModuleLoadData(void **module, const void *image) {
    BEGIN("cuModuleLoadData");
    *module = const_cast<void *>(image);
    return SUCCESS;
}

API Status cuModuleGetFunction(void **function, void *, const char *name) {
    BEGIN("cuModuleGetFunction");
    Driver &d = driver();
    std::unique_ptr<Function> &known = d.functions[name];
    for (uint32_t i = 0; known == nullptr && i < d.emulator.n_kernels(); ++i)
        if (strcmp(d.emulator.kernel_name(i), name) == 0)
            known.reset(new Function{name, widths(d.emulator.kernel_signature(i))});
    *function = known.get();
    return known == nullptr ? NOT_FOUND : SUCCESS;
}

API Status cuFuncGetParamInfo(const Function *function, size_t i, size_t *offset, size_t *bytes) {
    if (i >= function->widths.size()) return INVALID_VALUE;
    *offset = 0;
    *bytes = function->widths[i];
    return SUCCESS;
}

API Status cuFuncGetAttribute(int *value, int attribute, const Function *function) {
    *value = attribute == SHARED_BYTES ? static_cast<int>(function->shared_bytes) : 0;
    return SUCCESS;
}

API Status cuFuncSetAttribute(Function *function, int attribute, int value) {
    BEGIN("cuFuncSetAttribute");
    if (attribute != SHARED_BYTES || value < 0 || value > 227 * 1024) return INVALID_VALUE;
    function->shared_bytes = static_cast<unsigned>(value);
    return SUCCESS;
}

API Status cuLaunchKernel(const Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared_bytes, Stream *stream, void **args, void **) {
    BEGIN("cuLaunchKernel");
    if (uint64_t{bx} * by * bz > 1024 || shared_bytes > function->shared_bytes) return INVALID_VALUE;
    Launch launch{function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, {}};
    for (size_t i = 0; i < function->widths.size(); ++i) {
        uint64_t value = 0;
        memcpy(&value, args[i], function->widths[i]);
        launch.values.push_back(value);
    }
    stream->add([launch] { run(launch); });
    return SUCCESS;
}

// ---- memory

static Status allocate(uint64_t *address, size_t bytes) {
    *address = reinterpret_cast<uint64_t>(driver().emulator.alloc(bytes));
    return *address == 0 ? OUT_OF_MEMORY : SUCCESS;
}

API Status cuMemGetInfo_v2(size_t *free, size_t *total) {
    BEGIN("cuMemGetInfo");
    *free = *total = size_t{1} << 30;
    return SUCCESS;
}

API Status cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    BEGIN("cuMemAlloc");
    return allocate(address, bytes);
}

API Status cuMemFree_v2(uint64_t address) {
    BEGIN("cuMemFree");
    driver().emulator.free(reinterpret_cast<void *>(address));
    return SUCCESS;
}

API Status cuMemAllocAsync(uint64_t *address, size_t bytes, Stream *) {
    BEGIN("cuMemAllocAsync");
    if (driver().plants.count("no-pools") != 0) return NOT_SUPPORTED;
    return allocate(address, bytes);
}

API Status cuMemFreeAsync(uint64_t address, Stream *stream) {
    BEGIN("cuMemFreeAsync");
    if (driver().plants.count("no-pools") != 0) return NOT_SUPPORTED;
    stream->work.push_back([address] { driver().emulator.free(reinterpret_cast<void *>(address)); });
    return SUCCESS;
}

API Status cuDeviceGetDefaultMemPool(void **pool, int) {
    BEGIN("cuDeviceGetDefaultMemPool");
    *pool = &driver();
    return driver().plants.count("no-pools") != 0 ? NOT_SUPPORTED : SUCCESS;
}

API Status cuMemPoolSetAttribute(void *, int, void *) { return SUCCESS; }

API Status cuMemPoolTrimTo(void *, size_t) { return SUCCESS; }

API Status cuMemHostAlloc(void **at, size_t bytes, unsigned) {
    BEGIN("cuMemHostAlloc");
    *at = malloc(bytes);
    driver().pinned[reinterpret_cast<uintptr_t>(*at)] = bytes;
    return *at == nullptr ? OUT_OF_MEMORY : SUCCESS;
}

API Status cuMemFreeHost(void *at) {
    BEGIN("cuMemFreeHost");
    driver().pinned.erase(reinterpret_cast<uintptr_t>(at));
    free(at);
    return SUCCESS;
}

API Status cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, Stream *stream) {
    BEGIN("cuMemsetD8Async");
    stream->add([=] { memset(reinterpret_cast<void *>(address), value, bytes); });
    return SUCCESS;
}

static void copy_later(Stream *stream, const void *from, void *to, size_t bytes) {
    stream->add([=] {
        if (driver().dead == SUCCESS) memcpy(to, from, bytes);
    });
}

API Status cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, Stream *stream) {
    BEGIN("cuMemcpyHtoDAsync");
    if (!is_pinned(source, bytes)) driver().counts["pageable-copies"] += 1;
    copy_later(stream, source, reinterpret_cast<void *>(target), bytes);
    return SUCCESS;
}

API Status cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, Stream *stream) {
    BEGIN("cuMemcpyDtoHAsync");
    if (!is_pinned(target, bytes)) driver().counts["pageable-copies"] += 1;
    copy_later(stream, reinterpret_cast<const void *>(source), target, bytes);
    return SUCCESS;
}

API Status cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, Stream *stream) {
    BEGIN("cuMemcpyDtoDAsync");
    copy_later(stream, reinterpret_cast<const void *>(source), reinterpret_cast<void *>(target), bytes);
    return SUCCESS;
}

API Status cuMemcpyPeerAsync(uint64_t target, void *to, uint64_t source, void *from, size_t bytes, Stream *stream) {
    BEGIN("cuMemcpyPeerAsync");
    if (to == from) return INVALID_VALUE;
    copy_later(stream, reinterpret_cast<const void *>(source), reinterpret_cast<void *>(target), bytes);
    return SUCCESS;
}

// ---- streams, events, graphs

API Status cuStreamCreate(Stream **stream, unsigned) {
    BEGIN("cuStreamCreate");
    *stream = new Stream;
    return SUCCESS;
}

API Status cuStreamDestroy_v2(Stream *stream) {
    BEGIN("cuStreamDestroy");
    run_all(*stream);
    delete stream;
    return SUCCESS;
}

API Status cuStreamQuery(Stream *stream) {
    BEGIN("cuStreamQuery");
    if (driver().plants.count("hang") != 0) return NOT_READY;
    stream->was_asked = !stream->was_asked && !stream->work.empty();
    if (stream->was_asked) return NOT_READY;
    run_all(*stream);
    return driver().dead;
}

API Status cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
    BEGIN("cuStreamWaitEvent");
    if (event->stream != stream && event->stream != nullptr)
        stream->work.push_back([event] { run_until(*event->stream, *event); });
    return SUCCESS;
}

API Status cuEventCreate(Event **event, unsigned) {
    BEGIN("cuEventCreate");
    *event = new Event;
    return SUCCESS;
}

API Status cuEventRecord(Event *event, Stream *stream) {
    BEGIN("cuEventRecord");
    event->stream = stream;
    event->has_happened = event->was_asked = false;
    stream->work.push_back([event] { event->has_happened = true; });
    return SUCCESS;
}

API Status cuEventQuery(Event *event) {
    BEGIN("cuEventQuery");
    if (driver().plants.count("hang") != 0 && !event->has_happened) return NOT_READY;
    event->was_asked = !event->was_asked && !event->has_happened;
    if (event->was_asked) return NOT_READY;
    if (!event->has_happened) run_until(*event->stream, *event);
    return driver().dead;
}

API Status cuEventElapsedTime(float *ms, Event *, Event *) {
    BEGIN("cuEventElapsedTime");
    *ms = 0.0f;
    return SUCCESS;
}

// Work may still name the event, so its memory stays: a test is a short process.
API Status cuEventDestroy_v2(Event *) {
    BEGIN("cuEventDestroy");
    return SUCCESS;
}

API Status cuStreamBeginCapture_v2(Stream *stream, int) {
    BEGIN("cuStreamBeginCapture");
    stream->is_capturing = true;
    stream->captured.clear();
    return SUCCESS;
}

API Status cuStreamEndCapture(Stream *stream, void **graph) {
    BEGIN("cuStreamEndCapture");
    stream->is_capturing = false;
    *graph = new Graph(std::move(stream->captured));
    return SUCCESS;
}

API Status cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
    BEGIN("cuGraphInstantiate");
    *made = new Graph(*static_cast<Graph *>(graph));
    return SUCCESS;
}

API Status cuGraphDestroy(void *graph) {
    BEGIN("cuGraphDestroy");
    delete static_cast<Graph *>(graph);
    return SUCCESS;
}

API Status cuGraphExecDestroy(void *graph) {
    BEGIN("cuGraphExecDestroy");
    delete static_cast<Graph *>(graph);
    return SUCCESS;
}

API Status cuGraphLaunch(void *graph, Stream *stream) {
    BEGIN("cuGraphLaunch");
    for (const Work &work : *static_cast<Graph *>(graph)) stream->work.push_back(work);
    return SUCCESS;
}

// ---- functions by their names

API Status cuGetProcAddress_v2(const char *name, void **function, int, unsigned long long, int *found) {
    const Lock lock(driver().mutex);
    const bool is_there = driver().plants.count(std::string("without ") + name) == 0;
    *function = !is_there ? nullptr
              : strcmp(name, "cuFuncGetParamInfo") == 0 ? reinterpret_cast<void *>(&cuFuncGetParamInfo)
              : strcmp(name, "cuEventElapsedTime") == 0 ? reinterpret_cast<void *>(&cuEventElapsedTime)
                                                        : nullptr;
    *found = *function == nullptr;
    return *function == nullptr ? NOT_FOUND : SUCCESS;
}
