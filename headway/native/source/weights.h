// The weights of a linear map as the kernels read them: panels of PANEL outputs, packed once.
// Floats that lie as [outputs, inputs] can be read where they are (`stored`) and are then put in that order block by block,
// so that a short run need not copy a file that is mapped.
//
// Floats and whole numbers that become floats: all outputs of input 0, of input 1, ... Whole numbers that are multiplied as
// such (`integer.h`): four inputs of each output together.
#pragma once
#include "activation.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

constexpr int PANEL = 2 * W;
constexpr int AHEAD = 4096;  // bytes: how far ahead of its use a weight is asked for
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
#if defined(__AVX512F__)
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
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
    int32_t weight_kind, group, half_scales, norm, activation, reuse, check, turned, stored, unused;
    int64_t inputs, outputs;
    const void* weight;  // packed unless `stored`, as are scale and minimum
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
// Whether rows become whole numbers too: sums of products of bytes are exact in 32 bits up to 2^16 inputs.
static inline bool multiplies_integers(const Linear& op) {
#if defined(__AVX512VNNI__)
    int64_t step = op.weight_kind == INT8 ? 4 : 8;
    return op.weight_kind >= INT8 && (op.group ? op.group % step == 0 : op.weight_kind == INT8) && block_of(op) <= 1 << 16;
#else
    (void)op;
    return false;
#endif
}
// Inputs in fours, as a product of bytes takes them; the last may be filled up with zeros.
static inline int64_t quads_of(const Linear& op) { return (op.inputs + 3) / 4; }

// Bytes of a packed panel; eight numbers of 4 bits are one word.
static inline int64_t panel_bytes(const Linear& op) {
    if (multiplies_integers(op)) return quads_of(op) * 4 * PANEL / (op.weight_kind == INT8 ? 1 : 2);
    switch (op.weight_kind) {
        case FLOAT32: return op.inputs * PANEL * 4;
        case BFLOAT16: return op.inputs * PANEL * 2;
        case INT8: return op.inputs * PANEL;
        default: return (op.inputs + 7) / 8 * PANEL * 4;
    }
}

// [outputs, inputs] into [panel][inputs][PANEL], or [inputs, outputs] where `turned`.
template <class Weight>
static void pack_panel(const Linear& op, const Weight* from, Weight* to, int64_t panel) {
    if (op.turned) {
        int64_t first = panel * PANEL, some = op.outputs - first < PANEL ? op.outputs - first : PANEL;
        for (int64_t i = 0; i < op.inputs; i++) std::memcpy(to + i * PANEL, from + i * op.outputs + first, some * sizeof(Weight));
        return;
    }
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
// Bytes from 0 to 255, 128 more than the weight: [quad][PANEL][4].
static void pack_bytes(const Linear& op, const int8_t* from, uint8_t* to, int64_t panel) {
    for (int lane = 0; lane < PANEL && panel * PANEL + lane < op.outputs; lane++) {
        const int8_t* row = from + (panel * PANEL + lane) * op.inputs;
        for (int64_t i = 0; i < op.inputs; i++) to[(i / 4 * PANEL + lane) * 4 + i % 4] = static_cast<uint8_t>(row[i] ^ 0x80);
    }
}
// [two quads][PANEL][4]: the first quad in the lower halves of the bytes, the second in the upper ones.
static void pack_half_bytes(const Linear& op, const uint8_t* from, uint8_t* to, int64_t panel) {
    for (int lane = 0; lane < PANEL && panel * PANEL + lane < op.outputs; lane++) {
        const uint8_t* row = from + (panel * PANEL + lane) * (op.inputs / 2);
        for (int64_t i = 0; i < op.inputs; i++) {
            int number = (row[i / 2] >> (i % 2 * 4)) & 15;
            to[(i / 8 * PANEL + lane) * 4 + i % 4] |= static_cast<uint8_t>(number << (i / 4 % 2 * 4));
        }
    }
}
static void pack_integers(const Linear& op, const void* from, void* to, int64_t panel) {
    if (op.weight_kind == INT8) pack_bytes(op, static_cast<const int8_t*>(from), static_cast<uint8_t*>(to), panel);
    else pack_half_bytes(op, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), panel);
}
static void pack_weight(const Linear& op, const void* from, void* to, int threads) {
    int64_t bytes = panel_bytes(op);
    in_parallel(threads, [&](Team& team, int thread) {
        Share share(panels_of(op), thread, team.size);
        for (int64_t panel = share.from; panel < share.to; panel++) {
            char* at = static_cast<char*>(to) + panel * bytes;
            std::memset(at, 0, bytes);
            if (multiplies_integers(op)) {
                pack_integers(op, from, at, panel);
                continue;
            }
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
