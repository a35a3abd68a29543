// A step program: a list of operations with their pointers, run for one token of every row by one call.
#pragma once
#include "attention.h"

struct Embedding {
    int64_t width;
    const void* tokens;       // a table of floats or bfloat16
    const void* positions;    // another, which may be null
    int32_t bfloat16;
    float scale;              // of the tokens' vectors
    float* out;
};

enum OperationKind : int32_t { EMBED = 0, LINEAR = 1, ATTEND = 2, NORMALISE = 3 };

struct Operation {
    int32_t kind, unused;
    union {
        Embedding embedding;
        Linear linear;  // of NORMALISE the norm alone
        Attention attention;
    };
};

static void embed(const Embedding& op, const Step& step, Stage* stage) {
    auto entry = [&](const void* table, int64_t at) {
        return op.bfloat16 ? from_bfloat16(static_cast<const uint16_t*>(table)[at]) : static_cast<const float*>(table)[at];
    };
    Team::share(*stage, step.rows, 8, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; r++)
            for (int64_t i = 0; i < op.width; i++) {
                float x = entry(op.tokens, step.tokens[r] * op.width + i) * op.scale;
                op.out[r * op.width + i] = op.positions ? x + entry(op.positions, step.positions[r] * op.width + i) : x;
            }
    });
}

// Where the group that begins at a row stands in the rows that were packed.
static PackedRows group_at(const Linear& op, const Step& step, int64_t row) {
    return {step.entries + row * entries_of(op), step.sums + row * sums_of(op)};
}

// Rows normalised and packed; then panels. Two stages.
static void linear(const Linear& op, Step& step, Stage* stages, int threads) {
    bool direct = step.rows == 1 && !op.norm && !op.check && !op.minimum && !multiplies_integers(op);
    int most = most_rows(op);
    if (!op.reuse && !direct) {
        Team::share(stages[0], step.rows, 1, [&](int64_t r, int64_t) {
            static thread_local std::vector<float> row;
            row.resize(op.inputs);
            int64_t first = r / most * most;
            int rest = static_cast<int>(step.rows - first);
            normalise(op, op.in + r * op.inputs, row.data());
            if (op.check && !all_finite(row.data(), op.inputs)) step.finite = 0;
            pack_row(op, row.data(), group_size(op, rest), static_cast<int>(r - first), group_at(op, step, first));
        });
    }
    int64_t panels = panels_of(op), together = threads == 1 ? panels : panels / (threads * 8);
    Team::share(stages[1], panels, together < 1 ? 1 : together, [&](int64_t from, int64_t to) {
        float sums[MOST * PANEL];
        for (int64_t panel = from; panel < to; panel++)
            for (int64_t first = 0; first < step.rows; first += most) {
                int rest = static_cast<int>(step.rows - first), size = group_size(op, rest);
                PackedRows rows = group_at(op, step, first);
                if (direct) rows.entries = const_cast<float*>(op.in);
                any_product(op, panel, size, rows, sums);
                finish(op, panel, first, rest < size ? rest : size, sums);
            }
    });
}

static void normalise_rows(const Linear& op, const Step& step, Stage* stage) {
    Team::share(*stage, step.rows, 4, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; r++) normalise(op, op.in + r * op.inputs, op.out + r * op.inputs);
    });
}

static void attend(const Attention& op, const Step& step, Stage* stage) {
    Team::share(*stage, static_cast<int64_t>(step.rows) * op.groups, 1, [&](int64_t task, int64_t) {
        int64_t row = task / op.groups;
        int group = static_cast<int>(task % op.groups);
        if (op.bfloat16) attend_group<uint16_t>(op, step, row, group);
        else attend_group<float>(op, step, row, group);
    });
}

static void run_program(const Operation* operations, int64_t count, Step& step) {
    step.finite = 1;
    std::vector<Stage> stages(2 * count);
    in_parallel(step.threads, [&](Team& team, int) {
        for (int64_t i = 0; i < count; i++) {
            Stage* stage = stages.data() + 2 * i;
            switch (operations[i].kind) {
                case EMBED: embed(operations[i].embedding, step, stage); break;
                case LINEAR: linear(operations[i].linear, step, stage, team.size); break;
                case NORMALISE: normalise_rows(operations[i].linear, step, stage); break;
                default: attend(operations[i].attention, step, stage);
            }
        }
    });
}
