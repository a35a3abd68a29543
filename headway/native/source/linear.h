// Rows times weights: y = x W^T, for weights of 32, 16, 8 and 4 bits; rows and sums are float32.
//
// Weights are packed once in panels of PANEL outputs, in the order in which they are read: all outputs of input 0, of
// input 1, ... Each lane of a vector is one output, so that a sum runs over the inputs in the same order however many rows
// there are: a row's result does not depend on its company. Rows are taken in groups that fit the registers.
//
// 8 and 4 bits become floats in registers, which is exact; a sum over the inputs that share a scale is scaled once.
#pragma once
#include "activation.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

constexpr int PANEL = 2 * W;
enum WeightKind : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, INT4 = 3 };

typedef uint16_t half_width __attribute__((vector_size(W * 2), aligned(2)));
typedef int8_t quarter_width __attribute__((vector_size(W), aligned(1)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));

static inline vf load_bfloat16(const uint16_t* p) {
    return reinterpret_cast<vf>(__builtin_convertvector(*reinterpret_cast<const half_width*>(p), vu) << 16);
}

static inline float from_half(uint16_t x) {
    uint32_t sign = (x & 0x8000u) << 16, exponent = (x >> 10) & 31, fraction = x & 1023, u;
    float y;
    if (exponent == 0) {
        y = static_cast<float>(fraction) * 5.9604644775390625e-8f;
        return sign ? -y : y;
    }
    u = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
    std::memcpy(&y, &u, 4);
    return y;
}
static inline vf load_half(const uint16_t* p) {
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__) && defined(__AVX2__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
    float y[W];
    for (int i = 0; i < W; i++) y[i] = from_half(p[i]);
    return load(y);
#endif
}

static inline vf load_int8(const int8_t* p) {
    return __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const quarter_width*>(p), vi), vf);
}

// What the lowest 4 bits of each lane stand for: 0 ... 15 less an offset.
struct Nibbles {
    vf table;
    explicit Nibbles(float offset) {
        for (int i = 0; i < W; i++) table[i] = static_cast<float>(i) - offset;
#if !defined(__AVX512F__)
        table = all(offset);
#endif
    }
    vf operator()(vi lanes) const {
#if defined(__AVX512F__)
        return _mm512_permutexvar_ps((__m512i)lanes, table);
#else
        return __builtin_convertvector(lanes & 15, vf) - table;
#endif
    }
};

// One linear map as the program has it. Rows of `in` are normalised where `norm` says so; then
// out = residual + factor * activation(in W^T + bias), each where it is given.
struct Linear {
    int32_t weight_kind, group, half_scales, norm, activation, reuse, check, unused;
    int64_t inputs, outputs;
    const void* weight;  // packed, as are scale and minimum
    const void* scale;
    const void* minimum;
    const float *bias, *norm_weight, *norm_bias;
    const float *in, *factor, *residual;
    float* out;
    float eps;
};

static inline int64_t panels_of(const Linear& op) { return (op.outputs + PANEL - 1) / PANEL; }
// Inputs that share a scale, and how many such blocks there are.
static inline int64_t block_of(const Linear& op) { return op.group ? op.group : op.inputs; }
static inline int64_t blocks_of(const Linear& op) { return (op.inputs + block_of(op) - 1) / block_of(op); }
// Bytes of a packed panel; eight numbers of 4 bits are one word.
static inline int64_t panel_bytes(const Linear& op) {
    switch (op.weight_kind) {
        case FLOAT32: return op.inputs * PANEL * 4;
        case BFLOAT16: return op.inputs * PANEL * 2;
        case INT8: return op.inputs * PANEL;
        default: return (op.inputs + 7) / 8 * PANEL * 4;
    }
}

// How many rows one pass over a panel takes: the smallest of the sizes that are compiled that is enough.
#if defined(__AVX512F__)
constexpr int MOST = 12;
#else
constexpr int MOST = 6;
#endif
static inline int group_size(int rows) {
    for (int size : {1, 2, 4, 6, 8})
        if (rows <= size && size <= MOST) return size;
    return MOST;
}

// Rows as the kernels read them: a group's entries of input 0, then of input 1, ...
struct PackedRows {
    float* entries;
    float* sums;  // of each block of a row, where weights have a minimum
};

template <int R>
static inline void add_products(vf (&sum)[R][2], vf low, vf high, const float* x) {
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
        vf entry = all(x[r]);
        sum[r][0] += low * entry;
        sum[r][1] += high * entry;
    }
}
template <int R>
static inline void clear(vf (&sum)[R][2]) {
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = vf{};
}
template <int R>
static inline void write(const vf (&sum)[R][2], float* out) {
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
        store(out + r * PANEL, sum[r][0]);
        store(out + r * PANEL + W, sum[r][1]);
    }
}

static inline vf load_weight(const float* p) { return load(p); }
static inline vf load_weight(const uint16_t* p) { return load_bfloat16(p); }
static inline vf load_weight(const int8_t* p) { return load_int8(p); }

