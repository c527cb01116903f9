// A library of collectives with the part of NCCL's C interface that shardgraph-device uses, for ranks that are threads of one
// process with an emulated device each. Written from the documentation of the interface; of its names and numbers only those
// that a caller needs are here.
//
// It does what a caller must be ready for: it takes only non-blocking communicators, answers ncclInProgress before an operation
// is in its stream, and an operation that some rank does not give never ends. Memory is read and written when the operation's
// turn comes in its stream, never when it is called.
//
// The file's name plants a fault; a copy under another name is another library with a state of its own:
//   *version-N*      ncclGetVersion answers N
//   *init-hangs*     no communicator is ever ready
//   *init-fails*     every communicator becomes ncclSystemError while it joins
//   *error-at-N*     from operation N on (counted from 0) nothing ends, and once it is in its stream every rank has the asynchronous
//                    error ncclRemoteError
//   *refuses-at-N*   operation N is refused with ncclInvalidArgument
//   *abort-hangs*    ncclCommAbort does not return
//   *no-id*          ncclGetUniqueId answers ncclSystemError
//   *genuine*        it passes for NCCL itself, which does not take emulated streams
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

enum Result { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum Type { UINT8 = 1, UINT64 = 5, FLOAT32 = 7 };
enum Reduction { SUM = 0, MAX = 2 };

struct UniqueId {
    char bytes[128];
};

// What every version from 2.14 on has at the beginning.
struct Config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

// How an emulated stream begins.
struct Stream {
    void (*enqueue)(const void *stream, int (*step)(void *), void *data);
};

namespace {

enum class Kind { AllGather, AllReduce, Broadcast, Send, Receive };

// One call of the interface.
struct Call {
    Kind kind;
    const void *send;
    void *receive;
    size_t count;
    int type, reduction, peer; // peer: the root of a broadcast
    uint64_t seq;
};

using Bytes = std::vector<unsigned char>;

// The meeting of all ranks in one collective call.
struct Meeting {
    Call first;
    std::map<int, Bytes> parts;
    bool differs = false;
    int n_left = 0;
};

struct World {
    std::mutex mutex;
    int size = 0;
    std::set<int> ranks, finalized;
    std::map<uint64_t, Meeting> meetings;
    std::map<std::pair<int, int>, std::deque<Bytes>> mail;
};

struct Comm {
    std::shared_ptr<World> world;
    int rank = 0;
    std::atomic<bool> is_aborted{false};
    std::atomic<int> n_tasks{0};
    bool is_ready = false, is_finalized = false, is_breaking = false;
    uint64_t n_meetings = 0, n_operations = 0;
    Result error = SUCCESS;
    // What a group holds until it has been asked for so often.
    std::vector<std::pair<Stream *, struct Task *>> launches;
    int n_questions = 0;
};

using CommHandle = std::shared_ptr<Comm>;

// The calls of one group, as one operation of the stream.
struct Task {
    CommHandle comm;
    std::vector<Call> calls;
    bool is_stuck = false, is_given = false;
};

std::mutex all_mutex;
std::map<std::string, std::weak_ptr<World>> worlds;
std::atomic<int> n_live{0};

thread_local int depth = 0;
thread_local std::vector<std::pair<CommHandle *, std::pair<Stream *, Call>>> gathered;

const std::string &plan() {
    static const std::string name = [] {
        Dl_info info;
        const bool is_known = dladdr(reinterpret_cast<void *>(&n_live), &info) != 0 && info.dli_fname != nullptr;
        const std::string path = is_known ? info.dli_fname : "";
        return path.substr(path.rfind('/') + 1);
    }();
    return name;
}

bool is_planted(const char *fault) { return plan().find(fault) != std::string::npos; }

// The number behind the fault's name, or -1.
long planted_number(const char *fault) {
    const size_t at = plan().find(fault);
    return at == std::string::npos ? -1 : std::atol(plan().c_str() + at + std::strlen(fault));
}

size_t bytes_of(int type) { return type == UINT8 ? 1 : type == UINT64 ? 8 : type == FLOAT32 ? 4 : 0; }

bool agree(const Call &a, const Call &b) {
    return a.kind == b.kind && a.count == b.count && a.type == b.type && a.reduction == b.reduction && a.peer == b.peer;
}

bool is_meeting(Kind kind) { return kind != Kind::Send && kind != Kind::Receive; }

Bytes contents(const Call &call) {
    const auto *at = static_cast<const unsigned char *>(call.send);
    return Bytes(at, at + call.count * bytes_of(call.type));
}

// Shows the peers what this rank sends. The world is locked.
void give(Task &task) {
    const int rank = task.comm->rank;
    for (const Call &call : task.calls) {
        if (call.kind == Kind::Send) {
            task.comm->world->mail[{rank, call.peer}].push_back(contents(call));
        } else if (call.kind != Kind::Receive) {
            Meeting &meeting = task.comm->world->meetings[call.seq];
            if (meeting.parts.empty()) meeting.first = call;
            meeting.differs |= !agree(meeting.first, call);
            const bool sends = call.kind != Kind::Broadcast || call.peer == rank;
            meeting.parts[rank] = sends ? contents(call) : Bytes();
        }
    }
}

// Whether all that this rank receives is there. A message of another length never fits.
bool is_complete(const Task &task) {
    World &world = *task.comm->world;
    std::map<int, size_t> n_received;
    for (const Call &call : task.calls) {
        if (call.kind == Kind::Receive) {
            const auto &mail = world.mail[{call.peer, task.comm->rank}];
            const size_t nth = n_received[call.peer]++;
            if (mail.size() <= nth || mail[nth].size() != call.count * bytes_of(call.type)) return false;
        } else if (is_meeting(call.kind)) {
            const Meeting &meeting = world.meetings[call.seq];
            if (meeting.differs || meeting.parts.size() != size_t(world.size)) return false;
        }
    }
    return true;
}

void reduce(const Call &call, const std::map<int, Bytes> &parts) {
    Bytes result = parts.at(0);
    for (const auto &[rank, part] : parts) {
        if (rank == 0) continue;
        for (size_t i = 0; i < call.count; ++i) {
            if (call.type == UINT8) {
                result[i] = part[i] > result[i] ? part[i] : result[i];
            } else {
                uint64_t sum, x;
                std::memcpy(&sum, &result[8 * i], 8);
                std::memcpy(&x, &part[8 * i], 8);
                sum += x;
                std::memcpy(&result[8 * i], &sum, 8);
            }
        }
    }
    std::memcpy(call.receive, result.data(), result.size());
}

void take_meeting(const Call &call, World &world) {
    Meeting &meeting = world.meetings[call.seq];
    if (call.kind == Kind::AllReduce) {
        reduce(call, meeting.parts);
    } else if (call.kind == Kind::Broadcast) {
        const Bytes &part = meeting.parts[call.peer];
        std::memcpy(call.receive, part.data(), part.size());
    } else {
        auto *to = static_cast<unsigned char *>(call.receive);
        for (const auto &[rank, part] : meeting.parts) {
            std::memcpy(to, part.data(), part.size());
            to += part.size();
        }
    }
    if (++meeting.n_left == world.size) world.meetings.erase(call.seq);
}

void take(Task &task) {
    World &world = *task.comm->world;
    for (const Call &call : task.calls) {
        if (call.kind == Kind::Receive) {
            auto &mail = world.mail[{call.peer, task.comm->rank}];
            std::memcpy(call.receive, mail.front().data(), mail.front().size());
            mail.pop_front();
        } else if (is_meeting(call.kind)) {
            take_meeting(call, world);
        }
    }
}

int step(void *data) {
    Task *task = static_cast<Task *>(data);
    if (!task->comm->is_aborted) {
        if (task->is_stuck) return 0;
        const std::lock_guard<std::mutex> lock(task->comm->world->mutex);
        if (!task->is_given) give(*task);
        task->is_given = true;
        if (!is_complete(*task)) return 0;
        take(*task);
    }
    --task->comm->n_tasks;
    delete task;
    return 1;
}

// The end of a group: one task for each communicator, which reaches its stream once it has been asked for.
Result launch() {
    std::map<CommHandle *, std::pair<Stream *, Task *>> tasks;
    for (auto &[comm, call] : gathered) {
        auto &[stream, task] = tasks[comm];
        if (task == nullptr) task = new Task{*comm, {}};
        stream = call.first;
        task->calls.push_back(call.second);
    }
    gathered.clear();
    for (auto &[handle, launch] : tasks) {
        Comm &comm = **handle;
        const long broken = planted_number("error-at-"), n = long(comm.n_operations++);
        launch.second->is_stuck = broken >= 0 && n >= broken;
        comm.is_breaking |= launch.second->is_stuck;
        ++comm.n_tasks;
        comm.launches.push_back(launch);
        comm.n_questions = 2;
    }
    return tasks.empty() ? SUCCESS : IN_PROGRESS;
}

Result put(CommHandle *handle, void *stream, Call call) {
    if (handle == nullptr || stream == nullptr || bytes_of(call.type) == 0) return INVALID_ARGUMENT;
    Comm &comm = **handle;
    // The caller has to wait until the communicator, and the operation before, are no longer in progress.
    if (!comm.is_ready || comm.is_finalized || !comm.launches.empty()) return INVALID_USAGE;
    if (planted_number("refuses-at-") == long(comm.n_operations)) return INVALID_ARGUMENT;
    const bool is_peer = call.peer >= 0 && call.peer < comm.world->size;
    const bool reduces = (call.type == UINT8 && call.reduction == MAX) || (call.type == UINT64 && call.reduction == SUM);
    if (!is_peer || (call.kind == Kind::AllReduce && !reduces)) return INVALID_ARGUMENT;
    if (is_meeting(call.kind)) call.seq = comm.n_meetings++;
    gathered.push_back({handle, {static_cast<Stream *>(stream), call}});
    return depth == 0 ? launch() : SUCCESS;
}

// Whether the communicator has become what it is becoming.
Result state(Comm &comm) {
    if (comm.error != SUCCESS) return comm.error;
    const std::lock_guard<std::mutex> lock(comm.world->mutex);
    if (!comm.is_ready) {
        if (is_planted("init-fails")) return comm.error = SYSTEM_ERROR;
        comm.is_ready = comm.world->ranks.size() == size_t(comm.world->size) && !is_planted("init-hangs");
        return comm.is_ready ? SUCCESS : IN_PROGRESS;
    }
    const bool is_quiet = comm.n_tasks == 0 && comm.world->finalized.size() == size_t(comm.world->size);
    return comm.is_finalized && !is_quiet ? IN_PROGRESS : SUCCESS;
}

} // namespace

// A library with this symbol works on emulated streams, and on nothing else.
API int shardgraph_emulated_collectives(void) { return !is_planted("genuine"); }

// How many communicators have been neither destroyed nor aborted.
API int shardgraph_live_communicators(void) { return n_live; }

API int ncclGetVersion(int *version) {
    const long planted = planted_number("version-");
    *version = planted >= 0 ? int(planted) : 23003;
    return SUCCESS;
}

API int ncclGetUniqueId(UniqueId *id) {
    static std::atomic<int> n_ids{0};
    if (is_planted("no-id")) return SYSTEM_ERROR;
    std::memset(id->bytes, 0, sizeof id->bytes);
    const std::string text = "emulated " + std::to_string(getpid()) + " " + std::to_string(n_ids++);
    std::memcpy(id->bytes, text.data(), text.size());
    id->bytes[127] = 1; // all 128 bytes have to arrive
    return SUCCESS;
}

API int ncclCommInitRankConfig(CommHandle **out, int size, UniqueId id, int rank, const Config *config) {
    *out = nullptr;
    if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 0) return INVALID_ARGUMENT;
    if (size < 1 || rank < 0 || rank >= size || id.bytes[127] != 1) return INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(all_mutex);
    std::weak_ptr<World> &known = worlds[std::string(id.bytes, sizeof id.bytes)];
    std::shared_ptr<World> world = known.lock();
    if (world == nullptr) known = world = std::make_shared<World>();
    const std::lock_guard<std::mutex> inside(world->mutex);
    if (world->size == 0) world->size = size;
    if (world->size != size || !world->ranks.insert(rank).second) return INVALID_USAGE;
    auto comm = std::make_shared<Comm>();
    comm->world = world;
    comm->rank = rank;
    *out = new CommHandle(comm);
    ++n_live;
    return IN_PROGRESS;
}

