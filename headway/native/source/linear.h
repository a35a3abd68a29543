// Rows times weights: y = x W^T, for weights of 32, 16, 8 and 4 bits; rows and results are float32.
//
// Each lane of a vector is one output, so that a sum runs over the inputs in the same order however many rows there are: a
// row's result does not depend on its company. Rows are taken in groups that fit the registers.
//
// Weights of 8 and 4 bits become floats in registers, which is exact, and a sum over the inputs that share a scale is scaled
// once; or, where the processor has products of bytes, rows become whole numbers of 24 bits (`integer.h`).
#pragma once
#include <vector>
#include "integer.h"

// How many rows one pass over a panel takes: the smallest of the sizes that are compiled that is enough.
#if defined(__AVX512F__)
constexpr int MOST = 12;
#else
constexpr int MOST = 6;
#endif
static inline int most_rows(const Linear& op) { return multiplies_integers(op) ? MOST_INTEGER : MOST; }
static inline int group_size(const Linear& op, int rows) {
    if (multiplies_integers(op)) return integer_group_size(rows);
    for (int size : {1, 2, 4, 6, 8})
        if (rows <= size && size <= MOST) return size;
    return MOST;
}

// Rows as the kernels read them: a group's entries of input 0, then of input 1, ...; and their sums over each block, where
// weights have a minimum. Or whole numbers in the same room.
struct PackedRows {
    float* entries;
    float* sums;
    IntegerRows integers(const Linear& op, int size) const {
        return {reinterpret_cast<int32_t*>(entries), reinterpret_cast<int32_t*>(sums), sums + blocks_of(op) * DIGITS * size};
    }
};
// Floats of room that a row takes of each.
static inline int64_t entries_of(const Linear& op) { return quads_of(op) * 4; }
static inline int64_t sums_of(const Linear& op) { return blocks_of(op) * DIGITS + 1; }

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
static inline float as_float(float x) { return x; }
static inline float as_float(uint16_t x) { return from_bfloat16(x); }

