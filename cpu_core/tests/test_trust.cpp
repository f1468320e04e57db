// What must hold when the system is against us: allocations and threads that fail, fork after use,
// many callers at once. Each failure is an error code or a slower right answer, never anything
// else.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "check.hpp"
#include "hptp.h"
#include "hptp/convert.hpp"
#include "hptp/in_place.hpp"
#include "hptp/pool.hpp"

#if defined(__linux__)
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

std::atomic<int> allocations_left{-1};  // -1: unlimited

bool may_allocate() {
  int left = allocations_left.load();
  while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

}  // namespace

// Where GCC inlines one of the pair, it takes the other for the C++ library's.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(size_t size) {
  void* memory = may_allocate() ? std::malloc(size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return may_allocate() ? std::malloc(size) : nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

// The buffers of conversions are arrays, aligned more than usual.
#if defined(_MSC_VER)
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return may_allocate() ? _aligned_malloc(size, static_cast<size_t>(alignment)) : nullptr;
}
void operator delete[](void* memory, std::align_val_t) noexcept { _aligned_free(memory); }
#else
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return may_allocate() ? std::aligned_alloc(static_cast<size_t>(alignment), size) : nullptr;
}
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
#endif

#if defined(__linux__)
namespace {
std::atomic<bool> threads_fail{false};
}

// Shadows the C library's: what std::thread calls.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return threads_fail ? EAGAIN : create(thread, attributes, start, argument);
}
#endif

namespace {

// A matrix, large enough for several threads, and where its transpose goes.
class Matrix {
 public:
  explicit Matrix(int64_t rows) : rows_(rows), src_(rows * kColumns), dst_(rows * kColumns) {
    for (size_t i = 0; i < src_.size(); ++i) src_[i] = static_cast<int32_t>(i);
  }

  int transpose(int num_threads) {
    const int64_t shape[] = {rows_, kColumns};
    const int64_t perm[] = {1, 0};
    return hptp_permute(src_.data(), dst_.data(), 4, 2, shape, perm, num_threads);
  }

  bool is_transposed() const {
    for (int64_t i = 0; i < rows_ * kColumns; ++i) {
      if (dst_[static_cast<size_t>(i)] != i % rows_ * kColumns + i / rows_) return false;
    }
    return true;
  }

