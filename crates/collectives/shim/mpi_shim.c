/* The functions of MPI that shardgraph uses, with the standard binary interface of MPI 5.0, on top of any MPI since 3.0.
 *
 * `cargo xtask mpi-shim` compiles this with an MPI's own mpicc; crates/collectives/src/mpi/ffi/library.rs opens the result. Every name begins with shardgraph_,
 * because the plain ones belong to the MPI below. Handles and numbers of the standard interface are translated; a handle that is not predefined is the
 * MPI's own, widened. Counts are `int` here: a longer message gives MPI_ERR_COUNT. The caller never is in here with two threads at once.
 */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef intptr_t handle;

enum {
  ABI_IN_PLACE = 1,
  ABI_SUM = 0x21,
  ABI_MIN = 0x22,
  ABI_MAX = 0x23,
  ABI_COMM_NULL = 0x100,
  ABI_COMM_WORLD = 0x101,
  ABI_REQUEST_NULL = 0x180,
  ABI_FLOAT = 0x210,
  ABI_INT8_T = 0x240,
  ABI_UINT8_T = 0x241,
  ABI_INT32_T = 0x250,
  ABI_UINT32_T = 0x251,
  ABI_INT64_T = 0x258,
  ABI_UINT64_T = 0x259,
  ABI_ANY_SOURCE = -1,
  ABI_MAX_ERROR_STRING = 512,
  ABI_THREAD_STEP = 1024
};

static MPI_Comm comm_of(handle comm) { return comm == ABI_COMM_WORLD ? MPI_COMM_WORLD : (MPI_Comm)comm; }

static handle abi_comm(MPI_Comm comm) { return comm == MPI_COMM_NULL ? ABI_COMM_NULL : (handle)comm; }

static handle abi_request(MPI_Request request) {
  return request == MPI_REQUEST_NULL ? ABI_REQUEST_NULL : (handle)request;
}

static MPI_Datatype type_of(handle type) {
  switch (type) {
  case ABI_FLOAT: return MPI_FLOAT;
  case ABI_INT8_T: return MPI_INT8_T;
  case ABI_UINT8_T: return MPI_UINT8_T;
  case ABI_INT32_T: return MPI_INT32_T;
  case ABI_UINT32_T: return MPI_UINT32_T;
  case ABI_INT64_T: return MPI_INT64_T;
  case ABI_UINT64_T: return MPI_UINT64_T;
  default: return MPI_DATATYPE_NULL;
  }
}

static MPI_Op op_of(handle op) {
  switch (op) {
  case ABI_SUM: return MPI_SUM;
  case ABI_MIN: return MPI_MIN;
  case ABI_MAX: return MPI_MAX;
  default: return MPI_OP_NULL;
  }
}

static const void *send_of(const void *buffer) { return buffer == (const void *)ABI_IN_PLACE ? MPI_IN_PLACE : buffer; }

static int fits(int64_t count) { return count >= 0 && count <= INT_MAX; }

/* The `int` counts of an operation, which MPI reads until it is over. */
struct counts {
  MPI_Request request;
  struct counts *next;
  int numbers[];
};
static struct counts *under_way;

/* Room for `n_arrays` arrays of one number per rank. */
static struct counts *new_counts(MPI_Comm comm, int n_arrays, int *n_ranks) {
  if (MPI_Comm_size(comm, n_ranks) != MPI_SUCCESS) return NULL;
  return malloc(sizeof(struct counts) + sizeof(int) * (size_t)n_arrays * (size_t)*n_ranks);
}

/* Copies counts and displacements; false if one does not fit. */
static int copy_counts(int *to, int n_ranks, const int64_t counts[], const MPI_Aint displacements[]) {
  for (int rank = 0; rank < n_ranks; rank++) {
    if (!fits(counts[rank]) || !fits(displacements[rank])) return 0;
    to[rank] = (int)counts[rank];
    to[n_ranks + rank] = (int)displacements[rank];
  }
  return 1;
}

static int keep(struct counts *counts, int status, MPI_Request request, handle *out) {
  if (status != MPI_SUCCESS) {
    free(counts);
    return status;
  }
  counts->request = request;
  counts->next = under_way;
  under_way = counts;
  *out = abi_request(request);
  return status;
}

static void release(MPI_Request request) {
  for (struct counts **at = &under_way; *at; at = &(*at)->next) {
    if ((*at)->request == request) {
      struct counts *over = *at;
      *at = over->next;
      free(over);
      return;
    }
  }
}

int shardgraph_MPI_Abi_get_version(int *major, int *minor) {
  *major = 1;
  *minor = 0;
  return MPI_SUCCESS;
}

int shardgraph_MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  int level = required / ABI_THREAD_STEP, got;
  if (level < 0 || level > 3) return MPI_ERR_ARG;
  int status = MPI_Init_thread(argc, argv, levels[level], &got);
  *provided = 0;
  for (int i = 0; i < 4; i++)
    if (levels[i] == got) *provided = i * ABI_THREAD_STEP;
  return status;
}

int shardgraph_MPI_Initialized(int *flag) { return MPI_Initialized(flag); }

int shardgraph_MPI_Finalize(void) { return MPI_Finalize(); }

