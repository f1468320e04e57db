// Transposes without a second array: exchanging two axes of equal size.
//
// The square is cut into tiles; a tile above the diagonal and its mirror image below change places,
// each transposed, while both are in the first cache. Other permutations move elements in long
// cycles, at a fraction of the speed of a copy, and are refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpus.hpp"
#include "pool.hpp"
#include "problem.hpp"
#include "status.hpp"

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

// Exchanges the tile at (row, column) with its mirror image; on the diagonal, its two halves.
// kElemBytes 0 takes elements of any size.
template <int64_t kElemBytes>
void swap_tiles(const Square& square, int64_t row, int64_t column, int64_t tile) {
  const int64_t last_row = std::min(row + tile, square.size);
  const int64_t last_column = std::min(column + tile, square.size);
  for (int64_t r = row; r < last_row; ++r) {
    for (int64_t c = row == column ? r + 1 : column; c < last_column; ++c) {
      swap_elements(square.at(r, c), square.at(c, r),
                    kElemBytes != 0 ? kElemBytes : square.elem_bytes);
    }
  }
}

using SwapTiles = void (*)(const Square&, int64_t row, int64_t column, int64_t tile);

inline SwapTiles tile_swapper(int64_t elem_bytes) {
  switch (elem_bytes) {
    case 1:
      return swap_tiles<1>;
    case 2:
      return swap_tiles<2>;
    case 4:
      return swap_tiles<4>;
    case 8:
      return swap_tiles<8>;
    case 16:
      return swap_tiles<16>;
    default:
      return swap_tiles<0>;
  }
}

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

// Strips of tiles grow shorter towards the corner of the triangle, so a task is one from either
// end.
inline void transpose_squares(const Problem& problem, const SquareAxes& axes, char* data,
                              int num_threads) {
  const int64_t size = problem.axes[axes.outer].size;
  const int64_t tile = problem.elem_bytes >= 64 ? 8 : 32;
  const int64_t strips = (size - 1) / tile + 1;
  const int64_t tasks_per_square = (strips + 1) / 2;
  const int64_t num_squares = num_bytes(problem) / problem.elem_bytes / size / size;
  const SwapTiles swap = tile_swapper(problem.elem_bytes);
  const auto swap_strip = [&](const Square& square, int64_t strip) {
    for (int64_t column = strip * tile; column < size; column += tile) {
      swap(square, strip * tile, column, tile);
    }
  };
  parallel_for(num_squares * tasks_per_square, num_threads, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const Square square = square_of(problem, axes, data, task / tasks_per_square);
      const int64_t strip = task % tasks_per_square;
      swap_strip(square, strip);
      if (strip != strips - 1 - strip) swap_strip(square, strips - 1 - strip);
    }
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
