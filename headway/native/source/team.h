// A team of threads for one call. The threads are those of torch's own OpenMP pool where it has one (its functions are
// handed over at run time), so that no second pool fights for the cores; else, and in a process that was forked, threads
// of the call itself. Inside of a call the team waits by spinning, which takes less than a microsecond.
#pragma once
#include <atomic>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#endif

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using Number = int (*)();
static std::atomic<Parallel> openmp_parallel{nullptr};
static std::atomic<Number> openmp_thread{nullptr}, openmp_threads{nullptr};

static inline void pause_thread() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// One piece of work that the team shares: parts are claimed as threads are free, and it is over when all are done. A thread
// that does not run at the moment, on a machine with other work, is not waited for unless it holds a part.
struct Stage {
    std::atomic<int64_t> claimed{0}, done{0};
};

class Team {
  public:
    std::atomic<int> size{1};

    // work(from, to) over `total` items, `together` of them at a time, by whoever comes.
    template <class Work>
    static void share(Stage& stage, int64_t total, int64_t together, const Work& work) {
        int64_t parts = (total + together - 1) / together;
        for (int64_t part; (part = stage.claimed.fetch_add(1, std::memory_order_relaxed)) < parts;) {
            int64_t from = part * together, to = from + together < total ? from + together : total;
            work(from, to);
            stage.done.fetch_add(1, std::memory_order_release);
        }
        for (int spins = 0; stage.done.load(std::memory_order_acquire) < parts; spins++) {
            if (spins < 4000) pause_thread();
#if defined(__unix__) || defined(__APPLE__)
            else sched_yield();
#endif
        }
    }
};

// The part of `total` pieces of work that thread number `thread` has: from, to.
struct Share {
    int64_t from, to;
    Share(int64_t total, int thread, int threads)
        : from(total * thread / threads), to(total * (thread + 1) / threads) {}
};

// work(team, thread) in `threads` threads at once.
template <class Work>
void in_parallel(int threads, const Work& work) {
    Team team;
    if (threads <= 1) return work(team, 0);
    struct Call {
        Team* team;
        const Work* work;
    } call{&team, &work};
    if (Parallel parallel = openmp_parallel.load()) {
        // Every thread of the region writes the same size: the one that OpenMP really gave.
        parallel(
            [](void* argument) {
                Call* own = static_cast<Call*>(argument);
                int given = openmp_threads.load()();
                own->team->size.store(given);
                (*own->work)(*own->team, openmp_thread.load()());
            },
            &call, static_cast<unsigned>(threads), 0);
        return;
    }
    team.size = threads;
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; thread++) others.emplace_back([&, thread] { work(team, thread); });
    work(team, 0);
    for (auto& other : others) other.join();
}
