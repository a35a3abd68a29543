// GELU, SiLU and ReLU, and the gradient of GELU. Each takes one exponential and one division an element.
#pragma once
#include "team.h"
#include "vector.h"

enum Activation : int32_t { NONE = 0, GELU = 1, GELU_TANH = 2, SILU = 3, RELU = 4 };

// 1 / (1 + e^-x)
static inline vf sigmoid(vf x) { return 1.0f / (1.0f + exp(-x)); }

// P(t) of erfc(z) = e^(-z^2) t P(t), t = 1 / (1 + z/2), z >= 0: fitted to a relative error of 2e-8.
static inline vf erfc_factor(vf t) {
    vf p = all(0.0151097492f);
    p = p * t - 0.138056535f;
    p = p * t + 0.462348135f;
    p = p * t - 0.712596601f;
    p = p * t + 0.454903752f;
    p = p * t - 0.115350269f;
    p = p * t + 0.231057982f;
    p = p * t + 0.237546053f;
    p = p * t + 0.282978954f;
    p = p * t + 0.282058765f;
    return p;
}

// The normal distribution Phi(x) = erfc(-x / sqrt 2) / 2, and e^(-x^2/2), which its density is made of.
static inline vf normal(vf x, vf& bell) {
    vf z = magnitude(x) * 0.70710678118654752f;
    vf t = 1.0f / (1.0f + 0.5f * z);
    bell = exp(x * x * -0.5f);
    vf tail = 0.5f * bell * t * erfc_factor(t);
    return pick(x > 0.0f, 1.0f - tail, tail);
}

// The slope of tanh's form: 2 u with u = sqrt(2/pi) (x + 0.044715 x^3); tanh(u) = 2 sigmoid(2 u) - 1.
static inline vf twice_inner(vf x) { return x * (1.5957691216057308f + 0.07135481627159615f * (x * x)); }

static inline vf activate(vf x, int kind) {
    vf bell;
    switch (kind) {
        case GELU: return x * normal(x, bell);
        case GELU_TANH: return x * sigmoid(twice_inner(x));
        case SILU: return x * sigmoid(x);
        case RELU: return pick(x < 0.0f, vf{}, x);
        default: return x;
    }
}

// d gelu(x) / dx: Phi + x phi; or s + x s (1 - s) d(2u)/dx.
static inline vf gelu_slope(vf x, int kind) {
    if (kind == GELU) {
        vf bell, phi = normal(x, bell);
        return phi + x * bell * 0.39894228040143268f;
    }
    vf s = sigmoid(twice_inner(x));
    vf inner = 1.5957691216057308f + 0.21406444881478845f * (x * x);
    vf rest = s * (1.0f - s);  // 0 long before x * inner overflows
    return s + pick(rest == 0.0f, vf{}, x * inner * rest);
}
