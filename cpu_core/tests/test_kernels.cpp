// Every kernel of every instruction set this CPU has, against loops over single elements; then the
// whole engine on each set, against the scalar one. Says which sets it ran.
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "hptp/execute.hpp"

namespace {

using hptp::Block;
using hptp::Isa;
using hptp::Kernel;
using hptp::KernelSet;

std::vector<uint8_t> random_bytes(std::mt19937_64* random, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  return bytes;
}

void check_columns(const std::vector<uint8_t>& in, int64_t in_pitch, const uint8_t* out,
                   int64_t out_pitch, int64_t rows, int64_t columns, int64_t elem_bytes) {
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      CHECK(std::memcmp(out + column * out_pitch + row * elem_bytes,
                        in.data() + row * in_pitch + column * elem_bytes,
                        static_cast<size_t>(elem_bytes)) == 0);
    }
  }
}

// Channels go past the cache: an element of out begins with a line, columns that are not packed lie
// whole lines apart. Nothing is written outside.
void check_put_kernel(const Kernel& kernel, const std::vector<uint8_t>& in, int64_t in_pitch,
                      int64_t rows, int64_t columns, int64_t elem_bytes, bool packed_columns,
                      int64_t offset) {
  const int64_t column_bytes = rows * elem_bytes;
  const int64_t out_pitch =
      packed_columns ? column_bytes : hptp::detail::round_up(column_bytes, 64) + 64;
  std::vector<uint8_t> memory(static_cast<size_t>(columns * out_pitch + 256), 0xEE);
  uint8_t* out = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) & 63) + 64;
  out += offset;
  kernel.put({in.data(), in_pitch, out, out_pitch, rows, columns, elem_bytes});
  hptp::fence_streams();
  check_columns(in, in_pitch, out, out_pitch, rows, columns, elem_bytes);
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t i = column_bytes; i < out_pitch; ++i) CHECK(out[column * out_pitch + i] == 0xEE);
  }
  for (int64_t i = 0; i < 64; ++i) CHECK(out[columns * out_pitch + i] == 0xEE);
  for (int64_t i = -1 - offset; i < 0; ++i) CHECK(out[i] == 0xEE);
}

// One block; pitches of 0 mean that rows (columns) follow one another.
void check_block(const Kernel& kernel, int64_t elem_bytes, int64_t rows, int64_t columns,
                 bool packed_rows, bool packed_columns, std::mt19937_64* random) {
  const int64_t in_pitch = columns * elem_bytes + (packed_rows ? 0 : 80);
  const int64_t out_pitch = rows * elem_bytes + (packed_columns ? 0 : 80);
  const int64_t in_rows = std::max(rows, hptp::kSlackRows);
  const int64_t out_columns = columns + hptp::kSlackRows;
  const std::vector<uint8_t> in = random_bytes(random, in_rows * in_pitch + hptp::kSlackBytes);
  std::vector<uint8_t> out(static_cast<size_t>(out_columns * out_pitch + hptp::kSlackBytes));
  kernel.run({in.data(), in_pitch, out.data(), out_pitch, rows, columns, elem_bytes});
  check_columns(in, in_pitch, out.data(), out_pitch, rows, columns, elem_bytes);
  if (kernel.put != nullptr) {
    const int64_t pixel_bytes = packed_columns ? rows * elem_bytes : elem_bytes;
    const int64_t align = pixel_bytes & -pixel_bytes;
    for (int64_t offset = 0; offset < 64; offset += align * (align < 8 ? 5 : 1)) {
      check_put_kernel(kernel, in, in_pitch, rows, columns, elem_bytes, packed_columns, offset);
    }
  }
}

void check_sizes(const Kernel& kernel, int64_t elem_bytes, std::mt19937_64* random) {
  for (int64_t rows : {1, 2, 3, 7, 8, 9, 15, 16, 31, 33, 64, 65, 100}) {
    for (int64_t columns : {1, 2, 3, 5, 15, 16, 17, 63, 64, 65}) {
      for (bool packed : {false, true}) {
        check_block(kernel, elem_bytes, rows, columns, false, packed, random);
      }
    }
  }
}