// Σ over inputs from ... to of a panel's weights and a group's entries, added to `sum`.
template <int R, class Weight>
static inline void add_inputs(vf (&sum)[R][2], const Weight* panel, const float* x, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        const Weight* at = panel + i * PANEL;
        __builtin_prefetch(reinterpret_cast<const char*>(at) + 2048);
        if constexpr (sizeof(Weight) * PANEL > 64) __builtin_prefetch(reinterpret_cast<const char*>(at) + 2048 + 64);
        add_products<R>(sum, load_weight(at), load_weight(at + W), x + i * R);
    }
}
template <int R>
static inline void add_nibbles(vf (&sum)[R][2], const vi* panel, const float* x, int64_t from, int64_t to, const Nibbles& meaning) {
    for (int64_t i = from; i < to; i += 8) {
        vi low = panel[i / 4], high = panel[i / 4 + 1];
        __builtin_prefetch(reinterpret_cast<const char*>(panel + i / 4) + 2048);
        __builtin_prefetch(reinterpret_cast<const char*>(panel + i / 4) + 2048 + 64);
#pragma GCC unroll 8
        for (int n = 0; n < 8; n++) add_products<R>(sum, meaning(low >> (4 * n)), meaning(high >> (4 * n)), x + (i + n) * R);
    }
}

template <int R, class Weight>
static void float_product(const Weight* panel, const float* x, int64_t inputs, float* out) {
    vf sum[R][2];
    clear<R>(sum);
    add_inputs<R>(sum, panel, x, 0, inputs);
    write<R>(sum, out);
}

// Weights with scales: each block of inputs by itself, then times its scale.
template <int R>
static void scaled_product(const Linear& op, int64_t panel, const PackedRows& rows, float* out) {
    const char* weight = static_cast<const char*>(op.weight) + panel * panel_bytes(op);
    int64_t block = block_of(op), blocks = blocks_of(op);
    Nibbles meaning(op.minimum ? 0.0f : 8.0f);
    vf total[R][2];
    clear<R>(total);
    for (int64_t b = 0; b < blocks; b++) {
        vf sum[R][2];
        clear<R>(sum);
        if (op.weight_kind == INT8) add_inputs<R>(sum, reinterpret_cast<const int8_t*>(weight), rows.entries, b * block, (b + 1) * block);
        else add_nibbles<R>(sum, reinterpret_cast<const vi*>(weight), rows.entries, b * block, (b + 1) * block, meaning);
        int64_t at = (panel * blocks + b) * PANEL;
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            auto read = [&](const void* from) {
                return op.half_scales ? load_half(static_cast<const uint16_t*>(from) + at + half * W)
                                      : load(static_cast<const float*>(from) + at + half * W);
            };
            vf scale = read(op.scale);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) total[r][half] += sum[r][half] * scale;
            if (op.minimum == nullptr) continue;
            vf minimum = read(op.minimum);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) total[r][half] += minimum * all(rows.sums[b * R + r]);
        }
    }
    write<R>(total, out);
}

template <int R>
static void panel_product(const Linear& op, int64_t panel, const PackedRows& rows, float* out) {
    const char* weight = static_cast<const char*>(op.weight) + panel * panel_bytes(op);
    switch (op.weight_kind) {
        case FLOAT32:
            return float_product<R>(reinterpret_cast<const float*>(weight), rows.entries, op.inputs, out);
        case BFLOAT16:
            return float_product<R>(reinterpret_cast<const uint16_t*>(weight), rows.entries, op.inputs, out);
        default: return scaled_product<R>(op, panel, rows, out);
    }
}

static void any_product(const Linear& op, int64_t panel, int size, const PackedRows& rows, float* out) {
    switch (size) {
        case 1: return panel_product<1>(op, panel, rows, out);
        case 2: return panel_product<2>(op, panel, rows, out);
        case 4: return panel_product<4>(op, panel, rows, out);
        case 6: return panel_product<6>(op, panel, rows, out);
#if defined(__AVX512F__)
        case 8: return panel_product<8>(op, panel, rows, out);
        default: return panel_product<12>(op, panel, rows, out);
#endif
    }
}

// One row normalised: kind 1 by mean and variance, 2 by the root of the mean square; 0 as it is.
static void normalise(const Linear& op, const float* x, float* out) {
    int64_t n = op.inputs, whole = n / W * W;
    if (op.norm == 0) {
        std::memcpy(out, x, n * sizeof(float));
        return;
    }
    float mean = 0;
    if (op.norm == 1) {
        vf total{};
        for (int64_t i = 0; i < whole; i += W) total += load(x + i);
        if (whole < n) total += load_part(x + whole, static_cast<int>(n - whole));
        mean = sum(total) / static_cast<float>(n);
    }
    vf squares{};
    for (int64_t i = 0; i < whole; i += W) {
        vf d = load(x + i) - mean;
        squares += d * d;
    }
    float last = 0;
    for (int64_t i = whole; i < n; i++) last += (x[i] - mean) * (x[i] - mean);
    float factor = 1.0f / __builtin_sqrtf((sum(squares) + last) / static_cast<float>(n) + op.eps);
    auto read = [](const float* p, int part) { return part == W ? load(p) : load_part(p, part); };
    for (int64_t i = 0; i < n; i += W) {
        int part = n - i < W ? static_cast<int>(n - i) : W;
        vf y = (read(x + i, part) - mean) * factor;
        if (op.norm_weight) y *= read(op.norm_weight + i, part);
        if (op.norm_bias) y += read(op.norm_bias + i, part);
        if (part == W) store(out + i, y);
        else store_part(out + i, y, part);
    }
}

