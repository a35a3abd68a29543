// Vectors of floats in the width that the machine has, written with the compiler's vector types: one source for AVX-512,
// AVX2 and machines with neither. No -ffast-math: NaN and inf go through as IEEE says.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef float vf_in_memory __attribute__((vector_size(W * 4), aligned(4)));
typedef int32_t vi_in_memory __attribute__((vector_size(W * 4), aligned(4)));

static inline vf load(const float* p) { return *reinterpret_cast<const vf_in_memory*>(p); }
static inline void store(float* p, vf x) { *reinterpret_cast<vf_in_memory*>(p) = x; }
static inline vf all(float x) { return x - vf{}; }
static inline vi all_int(int32_t x) { return x - vi{}; }
static inline vf pick(vi condition, vf yes, vf no) { return condition ? yes : no; }
static inline vi bits(vf x) { return reinterpret_cast<vi>(x); }
static inline vf from_bits(vi x) { return reinterpret_cast<vf>(x); }
static inline vf magnitude(vf x) { return from_bits(bits(x) & 0x7fffffff); }

// The first n < W floats, and 0 after them.
static inline vf load_part(const float* p, int n) {
    vf x{};
    std::memcpy(&x, p, n * sizeof(float));
    return x;
}
static inline void store_part(float* p, vf x, int n) { std::memcpy(p, &x, n * sizeof(float)); }

// The lanes added in one fixed order.
static inline float sum(vf x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps(x);
#endif
    float parts[W];
    std::memcpy(parts, &x, sizeof(x));
    for (int half = W / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) parts[i] += parts[i + half];
    return parts[0];
}
static inline float largest(vf x) {
    float parts[W];
    std::memcpy(parts, &x, sizeof(x));
    float found = parts[0];
    for (int i = 1; i < W; i++) found = parts[i] > found ? parts[i] : found;
    return found;
}

// a0 b0 a1 b1 ... of the first halves of a and b, and of their second halves.
static inline void interleave(vf a, vf b, vf& first, vf& second) {
#if defined(__AVX512F__)
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    first = _mm512_permutex2var_ps(a, low, b);
    second = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b);
#elif defined(__AVX2__)
    __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    first = _mm256_permute2f128_ps(low, high, 0x20);
    second = _mm256_permute2f128_ps(low, high, 0x31);
#else
    for (int i = 0; i < W; i++) {
        first[i] = (i % 2 ? b : a)[i / 2];
        second[i] = (i % 2 ? b : a)[(W + i) / 2];
    }
#endif
}
// W vectors become the columns that they make: log2(W) times, each of the first half is interleaved with one of the second.
static inline void transpose(vf (&x)[W]) {
    vf y[W];
#pragma GCC unroll 4
    for (int step = 1; step < W; step *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < W / 2; i++) interleave(x[i], x[i + W / 2], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < W; i++) x[i] = y[i];
    }
}

// e^x = 2^n e^r, n whole and |r| <= ln(2)/2, e^r by its series up to r^7/7!. Below -87.3 it is 0, from 88.37 (where n
// would be 128) inf; NaN stays.
static inline vf exp(vf x) {
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, which stands in the low bits
    vf turns = x * 1.44269504088896341f + magic;
    vf whole = turns - magic;
    vf r = x - whole * 0.693145751953125f;
    r = r - whole * 1.42860682030941723212e-6f;
    vf p = all(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    vf y = p * from_bits((bits(turns) + (127 - 0x4b400000)) << 23);
    y = pick(x < -87.33654f, vf{}, y);
    return pick(x > 88.37626f, all(__builtin_inff()), y);
}

// bfloat16 is the upper half of a float; to it, rounded to the nearest, ties to even; NaN stays NaN.
static inline uint16_t to_bfloat16(float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 0x40);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
static inline float from_bfloat16(uint16_t x) {
    uint32_t u = static_cast<uint32_t>(x) << 16;
    float y;
    std::memcpy(&y, &u, 4);
    return y;
}