// Squares from where rows lie to where columns go, anywhere in a line: of as many rows and columns
// as a kernel takes at least, and more.
void check_direct(const KernelSet& set, std::mt19937_64* random) {
  for (int size = 0; size < 5; ++size) {
    const Kernel& kernel = set.direct[size];
    if (kernel.put == nullptr) continue;
    const int64_t elem_bytes = 1 << size;
    for (int64_t more_rows : {0, 1, 7, 16, 65}) {
      for (int64_t more_columns : {0, 1, 3, 15, 64, 65}) {
        const int64_t rows = kernel.min_rows + more_rows;
        const int64_t columns = kernel.min_columns + more_columns;
        for (int64_t gap : {0, 3}) {
          const int64_t in_pitch = columns * elem_bytes + gap;
          const std::vector<uint8_t> in = random_bytes(random, rows * in_pitch - gap);
          for (int64_t offset : {0, 1, 16, 60}) {
            check_put_kernel(kernel, in, in_pitch, rows, columns, elem_bytes, gap == 0, offset);
          }
        }
      }
    }
  }
}

void check_channels(const KernelSet& set, std::mt19937_64* random) {
  for (int size = 0; size < 3; ++size) {
    for (int channels = 2; channels <= hptp::kMaxChannels; ++channels) {
      const Kernel& in = set.interleave[size][channels - 2];
      const Kernel& out = set.deinterleave[size][channels - 2];
      for (int64_t more : {0, 1, 7, 63, 64, 65, 1000}) {
        check_block(in, 1 << size, channels, in.min_columns + more, false, true, random);
        check_block(out, 1 << size, out.min_rows + more, channels, true, false, random);
      }
    }
  }
}

// Rows in any order, groups that are no multiple of those loaded side by side, any length.
void check_load(const KernelSet& set, std::mt19937_64* random) {
  constexpr int64_t kRows = 37;
  for (int64_t row_bytes : {1, 31, 64, 65, 192, 1000}) {
    const std::vector<uint8_t> src = random_bytes(random, kRows * row_bytes);
    std::vector<uint8_t> out(static_cast<size_t>(kRows * (row_bytes + 64)));
    std::vector<int64_t> offsets;
    for (int64_t row = kRows - 1; row >= 0; --row) offsets.push_back(row * row_bytes);
    for (bool adjacent : {false, true}) {  // which is about speed alone
      std::fill(out.begin(), out.end(), uint8_t{0xEE});
      for (int64_t first = 0; first < kRows; first += 10) {
        set.load({src.data(), offsets.data(), kRows, row_bytes, first, std::min(first + 10, kRows),
                  adjacent, 4, src.data(), out.data(), row_bytes + 64});
      }
      for (int64_t row = 0; row < kRows; ++row) {
        CHECK(std::memcmp(out.data() + row * (row_bytes + 64),
                          src.data() + (kRows - 1 - row) * row_bytes,
                          static_cast<size_t>(row_bytes)) == 0);
      }
    }
  }
}