  bool is_untouched() const {
    for (int32_t value : dst_) {
      if (value != 0) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kColumns = 300;
  int64_t rows_;
  std::vector<int32_t> src_;
  std::vector<int32_t> dst_;
};

// Every allocation of a call fails once, the first time that shape is seen.
void check_allocation_failures() {
  bool succeeded = false;
  for (int allowed = 0; !succeeded; ++allowed) {
    CHECK(allowed < 100);
    Matrix matrix(1000 + allowed);
    allocations_left = allowed;
    const int status = matrix.transpose(4);
    allocations_left = -1;
    succeeded = status == HPTP_OK;
    CHECK(succeeded ? matrix.is_transposed() : status == HPTP_ERR_OUT_OF_MEMORY);
    CHECK(succeeded || matrix.is_untouched());
  }
  const int64_t shape[] = {3, 5, 7};
  const int64_t perm[] = {2, 0, 1};
  hptp_plan* plan = nullptr;
  allocations_left = 0;
  const int status = hptp_plan_create(&plan, 4, 3, shape, perm, nullptr, nullptr, 0);
  allocations_left = -1;
  CHECK(status == HPTP_ERR_OUT_OF_MEMORY && plan == nullptr);
}

// Bytes, large enough for several slabs and threads, and where they go as floats.
class Image {
 public:
  explicit Image(int64_t rows) : rows_(rows), src_(rows * kColumns), dst_(rows * kColumns, -1) {
    for (size_t i = 0; i < src_.size(); ++i) src_[i] = static_cast<uint8_t>(i * 7);
  }

  hptp::Status transpose(int num_threads) {
    const int64_t shape[] = {rows_, kColumns};
    const int64_t perm[] = {1, 0};
    return hptp::permute_convert(src_.data(), dst_.data(), 2, shape, perm, num_threads);
  }

  bool is_transposed() const {
    for (int64_t i = 0; i < rows_ * kColumns; ++i) {
      const size_t from = static_cast<size_t>(i % rows_ * kColumns + i / rows_);
      if (dst_[static_cast<size_t>(i)] != src_[from]) return false;
    }
    return true;
  }

  bool is_untouched() const {
    return std::all_of(dst_.begin(), dst_.end(), [](float value) { return value == -1; });
  }

 private:
  static constexpr int64_t kColumns = 700;
  int64_t rows_;
  std::vector<uint8_t> src_;
  std::vector<float> dst_;
};

// Conversion needs its buffers; without a plan it moves elements one by one.
void check_conversion_failures() {
  for (int allowed = 0; allowed < 40; ++allowed) {
    Image image(700 + allowed);
    allocations_left = allowed;
    const hptp::Status status = image.transpose(4);
    allocations_left = -1;
    CHECK(allowed != 0 || status == hptp::Status::out_of_memory);
    CHECK(status == hptp::Status::ok ? image.is_transposed()
                                     : status == hptp::Status::out_of_memory);
    CHECK(status == hptp::Status::ok || image.is_untouched());
  }
}

bool transposes_in_place(int64_t size, int allowed) {
  std::vector<int32_t> data(static_cast<size_t>(size * size));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i);
  const int64_t shape[] = {size, size};
  const int64_t perm[] = {1, 0};
  allocations_left = allowed;
  const hptp::Status status =
      hptp::permute_in_place(data.data(), sizeof(int32_t), 2, shape, perm, nullptr, 4);
  allocations_left = -1;
  for (int64_t i = 0; i < size * size; ++i) {
    if (data[static_cast<size_t>(i)] != i % size * size + i / size) return false;
  }
  return status == hptp::Status::ok;
}

// Elements change places without memory as well; on threads that have no buffers from earlier.
void check_in_place_failures() {
  for (int allowed = 0; allowed < 4; ++allowed) {
    std::thread([=] { CHECK(transposes_in_place(500, allowed)); }).join();
  }
}

#if defined(__linux__)
void check_thread_failures() {
  threads_fail = true;
  Matrix alone(1500);
  CHECK(alone.transpose(7) == HPTP_OK && alone.is_transposed());
  Image converted_alone(1500);
  CHECK(converted_alone.transpose(7) == hptp::Status::ok && converted_alone.is_transposed());
  CHECK(transposes_in_place(1500, -1));
  threads_fail = false;
  Matrix together(1501);
  CHECK(together.transpose(7) == HPTP_OK && together.is_transposed());
}

void check_fork() {
  Matrix matrix(1600);
  CHECK(matrix.transpose(4) == HPTP_OK);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Matrix again(1601);
    _exit(again.transpose(4) == HPTP_OK && again.is_transposed() ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

void check_many_callers() {
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([i] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        Matrix matrix(700 + 10 * i + repeat);
        CHECK(matrix.transpose(1 + i % 4) == HPTP_OK && matrix.is_transposed());
        Image image(400 + 10 * i + repeat);
        CHECK(image.transpose(1 + i % 4) == hptp::Status::ok && image.is_transposed());
        CHECK(transposes_in_place(300 + 10 * i + repeat, -1));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Callers that come early and late, to helpers that spin or sleep, and wait for them either way.
void check_waits() {
  for (int delay_us : {0, 1, 50, 90, 100, 110, 150, 300}) {
    const std::chrono::microseconds delay(delay_us);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::atomic<int> done{0};
      hptp::parallel_for(4, 4, [&](int64_t first, int64_t last) {
        if (first > 0) std::this_thread::sleep_for(delay);
        done += static_cast<int>(last - first);
      });
      CHECK(done == 4);
      std::this_thread::sleep_for(delay);
    }
  }
}

// One plan, executed from many threads at once.
void check_shared_plan() {
  const int64_t shape[] = {500, 300};
  const int64_t perm[] = {1, 0};
  hptp_plan* plan = nullptr;
  CHECK(hptp_plan_create(&plan, 4, 2, shape, perm, nullptr, nullptr, 2) == HPTP_OK);
  std::vector<int32_t> src(500 * 300);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<int32_t>(i);
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      std::vector<int32_t> dst(src.size());
      CHECK(hptp_plan_execute(plan, src.data(), dst.data()) == HPTP_OK);
      for (int32_t k = 0; k < 500 * 300; ++k) {
        CHECK(dst[static_cast<size_t>(k)] == k % 500 * 300 + k / 500);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  hptp_plan_destroy(plan);
}

}  // namespace

int main() {
  check_allocation_failures();
  check_conversion_failures();
  check_in_place_failures();
#if defined(__linux__)
  check_thread_failures();
  check_fork();
#endif
  check_many_callers();
  check_waits();
  check_shared_plan();
}
