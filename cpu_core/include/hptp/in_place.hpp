// Transposes without a second array: exchanging two axes of equal size.
//
// The square is cut into tiles; a tile above the diagonal and its mirror image below change places,
// each transposed on the way through buffers, by the kernels that serve every permutation. Where
// there are no kernels for the elements, they change places one by one. Other permutations move
// elements in long cycles, at a fraction of the speed of a copy, and are refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpus.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "problem.hpp"
#include "status.hpp"
#include "tile_engine.hpp"

namespace hptp {
namespace detail {

// The two axes of a canonical problem that change places. Both are -1 when none does.
struct SquareAxes {
  int outer = -1;
  int inner = -1;
};

// False when the problem is not an exchange of two axes of equal size.
inline bool find_square(const Problem& problem, SquareAxes* square) {
  *square = {};
  for (int i = 0; i < problem.ndim; ++i) {
    if (problem.axes[i].src_stride_bytes == problem.axes[i].dst_stride_bytes) continue;
    if (square->inner >= 0) return false;
    (square->outer < 0 ? square->outer : square->inner) = i;
  }
  if (square->outer < 0) return true;
  if (square->inner < 0) return false;
  const Axis& outer = problem.axes[square->outer];
  const Axis& inner = problem.axes[square->inner];
  return outer.size == inner.size && outer.src_stride_bytes == inner.dst_stride_bytes &&
         inner.src_stride_bytes == outer.dst_stride_bytes;
}

// One square of a batch. An element is at row * row_stride + column * column_stride.
struct Square {
  char* data;
  int64_t size;
  int64_t row_stride_bytes;
  int64_t column_stride_bytes;
  int64_t elem_bytes;

  char* at(int64_t row, int64_t column) const {
    return data + row * row_stride_bytes + column * column_stride_bytes;
  }
};

inline void swap_elements(char* a, char* b, int64_t elem_bytes) {
  char held[64];
  for (int64_t done = 0; done < elem_bytes; done += static_cast<int64_t>(sizeof held)) {
    const size_t part =
        static_cast<size_t>(std::min(elem_bytes - done, static_cast<int64_t>(sizeof held)));
    std::memcpy(held, a + done, part);
    std::memcpy(a + done, b + done, part);
    std::memcpy(b + done, held, part);
  }
}

// Exchanges the tile at (row, column) with its mirror image, element by element; on the diagonal,
// its two halves.
inline void swap_tiles(const Square& square, int64_t row, int64_t column, int64_t tile) {
  const int64_t last_row = std::min(row + tile, square.size);
  const int64_t last_column = std::min(column + tile, square.size);
  for (int64_t r = row; r < last_row; ++r) {
    for (int64_t c = row == column ? r + 1 : column; c < last_column; ++c) {
      swap_elements(square.at(r, c), square.at(c, r), square.elem_bytes);
    }
  }
}

constexpr int64_t kSwapElems = 16;  // the side of a tile whose elements change places one by one

#ifdef HPTP_TINY_BLOCKS  // for tests: small squares have many tiles
constexpr int64_t kSwapRowBytes = 64;
constexpr int64_t kSwapTileBytes = 256;
#else
constexpr int64_t kSwapRowBytes = 512;        // of a tile: bursts of memory
constexpr int64_t kSwapTileBytes = 64 << 10;  // three of them stay in the second cache
#endif

// Exchanges tiles through the buffers of a thread. Rows of the square are contiguous.
class TileSwapper {
 public:
  TileSwapper(const Kernel& kernel, int64_t elem_bytes, uint8_t* buffers)
      : kernel_(kernel),
        tile_(tile_elems(elem_bytes)),
        pitch_bytes_(padded(tile_ * elem_bytes)),
        first_(buffers),
        second_(first_ + in_bytes(elem_bytes)),
        turned_(second_ + in_bytes(elem_bytes)) {}

  static int64_t tile_elems(int64_t elem_bytes) {
    int64_t elems = std::max<int64_t>(kSwapRowBytes / elem_bytes, 1);
    while (elems > 1 && elems * elems * elem_bytes > kSwapTileBytes) elems /= 2;
    return elems;
  }

  static int64_t buffer_bytes(int64_t elem_bytes) {
    const int64_t tile = tile_elems(elem_bytes);
    return 2 * in_bytes(elem_bytes) + (tile + kSlackRows) * padded(tile * elem_bytes) + kSlackBytes;
  }

  void swap(const Square& square, int64_t row, int64_t column) const {
    const int64_t rows = std::min(tile_, square.size - row);
    const int64_t columns = std::min(tile_, square.size - column);
    load(square, row, column, rows, columns, first_);
    if (row != column) load(square, column, row, columns, rows, second_);
    turn(first_, rows, columns, square, column, row);
    if (row != column) turn(second_, columns, rows, square, row, column);
  }

 private:
  static int64_t in_bytes(int64_t elem_bytes) {
    const int64_t tile = tile_elems(elem_bytes);
    return round_up(std::max(tile, kSlackRows) * padded(tile * elem_bytes) + kSlackBytes,
                    kLineBytes);
  }

  void load(const Square& square, int64_t row, int64_t column, int64_t rows, int64_t columns,
            uint8_t* to) const {
    const size_t bytes = static_cast<size_t>(columns * square.elem_bytes);
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * pitch_bytes_, square.at(row + r, column), bytes);
    }
  }