static bool all_finite(const float* x, int64_t n) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        std::memcpy(&u, x + i, 4);
        bad |= (u & 0x7f800000) == 0x7f800000;
    }
    return bad == 0;
}

// One row into its place in a group of `size` rows.
static void pack_row(const Linear& op, const float* x, int size, int place, const PackedRows& rows) {
    for (int64_t i = 0; i < op.inputs; i++) rows.entries[i * size + place] = x[i];
    if (op.minimum == nullptr) return;
    for (int64_t b = 0; b < blocks_of(op); b++) {
        float total = 0;
        for (int64_t i = b * block_of(op); i < (b + 1) * block_of(op); i++) total += x[i];
        rows.sums[b * size + place] = total;
    }
}

// What one panel of one group becomes: bias, activation, factor, residual.
static void finish(const Linear& op, int64_t panel, int64_t first_row, int count, const float* sums) {
    int64_t from = panel * PANEL, n = op.outputs - from < PANEL ? op.outputs - from : PANEL;
    for (int r = 0; r < count; r++) {
        for (int64_t i = 0; i < n; i += W) {
            int part = n - i < W ? static_cast<int>(n - i) : W;
            int64_t at = (first_row + r) * op.outputs + from + i;
            auto read = [&](const float* p) { return part == W ? load(p) : load_part(p, part); };
            vf y = load(sums + r * PANEL + i);
            if (op.bias) y += read(op.bias + from + i);
            if (op.activation) y = activate(y, op.activation);
            if (op.factor) y *= read(op.factor + at);
            if (op.residual) y += read(op.residual + at);
            if (part == W) store(op.out + at, y);
            else store_part(op.out + at, y, part);
        }
    }
}

// [outputs, inputs] into [panel][inputs][PANEL].
template <class Weight>
static void pack_panel(const Linear& op, const Weight* from, Weight* to, int64_t panel) {
    for (int lane = 0; lane < PANEL && panel * PANEL + lane < op.outputs; lane++) {
        const Weight* row = from + (panel * PANEL + lane) * op.inputs;
        for (int64_t i = 0; i < op.inputs; i++) to[i * PANEL + lane] = row[i];
    }
}
// Two numbers of 4 bits a byte, the first in its lower half, into words of eight.
static void pack_nibbles(const Linear& op, const uint8_t* from, uint32_t* to, int64_t panel) {
    for (int lane = 0; lane < PANEL && panel * PANEL + lane < op.outputs; lane++) {
        const uint8_t* row = from + (panel * PANEL + lane) * (op.inputs / 2);
        for (int64_t i = 0; i < op.inputs; i++) {
            uint32_t number = (row[i / 2] >> (i % 2 * 4)) & 15u;
            to[i / 8 * PANEL + lane] |= number << (i % 8 * 4);
        }
    }
}
static void pack_weight(const Linear& op, const void* from, void* to, int threads) {
    int64_t bytes = panel_bytes(op);
    in_parallel(threads, [&](Team& team, int thread) {
        Share share(panels_of(op), thread, team.size);
        for (int64_t panel = share.from; panel < share.to; panel++) {
            char* at = static_cast<char*>(to) + panel * bytes;
            std::memset(at, 0, bytes);
            switch (op.weight_kind) {
                case FLOAT32: pack_panel(op, static_cast<const float*>(from), reinterpret_cast<float*>(at), panel); break;
                case BFLOAT16: pack_panel(op, static_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(at), panel); break;
                case INT8: pack_panel(op, static_cast<const int8_t*>(from), reinterpret_cast<int8_t*>(at), panel); break;
                default: pack_nibbles(op, static_cast<const uint8_t*>(from), reinterpret_cast<uint32_t*>(at), panel);
            }
        }
    });
}

// [outputs] (one block) or [outputs, blocks] into [panel][blocks][PANEL].
template <class Number>
static void pack_scales(const Linear& op, const Number* from, Number* to) {
    int64_t blocks = blocks_of(op);
    std::memset(to, 0, panels_of(op) * blocks * PANEL * sizeof(Number));
    for (int64_t o = 0; o < op.outputs; o++)
        for (int64_t b = 0; b < blocks; b++) to[(o / PANEL * blocks + b) * PANEL + o % PANEL] = from[o * blocks + b];
}
