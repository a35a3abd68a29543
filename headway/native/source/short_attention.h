// Softmax attention of short texts, forwards and backwards, with all scores of a head in the processor's cache.
//
//   S = scale Q K^T      P = softmax(S)      O = P V
//   dV = P^T dO      dP = dO V^T      dS = P (dP - sum(dO O))      dQ = scale dS K      dK = scale dS^T Q
//
// Forwards the logarithm of each row's sum of exponentials is kept, so that the backward pass can make P again.
#pragma once
#include <cmath>
#include <type_traits>
#include <vector>
#include "team.h"
#include "vector.h"

// Rows of one head: where the first begins and how far apart they are.
struct Rows {
    float* first;
    int64_t apart;
    float* at(int64_t row) const { return first + row * apart; }
};

// [batch, heads, positions, width] with the last axis in one piece: `strides` of the others, in floats.
struct Heads {
    float* first;
    const int64_t* strides;
    Rows of(int64_t batch, int64_t head) const { return {first + batch * strides[0] + head * strides[1], strides[2]}; }
};

// A block of C = A B: R rows of A, V vectors of B's columns.
template <int R, int V>
static inline void product_block(const float* a, int64_t row, int64_t column, Rows b, Rows c, int64_t terms) {
    vf total[R][V] = {};
    for (int64_t t = 0; t < terms; t++) {
        vf right[V];
        for (int v = 0; v < V; v++) right[v] = load(b.at(t) + v * W);
        for (int r = 0; r < R; r++) {
            vf left = all(a[r * row + t * column]);
            for (int v = 0; v < V; v++) total[r][v] += left * right[v];
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) store(c.at(r) + v * W, total[r][v]);
}

// Rows in blocks that leave enough sums under way to hide how long an addition takes.
template <int V>
static void product_columns(const float* a, int64_t row, int64_t column, Rows b, Rows c, int64_t rows, int64_t terms) {
    constexpr int R = V == 4 ? 4 : 8;
    int64_t i = 0;
    auto block = [&](auto size) {
        constexpr int S = decltype(size)::value;
        for (; i + S <= rows; i += S) product_block<S, V>(a + i * row, row, column, b, {c.at(i), c.apart}, terms);
    };
    block(std::integral_constant<int, R>{});
    block(std::integral_constant<int, R / 2>{});
    block(std::integral_constant<int, 1>{});
}

// C[rows, columns] = A[rows, terms] B[terms, columns]; entry (i, t) of A is a[i row + t column]; columns fill vectors.
static void product(const float* a, int64_t row, int64_t column, Rows b, Rows c, int64_t rows, int64_t columns,
                    int64_t terms) {
    int64_t j = 0;
    auto part = [&](auto size) {
        constexpr int V = decltype(size)::value;
        for (; j + V * W <= columns; j += V * W)
            product_columns<V>(a, row, column, {b.first + j, b.apart}, {c.first + j, c.apart}, rows, terms);
    };
    if (W == 16) part(std::integral_constant<int, 4>{});
    part(std::integral_constant<int, 2>{});
    part(std::integral_constant<int, 1>{});
}

struct ShortAttention {
    int64_t batch, heads, queries, keys, width, causal;  // causal: as many queries as keys, and query i sees keys to i
    float scale;                                         // above 0

    static constexpr int64_t BLOCK = 16;  // queries taken together: under causality they leave out the keys after them

    int64_t filled() const { return (keys + W - 1) / W * W; }
    int64_t seen(int64_t i) const { return causal ? i + 1 : keys; }
    int64_t last(int64_t i) const { return i + BLOCK < queries ? i + BLOCK : queries; }  // of the block that begins at i
    // Columns of the table that the queries up to `end` need, in whole vectors.
    int64_t columns(int64_t end) const { return causal ? (end + W - 1) / W * W : filled(); }

    // x[keys, width] with rows and columns exchanged, and 0 behind its last column; by squares that stay in the cache.
    void transpose(Rows x, float* to) const {
        int64_t apart = filled();
        float square[W][W];
        for (int64_t j = 0; j < apart; j += W)
            for (int64_t d = 0; d < width; d += W) {
                for (int r = 0; r < W; r++) store(square[r], j + r < keys ? load(x.at(j + r) + d) : vf{});
                for (int c = 0; c < W; c++) {
                    vf column;
                    for (int r = 0; r < W; r++) column[r] = square[r][c];
                    store(to + (d + c) * apart + j, column);
                }
            }
    }

    // Products of row i in place become e^(scale x - high), 0 where it may not see; returns their sum.
    float weights(float* row, int64_t i, int64_t end, float high) const {
        for (int64_t j = seen(i); j < end; j++) row[j] = -INFINITY;
        vf total{};
        for (int64_t j = 0; j < end; j += W) {
            vf x = exp(load(row + j) * scale - high);
            store(row + j, x);
            total += x;
        }
        return sum(total);
    }

    // Products of row i in place become their softmax; returns log sum exp.
    float softmax(float* row, int64_t i, int64_t end) const {
        int64_t count = seen(i), j = 0;
        vf highest = all(-INFINITY);
        for (; j + W <= count; j += W) highest = pick(load(row + j) > highest, load(row + j), highest);
        float high = largest(highest);
        for (; j < count; j++) high = row[j] > high ? row[j] : high;
        high *= scale;
        float total = weights(row, i, end, high), share = 1.0f / total;
        for (j = 0; j < end; j += W) store(row + j, load(row + j) * share);
        return high + std::log(total);
    }

    void forward(const Heads& q, const Heads& k, const Heads& v, const Heads& out, float* logs, int threads) const {
        in_parallel(threads, [&](Team& team, int thread) {
            int64_t apart = filled();
            std::vector<float> scores(BLOCK * apart), turned(width * apart);
            Rows table{scores.data(), apart};
            Share share(batch * heads, thread, team.size);
            for (int64_t one = share.from; one < share.to; one++) {
                int64_t b = one / heads, h = one % heads;
                Rows qs = q.of(b, h), os = out.of(b, h);
                transpose(k.of(b, h), turned.data());
                for (int64_t i = 0; i < queries; i += BLOCK) {
                    int64_t end = last(i), wide = columns(end);
                    product(qs.at(i), qs.apart, 1, {turned.data(), apart}, table, end - i, wide, width);
                    for (int64_t r = i; r < end; r++) logs[one * queries + r] = softmax(table.at(r - i), r, wide);
                    product(table.first, apart, 1, v.of(b, h), {os.at(i), os.apart}, end - i, width, seen(end - 1));
                }
            }
        });
    }

    void backward(const Heads& q, const Heads& k, const Heads& v, const Heads& out, const Heads& grad,
                  const float* logs, const Heads& dq, const Heads& dk, const Heads& dv, int threads) const {
        in_parallel(threads, [&](Team& team, int thread) {
            int64_t apart = filled();
            std::vector<float> weights_room(queries * apart), slopes_room(queries * apart), turned(2 * width * apart);
            Rows p{weights_room.data(), apart}, s{slopes_room.data(), apart};
            Rows turned_k{turned.data(), apart}, turned_v{turned.data() + width * apart, apart};
            Share share(batch * heads, thread, team.size);
            for (int64_t one = share.from; one < share.to; one++) {
                int64_t b = one / heads, h = one % heads;
                Rows qs = q.of(b, h), ks = k.of(b, h), gs = grad.of(b, h), os = out.of(b, h), to = dq.of(b, h);
                transpose(ks, turned_k.first);
                transpose(v.of(b, h), turned_v.first);
                for (int64_t i = 0; i < queries; i += BLOCK) {
                    int64_t end = last(i), wide = columns(end), count = end - i;
                    product(qs.at(i), qs.apart, 1, turned_k, {p.at(i), apart}, count, wide, width);
                    product(gs.at(i), gs.apart, 1, turned_v, {s.at(i), apart}, count, wide, width);
                    for (int64_t r = i; r < end; r++) slopes(p.at(r), s.at(r), gs.at(r), os.at(r), r, wide, logs[one * queries + r]);
                    product(s.at(i), apart, 1, ks, {to.at(i), to.apart}, count, width, seen(end - 1));
                }
                by_keys(p, gs, dv.of(b, h));
                by_keys(s, qs, dk.of(b, h));
            }
        });
    }

    // Row i: products of queries and keys become weights, those of the gradient and the values become slopes of scores.
    void slopes(float* weight, float* slope, const float* grad, const float* out, int64_t i, int64_t end, float log) const {
        weights(weight, i, end, log);
        vf both{};
        for (int64_t d = 0; d < width; d += W) both += load(grad + d) * load(out + d);
        float mean = sum(both);
        for (int64_t j = 0; j < end; j += W)
            store(slope + j, load(weight + j) * (load(slope + j) - mean) * scale);
    }

    // to = table^T x; under causality a block of keys begins at the first query that sees it.
    void by_keys(Rows table, Rows x, Rows to) const {
        for (int64_t j = 0; j < keys; j += BLOCK) {
            int64_t end = j + BLOCK < keys ? j + BLOCK : keys, first = causal ? j : 0;
            product(table.at(first) + j, 1, table.apart, {x.at(first), x.apart}, {to.at(j), to.apart}, end - j, width,
                    queries - first);
        }
    }
};