// Elements of any size from 4 bytes on, rows in any order, columns packed or not: and not a byte
// outside.
void check_gather(const KernelSet& set, std::mt19937_64* random) {
  for (int64_t elem_bytes : {4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 128, 200}) {
    for (int64_t rows : {1, 3, 4, 5, 9}) {
      for (int64_t columns : {1, 2, 7}) {
        for (int64_t gap : {0, 5}) {
          const int64_t row_bytes = columns * elem_bytes;
          const int64_t pitch = rows * elem_bytes + gap;
          const std::vector<uint8_t> src = random_bytes(random, rows * row_bytes);
          std::vector<int64_t> offsets;
          for (int64_t row = rows - 1; row >= 0; --row) offsets.push_back(row * row_bytes);
          std::vector<uint8_t> out(static_cast<size_t>(columns * pitch + 64), 0xEE);
          std::vector<uint8_t> expected = out;
          for (int64_t column = 0; column < columns; ++column) {
            for (int64_t row = 0; row < rows; ++row) {
              std::memcpy(expected.data() + column * pitch + row * elem_bytes,
                          src.data() + offsets[static_cast<size_t>(row)] + column * elem_bytes,
                          static_cast<size_t>(elem_bytes));
            }
          }
          set.gather({src.data(), offsets.data(), rows, columns, elem_bytes, out.data(), pitch});
          CHECK(out == expected);
        }
      }
    }
  }
}

// Any alignment and length, and not a byte outside.
void check_stream(const KernelSet& set, std::mt19937_64* random) {
  for (int64_t bytes = 1; bytes < 300; ++bytes) {
    for (int64_t offset : {0, 1, 16, 63}) {
      const std::vector<uint8_t> src = random_bytes(random, bytes);
      std::vector<uint8_t> dst(static_cast<size_t>(bytes + 128), 0xEE);
      std::vector<uint8_t> expected = dst;
      set.stream(dst.data() + offset, src.data(), bytes);
      std::copy(src.begin(), src.end(), expected.begin() + offset);
      CHECK(dst == expected);
    }
  }
}

void check_kernels(Isa isa, std::mt19937_64* random) {
  const KernelSet& set = hptp::kernel_set(isa);
  CHECK(set.isa == isa);
  for (int size = 0; size < 5; ++size) check_sizes(set.block[size], 1 << size, random);
  for (int64_t elem_bytes = 1; elem_bytes <= 24; ++elem_bytes) {
    for (int i = elem_bytes <= 4 ? 0 : elem_bytes <= 8 ? 1 : elem_bytes <= 16 ? 2 : 3; i < 4; ++i) {
      check_sizes(set.element[i], elem_bytes, random);
    }
  }
  check_direct(set, random);
  check_channels(set, random);
  check_load(set, random);
  check_gather(set, random);
  check_stream(set, random);
}

struct Case {
  int64_t elem_bytes;
  std::vector<int64_t> shape;
  std::vector<int64_t> perm;
};

void check_engine(Isa isa, std::mt19937_64* random) {
  const Case cases[] = {
      {1, {700, 900}, {1, 0}},
      {2, {333, 517}, {1, 0}},
      {4, {1500, 1100}, {1, 0}},
      {8, {600, 700}, {1, 0}},
      {16, {300, 200}, {1, 0}},
      {1, {9, 3, 5000}, {0, 2, 1}},
      {1, {9, 5000, 3}, {0, 2, 1}},
      {4, {64, 20, 30, 3}, {2, 1, 0, 3}},
      {2, {7, 5, 6, 40, 30, 3}, {4, 3, 2, 1, 0, 5}},
      {4, {3, 2048, 49}, {0, 2, 1}},
      {4, {3, 49, 2048}, {0, 2, 1}},
      {2, {4, 100, 8, 128}, {0, 2, 1, 3}},
  };
  for (const Case& c : cases) {
    hptp::Problem problem;
    const int ndim = static_cast<int>(c.shape.size());
    CHECK(hptp::make_problem(c.elem_bytes, ndim, c.shape.data(), c.perm.data(), nullptr, nullptr,
                             &problem) == hptp::Status::ok);
    const int64_t bytes = hptp::num_bytes(problem);
    const std::vector<uint8_t> src = random_bytes(random, bytes);
    std::vector<uint8_t> expected(static_cast<size_t>(bytes));
    std::vector<uint8_t> dst(static_cast<size_t>(bytes));
    const hptp::Plan plan = hptp::make_plan(problem, 2, isa);
    CHECK(plan.isa == std::string(hptp::to_string(isa)));
    hptp::execute(hptp::make_plan(problem, 1, Isa::scalar), src.data(), expected.data());
    hptp::execute(plan, src.data(), dst.data());
    CHECK(dst == expected);
  }
}