API int ncclCommGetAsyncError(CommHandle *handle, int *answer) {
    Comm &comm = **handle;
    if (!comm.launches.empty()) {
        *answer = IN_PROGRESS;
        if (--comm.n_questions > 0) return SUCCESS;
        for (auto &[stream, task] : comm.launches) stream->enqueue(stream, step, task);
        comm.launches.clear();
        *answer = state(comm);
        if (comm.is_breaking) comm.error = REMOTE_ERROR; // from the next question on
        return SUCCESS;
    }
    *answer = state(comm);
    return SUCCESS;
}

API int ncclCommFinalize(CommHandle *handle) {
    Comm &comm = **handle;
    if (!comm.is_ready || comm.is_finalized) return INVALID_USAGE;
    comm.is_finalized = true;
    const std::lock_guard<std::mutex> lock(comm.world->mutex);
    comm.world->finalized.insert(comm.rank);
    return IN_PROGRESS;
}

API int ncclCommDestroy(CommHandle *handle) {
    if (!(*handle)->is_finalized || (*handle)->n_tasks != 0) return INVALID_USAGE;
    delete handle;
    --n_live;
    return SUCCESS;
}

API int ncclCommAbort(CommHandle *handle) {
    while (is_planted("abort-hangs")) std::this_thread::sleep_for(std::chrono::seconds(1));
    Comm &comm = **handle;
    comm.is_aborted = true;
    // What has not reached its stream never will.
    for (auto &[stream, task] : comm.launches) delete task;
    delete handle;
    --n_live;
    return SUCCESS;
}

