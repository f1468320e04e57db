// The thread pool against OpenMP's: both run the same shares of the same plans.
//
//   bench_pool [rounds] [name]     7 rounds of every size of the shapes whose name contains `name`
//
// A line is one size: microseconds a call on one thread, and by the pool and by OpenMP on all CPUs;
// and of execute(), which chooses its number of threads; then OpenMP's time as a multiple of the
// pool's and of execute()'s, medians and quartiles of the rounds' ratios. Each round times the four
// in turn, after a pause in which the threads of the one before go to sleep. Calls follow one
// another, or lie 20 us or 1 ms of the caller's own work apart, so that threads may have to be
// woken, or follow one another while another thread computes all along.
//
// Found with GCC's OpenMP on two CPUs of a Zen 3 guest: up to 20 us apart the pool is level with it
// from 0.5 MB up, and 1 to 4 times as fast below, where these plans are one tile, which the caller
// moves itself; 1 ms apart OpenMP, which spins for 5 ms, is up to 1.4 times as fast from 0.5 to
// 4 MB, and level or behind if told to sleep as well (OMP_WAIT_POLICY=passive); beside a busy
// thread its calls take 8 ms or more, and the pool's what one thread takes. execute(), on one
// thread below 4 MiB, gives away up to half from 0.5 MB on where nothing else runs.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "hptp/execute.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

struct Shape {
  const char* name;
  std::vector<int64_t> shape;  // of 4-byte elements
  std::vector<int64_t> perm;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int64_t n : {24, 48, 96, 192, 272, 384, 544, 768, 1536, 4096}) {
    all.push_back({"2-D", {n, n}, {1, 0}});
  }
  const std::vector<std::vector<int64_t>> images{{1, 16, 7, 7},   {1, 64, 7, 7},   {1, 64, 14, 14},
                                                 {1, 64, 28, 28}, {1, 64, 56, 56}, {4, 64, 56, 56},
                                                 {16, 64, 56, 56}};
  for (const auto& nchw : images) all.push_back({"NCHW to NHWC", nchw, {0, 2, 3, 1}});
  return all;
}

struct Setting {
  const char* name;
  std::chrono::microseconds gap;  // of the caller's own work, between calls
  bool is_busy;                   // another thread computes all along
};

constexpr Setting kSettings[] = {
    {"back to back", std::chrono::microseconds(0), false},
    {"20 us apart", std::chrono::microseconds(20), false},
    {"1 ms apart", std::chrono::microseconds(1000), false},
    {"beside a thread", std::chrono::microseconds(0), true},
};

constexpr int64_t kElemBytes = 4;
// GNU's OpenMP spins for some milliseconds before it sleeps.
constexpr auto kPause = std::chrono::milliseconds(15);
constexpr double kBlockSeconds = 2e-3;    // ten thousand times what reading the clock takes
constexpr double kSpacedSeconds = 20e-3;  // of calls and what lies in between

struct Free {
  void operator()(uint8_t* p) const { std::free(p); }
};
using Memory = std::unique_ptr<uint8_t, Free>;

Memory allocate(int64_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t size = (static_cast<size_t>(bytes) / kPage + 1) * kPage;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kPage, size));
  if (memory == nullptr) std::abort();
  return Memory(memory);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// What execute() would do with this plan, in shares that either pool can run.
class Shares {
 public:
  Shares(const hptp::Plan& plan, const uint8_t* src, uint8_t* dst)
      : plan_(plan), move_(hptp::detail::share_mover(plan)), src_(src), dst_(dst) {}

  void on_one_thread() const { move(0, plan_.num_tiles); }

  void on_pool(int threads) const {
    hptp::parallel_for(plan_.num_tiles, threads,
                       [this](int64_t first, int64_t last) { move(first, last); });
  }

  void on_openmp(int threads) const {
    const int64_t shares = std::min<int64_t>(threads, plan_.num_tiles);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t i = 0; i < shares; ++i) {
      move(plan_.num_tiles * i / shares, plan_.num_tiles * (i + 1) / shares);
    }
  }

 private:
  void move(int64_t first, int64_t last) const {
    move_(plan_, first, last, src_, dst_);
    if (plan_.stream) hptp::fence_streams();
  }

  const hptp::Plan& plan_;
  const hptp::detail::MoveShare move_;
  const uint8_t* const src_;
  uint8_t* const dst_;
};

// Seconds a call, of calls that follow one another.
double time_block(const Work& work) {
  for (int64_t calls = 1;; calls *= 2) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) work();
    const double seconds = seconds_since(start);
    if (seconds >= kBlockSeconds) return seconds / static_cast<double>(calls);
  }
}

