// Rows times weights of 8 and 4 bits as whole numbers, where the processor multiplies bytes (AVX-512 VNNI).
//
// A row becomes whole numbers of 24 bits, x = step * q with step = max |x| / LARGEST, and each q three digits of 8 bits:
// q = 65536 a + 256 b + c, all from -128 to 127. A weight is a byte u from 0 to 255 less an offset. Then
//   sum x w = step * scale * (65536 sum a (u - offset) + 256 sum b (u - offset) + sum c (u - offset))
// The sums are exact, so that their order does not matter. What is lost is at most step / 2 an entry, as much as the largest
// entry of the row loses in float32.
#pragma once
#include "weights.h"

constexpr int DIGITS = 3, MOST_INTEGER = 4, AHEAD = 4096;
constexpr float LARGEST = 127 * 65536.0f + 126 * 256;  // its highest digit is at most 127, however x / step is rounded

// A group of rows: their digits in the order [quad][row][digit], four inputs a word; the sums of the digits over each block,
// [block][row][digit]; and the step of each row.
struct IntegerRows {
    int32_t *digits, *sums;
    float* steps;
};
static inline int integer_group_size(int rows) { return rows >= 3 ? MOST_INTEGER : rows; }

#if defined(__AVX512VNNI__)
static float largest_magnitude(const float* x, int64_t n) {
    vf top{};
    vi unordered{};
    int64_t i = 0;
    for (; i < n; i += W) {
        vf y = magnitude(n - i < W ? load_part(x + i, static_cast<int>(n - i)) : load(x + i));
        unordered |= y != y;
        top = pick(y > top, y, top);
    }
    for (int lane = 0; lane < W; lane++)
        if (unordered[lane]) return __builtin_nanf("");
    return largest(top);
}

// One row into its place in a group of `size` rows. A row that is not finite has a step of NaN.
static void pack_integer_row(const Linear& op, const float* x, int size, int place, const IntegerRows& rows) {
    float most = largest_magnitude(x, op.inputs), lift = most < 1e-25f ? 0x1p60f : 1.0f;  // 1 / most stays finite
    bool sound = most < __builtin_inff();
    float inverse = sound && most > 0 ? LARGEST / (most * lift) : 0.0f;
    rows.steps[place] = sound ? most / LARGEST : __builtin_nanf("");
    int64_t quads = quads_of(op), per_block = op.group ? op.group / 4 : quads;
    int32_t* sums = rows.sums + place * DIGITS;
    int64_t left = per_block;
    int32_t total[DIGITS] = {0, 0, 0};
    auto add_quad = [&](const int8_t (&digit)[DIGITS][W], int64_t quad, int at) {
        for (int d = 0; d < DIGITS; d++) {
            std::memcpy(rows.digits + (quad * size + place) * DIGITS + d, digit[d] + at, 4);
            total[d] += digit[d][at] + digit[d][at + 1] + digit[d][at + 2] + digit[d][at + 3];
        }
        if (--left > 0) return;
        for (int d = 0; d < DIGITS; d++) sums[d] = total[d], total[d] = 0;
        sums += size * DIGITS, left = per_block;
    };
    typedef int8_t bytes __attribute__((vector_size(W)));
    for (int64_t i = 0; i < op.inputs; i += W) {
        int part = op.inputs - i < W ? static_cast<int>(op.inputs - i) : W;
        vf y = (part < W ? load_part(x + i, part) : load(x + i)) * lift * inverse;
        vi q = sound ? (vi)_mm512_cvtps_epi32(y) : vi{};
        vi c = (q << 24) >> 24, rest = (q - c) >> 8, b = (rest << 24) >> 24, a = (rest - b) >> 8;
        int8_t digit[DIGITS][W];
        bytes narrow[DIGITS] = {__builtin_convertvector(a, bytes), __builtin_convertvector(b, bytes), __builtin_convertvector(c, bytes)};
        std::memcpy(digit, narrow, sizeof(digit));
        for (int at = 0; at < part; at += 4) add_quad(digit, (i + at) / 4, at);
    }
}

// Four products of bytes added to each lane. As an instruction and not as the compiler's function for it: with that, gcc 12
// moves half of the sums to memory and back.
static inline __m512i add_bytes(__m512i sum, __m512i weights, const int32_t* digit) {
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(*digit));
    return sum;
}
// Of each digit of each row, for the outputs of half a panel and of the other half.
template <int R>
struct Sums {
    __m512i low[R * DIGITS], high[R * DIGITS];
};

