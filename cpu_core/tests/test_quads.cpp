// Tiles by way of quads: each kernel of each instruction set against loops over elements, then the
// engine on destinations that begin with a line, behind one by whole elements, and elsewhere.
// Channels that are written straight to where they go.
//
// Built with tiny blocks, so that small tensors are written past the cache.
#include <cstdio>
#include <string>

#include "check.hpp"
#include "hptp/execute.hpp"
#include "reference.hpp"

namespace {

using hptp::Isa;
using hptp::kLineBytes;
using hptp::kQuadRows;
using hptp::QuadKernels;
using reference::Sizes;

constexpr unsigned char kCanary = 0xA5;

uint8_t* next_line(uint8_t* p) {
  return p + (-reinterpret_cast<uintptr_t>(p) & static_cast<uintptr_t>(kLineBytes - 1));
}

// Loads a tile of rows in two stretches, then writes it: all at once, or the whole steps of it
// while another tile is loaded, which must come out as the first did.
void check_kernels(const QuadKernels& kernels, int64_t rows, int64_t columns,
                   std::mt19937_64* random) {
  const int64_t elem_bytes = kernels.elem_bytes;
  const int64_t row_bytes = columns * elem_bytes;
  const int64_t pitch = kQuadRows * (row_bytes + 2 * kLineBytes);
  const int64_t column_bytes = rows * elem_bytes;
  const int64_t dst_pitch = hptp::detail::round_up(column_bytes, kLineBytes) + kLineBytes;
  std::vector<uint8_t> src = reference::random_bytes(static_cast<size_t>(rows * row_bytes), random);
  std::vector<uint8_t> quads(static_cast<size_t>((rows + 4 * kQuadRows) * pitch / kQuadRows));
  std::vector<uint8_t> copy(quads.size());
  std::vector<uint8_t> memory(static_cast<size_t>(columns * dst_pitch + kLineBytes), kCanary);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < columns; ++i) offsets.push_back(i * dst_pitch);
  uint8_t* dst = next_line(memory.data());

  const auto rows_from = [&](int64_t row, uint8_t* out) {
    hptp::QuadRows four{};
    four.ahead_stride = 1;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      four.from[k] = four.ahead[k] = src.data() + std::min(row + k, rows - 1) * row_bytes;
    }
    four.out = out + row / kQuadRows * pitch;
    return four;
  };
  for (int64_t row = 0; row < rows; row += kQuadRows) {
    kernels.load(rows_from(row, quads.data()), row_bytes);
  }
  hptp::QuadColumns leave{quads.data(), pitch, dst, offsets.data(), columns, column_bytes};
  if (column_bytes % kernels.step_bytes() == 0) {
    leave.num_columns = kQuadRows * row_bytes / column_bytes;
    leave.num_columns -= leave.num_columns % kernels.columns_at_once;
  } else {
    leave.num_columns = 0;
  }
  if (leave.num_columns > 0) {
    kernels.exchange(leave, rows_from(0, copy.data()));
    const size_t loaded = static_cast<size_t>(leave.num_columns * column_bytes);
    CHECK(std::memcmp(copy.data(), quads.data(), loaded) == 0);
    leave.quads += leave.num_columns * kQuadRows * elem_bytes;
    leave.dst_offsets += leave.num_columns;
  }
  leave.num_columns = columns - leave.num_columns;
  kernels.write(leave);
  hptp::fence_streams();
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      CHECK(std::memcmp(dst + column * dst_pitch + row * elem_bytes,
                        src.data() + row * row_bytes + column * elem_bytes,
                        static_cast<size_t>(elem_bytes)) == 0);
    }
    for (int64_t i = column_bytes; i < dst_pitch; ++i)
      CHECK(dst[column * dst_pitch + i] == kCanary);
  }
}

