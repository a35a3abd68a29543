// One token of every row attends to the keys and values of its cache, its own included, or to those of a source.
//
// Only columns that hold a real token are looked at, one after the other: padding, wherever it stands, changes nothing, and
// what stands in it is never read.
#pragma once
#include <vector>
#include "linear.h"

// Cache of one layer: [rows, groups, capacity, width] of floats or bfloat16.
struct Attention {
    int32_t heads, groups, key_width, value_width, rotary_width, interleaved, bfloat16, layer;
    float scale;
    int32_t source;  // whether keys and values are those of a source, which are all there; then `in` is q alone
    const float *cosine, *sine;  // [positions, rotary_width / 2], or none
    const float* in;             // q, k and v of each row
    float* out;
};

// What all operations of one step share.
struct Step {
    int32_t rows, threads, finite, unused;
    int64_t columns, capacity;           // columns in the caches before this step; room of each cache
    const int64_t *tokens, *positions;   // of each row
    const uint8_t* real;                 // [rows, real_stride]: whether a column is a token; null: all are
    int64_t real_stride;
    void* const* keys;                   // of each layer
    void* const* values;
    int64_t source_columns, source_capacity;  // the same of the source that the rows attend to, where there is one
    const uint8_t* source_real;
    int64_t source_real_stride;
    void* const* source_keys;
    void* const* source_values;
    float *entries, *sums;               // room for rows as the kernels read them
};

static inline float dot(const float* q, const float* k, int n) {
    vf total{};
    int i = 0;
    for (; i + W <= n; i += W) total += load(q + i) * load(k + i);
    if (i < n) total += load_part(q + i, n - i) * load_part(k + i, n - i);
    return sum(total);
}
static inline float dot(const float* q, const uint16_t* k, int n) {
    vf total{};
    int i = 0;
    for (; i + W <= n; i += W) total += load(q + i) * load_bfloat16(k + i);
    float last = 0;
    for (; i < n; i++) last += q[i] * from_bfloat16(k[i]);
    return sum(total) + last;
}

static inline void add_scaled(float* out, const float* v, float weight, int n) {
    int i = 0;
    for (; i + W <= n; i += W) store(out + i, load(out + i) + load(v + i) * weight);
    for (; i < n; i++) out[i] += v[i] * weight;
}
static inline void add_scaled(float* out, const uint16_t* v, float weight, int n) {
    int i = 0;
    for (; i + W <= n; i += W) store(out + i, load(out + i) + load_bfloat16(v + i) * weight);
    for (; i < n; i++) out[i] += from_bfloat16(v[i]) * weight;
}
static inline void keep(float* to, const float* from, int n) { std::memcpy(to, from, n * sizeof(float)); }
static inline void keep(uint16_t* to, const float* from, int n) {
    for (int i = 0; i < n; i++) to[i] = to_bfloat16(from[i]);
}

// Pairs (i, i + width/2), or neighbours (2i, 2i + 1), turned by the angle of the position.
static void rotate(const Attention& op, const float* x, float* out, int64_t position) {
    keep(out, x, op.key_width);
    int half = op.rotary_width / 2;
    for (int i = 0; i < half; i++) {
        int one = op.interleaved ? 2 * i : i, two = op.interleaved ? 2 * i + 1 : i + half;
        float c = op.cosine[position * half + i], s = op.sine[position * half + i];
        out[one] = x[one] * c - x[two] * s;
        out[two] = x[two] * c + x[one] * s;
    }
}

// Scores to weights, in place.
static void softmax(float* scores, int64_t n) {
    int64_t i = 0;
    vf top = all(-__builtin_inff());
    vi unordered{};
    for (; i + W <= n; i += W) {
        vf x = load(scores + i);
        unordered |= x != x;
        top = pick(x > top, x, top);
    }
    float most = largest(top);
    bool bad = false;
    for (int lane = 0; lane < W; lane++) bad |= unordered[lane] != 0;
    for (; i < n; i++) {
        bad |= scores[i] != scores[i];
        most = scores[i] > most ? scores[i] : most;
    }
    if (bad) most = __builtin_nanf("");
    vf total{};
    for (i = 0; i < n; i += W) {
        int part = n - i < W ? static_cast<int>(n - i) : W;
        vf x = part == W ? load(scores + i) : load_part(scores + i, part);
        x = exp(x - most);
        if (part < W)
            for (int lane = part; lane < W; lane++) x[lane] = 0;
        total += x;
        if (part == W) store(scores + i, x);
        else store_part(scores + i, x, part);
    }
    float inverse = 1.0f / sum(total);
    for (i = 0; i < n; i++) scores[i] *= inverse;
}

// The query heads of one key/value head of one row.
template <class Stored>
static void attend_group(const Attention& op, const Step& step, int64_t row, int group) {
    static thread_local std::vector<float> scores, turned;
    static thread_local std::vector<int32_t> visible;
    int per = op.heads / op.groups, key = op.key_width, value = op.value_width;
    int64_t width = static_cast<int64_t>(op.heads) * key + (op.source ? 0 : static_cast<int64_t>(op.groups) * (key + value));
    const float* q = op.in + row * width + static_cast<int64_t>(group) * per * key;
    int64_t head = row * op.groups + group, capacity = op.source ? step.source_capacity : step.capacity;
    Stored* keys = static_cast<Stored*>((op.source ? step.source_keys : step.keys)[op.layer]) + head * capacity * key;
    Stored* values = static_cast<Stored*>((op.source ? step.source_values : step.values)[op.layer]) + head * capacity * value;
    if (!op.source) {
        const float* k = op.in + row * width + static_cast<int64_t>(op.heads + group) * key;
        const float* v = op.in + row * width + static_cast<int64_t>(op.heads + op.groups) * key + static_cast<int64_t>(group) * value;
        turned.resize((per + 1) * key);
        if (op.rotary_width) {
            rotate(op, k, turned.data() + per * key, step.positions[row]);
            k = turned.data() + per * key;
            for (int h = 0; h < per; h++) rotate(op, q + h * key, turned.data() + h * key, step.positions[row]);
            q = turned.data();
        }
        keep(keys + step.columns * key, k, key);
        keep(values + step.columns * value, v, value);
    }
    int64_t columns = op.source ? step.source_columns : step.columns + 1, count = 0;
    const uint8_t* real = op.source ? step.source_real : step.real;
    if (real) real += row * (op.source ? step.source_real_stride : step.real_stride);
    visible.resize(columns);
    for (int64_t c = 0; c < columns; c++)
        if (real == nullptr || real[c]) visible[count++] = static_cast<int32_t>(c);
    scores.resize(per * columns);
    for (int64_t j = 0; j < count; j++)
        for (int h = 0; h < per; h++) scores[h * columns + j] = op.scale * dot(q + h * key, keys + int64_t(visible[j]) * key, key);
    float* out = op.out + (row * op.heads + static_cast<int64_t>(group) * per) * value;
    std::memset(out, 0, sizeof(float) * per * value);
    for (int h = 0; h < per; h++) softmax(scores.data() + h * columns, count);
    for (int64_t j = 0; j < count; j++)
        for (int h = 0; h < per; h++) add_scaled(out + h * value, values + int64_t(visible[j]) * value, scores[h * columns + j], value);
}