  // Writes the transpose of what was loaded to (row, column).
  void turn(const uint8_t* from, int64_t rows, int64_t columns, const Square& square, int64_t row,
            int64_t column) const {
    kernel_.run({from, pitch_bytes_, turned_, pitch_bytes_, rows, columns, square.elem_bytes});
    const size_t bytes = static_cast<size_t>(rows * square.elem_bytes);
    for (int64_t r = 0; r < columns; ++r) {
      std::memcpy(square.at(row + r, column), turned_ + r * pitch_bytes_, bytes);
    }
  }

  const Kernel& kernel_;
  const int64_t tile_;
  const int64_t pitch_bytes_;
  uint8_t* const first_;
  uint8_t* const second_;
  uint8_t* const turned_;
};

// Square number `index` of the batch the other axes span.
inline Square square_of(const Problem& problem, const SquareAxes& axes, char* data, int64_t index) {
  for (int i = problem.ndim - 1; i >= 0; --i) {
    if (i == axes.outer || i == axes.inner) continue;
    const Axis& axis = problem.axes[i];
    data += index % axis.size * axis.dst_stride_bytes;
    index /= axis.size;
  }
  const Axis& outer = problem.axes[axes.outer];
  const Axis& inner = problem.axes[axes.inner];
  return {data, outer.size, outer.dst_stride_bytes, inner.dst_stride_bytes, problem.elem_bytes};
}

// Calls swap(row, column) for the tiles of all squares on and above the diagonal. Strips of tiles
// grow shorter towards the corner of the triangle, so a task is one from either end.
template <typename Swap>
void for_each_tile(const Problem& problem, const SquareAxes& axes, char* data, int64_t tile,
                   int64_t first_task, int64_t last_task, Swap swap) {
  const int64_t size = problem.axes[axes.outer].size;
  const int64_t strips = ceil_div(size, tile);
  const int64_t tasks_per_square = (strips + 1) / 2;
  for (int64_t task = first_task; task < last_task; ++task) {
    const Square square = square_of(problem, axes, data, task / tasks_per_square);
    const int64_t upper = task % tasks_per_square;
    const int64_t lower = strips - 1 - upper;
    for (int64_t column = upper * tile; column < size; column += tile) {
      swap(square, upper * tile, column);
    }
    for (int64_t column = lower * tile; upper != lower && column < size; column += tile) {
      swap(square, lower * tile, column);
    }
  }
}

inline void transpose_squares(const Problem& problem, const SquareAxes& axes, char* data,
                              int num_threads) {
  const int64_t size = problem.axes[axes.outer].size;
  const int64_t elem_bytes = problem.elem_bytes;
  const int64_t num_squares = num_bytes(problem) / elem_bytes / size / size;
  const bool adjacent = problem.axes[axes.inner].dst_stride_bytes == elem_bytes;
  const int kernel = adjacent ? size_class(elem_bytes) : -1;
  const int64_t tile = kernel >= 0 ? TileSwapper::tile_elems(elem_bytes) : kSwapElems;
  const int64_t num_tasks = num_squares * ((ceil_div(size, tile) + 1) / 2);
  parallel_for(num_tasks, num_threads, [&](int64_t first, int64_t last) {
    uint8_t* const buffers =
        kernel >= 0 ? thread_buffers(TileSwapper::buffer_bytes(elem_bytes)) : nullptr;
    if (buffers == nullptr) {
      for_each_tile(problem, axes, data, tile, first, last,
                    [&](const Square& square, int64_t row, int64_t column) {
                      swap_tiles(square, row, column, tile);
                    });
      return;
    }
    const TileSwapper swapper(kernel_set(active_isa()).block[kernel], elem_bytes, buffers);
    for_each_tile(problem, axes, data, tile, first, last,
                  [&](const Square& square, int64_t row, int64_t column) {
                    swapper.swap(square, row, column);
                  });
  });
}

}  // namespace detail

// Permutes the array at data within its own memory: an exchange of two axes of equal size, or of
// groups of axes that are as large. Null strides mean C-contiguous. Returns not_in_place for any
// other permutation.
[[nodiscard]] inline Status permute_in_place(void* data, size_t elem_size, int ndim,
                                             const int64_t* shape, const int64_t* perm,
                                             const int64_t* strides_bytes = nullptr,
                                             int num_threads = 0) noexcept {
  Problem problem;
  const Status status =
      make_problem(elem_size, ndim, shape, perm, strides_bytes, strides_bytes, &problem);
  if (status != Status::ok) return status;
  for (int i = 0; i < ndim; ++i) {
    if (shape[perm[i]] != shape[i]) return Status::not_in_place;
  }
  if (num_bytes(problem) == 0) return Status::ok;
  if (data == nullptr) return Status::null_pointer;
  detail::SquareAxes axes;
  if (!detail::find_square(problem, &axes)) return Status::not_in_place;
  if (axes.outer < 0) return Status::ok;
  const int threads = resolve_threads(num_threads, static_cast<uint64_t>(num_bytes(problem)));
  detail::transpose_squares(problem, axes, static_cast<char*>(data), threads);
  return Status::ok;
}

}  // namespace hptp
