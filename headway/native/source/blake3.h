// BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn 2020), a cryptographic hash whose chunks of 1024 bytes are the leaves of
// a binary tree: W chunks are hashed at once, a lane each, and threads take subtrees.
//
// Bytes are read here anyway, so whether they are finite numbers is looked up on the way, while they are in the first cache.
#pragma once
#include <utility>
#include "team.h"
#include "weights.h"

constexpr int64_t CHUNK = 1024, BLOCK = 64, KEY = 8;  // bytes of a chunk and of a block; words of a hash
enum HashFlag : uint32_t { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };
constexpr uint32_t IV[KEY] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
// Which word of a block each round takes at each place: the permutation of the paper, applied once more a round.
constexpr int ORDER[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

struct Hash {
    uint32_t words[KEY];
};

template <class Word>
static inline Word turned(Word x, int n) { return (x >> n) | (x << (32 - n)); }

template <class Word>
static inline void mix(Word& a, Word& b, Word& c, Word& d, Word x, Word y) {
    a = a + b + x;
    d = turned<Word>(d ^ a, 16);
    c = c + d;
    b = turned<Word>(b ^ c, 12);
    a = a + b + y;
    d = turned<Word>(d ^ a, 8);
    c = c + d;
    b = turned<Word>(b ^ c, 7);
}

// One block into a hash; `Word` is a number, or a vector of one number per lane.
template <class Word>
static inline void compress(Word (&h)[KEY], const Word (&m)[16], Word low, Word high, uint32_t length, uint32_t flags) {
    Word zero = low ^ low;
    Word s[16] = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], zero + IV[0], zero + IV[1], zero + IV[2], zero + IV[3],
                  low, high, zero + length, zero + flags};
#pragma GCC unroll 7
    for (const auto& k : ORDER) {
        mix(s[0], s[4], s[8], s[12], m[k[0]], m[k[1]]);
        mix(s[1], s[5], s[9], s[13], m[k[2]], m[k[3]]);
        mix(s[2], s[6], s[10], s[14], m[k[4]], m[k[5]]);
        mix(s[3], s[7], s[11], s[15], m[k[6]], m[k[7]]);
        mix(s[0], s[5], s[10], s[15], m[k[8]], m[k[9]]);
        mix(s[1], s[6], s[11], s[12], m[k[10]], m[k[11]]);
        mix(s[2], s[7], s[8], s[13], m[k[12]], m[k[13]]);
        mix(s[3], s[4], s[9], s[14], m[k[14]], m[k[15]]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < KEY; i++) h[i] = s[i] ^ s[i + 8];
}

// Two rows of a square of words, where every other S columns change places with their neighbours in the other row.
template <int S, int... K>
static inline void exchange(vu& a, vu& b, std::integer_sequence<int, K...>) {
#if defined(__clang__)
    vu low = __builtin_shufflevector(a, b, ((K & S) ? W + K - S : K)...);
    b = __builtin_shufflevector(a, b, ((K & S) ? W + K : K + S)...);
#else
    vu low = __builtin_shuffle(a, b, vu{((K & S) ? W + K - S : K)...});
    b = __builtin_shuffle(a, b, vu{((K & S) ? W + K : K + S)...});
#endif
    a = low;
}
template <int S>
static inline void transpose_step(vu* rows) {
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (!(i & S)) exchange<S>(rows[i], rows[i + S], std::make_integer_sequence<int, W>{});
    if constexpr (S > 1) transpose_step<S / 2>(rows);
}

// `lanes` inputs of whole blocks, `stride` bytes apart; `step` 1: chunks, which are counted from `first` on; 0: parents.
static void hash_lanes(const char* from, int64_t stride, int lanes, int blocks, int64_t first, int step, Hash* out) {
    vu h[KEY], low, high;
    for (int i = 0; i < KEY; i++) h[i] = vu{} + IV[i];
    for (int lane = 0; lane < W; lane++) {
        uint64_t number = static_cast<uint64_t>(first + step * lane);
        low[lane] = static_cast<uint32_t>(number), high[lane] = static_cast<uint32_t>(number >> 32);
    }
    for (int block = 0; block < blocks; block++) {
        vu m[16];
#pragma GCC unroll 16
        for (int word = 0; word < 16; word += W) {
#pragma GCC unroll 16
            for (int lane = 0; lane < W; lane++)  // lanes that are left over repeat the last one
                std::memcpy(&m[word + lane], from + (lane < lanes ? lane : lanes - 1) * stride + block * BLOCK + word * 4, W * 4);
            transpose_step<W / 2>(m + word);
        }
        for (int lane = 0; lane < W; lane++)  // the lanes' next chunks, which come from memory
            __builtin_prefetch(from + W * stride + (block * W + lane) * BLOCK);
        uint32_t flags = step ? (block == 0 ? CHUNK_START : 0u) | (block == blocks - 1 ? CHUNK_END : 0u) : PARENT;
        compress<vu>(h, m, low, high, BLOCK, flags);
    }
    for (int lane = 0; lane < lanes; lane++)
        for (int i = 0; i < KEY; i++) out[lane].words[i] = h[i][lane];
}