// Σ over inputs from ... to of a panel's weights and a group's entries, added to `sum`.
template <int R, class Weight>
static inline void add_inputs(vf (&sum)[R][2], const Weight* panel, const float* x, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        const Weight* at = panel + i * PANEL;
        __builtin_prefetch(reinterpret_cast<const char*>(at) + AHEAD);
        if constexpr (sizeof(Weight) * PANEL > 64) __builtin_prefetch(reinterpret_cast<const char*>(at) + AHEAD + 64);
        add_products<R>(sum, load_weight(at), load_weight(at + W), x + i * R);
    }
}
template <int R>
static inline void add_nibbles(vf (&sum)[R][2], const vi* panel, const float* x, int64_t from, int64_t to, const Nibbles& meaning) {
    for (int64_t i = from; i < to; i += 8) {
        vi low = panel[i / 4], high = panel[i / 4 + 1];
        __builtin_prefetch(reinterpret_cast<const char*>(panel + i / 4) + AHEAD);
        __builtin_prefetch(reinterpret_cast<const char*>(panel + i / 4) + AHEAD + 64);
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

// `count` inputs from `first` on of a panel of `stored` weights, as floats [W][PANEL]. What stands behind the last output is
// that output again.
template <class Weight>
static inline void turn_block(const Linear& op, int64_t panel, int64_t first, int count, float* block) {
    const Weight* weight = static_cast<const Weight*>(op.weight) + panel * PANEL * op.inputs;
    int64_t outputs = op.outputs - panel * PANEL;
    // The next panel's weights, one line after the other: memory gives them twice as fast as in PANEL streams.
    const char* next = reinterpret_cast<const char*>(weight + PANEL * (op.inputs + first));
    for (size_t at = 0; at < PANEL * W * sizeof(Weight); at += 64) __builtin_prefetch(next + at);
    auto row = [&](int lane) { return weight + (lane < outputs ? lane : outputs - 1) * op.inputs + first; };
    if (count < W) {
        for (int lane = 0; lane < PANEL; lane++)
            for (int i = 0; i < count; i++) block[i * PANEL + lane] = as_float(row(lane)[i]);
        return;
    }
    for (int half = 0; half < 2; half++) {
        vf x[W];
#pragma GCC unroll 16
        for (int lane = 0; lane < W; lane++) x[lane] = load_weight(row(half * W + lane));
        transpose(x);
#pragma GCC unroll 16
        for (int i = 0; i < W; i++) store(block + i * PANEL + half * W, x[i]);
    }
}
// In the order in which packed weights are multiplied, so that the result has the same bits.
template <int R, class Weight>
static void stored_product(const Linear& op, int64_t panel, const float* x, float* out) {
    alignas(64) float block[W * PANEL];
    vf sum[R][2];
    clear<R>(sum);
    for (int64_t first = 0; first < op.inputs; first += W) {
        int count = op.inputs - first < W ? static_cast<int>(op.inputs - first) : W;
        turn_block<Weight>(op, panel, first, count, block);
        for (int i = 0; i < count; i++) add_products<R>(sum, load(block + i * PANEL), load(block + i * PANEL + W), x + (first + i) * R);
    }
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
    if (op.stored) {
        if (op.weight_kind == FLOAT32) return stored_product<R, float>(op, panel, rows.entries, out);
        return stored_product<R, uint16_t>(op, panel, rows.entries, out);
    }
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
    if (multiplies_integers(op)) return any_integer_product(op, panel, size, rows.integers(op, size), out);
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

// One row normalised, in place where `out` is x: kind 1 by mean and variance, 2 by the root of the mean square; 0 as it is.
static void normalise(const Linear& op, const float* x, float* out) {
    int64_t n = op.inputs, whole = n / W * W;
    if (op.norm == 0) {
        if (out != x) std::memcpy(out, x, n * sizeof(float));
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
    if (multiplies_integers(op)) return pack_integer_row(op, x, size, place, rows.integers(op, size));
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

// Every row of `in`, `together` of them at a time (a multiple of MOST_INTEGER); weights are whole numbers. A task is a few
// panels and some of the rows: the panels stay in the second cache, and a group of rows in the first.
static void linear_rows(const Linear& op, int64_t rows, int64_t together, const PackedRows& room, int threads) {
    constexpr int64_t some_panels = 4, some_rows = 64;
    int64_t chunks = (rows + together - 1) / together, across = (panels_of(op) + some_panels - 1) / some_panels;
    std::vector<Stage> stages(2 * chunks);
    in_parallel(threads, [&](Team&, int) {
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            int64_t start = chunk * together, count = rows - start < together ? rows - start : together;
            auto group = [&](int64_t first) { return PackedRows{room.entries + first * entries_of(op), room.sums + first * sums_of(op)}; };
            Team::share(stages[2 * chunk], (count + MOST_INTEGER - 1) / MOST_INTEGER, 4, [&](int64_t from, int64_t to) {
                for (int64_t r = from * MOST_INTEGER; r < to * MOST_INTEGER && r < count; r++) {
                    int64_t first = r / MOST_INTEGER * MOST_INTEGER;
                    int size = integer_group_size(static_cast<int>(count - first));
                    pack_row(op, op.in + (start + r) * op.inputs, size, static_cast<int>(r - first), group(first));
                }
            });
            int64_t down = (count + some_rows - 1) / some_rows;
            Team::share(stages[2 * chunk + 1], across * down, 1, [&](int64_t task, int64_t) {
                float sums[MOST_INTEGER * PANEL];
                int64_t panel = task / down * some_panels, last = panel + some_panels < panels_of(op) ? panel + some_panels : panels_of(op);
                int64_t row = task % down * some_rows, end = row + some_rows < count ? row + some_rows : count;
                for (int64_t first = row; first < end; first += MOST_INTEGER)
                    for (int64_t p = panel; p < last; p++) {
                        int rest = static_cast<int>(count - first), size = integer_group_size(rest);
                        any_product(op, p, size, group(first), sums);
                        finish(op, p, start + first, rest < size ? rest : size, sums);
                    }
            });
        }
    });
}