int shardgraph_MPI_Error_string(int code, char *text, int *length) {
  char own[MPI_MAX_ERROR_STRING + 1] = "";
  int status = MPI_Error_string(code, own, length);
  if (*length > ABI_MAX_ERROR_STRING - 1) *length = ABI_MAX_ERROR_STRING - 1;
  memcpy(text, own, (size_t)*length);
  text[*length] = 0;
  return status;
}

int shardgraph_MPI_Comm_rank(handle comm, int *rank) { return MPI_Comm_rank(comm_of(comm), rank); }

int shardgraph_MPI_Comm_size(handle comm, int *size) { return MPI_Comm_size(comm_of(comm), size); }

int shardgraph_MPI_Comm_dup(handle comm, handle *out) {
  MPI_Comm made = MPI_COMM_NULL;
  int status = MPI_Comm_dup(comm_of(comm), &made);
  *out = abi_comm(made);
  return status;
}

int shardgraph_MPI_Comm_set_errhandler(handle comm, handle handler) {
  (void)handler; /* only MPI_ERRORS_RETURN is asked for */
  return MPI_Comm_set_errhandler(comm_of(comm), MPI_ERRORS_RETURN);
}

int shardgraph_MPI_Iallgather_c(const void *send, int64_t n_send, handle send_type, void *recv, int64_t n_recv,
                                handle recv_type, handle comm, handle *out) {
  if (!fits(n_send) || !fits(n_recv)) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Iallgather(send, (int)n_send, type_of(send_type), recv, (int)n_recv, type_of(recv_type), comm_of(comm),
                              &request);
  *out = abi_request(request);
  return status;
}

int shardgraph_MPI_Iallgatherv_c(const void *send, int64_t n_send, handle send_type, void *recv, const int64_t counts[],
                                 const MPI_Aint displacements[], handle recv_type, handle comm, handle *out) {
  int n_ranks;
  struct counts *own = new_counts(comm_of(comm), 2, &n_ranks);
  if (!own) return MPI_ERR_OTHER;
  if (!fits(n_send) || !copy_counts(own->numbers, n_ranks, counts, displacements)) {
    free(own);
    return MPI_ERR_COUNT;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Iallgatherv(send, (int)n_send, type_of(send_type), recv, own->numbers, own->numbers + n_ranks,
                               type_of(recv_type), comm_of(comm), &request);
  return keep(own, status, request, out);
}

int shardgraph_MPI_Ialltoallv_c(const void *send, const int64_t send_counts[], const MPI_Aint send_displacements[],
                                handle send_type, void *recv, const int64_t recv_counts[],
                                const MPI_Aint recv_displacements[], handle recv_type, handle comm, handle *out) {
  int n_ranks;
  struct counts *own = new_counts(comm_of(comm), 4, &n_ranks);
  if (!own) return MPI_ERR_OTHER;
  int *received = own->numbers + 2 * n_ranks;
  if (!copy_counts(own->numbers, n_ranks, send_counts, send_displacements) ||
      !copy_counts(received, n_ranks, recv_counts, recv_displacements)) {
    free(own);
    return MPI_ERR_COUNT;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Ialltoallv(send, own->numbers, own->numbers + n_ranks, type_of(send_type), recv, received,
                              received + n_ranks, type_of(recv_type), comm_of(comm), &request);
  return keep(own, status, request, out);
}

int shardgraph_MPI_Iallreduce_c(const void *send, void *recv, int64_t n, handle type, handle op, handle comm, handle *out) {
  if (!fits(n)) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Iallreduce(send_of(send), recv, (int)n, type_of(type), op_of(op), comm_of(comm), &request);
  *out = abi_request(request);
  return status;
}

int shardgraph_MPI_Ibcast_c(void *buffer, int64_t n, handle type, int root, handle comm, handle *out) {
  if (!fits(n)) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Ibcast(buffer, (int)n, type_of(type), root, comm_of(comm), &request);
  *out = abi_request(request);
  return status;
}

int shardgraph_MPI_Isend_c(const void *buffer, int64_t n, handle type, int to, int tag, handle comm, handle *out) {
  if (!fits(n)) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Isend(buffer, (int)n, type_of(type), to, tag, comm_of(comm), &request);
  *out = abi_request(request);
  return status;
}

int shardgraph_MPI_Irecv_c(void *buffer, int64_t n, handle type, int from, int tag, handle comm, handle *out) {
  if (!fits(n)) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  int status = MPI_Irecv(buffer, (int)n, type_of(type), from == ABI_ANY_SOURCE ? MPI_ANY_SOURCE : from, tag, comm_of(comm),
                         &request);
  *out = abi_request(request);
  return status;
}

int shardgraph_MPI_Test(handle *request, int *flag, void *status) {
  (void)status; /* never asked for */
  MPI_Request own = *request == ABI_REQUEST_NULL ? MPI_REQUEST_NULL : (MPI_Request)*request, before = own;
  int code = MPI_Test(&own, flag, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && *flag) release(before);
  *request = abi_request(own);
  return code;
}

int shardgraph_MPI_Cancel(handle *request) {
  MPI_Request own = (MPI_Request)*request;
  return MPI_Cancel(&own);
}