// Writes the windows of a tile below a line of rows, at once and while another tile is loaded.
// Every column begins elsewhere in a line; what is not of its window stays as it is.
void check_windows(const QuadKernels& kernels, int64_t rows, int64_t columns, bool first, bool last,
                   std::mt19937_64* random) {
  const int64_t elem_bytes = kernels.elem_bytes;
  const int64_t row_bytes = columns * elem_bytes;
  const int64_t pitch = kQuadRows * (row_bytes + 2 * kLineBytes);
  const int64_t line_rows = kLineBytes / elem_bytes;
  const int64_t column_bytes = rows * elem_bytes;
  const int64_t dst_pitch = column_bytes + 2 * kLineBytes + 4;
  const std::vector<uint8_t> src =
      reference::random_bytes(static_cast<size_t>((line_rows + rows) * row_bytes), random);
  std::vector<uint8_t> quads(static_cast<size_t>((rows + 4 * kQuadRows) * pitch / kQuadRows));
  std::vector<uint8_t> memory(static_cast<size_t>((columns + 2) * dst_pitch), kCanary);
  std::vector<uint8_t> expected = memory;
  uint8_t* dst = next_line(memory.data()) + kLineBytes;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < columns; ++i) offsets.push_back(i * dst_pitch);

  // Of a column, from the line above the tile on.
  const auto byte_of = [&](int64_t column, int64_t byte) {
    return src[static_cast<size_t>(byte / elem_bytes * row_bytes + column * elem_bytes +
                                   byte % elem_bytes)];
  };
  const auto lines_from = [&](int64_t begin) {
    std::vector<uint8_t> lines;
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t i = 0; i < kLineBytes; ++i) lines.push_back(byte_of(column, begin + i));
    }
    return lines;
  };
  const auto rows_from = [&](int64_t row, uint8_t* out) {
    hptp::QuadRows four{};
    four.ahead_stride = 1;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      four.from[k] = four.ahead[k] =
          src.data() + (line_rows + std::min(row + k, rows - 1)) * row_bytes;
    }
    four.out = out;
    return four;
  };
  for (int64_t row = 0; row < rows; row += kQuadRows) {
    kernels.load(rows_from(row, quads.data() + row / kQuadRows * pitch), row_bytes);
  }
  std::vector<uint8_t> lines = lines_from(0);
  hptp::QuadWindows windows{quads.data(), pitch, lines.data(), dst, offsets.data(), 0,
                            column_bytes, first, last};
  if (!first && !last && column_bytes % kernels.step_bytes() == 0) {
    windows.num_columns = kQuadRows * row_bytes / column_bytes;
    windows.num_columns -= windows.num_columns % kernels.columns_at_once;
    std::vector<uint8_t> loaded(static_cast<size_t>(pitch));
    kernels.exchange_windows(windows, rows_from(0, loaded.data()));
    const size_t bytes = static_cast<size_t>(windows.num_columns * column_bytes);
    CHECK(std::memcmp(loaded.data(), quads.data(), bytes) == 0);
    windows.quads += windows.num_columns * kQuadRows * elem_bytes;
    windows.lines += windows.num_columns * kLineBytes;
    windows.dst_offsets += windows.num_columns;
  }
  windows.num_columns = columns - windows.num_columns;
  kernels.write_windows(windows);
  hptp::fence_streams();
  CHECK(lines == lines_from(last ? 0 : column_bytes));

  for (int64_t column = 0; column < columns; ++column) {
    const int64_t to = dst - memory.data() + offsets[static_cast<size_t>(column)];
    const auto behind_line = [&](int64_t row) {
      return (to + row * elem_bytes - (dst - memory.data())) & (kLineBytes - 1);
    };
    const int64_t begin = first ? to : to - behind_line(0);
    const int64_t end = to + column_bytes - (last ? 0 : behind_line(rows));
    for (int64_t at = begin; at < end; ++at) {
      expected[static_cast<size_t>(at)] = byte_of(column, at - to + kLineBytes);
    }
  }
  CHECK(memory == expected);
}

struct Case {
  int64_t elem_bytes;
  Sizes shape;
  Sizes perm;
};

// The destination begins `offset` bytes behind a line, between canaries.
void check_engine(const Case& c, Isa isa, int64_t offset, int num_threads,
                  const std::string& kernel, std::mt19937_64* random) {
  const int ndim = static_cast<int>(c.shape.size());
  hptp::Problem problem;
  CHECK(hptp::make_problem(static_cast<size_t>(c.elem_bytes), ndim, c.shape.data(), c.perm.data(),
                           nullptr, nullptr, &problem) == hptp::Status::ok);
  const hptp::Plan plan = hptp::make_plan(problem, num_threads, isa);
  if (plan.kernel != kernel) {
    std::fprintf(stderr, "%s, not %s\n", describe(plan).c_str(), kernel.c_str());
  }
  CHECK(plan.kernel == kernel);
  const int64_t bytes = hptp::num_bytes(problem);
  const std::vector<uint8_t> src = reference::random_bytes(static_cast<size_t>(bytes), random);
  std::vector<uint8_t> memory(static_cast<size_t>(bytes + 4 * kLineBytes), kCanary);
  uint8_t* dst = next_line(memory.data()) + kLineBytes + offset;
  const size_t before = static_cast<size_t>(dst - memory.data());
  std::vector<uint8_t> expected = memory;
  const Sizes shape = reference::permuted(c.shape, c.perm);
  reference::permute(src.data(), expected.data() + before, c.elem_bytes, shape,
                     reference::permuted(reference::packed_strides(c.shape, c.elem_bytes), c.perm),
                     reference::packed_strides(shape, c.elem_bytes));
  CHECK(hptp::execute(plan, src.data(), dst) == hptp::Status::ok);
  CHECK(memory == expected);
}