// One chunk of at most 1024 bytes, or one parent.
static void hash_one(const char* from, int64_t bytes, int64_t number, uint32_t every, uint32_t last, Hash* out) {
    uint32_t h[KEY], low = static_cast<uint32_t>(number), high = static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32);
    std::memcpy(h, IV, sizeof(h));
    int64_t at = 0;
    do {
        uint32_t m[16] = {}, length = static_cast<uint32_t>(bytes - at < BLOCK ? bytes - at : BLOCK);
        std::memcpy(m, from + at, length);
        bool start = at == 0 && every != PARENT, end = at + length == bytes;
        compress<uint32_t>(h, m, low, high, length, every | (start ? CHUNK_START : 0u) | (end ? last : 0u));
        at += BLOCK;
    } while (at < bytes);
    std::memcpy(out->words, h, sizeof(h));
}

// The root of the tree over hashes, which are overwritten: pairs become parents, level by level, and an odd one moves up.
static void join_hashes(Hash* hashes, int64_t count, bool root) {
    while (count > 1) {
        const char* from = reinterpret_cast<const char*>(hashes);
        int64_t pairs = count / 2;
        if (pairs == 1 && count == 2) hash_one(from, BLOCK, 0, PARENT, root ? ROOT : 0, hashes);
        else
            for (int64_t i = 0; i < pairs; i += W) {
                Hash found[W];
                int lanes = static_cast<int>(pairs - i < W ? pairs - i : W);
                hash_lanes(from + i * BLOCK, BLOCK, lanes, 1, 0, 0, found);
                std::memcpy(hashes + i, found, lanes * sizeof(Hash));
            }
        if (count % 2) hashes[pairs] = hashes[count - 1];
        count = pairs + count % 2;
    }
}

// Whether all numbers are finite: the exponent of one that is not has every bit.
template <class Number>
static bool exponents_are_finite(const char* from, int64_t bytes, Number exponent) {
    Number bad = 0;
    for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(Number)); i++) {
        Number x;
        std::memcpy(&x, from + i * sizeof(Number), sizeof(Number));
        bad |= static_cast<Number>((x & exponent) == exponent);
    }
    return bad == 0;
}
enum NumberKind : int32_t { NO_FLOAT = 0, FLOAT_64 = 1, FLOAT_32 = 2, BFLOAT_16 = 3, FLOAT_16 = 4 };
static bool numbers_are_finite(const char* from, int64_t bytes, int32_t kind) {
    switch (kind) {
        case FLOAT_64: return exponents_are_finite<uint64_t>(from, bytes, 0x7ff0000000000000);
        case FLOAT_32: return exponents_are_finite<uint32_t>(from, bytes, 0x7f800000);
        case BFLOAT_16: return exponents_are_finite<uint16_t>(from, bytes, 0x7f80);
        case FLOAT_16: return exponents_are_finite<uint16_t>(from, bytes, 0x7c00);
        default: return true;
    }
}

// A part of a tensor: all of it (`root`), or a whole subtree of its chunks.
struct HashPart {
    const char* data;
    int64_t bytes, first_chunk;
    int32_t kind, root, hashed, finite;
    Hash hash;
};

static void hash_part(HashPart& part) {
    constexpr int64_t together = W * CHUNK;
    static thread_local std::vector<Hash> hashes;
    int64_t chunks = part.bytes <= CHUNK ? 1 : (part.bytes + CHUNK - 1) / CHUNK;
    hashes.resize(chunks);
    part.finite = 1;
    for (int64_t at = 0; at < part.bytes; at += together) {
        int64_t bytes = part.bytes - at < together ? part.bytes - at : together;
        if (!numbers_are_finite(part.data + at, bytes, part.kind)) part.finite = 0;
        int whole = static_cast<int>(bytes / CHUNK);
        if (part.hashed && whole && chunks > 1)
            hash_lanes(part.data + at, CHUNK, whole, CHUNK / BLOCK, part.first_chunk + at / CHUNK, 1, &hashes[at / CHUNK]);
    }
    if (!part.hashed) return;
    int64_t rest = chunks == 1 ? part.bytes : part.bytes % CHUNK;
    if (chunks == 1 || rest)
        hash_one(part.data + (chunks - 1) * CHUNK, rest, part.first_chunk + chunks - 1, 0,
                 CHUNK_END | (part.root && chunks == 1 ? ROOT : 0u), &hashes[chunks - 1]);
    join_hashes(hashes.data(), chunks, part.root);
    part.hash = hashes[0];
}