// Tiles in the cache, put where they go or, where the lines of a square would crowd a set of the
// first level, through buffers. Parts of an axis that leave a few rows; strides that leave gaps.
void check_put_tiles(Isa isa, std::mt19937_64* random) {
  struct Matrix {
    const char* kernel;
    int64_t elem_bytes;
    int64_t rows;
    int64_t columns;
    int64_t gap;  // elements behind each row, and behind each column
  };
  const Matrix matrices[] = {
      {"direct", 4, 300, 200, 0},  {"direct", 4, 386, 530, 0},  {"direct", 4, 1922, 40, 0},
      {"direct", 1, 300, 200, 5},  {"direct", 1, 70, 4002, 1},  {"direct", 2, 33, 1000, 3},
      {"direct", 8, 9, 300, 0},    {"direct", 8, 100, 600, 1},  {"direct", 16, 40, 50, 1},
      {"direct", 4, 5, 1000, 0},   {"direct", 1, 17, 301, 0},   {"direct", 2, 12, 40, 2},
      {"squares", 4, 3, 1000, 1},  {"squares", 4, 1024, 64, 0}, {"squares", 4, 64, 1024, 0},
      {"squares", 1, 1024, 64, 0},
  };
  for (const Matrix& m : matrices) {
    const int64_t shape[] = {3, m.rows, m.columns};
    const int64_t perm[] = {0, 2, 1};
    const int64_t src_pitch = (m.columns + m.gap) * m.elem_bytes;
    const int64_t dst_pitch = (m.rows + m.gap) * m.elem_bytes;
    for (bool flipped : {false, true}) {
      const int64_t sign = flipped ? -1 : 1;
      const int64_t src_strides[] = {m.rows * src_pitch, sign * src_pitch, m.elem_bytes};
      const int64_t dst_strides[] = {m.columns * dst_pitch, dst_pitch, m.elem_bytes};
      hptp::Problem problem;
      CHECK(hptp::make_problem(static_cast<uint64_t>(m.elem_bytes), 3, shape, perm, src_strides,
                               dst_strides, &problem) == hptp::Status::ok);
      const std::vector<uint8_t> src = random_bytes(random, 3 * m.rows * src_pitch);
      const uint8_t* from = src.data() + (flipped ? (m.rows - 1) * src_pitch : 0);
      std::vector<uint8_t> expected(static_cast<size_t>(3 * m.columns * dst_pitch), 0xEE);
      std::vector<uint8_t> dst = expected;
      hptp::execute(hptp::make_plan(problem, 1, Isa::scalar), from, expected.data());
      for (int num_threads : {1, 4, 7}) {
        const hptp::Plan plan = hptp::make_plan(problem, num_threads, isa, false);
        if (isa != Isa::scalar && plan.kernel != std::string(m.kernel)) {
          std::fprintf(stderr, "%s, not %s\n", describe(plan).c_str(), m.kernel);
        }
        CHECK(isa == Isa::scalar || plan.kernel == std::string(m.kernel));
        std::fill(dst.begin(), dst.end(), uint8_t{0xEE});
        hptp::execute(plan, from, dst.data());
        CHECK(dst == expected);
      }
    }
  }
}

}  // namespace

int main() {
  std::mt19937_64 random(3);
  for (Isa isa : hptp::kAllIsas) {
    if (!hptp::is_available(isa)) {
      std::printf("%s: not run, this CPU or build lacks it\n", hptp::to_string(isa));
      continue;
    }
    check_kernels(isa, &random);
    check_engine(isa, &random);
    check_put_tiles(isa, &random);
    std::printf("%s: ok\n", hptp::to_string(isa));
  }
  return 0;
}