// Pixels of 4 bytes that follow rows of an odd number of 2-byte elements: half of them cannot begin
// with a line.
void check_odd_rows(Isa isa) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kPixels = 160;
  constexpr int64_t kPitch = 2 * kPixels + 1;
  const int64_t shape[] = {2, kRows, kPixels};
  const int64_t perm[] = {1, 2, 0};
  const int64_t dst_strides[] = {2 * kPitch, 4, 2};
  hptp::Problem problem;
  CHECK(hptp::make_problem(2, 3, shape, perm, nullptr, dst_strides, &problem) == hptp::Status::ok);
  const hptp::Plan plan = hptp::make_plan(problem, 1, isa);
  CHECK(std::string(plan.kernel) == "interleave");
  std::vector<uint16_t> src(2 * kRows * kPixels);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint16_t>(i);
  std::vector<uint16_t> dst(kRows * kPitch, 0xA5A5);
  CHECK(hptp::execute(plan, src.data(), dst.data()) == hptp::Status::ok);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < 2 * kPixels; ++i) {
      CHECK(dst[static_cast<size_t>(row * kPitch + i)] ==
            i % 2 * kRows * kPixels + row * kPixels + i / 2);
    }
    CHECK(dst[static_cast<size_t>(row * kPitch + 2 * kPixels)] == 0xA5A5);
  }
}

// Elements whose quads are no vectors, by way of runs of them; columns that follow one another in
// the destination, or do not; elements too long for runs, which then are rows.
void check_runs(Isa isa, std::mt19937_64* random) {
  const Case cases[] = {
      {5, {128, 128}, {1, 0}},     {7, {53, 91}, {1, 0}},
      {20, {40, 33}, {1, 0}},      {32, {30, 31}, {1, 0}},
      {64, {17, 9}, {1, 0}},       {65, {6, 5, 7}, {0, 2, 1}},
      {33, {5, 3, 41}, {2, 0, 1}}, {48, {3, 4, 5, 6}, {0, 2, 3, 1}},
  };
  for (const Case& c : cases) {
    for (int num_threads : {1, 4, 7}) {
      for (int64_t offset : {0, 1, 16, 63}) {
        check_engine(c, isa, offset, num_threads, "runs", random);
      }
    }
  }
  // Whole lines, in blocks that follow one another: rows, and runs where none begins with a line.
  for (int64_t offset : {0, 16, 63}) {
    check_engine({64, {4, 8, 6}, {0, 2, 1}}, isa, offset, 2, "rows", random);
  }
  check_engine({128, {20, 30}, {1, 0}}, isa, 0, 2, "rows", random);
}

