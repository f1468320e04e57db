// The twenty rows of the project's table, as a share of a non-temporal copy of the same bytes.
//
//   bench_permute [rounds] [row]     7 rounds of every row whose name contains the second argument
//
// Each round times the copy, the C library's memcpy and the permutation one after the other, once
// on one thread and once on all; a row shows the medians of the rounds' ratios, and their
// quartiles, so that a machine whose speed drifts does not shift the result. Memory is written, in
// huge pages where the system grants them, before the clock starts, and every answer is checked.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "hptp/execute.hpp"
#include "hptp/nt_copy.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

struct Row {
  const char* name;
  int64_t elem_bytes;
  std::vector<int64_t> shape;
  std::vector<int64_t> perm;
};

std::vector<Row> table() {
  const std::vector<int64_t> u16{12, 8, 8, 16, 12, 16, 20, 3};
  const std::vector<int64_t> f32{12, 8, 8, 16, 6, 16, 20, 3};
  std::vector<int64_t> reversed(22);
  for (size_t i = 0; i < reversed.size(); ++i) reversed[i] = 21 - static_cast<int64_t>(i);
  return {
      {"2-D f32 8192^2", 4, {8192, 8192}, {1, 0}},
      {"batched f32 32x1024x2048", 4, {32, 1024, 2048}, {0, 2, 1}},
      {"2-D u8 16384^2", 1, {16384, 16384}, {1, 0}},
      {"2-D f64 4096^2", 8, {4096, 4096}, {1, 0}},
      {"NCHW to NHWC f32", 4, {64, 256, 56, 56}, {0, 2, 3, 1}},
      {"NHWC to NCHW f32", 4, {64, 56, 56, 256}, {0, 3, 1, 2}},
      {"CHW to HWC u8", 1, {64, 3, 224, 224}, {0, 2, 3, 1}},
      {"HWC to CHW u8", 1, {64, 224, 224, 3}, {0, 3, 1, 2}},
      {"BSHD to BHSD 2-byte", 2, {8, 2048, 32, 128}, {0, 2, 1, 3}},
      {"8-D u16 rows stay", 2, u16, {3, 4, 0, 1, 2, 5, 6, 7}},
      {"8-D u16 ends swap", 2, u16, {6, 7, 3, 4, 5, 0, 1, 2}},
      {"8-D u16 halves swap", 2, u16, {4, 5, 6, 7, 1, 2, 3, 0}},
      {"8-D u16 reversal but last", 2, u16, {6, 5, 4, 3, 2, 1, 0, 7}},
      {"8-D f32 rows stay", 4, f32, {3, 4, 0, 1, 2, 5, 6, 7}},
      {"8-D f32 ends swap", 4, f32, {6, 7, 3, 4, 5, 0, 1, 2}},
      {"8-D f32 halves swap", 4, f32, {4, 5, 6, 7, 1, 2, 3, 0}},
      {"8-D f32 reversal but last", 4, f32, {6, 5, 4, 3, 2, 1, 0, 7}},
      {"rank 22 reversal f64", 8, std::vector<int64_t>(22, 2), reversed},
      {"7-D f32 rows stay", 4, {10, 10, 10, 100, 10, 10, 10}, {3, 0, 1, 2, 4, 5, 6}},
      {"2-D f32 800x200000", 4, {800, 200000}, {1, 0}},
  };
}

struct Free {
  void operator()(uint8_t* p) const { std::free(p); }
};
using Memory = std::unique_ptr<uint8_t, Free>;

Memory allocate(int64_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = (static_cast<size_t>(bytes) / kHugePage + 1) * kHugePage;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kHugePage, size));
  if (memory == nullptr) std::abort();
#if defined(__linux__)
  madvise(memory, size, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0xEE, size);
  return Memory(memory);
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// Compares a hundred thousand random elements.
void check(const hptp::Problem& problem, const uint8_t* src, const uint8_t* dst) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const uint8_t* from = src;
    const uint8_t* to = dst;
    for (int k = 0; k < problem.ndim; ++k) {
      const hptp::Axis& axis = problem.axes[k];
      const int64_t index = static_cast<int64_t>(random() % static_cast<uint64_t>(axis.size));
      from += index * axis.src_stride_bytes;
      to += index * axis.dst_stride_bytes;
    }
    if (std::memcmp(from, to, static_cast<size_t>(problem.elem_bytes)) != 0) {
      std::fprintf(stderr, "wrong result\n");
      std::exit(1);
    }
  }
}

void measure(const hptp::Problem& problem, const uint8_t* src, uint8_t* dst, int threads,
             int rounds) {
  const int64_t bytes = hptp::num_bytes(problem);
  const hptp::Plan plan = hptp::make_plan(problem, threads);
  hptp::execute(plan, src, dst);
  check(problem, src, dst);
  std::vector<double> copy;
  std::vector<double> memcpy_share;
  std::vector<double> share;
  for (int i = 0; i < rounds; ++i) {
    copy.push_back(seconds([&] { hptp::copy_non_temporal(src, dst, bytes, threads); }));
    memcpy_share.push_back(copy.back() /
                           seconds([&] { hptp::copy_cached(src, dst, bytes, threads); }));
    share.push_back(copy.back() / seconds([&] { hptp::execute(plan, src, dst); }));
  }
  std::printf(" | %5.1f %4.0f%% %4.0f%% (%.0f-%.0f)",
              2e-9 * static_cast<double>(bytes) / quantile(copy, 0.5),
              100 * quantile(memcpy_share, 0.5), 100 * quantile(share, 0.5),
              100 * quantile(share, 0.25), 100 * quantile(share, 0.75));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const char* wanted = argc > 2 ? argv[2] : "";
  const int all = hptp::usable_cpus();
  std::printf("%-26s | 1 thread: copy GB/s, memcpy, hptp | %d threads; %s\n", "", all,
              hptp::isa_name());
  for (const Row& row : table()) {
    if (std::strstr(row.name, wanted) == nullptr) continue;
    hptp::Problem problem;
    const int ndim = static_cast<int>(row.shape.size());
    if (hptp::make_problem(row.elem_bytes, ndim, row.shape.data(), row.perm.data(), nullptr,
                           nullptr, &problem) != hptp::Status::ok) {
      return 1;
    }
    const int64_t bytes = hptp::num_bytes(problem);
    const Memory src = allocate(bytes);
    const Memory dst = allocate(bytes);
    std::mt19937 random(7);
    for (int64_t i = 0; i < bytes / 4; ++i) {
      const auto value = static_cast<uint32_t>(random());
      std::memcpy(src.get() + 4 * i, &value, sizeof value);
    }
    std::printf("%-26s", row.name);
    measure(problem, src.get(), dst.get(), 1, rounds);
    if (all > 1) measure(problem, src.get(), dst.get(), all, rounds);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