template <int R>
static inline void add_quad(Sums<R>& sum, __m512i low, __m512i high, const int32_t* digits) {
#pragma GCC unroll 12
    for (int n = 0; n < R * DIGITS; n++) {
        sum.low[n] = add_bytes(sum.low[n], low, digits + n);
        sum.high[n] = add_bytes(sum.high[n], high, digits + n);
    }
}

// Σ over quads from ... to of a panel's weights and a group's digits, added to `sum`.
template <int R, int KIND>
static inline void add_quads(Sums<R>& sum, const char* panel, const int32_t* digits, int64_t from, int64_t to) {
    constexpr int together = KIND == INT8 ? 1 : 2;
    const __m512i mask = _mm512_set1_epi8(15);
    for (int64_t q = from; q < to; q += together) {
        const char* at = panel + q / together * 128;
        _mm_prefetch(at + AHEAD, _MM_HINT_T0);
        _mm_prefetch(at + AHEAD + 64, _MM_HINT_T0);
        __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + 64);
        if constexpr (KIND == INT8) add_quad<R>(sum, low, high, digits + q * R * DIGITS);
        else {
            auto upper = [&](__m512i x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), mask); };
            add_quad<R>(sum, _mm512_and_si512(low, mask), _mm512_and_si512(high, mask), digits + q * R * DIGITS);
            add_quad<R>(sum, upper(low), upper(high), digits + (q + 1) * R * DIGITS);
        }
    }
}

// out += scale * the number that the digits make.
static inline void add_digits(float* out, const __m512i* digits, vf scale) {
    vf low = _mm512_cvtepi32_ps(digits[2]) + _mm512_cvtepi32_ps(digits[1]) * 256.0f;
    store(out, load(out) + (low + _mm512_cvtepi32_ps(digits[0]) * 65536.0f) * scale);
}

// One panel for a group of R rows.
template <int R, int KIND>
static void integer_product(const Linear& op, int64_t panel, const IntegerRows& rows, float* out) {
    const char* weight = static_cast<const char*>(op.weight) + panel * panel_bytes(op);
    int64_t blocks = blocks_of(op), quads = op.group ? op.group / 4 : quads_of(op);
    int32_t offset = KIND == INT8 ? 128 : op.minimum ? 0 : 8;
    std::memset(out, 0, sizeof(float) * R * PANEL);
    for (int64_t b = 0; b < blocks; b++) {
        Sums<R> sum;
        const int32_t* sums = rows.sums + b * R * DIGITS;
#pragma GCC unroll 12
        for (int n = 0; n < R * DIGITS; n++) sum.low[n] = sum.high[n] = _mm512_set1_epi32(-offset * sums[n]);
        add_quads<R, KIND>(sum, weight, rows.digits, b * quads, (b + 1) * quads);
        int64_t at = (panel * blocks + b) * PANEL;
        auto read = [&](const void* from, int half) {
            return op.half_scales ? load_half(static_cast<const uint16_t*>(from) + at + half * W)
                                  : load(static_cast<const float*>(from) + at + half * W);
        };
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            add_digits(out + r * PANEL, sum.low + r * DIGITS, read(op.scale, 0));
            add_digits(out + r * PANEL + W, sum.high + r * DIGITS, read(op.scale, 1));
        }
        if (op.minimum == nullptr) continue;
        for (int r = 0; r < R; r++) {
            float total = sums[r * DIGITS] * 65536.0f + sums[r * DIGITS + 1] * 256.0f + static_cast<float>(sums[r * DIGITS + 2]);
            for (int half = 0; half < 2; half++) {
                float* to = out + r * PANEL + half * W;
                store(to, load(to) + read(op.minimum, half) * total);
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int i = 0; i < PANEL; i += W) store(out + r * PANEL + i, load(out + r * PANEL + i) * rows.steps[r]);
}

template <int KIND>
static void integer_product_of(const Linear& op, int64_t panel, int size, const IntegerRows& rows, float* out) {
    switch (size) {
        case 1: return integer_product<1, KIND>(op, panel, rows, out);
        case 2: return integer_product<2, KIND>(op, panel, rows, out);
        default: return integer_product<4, KIND>(op, panel, rows, out);
    }
}
static void any_integer_product(const Linear& op, int64_t panel, int size, const IntegerRows& rows, float* out) {
    if (op.weight_kind == INT8) integer_product_of<INT8>(op, panel, size, rows, out);
    else integer_product_of<INT4>(op, panel, size, rows, out);
}
#else
static void pack_integer_row(const Linear&, const float*, int, int, const IntegerRows&) {}
static void any_integer_product(const Linear&, int64_t, int, const IntegerRows&, float*) {}
#endif