void check_isa(Isa isa, std::mt19937_64* random) {
  for (const QuadKernels& kernels : hptp::kernel_set(isa).quads) {
    const int64_t step_rows = kernels.step_bytes() / kernels.elem_bytes;
    for (int64_t steps : {1, 2, 4}) {
      for (int64_t more : {-3, -1, 0, 1, 2, 5}) {
        const int64_t rows = steps * step_rows + more;
        if (rows * kernels.elem_bytes > hptp::kMaxQuadColumnBytes) continue;
        for (int64_t columns : {1, 3, 4, 5, 16, 17, 32, 63, 64, 126, 200}) {
          check_kernels(kernels, rows, columns, random);
          if (kernels.write_windows == nullptr) continue;
          for (int ends : {0, 1, 2, 3}) {
            // Only the last tile may end within a line of rows.
            if ((ends & 2) == 0 && rows * kernels.elem_bytes % kLineBytes != 0) continue;
            check_windows(kernels, rows, columns, (ends & 1) != 0, (ends & 2) != 0, random);
          }
        }
      }
    }
  }
  const Case cases[] = {
      {4, {64, 64}, {1, 0}},        {4, {128, 96}, {1, 0}},
      {4, {80, 100}, {1, 0}},       {4, {400, 33}, {1, 0}},
      {8, {32, 48}, {1, 0}},        {8, {104, 70}, {1, 0}},
      {16, {16, 12}, {1, 0}},       {16, {100, 20}, {1, 0}},
      {4, {3, 208, 64}, {0, 2, 1}}, {8, {2, 40, 5, 32}, {2, 0, 3, 1}},
      {2, {128, 128}, {1, 0}},      {2, {224, 101}, {1, 0}},
      {1, {256, 192}, {1, 0}},      {1, {448, 97}, {1, 0}},
      {2, {3, 96, 71}, {0, 2, 1}},  {1, {2, 64, 5, 66}, {2, 0, 3, 1}},
  };
  for (const Case& c : cases) {
    for (int num_threads : {1, 4, 7}) {
      for (int64_t offset : {0, 4, 8, 16, 32, 60, 3}) {
        check_engine(c, isa, offset, num_threads, "quads", random);
      }
    }
  }
  // All rows of a tile are one axis, or several: nothing can be shifted.
  for (int64_t offset : {0, 4, 16}) {
    check_engine({4, {8, 8, 40}, {2, 0, 1}}, isa, offset, 2, "quads", random);
    check_engine({4, {3, 64, 50}, {2, 0, 1}}, isa, offset, 2, "quads", random);
    check_engine({8, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}, isa, offset,
                 3, "quads", random);
  }
  // Pixels whose channels go straight to their planes, and back.
  for (int64_t offset : {0, 16, 60, 1}) {
    check_engine({1, {2, 1024, 3}, {0, 2, 1}}, isa, offset, 3, "deinterleave", random);
    check_engine({2, {3, 608, 4}, {0, 2, 1}}, isa, offset, 1, "deinterleave", random);
    check_engine({1, {2, 3, 1024}, {0, 2, 1}}, isa, offset, 3, "interleave", random);
    check_engine({1, {3, 3, 1000}, {0, 2, 1}}, isa, offset, 2, "interleave", random);
    check_engine({2, {3, 4, 609}, {0, 2, 1}}, isa, offset, 1, "interleave", random);
    check_engine({4, {2, 2, 5, 160}, {0, 2, 3, 1}}, isa, offset, 3, "interleave", random);
  }
  check_odd_rows(isa);
  // Columns that begin elsewhere, each of them, in a tile beside others or one, of several arrays.
  const Case anywhere[] = {
      {4, {193, 64}, {1, 0}},       {4, {129, 33}, {1, 0}},      {4, {500, 131}, {1, 0}},
      {8, {103, 70}, {1, 0}},       {8, {97, 16}, {1, 0}},       {16, {49, 20}, {1, 0}},
      {4, {3, 209, 65}, {0, 2, 1}}, {8, {2, 75, 33}, {2, 0, 1}}, {8, {3, 75, 40}, {0, 2, 1}},
      {2, {257, 131}, {1, 0}},      {2, {300, 64}, {1, 0}},      {1, {515, 131}, {1, 0}},
      {1, {2, 700, 65}, {0, 2, 1}},
  };
  for (const Case& c : anywhere) {
    for (int num_threads : {1, 4, 7}) {
      for (int64_t offset : {0, 4, 16, 63}) {
        check_engine(c, isa, offset, num_threads, "windows", random);
      }
    }
  }
  // Too few rows for windows.
  check_engine({4, {65, 64}, {1, 0}}, isa, 0, 1, "squares", random);
  check_engine({2, {101, 128}, {1, 0}}, isa, 0, 1, "squares", random);
  check_runs(isa, random);
}

}  // namespace

int main() {
  std::mt19937_64 random(64);
  for (Isa isa : hptp::kAllIsas) {
    if (!hptp::is_available(isa) || isa == Isa::scalar) {
      std::printf("%s: not run, %s\n", hptp::to_string(isa),
                  isa == Isa::scalar ? "it has no quads" : "this CPU or build lacks it");
      continue;
    }
    check_isa(isa, &random);
    std::printf("%s: ok\n", hptp::to_string(isa));
  }
}
