/* The all-reduces of the tcp back end, written with messages of MPI, for a simulated cluster: `cargo xtask repro model` compiles this with
 * SimGrid's smpicc, runs it with smpirun and compares the simulated seconds with the cost model's. Sums are checked.
 *
 * Usage: all_reduce_smpi ALGORITHM BYTES. Rank 0 prints "SECONDS <seconds>". */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As crates/collectives/src/cost/work.rs has it. */
#define CHAIN_PIECE_BYTES 65536

/* Ranks leave a barrier at different times, so they all begin at one moment of the simulated clock, this long after it. */
#define PAUSE_SECONDS 0.1

static int rank, n_ranks;

static void check(int good, const char *what) {
  if (!good) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void *memory(size_t n_floats) {
  void *block = calloc(n_floats + 1, sizeof(float));
  check(block != NULL, "no memory");
  return block;
}

static void add(float *sum, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    sum[i] += x[i];
}

static size_t border(size_t n, int part) { return n * (size_t)part / (size_t)n_ranks; }

/* Everyone sends `counts` floats from `outs` to each other rank and gets what they have for it, one after the other, at `in`. */
static void exchange(float *const *outs, const size_t *out_counts, float *const *ins, const size_t *in_counts) {
  MPI_Request *requests = malloc(2 * (size_t)n_ranks * sizeof(MPI_Request));
  int n = 0;
  check(requests != NULL, "no memory");
  for (int shift = 1; shift < n_ranks; shift++) {
    int from = (rank + n_ranks - shift) % n_ranks, to = (rank + shift) % n_ranks;
    if (in_counts[from] > 0)
      MPI_Irecv(ins[from], (int)in_counts[from], MPI_FLOAT, from, 0, MPI_COMM_WORLD, &requests[n++]);
    if (out_counts[to] > 0)
      MPI_Isend(outs[to], (int)out_counts[to], MPI_FLOAT, to, 0, MPI_COMM_WORLD, &requests[n++]);
  }
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  free(requests);
}

struct lists {
  float **outs, **ins;
  size_t *out_counts, *in_counts;
};

static struct lists new_lists(void) {
  struct lists l = {calloc((size_t)n_ranks, sizeof(float *)), calloc((size_t)n_ranks, sizeof(float *)),
                    calloc((size_t)n_ranks, sizeof(size_t)), calloc((size_t)n_ranks, sizeof(size_t))};
  check(l.outs && l.ins && l.out_counts && l.in_counts, "no memory");
  return l;
}

static void free_lists(struct lists *l) {
  free(l->outs), free(l->ins), free(l->out_counts), free(l->in_counts);
}

static void run(struct lists *l) { exchange(l->outs, l->out_counts, l->ins, l->in_counts); }

static void empty(struct lists *l) {
  memset(l->out_counts, 0, (size_t)n_ranks * sizeof(size_t));
  memset(l->in_counts, 0, (size_t)n_ranks * sizeof(size_t));
}

/* Adds what came from the ranks to `own`, in rank order. */
static void reduce(float *own, float *const *ins, size_t n) {
  float *sum = memory(n);
  for (int r = 0; r < n_ranks; r++)
    add(sum, r == rank ? own : ins[r], n);
  memcpy(own, sum, n * sizeof(float));
  free(sum);
}

static void whole(float *buf, float *room, size_t n) {
  struct lists l = new_lists();
  for (int r = 0; r < n_ranks; r++) {
    l.outs[r] = buf, l.out_counts[r] = n;
    l.ins[r] = room + (size_t)r * n, l.in_counts[r] = n;
  }
  run(&l);
  reduce(buf, l.ins, n);
  free_lists(&l);
}

static void parts(float *buf, float *room, size_t n) {
  struct lists l = new_lists();
  size_t start = border(n, rank), own = border(n, rank + 1) - start;
  for (int r = 0; r < n_ranks; r++) {
    l.outs[r] = buf + border(n, r), l.out_counts[r] = border(n, r + 1) - border(n, r);
    l.ins[r] = room + (size_t)r * own, l.in_counts[r] = own;
  }
  run(&l);
  reduce(buf + start, l.ins, own);
  for (int r = 0; r < n_ranks; r++) {
    l.outs[r] = buf + start, l.out_counts[r] = own;
    l.ins[r] = buf + border(n, r), l.in_counts[r] = border(n, r + 1) - border(n, r);
  }
  run(&l);
  free_lists(&l);
}

static void tree(float *buf, float *room, size_t n) {
  struct lists l = new_lists();
  for (int r = 0; r < n_ranks; r++) {
    l.outs[r] = buf, l.out_counts[r] = r == 0 ? n : 0;
    l.ins[r] = room + (size_t)r * n, l.in_counts[r] = rank == 0 ? n : 0;
  }
  run(&l);
  if (rank == 0)
    reduce(buf, l.ins, n);
  int reach = 1;
  while (reach * 2 < n_ranks)
    reach *= 2;
  for (; reach > 0; reach /= 2) {
    empty(&l);
    if (rank % (2 * reach) == reach)
      l.ins[rank - reach] = buf, l.in_counts[rank - reach] = n;
    else if (rank % (2 * reach) == 0 && rank + reach < n_ranks)
      l.outs[rank + reach] = buf, l.out_counts[rank + reach] = n;
    run(&l);
  }
  free_lists(&l);
}

/* The floats of the piece that is `delay` steps behind, if there is one. */
static size_t piece(long step, long delay, size_t n, size_t *start) {
  size_t len = CHAIN_PIECE_BYTES / sizeof(float);
  if (step < delay || delay < 0 || (size_t)(step - delay) * len >= n)
    return 0;
  *start = (size_t)(step - delay) * len;
  return n - *start < len ? n - *start : len;
}

static void chain(float *buf, float *room, size_t n) {
  struct lists l = new_lists();
  size_t len = CHAIN_PIECE_BYTES / sizeof(float), at = 0;
  long n_pieces = (long)((n + len - 1) / len), p = n_ranks, own = rank;
  float *coming = room, *sum = room + len;
  for (long step = 0; step < n_pieces + 2 * p - 3; step++) {
    size_t up_into = 0, n_up_into = 0;
    empty(&l);
    if (own + 1 < p) {
      l.out_counts[own + 1] = piece(step, own, n, &at);
      l.outs[own + 1] = own == 0 ? buf + at : sum;
      l.in_counts[own + 1] = piece(step, 2 * p - 3 - own, n, &at);
      l.ins[own + 1] = buf + at;
    }
    if (own > 0) {
      l.out_counts[own - 1] = piece(step, 2 * p - 2 - own, n, &at);
      l.outs[own - 1] = buf + at;
      l.in_counts[own - 1] = n_up_into = piece(step, own - 1, n, &up_into);
      l.ins[own - 1] = coming;
    }
    run(&l);
    if (n_up_into > 0) {
      add(coming, buf + up_into, n_up_into);
      memcpy(own + 1 == p ? buf + up_into : sum, coming, n_up_into * sizeof(float));
    }
  }
  free_lists(&l);
}

static void all_reduce(const char *algorithm, float *buf, float *room, size_t n) {
  for (size_t i = 0; i < n; i++)
    buf[i] = (float)(((size_t)rank * 17 + i * 5) % 37);
  if (strcmp(algorithm, "whole") == 0)
    whole(buf, room, n);
  else if (strcmp(algorithm, "parts") == 0)
    parts(buf, room, n);
  else if (strcmp(algorithm, "tree") == 0)
    tree(buf, room, n);
  else if (strcmp(algorithm, "chain") == 0)
    chain(buf, room, n);
  else
    check(0, "no such algorithm");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  check(argc == 3 && n_ranks > 1, "usage: ALGORITHM BYTES, on two ranks at least");
  size_t n = (size_t)atol(argv[2]) / sizeof(float);
  int is_all = strcmp(argv[1], "whole") == 0 || (strcmp(argv[1], "tree") == 0 && rank == 0);
  size_t for_parts = n + (size_t)n_ranks, for_chain = 2 * CHAIN_PIECE_BYTES;
  size_t n_room = is_all ? n * (size_t)n_ranks : for_parts > for_chain ? for_parts : for_chain;
  float *buf = memory(n), *room = memory(n_room);
  MPI_Barrier(MPI_COMM_WORLD);
  double now = MPI_Wtime(), start = 0;
  MPI_Allreduce(&now, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  start += PAUSE_SECONDS;
  usleep((useconds_t)((start - MPI_Wtime()) * 1e6));
  all_reduce(argv[1], buf, room, n);
  double own_seconds = MPI_Wtime() - start, seconds = 0;
  for (size_t i = 0; i < n; i += 997) {
    float wanted = 0;
    for (int r = 0; r < n_ranks; r++)
      wanted += (float)(((size_t)r * 17 + i * 5) % 37);
    check(buf[i] == wanted, "a wrong sum");
  }
  MPI_Reduce(&own_seconds, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("SECONDS %.9f\n", seconds);
  MPI_Finalize();
  return 0;
}