// Seconds a call, of calls that are `gap` of the caller's own work apart. Each is timed on its
// own, so some 50 ns of reading the clock are in the time of every way alike.
double time_spaced(const Work& work, std::chrono::microseconds gap) {
  const auto begin = Clock::now();
  double total = 0;
  int64_t calls = 0;
  while (seconds_since(begin) < kSpacedSeconds) {
    const auto start = Clock::now();
    while (Clock::now() - start < gap) {
    }
    const auto call = Clock::now();
    work();
    total += seconds_since(call);
    ++calls;
  }
  return total / static_cast<double>(calls);
}

double time_calls(const Work& work, std::chrono::microseconds gap) {
  std::this_thread::sleep_for(kPause);
  time_spaced(work, gap);  // the scheduler may take some milliseconds to give each thread a CPU
  return gap.count() == 0 ? time_block(work) : time_spaced(work, gap);
}

// Every byte is that of a loop over the elements.
bool is_right(const hptp::Problem& problem, const uint8_t* src, const uint8_t* dst) {
  int64_t index[hptp::kMaxDims] = {};
  for (int64_t i = 0; i < hptp::num_bytes(problem) / kElemBytes; ++i) {
    const uint8_t* from = src;
    for (int k = 0; k < problem.ndim; ++k) from += index[k] * problem.axes[k].src_stride_bytes;
    if (std::memcmp(from, dst + i * kElemBytes, kElemBytes) != 0) return false;
    for (int k = problem.ndim - 1; k >= 0 && ++index[k] == problem.axes[k].size; --k) index[k] = 0;
  }
  return true;
}

void compare(const Shape& shape, const Setting& setting, int rounds) {
  hptp::Problem problem;
  if (hptp::make_problem(kElemBytes, static_cast<int>(shape.shape.size()), shape.shape.data(),
                         shape.perm.data(), nullptr, nullptr, &problem) != hptp::Status::ok) {
    std::abort();
  }
  const int64_t bytes = hptp::num_bytes(problem);
  const Memory src = allocate(bytes);
  const Memory dst = allocate(bytes);
  std::mt19937 random(7);
  for (int64_t i = 0; i < bytes; ++i) src.get()[i] = static_cast<uint8_t>(random());

  const int threads = hptp::usable_cpus();
  const hptp::Plan plan = hptp::make_plan(problem, threads);
  const hptp::Plan automatic = hptp::make_plan(problem, 0);
  const Shares shares(plan, src.get(), dst.get());
  const Work ways[] = {
      [&] { shares.on_one_thread(); },
      [&] { shares.on_pool(threads); },
      [&] { shares.on_openmp(threads); },
      [&] { hptp::execute(automatic, src.get(), dst.get()); },
  };
  for (const Work& work : ways) {
    std::memset(dst.get(), 0xEE, static_cast<size_t>(bytes));
    work();
    if (!is_right(problem, src.get(), dst.get())) {
      std::fprintf(stderr, "wrong result\n");
      std::exit(1);
    }
  }

  std::atomic<bool> is_over{!setting.is_busy};
  std::thread other([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
    }
  });
  std::vector<double> times[4];
  std::vector<double> ratios[2];  // OpenMP's time in the pool's and in that of execute()
  for (int i = 0; i < rounds; ++i) {
    for (int way = 0; way < 4; ++way) times[way].push_back(time_calls(ways[way], setting.gap));
    ratios[0].push_back(times[2].back() / times[1].back());
    ratios[1].push_back(times[2].back() / times[3].back());
  }
  is_over = true;
  other.join();
  std::printf("%-12s %-15s %9lld", shape.name, setting.name, static_cast<long long>(bytes));
  for (const auto& time : times) std::printf(" %9.1f", 1e6 * quantile(time, 0.5));
  for (const auto& ratio : ratios) {
    std::printf("  %5.2f (%.2f-%.2f)", quantile(ratio, 0.5), quantile(ratio, 0.25),
                quantile(ratio, 0.75));
  }
  std::printf("  %d\n", automatic.num_threads);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const char* wanted = argc > 2 ? argv[2] : "";
  std::printf("%-12s %-15s %9s %9s %9s %9s %9s  %s\n", "shape", "calls", "bytes", "1 thread",
              "pool", "OpenMP", "execute", "OpenMP/pool, OpenMP/execute, threads of execute");
  for (const Setting& setting : kSettings) {
    for (const Shape& shape : shapes()) {
      if (std::strstr(shape.name, wanted) == nullptr) continue;
      compare(shape, setting, rounds);
    }
  }
  return 0;
}
