// Kernels of headway as plain C functions: no headers of torch, called by ctypes. One file, compiled at first use.
#include "blake3.h"
#include "program.h"
#include "short_attention.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

template <class Map>
static void map_elements(int64_t count, int threads, const Map& map) {
    constexpr int64_t block = 4096;  // elements that a thread takes together
    int64_t blocks = (count + block - 1) / block;
    in_parallel(blocks < 4 ? 1 : threads, [&](Team& team, int thread) {
        Share share(blocks, thread, team.size);
        int64_t end = share.to * block < count ? share.to * block : count;
        int64_t i = share.from * block;
        for (; i + W <= end; i += W) map(i, W);
        if (i < end) map(i, static_cast<int>(end - i));
    });
}

extern "C" {

int32_t headway_vector_width() { return W; }

void headway_use_openmp(Parallel parallel, Number thread, Number threads) {
    openmp_thread.store(thread);
    openmp_threads.store(threads);
    openmp_parallel.store(parallel);
}

void headway_activation(const float* x, float* out, int64_t count, int32_t kind, int32_t threads) {
    map_elements(count, threads, [=](int64_t i, int n) {
        if (n == W) store(out + i, activate(load(x + i), kind));
        else store_part(out + i, activate(load_part(x + i, n), kind), n);
    });
}

void headway_gelu_backward(const float* grad, const float* x, float* out, int64_t count, int32_t kind, int32_t threads) {
    map_elements(count, threads, [=](int64_t i, int n) {
        if (n == W) store(out + i, load(grad + i) * gelu_slope(load(x + i), kind));
        else store_part(out + i, load_part(grad + i, n) * gelu_slope(load_part(x + i, n), kind), n);
    });
}

int32_t headway_sizes(int32_t* found) {
    found[0] = sizeof(Operation);
    found[1] = sizeof(Step);
    found[2] = PANEL;
    return 3;
}

// Bytes of the packed weight, and entries of its scales.
void headway_packed_sizes(const Linear* op, int64_t* found) {
    found[0] = panels_of(*op) * panel_bytes(*op);
    found[1] = panels_of(*op) * blocks_of(*op) * PANEL;
}
void headway_pack_weight(const Linear* op, const void* from, void* to, int32_t threads) { pack_weight(*op, from, to, threads); }
void headway_pack_scales(const Linear* op, const void* from, void* to) {
    if (op->half_scales) pack_scales(*op, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
    else pack_scales(*op, static_cast<const float*>(from), static_cast<float*>(to));
}

int32_t headway_multiplies_integers(const Linear* op) { return multiplies_integers(*op); }

// All rows of `in` by weights that are multiplied as whole numbers; room for `together` rows at a time.
void headway_linear_rows(const Linear* op, int64_t rows, int64_t together, float* entries, float* sums, int32_t threads) {
    linear_rows(*op, rows, together, {entries, sums}, threads);
}

// Ask for pages of 2 MB: weights are read from end to end for every token. The system may say no.
void headway_large_pages(void* from, int64_t bytes) {
#if defined(__linux__)
    uintptr_t step = 1 << 21, first = (reinterpret_cast<uintptr_t>(from) + step - 1) / step * step;
    uintptr_t last = (reinterpret_cast<uintptr_t>(from) + bytes) / step * step;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)from, (void)bytes;
#endif
}

// One token of every row through the program; whether all that was checked is finite.
int32_t headway_step(const Operation* operations, int64_t count, Step* step) {
    run_program(operations, count, *step);
    return step->finite;
}

// Every part, by whoever calls with the same `stage`, of zeros at first; returns when all are done.
void headway_hash_parts(HashPart* parts, int64_t count, Stage* stage) {
    Team::share(*stage, count, 1, [&](int64_t part, int64_t) { hash_part(parts[part]); });
}
void headway_join_hashes(Hash* hashes, int64_t count) { join_hashes(hashes, count, true); }

// tensors: q, k, v, out; strides: three of each.
void headway_short_attention(const ShortAttention* call, float* const* tensors, const int64_t* strides, float* logs,
                             int32_t threads) {
    auto at = [&](int i) { return Heads{tensors[i], strides + 3 * i}; };
    call->forward(at(0), at(1), at(2), at(3), logs, threads);
}

// tensors: q, k, v, out, and the gradients of out, q, k and v.
void headway_short_attention_backward(const ShortAttention* call, float* const* tensors, const int64_t* strides,
                                      const float* logs, int32_t threads) {
    auto at = [&](int i) { return Heads{tensors[i], strides + 3 * i}; };
    call->backward(at(0), at(1), at(2), at(3), at(4), logs, at(5), at(6), at(7), threads);
}
}