API const char *ncclGetErrorString(int result) {
    switch (result) {
    case SUCCESS: return "no error";
    case SYSTEM_ERROR: return "unhandled system error";
    case INVALID_ARGUMENT: return "invalid argument";
    case INVALID_USAGE: return "invalid usage";
    case REMOTE_ERROR: return "remote process exited or there was a network error";
    case IN_PROGRESS: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

API const char *ncclGetLastError(CommHandle *handle) { return handle == nullptr ? "no communicator" : "planted"; }

API int ncclGroupStart(void) {
    ++depth;
    return SUCCESS;
}

API int ncclGroupEnd(void) {
    if (depth == 0) return INVALID_USAGE;
    return --depth == 0 ? launch() : SUCCESS;
}

API int ncclAllReduce(const void *send, void *receive, size_t count, int type, int reduction, CommHandle *comm, void *stream) {
    return put(comm, stream, {Kind::AllReduce, send, receive, count, type, reduction, 0, 0});
}

API int ncclAllGather(const void *send, void *receive, size_t count, int type, CommHandle *comm, void *stream) {
    return put(comm, stream, {Kind::AllGather, send, receive, count, type, 0, 0, 0});
}

API int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, CommHandle *comm, void *stream) {
    return put(comm, stream, {Kind::Broadcast, send, receive, count, type, 0, root, 0});
}

API int ncclSend(const void *send, size_t count, int type, int peer, CommHandle *comm, void *stream) {
    return put(comm, stream, {Kind::Send, send, nullptr, count, type, 0, peer, 0});
}

API int ncclRecv(void *receive, size_t count, int type, int peer, CommHandle *comm, void *stream) {
    return put(comm, stream, {Kind::Receive, nullptr, receive, count, type, 0, peer, 0});
}
