// Permute and convert in one pass over memory.
//
// The array is cut into slabs: boxes that are long both along the source's innermost axes and along
// the destination's, small enough for the second cache. A slab is converted in the source's order
// into a buffer, and permuted from there, as an ordinary problem, to its place. So any permutation
// meets any pair of types, both at full speed, and nothing is read or written twice in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "convert_kernels.hpp"
#include "plan_cache.hpp"
#include "pool.hpp"
#include "problem.hpp"
#include "status.hpp"

namespace hptp {

// value · scale + shift in float32, the product and the sum each rounded. A null pointer leaves its
// step out. There is one value for all elements (axis < 0), or one per index of that source axis.
struct Affine {
  const float* scale = nullptr;
  const float* shift = nullptr;
  int axis = -1;

  bool is_identity() const { return scale == nullptr && shift == nullptr; }
};

namespace detail {

#ifdef HPTP_TINY_BLOCKS
constexpr int64_t kSlabElems = 24;
constexpr int64_t kRunBytes = 16;
constexpr int64_t kChunkElems = 4;
#else
constexpr int64_t kSlabElems = 32 << 10;
constexpr int64_t kRunBytes = 1 << 10;    // long enough for both sides to read and write in bursts
constexpr int64_t kChunkElems = 1 << 10;  // floats between two steps, in the first cache
#endif

struct ConvertAxis : Axis {
  bool has_coefficients;  // scale and shift vary along it
};

inline bool are_neighbours(const ConvertAxis& outer, const ConvertAxis& inner) {
  return !outer.has_coefficients && !inner.has_coefficients &&
         are_neighbours(static_cast<const Axis&>(outer), static_cast<const Axis&>(inner));
}

// The canonical problem of a conversion: elements differ in size, so none is folded.
struct ConvertProblem {
  int64_t elem_bytes;  // of the destination
  int ndim;
  ConvertAxis axes[kMaxDims];
};

struct Slab {
  int64_t begin[kMaxDims];
  int64_t size[kMaxDims];
};

// How to cut a problem: `step` indices of each axis at a time.
struct Slabs {
  int src_order[kMaxDims];  // the axes as they lie in the source, outermost first
  int64_t step[kMaxDims];
  int64_t count;
};

// Grows the steps of axes, innermost first, until a run of want_elems is reached. Axes are cut into
// equal parts.
inline void grow_steps(const ConvertProblem& problem, const int* order, int64_t want_elems,
                       int64_t* slab_elems, int64_t* step) {
  int64_t run = 1;
  for (int i = problem.ndim - 1; i >= 0 && run < want_elems; --i) {
    const int axis = order[i];
    const int64_t size = problem.axes[axis].size;
    const int64_t others = *slab_elems / step[axis];
    const int64_t most = std::min((want_elems - 1) / run + 1, kSlabElems / others);
    if (most > step[axis]) {
      const int64_t parts = (size - 1) / std::min(most, size) + 1;
      step[axis] = (size - 1) / parts + 1;
      *slab_elems = others * step[axis];
    }
    if (step[axis] < size) return;
    run *= size;
  }
}

inline Slabs cut_slabs(const ConvertProblem& problem) {
  Slabs slabs;
  int dst_order[kMaxDims];
  for (int i = 0; i < problem.ndim; ++i) {
    dst_order[i] = slabs.src_order[i] = i;
    slabs.step[i] = 1;
  }
  std::stable_sort(slabs.src_order, slabs.src_order + problem.ndim, [&](int a, int b) {
    return magnitude(problem.axes[a].src_stride_bytes) >
           magnitude(problem.axes[b].src_stride_bytes);
  });
  int64_t elems = 1;
  const int64_t run = kRunBytes / problem.elem_bytes;
  for (int64_t want : {run, kSlabElems}) {
    grow_steps(problem, dst_order, want, &elems, slabs.step);
    grow_steps(problem, slabs.src_order, want, &elems, slabs.step);
  }
  slabs.count = 1;
  for (int i = 0; i < problem.ndim; ++i) {
    slabs.count *= (problem.axes[i].size - 1) / slabs.step[i] + 1;
  }
  return slabs;
}

// Moves a slab's elements one by one; what a plan would do, without needing memory for one.
inline void move_elements(const Problem& problem, int axis, const char* src, char* dst) {
  if (axis == problem.ndim) {
    std::memcpy(dst, src, static_cast<size_t>(problem.elem_bytes));
    return;
  }
  const Axis& along = problem.axes[axis];
  for (int64_t i = 0; i < along.size; ++i) {
    move_elements(problem, axis + 1, src + i * along.src_stride_bytes,
                  dst + i * along.dst_stride_bytes);
  }
}

// The buffers of one thread.
struct ConvertBuffers {
  alignas(64) char slab[kSlabElems * 8];
  float scales[kSlabElems];
  float shifts[kSlabElems];
  float chunk[kChunkElems];
};

// One thread's work: converts and places slabs.
class SlabConverter {
 public:
  SlabConverter(const ConvertProblem& problem, const Slabs& slabs, const Conversion& conversion,
                const Affine& affine, ConvertBuffers* buffers)
      : problem_(problem),
        slabs_(slabs),
        affine_(affine),
        buffers_(*buffers),
        conversion_(conversion) {}

  void run(int64_t index, const char* src, char* dst) {
    slab_ = slab_at(index);
    for (int i = 0; i < problem_.ndim; ++i) {
      src += slab_.begin[i] * problem_.axes[i].src_stride_bytes;
      dst += slab_.begin[i] * problem_.axes[i].dst_stride_bytes;
    }
    choose_run();
    char* end = buffers_.slab;
    convert_axes(0, src, &end);
    place(dst);
  }

 private:
  const ConvertAxis& src_axis(int level) const { return problem_.axes[slabs_.src_order[level]]; }
  int64_t src_size(int level) const { return slab_.size[slabs_.src_order[level]]; }

  Slab slab_at(int64_t index) const {
    Slab slab;
    for (int i = problem_.ndim - 1; i >= 0; --i) {
      const int64_t size = problem_.axes[i].size;
      const int64_t steps = (size - 1) / slabs_.step[i] + 1;
      slab.begin[i] = index % steps * slabs_.step[i];
      slab.size[i] = std::min(slabs_.step[i], size - slab.begin[i]);
      index /= steps;
    }
    return slab;
  }

  // The innermost source axes that form one evenly spaced run. Coefficients that change within it
  // are laid out to match; where they change rarely, the run ends before and each has its own.
  void choose_run() {
    constexpr int64_t kLongRun = 64;
    run_level_ = problem_.ndim;
    run_elems_ = 1;
    run_stride_bytes_ = conversion_.from_bytes;
    pattern_elems_ = 0;
    while (run_level_ > 0) {
      const ConvertAxis& axis = src_axis(run_level_ - 1);
      const int64_t size = src_size(run_level_ - 1);
      if (run_elems_ == 1) run_stride_bytes_ = axis.src_stride_bytes;
      if (size > 1 && axis.src_stride_bytes != run_stride_bytes_ * run_elems_) break;
      if (axis.has_coefficients && run_elems_ >= kLongRun) break;
      --run_level_;
      if (axis.has_coefficients) lay_out_coefficients(slabs_.src_order[run_level_]);
      run_elems_ *= src_size(run_level_);
    }
  }

  // Writes the coefficients of a run that has run_elems_ elements per index of `axis`; repeated as
  // often as fits, so that long stretches of the run can be processed at a time.
  void lay_out_coefficients(int axis) {
    const int64_t period = run_elems_ * slab_.size[axis];
    const int64_t repeats = std::max<int64_t>(std::min(kSlabElems, kChunkElems) / period, 1);
    pattern_elems_ = 0;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      for (int64_t i = 0; i < slab_.size[axis]; ++i) {
        for (int64_t j = 0; j < run_elems_; ++j, ++pattern_elems_) {
          const int64_t index = slab_.begin[axis] + i;
          if (affine_.scale != nullptr) buffers_.scales[pattern_elems_] = affine_.scale[index];
          if (affine_.shift != nullptr) buffers_.shifts[pattern_elems_] = affine_.shift[index];
        }
      }
    }
  }

  // Converts all runs of the slab, in source order, appending to *end.
  void convert_axes(int level, const char* src, char** end) {
    if (level == run_level_) {
      convert_one_run(src, *end);
      *end += run_elems_ * problem_.elem_bytes;
      return;
    }
    const ConvertAxis& axis = src_axis(level);
    const int64_t begin = slab_.begin[slabs_.src_order[level]];
    for (int64_t i = 0; i < src_size(level); ++i) {
      if (axis.has_coefficients) coefficient_ = begin + i;
      convert_axes(level + 1, src + i * axis.src_stride_bytes, end);
    }
  }

  void convert_one_run(const char* src, char* dst) {
    if (affine_.is_identity()) {
      conversion_.convert(src, run_stride_bytes_, dst, run_elems_);
      return;
    }
    const int64_t pattern = pattern_elems_ != 0 ? pattern_elems_ : run_elems_;
    for (int64_t start = 0; start < run_elems_; start += pattern) {
      const int64_t end = std::min(start + pattern, run_elems_);
      for (int64_t i = start; i < end; i += kChunkElems) {
        convert_chunk(src + i * run_stride_bytes_, dst + i * problem_.elem_bytes,
                      std::min(kChunkElems, end - i), i - start);
      }
    }
  }

  void convert_chunk(const char* src, char* dst, int64_t count, int64_t pattern_offset) {
    float* values = buffers_.chunk;
    const bool one = pattern_elems_ == 0;
    conversion_.to_float(src, run_stride_bytes_, reinterpret_cast<char*>(values), count);
    if (affine_.scale != nullptr) {
      multiply_run(values, one ? affine_.scale + coefficient_ : buffers_.scales + pattern_offset,
                   one, count);
    }
    if (affine_.shift != nullptr) {
      add_run(values, one ? affine_.shift + coefficient_ : buffers_.shifts + pattern_offset, one,
              count);
    }
    conversion_.from_float(values, dst, count);
  }

  // The converted slab, packed in source order, goes to its place.
  void place(char* dst) const {
    Problem problem;
    problem.elem_bytes = problem_.elem_bytes;
    problem.ndim = problem_.ndim;
    int64_t packed_bytes = problem_.elem_bytes;
    for (int level = problem_.ndim - 1; level >= 0; --level) {
      const int axis = slabs_.src_order[level];
      problem.axes[axis] = {slab_.size[axis], packed_bytes, problem_.axes[axis].dst_stride_bytes};
      packed_bytes *= slab_.size[axis];
    }
    canonicalize(&problem);
    if (execute_cached(problem, buffers_.slab, dst, 1) != Status::ok) {
      move_elements(problem, 0, buffers_.slab, dst);
    }
  }

  const ConvertProblem& problem_;
  const Slabs& slabs_;
  const Affine& affine_;
  ConvertBuffers& buffers_;
  const Conversion& conversion_;

  Slab slab_;
  int run_level_;
  int64_t run_elems_;
  int64_t run_stride_bytes_;
  int64_t pattern_elems_;  // 0: one coefficient serves a whole run
  int64_t coefficient_ = 0;
};

inline Status convert_slabs(const ConvertProblem& problem, const void* src, void* dst,
                            const Conversion& conversion, const Affine& affine, int num_threads) {
  const Slabs slabs = cut_slabs(problem);
  uint64_t bytes = static_cast<uint64_t>(problem.elem_bytes);
  for (int i = 0; i < problem.ndim; ++i) bytes *= static_cast<uint64_t>(problem.axes[i].size);
  const int threads =
      static_cast<int>(std::min<int64_t>(resolve_threads(num_threads, bytes), slabs.count));
  const std::unique_ptr<ConvertBuffers[]> buffers(new (std::nothrow)
                                                      ConvertBuffers[static_cast<size_t>(threads)]);
  if (buffers == nullptr) return Status::out_of_memory;
  std::atomic<int> next_buffer{0};
  parallel_for(slabs.count, threads, [&](int64_t first, int64_t last) {
    SlabConverter converter(problem, slabs, conversion, affine, &buffers[next_buffer++]);
    for (int64_t i = first; i < last; ++i) {
      converter.run(i, static_cast<const char*>(src), static_cast<char*>(dst));
    }
  });
  return Status::ok;
}

}  // namespace detail

// Permutes and converts strided arrays; shape, perm and strides as for permute_strided(). Returns
// unsupported when scale or shift is given for a source of 64-bit numbers.
[[nodiscard]] inline Status permute_convert_strided(
    const void* src, void* dst, const Conversion& conversion, int ndim, const int64_t* shape,
    const int64_t* perm, const int64_t* src_strides_bytes, const int64_t* dst_strides_bytes,
    int num_threads = 0, const Affine& affine = {}) noexcept {
  Sides sides;
  const Status status = check_arguments(static_cast<uint64_t>(conversion.from_bytes),
                                        static_cast<uint64_t>(conversion.to_bytes), ndim, shape,
                                        perm, src_strides_bytes, dst_strides_bytes, &sides);
  if (status != Status::ok) return status;
  if (affine.axis >= ndim) return Status::bad_ndim;
  // float32 would lose what 64 bits hold.
  if (!affine.is_identity() && conversion.from_bytes == 8) return Status::unsupported;
  if (is_empty(sides.dst)) return Status::ok;
  if (src == nullptr || dst == nullptr) return Status::null_pointer;

  detail::ConvertProblem problem;
  problem.elem_bytes = conversion.to_bytes;
  problem.ndim = ndim;
  for (int i = 0; i < ndim; ++i) {
    problem.axes[i] = {
        {sides.dst.shape[i], sides.src.strides_bytes[perm[i]], sides.dst.strides_bytes[i]},
        !affine.is_identity() && perm[i] == affine.axis};
  }
  detail::drop_unit_axes(&problem);
  detail::sort_by_dst_stride(&problem);
  detail::fuse_neighbours(&problem);
  if (overlaps_itself(dst_memory(problem)) || overlaps(src, sides.src, dst, sides.dst)) {
    return Status::overlap;
  }
  return detail::convert_slabs(problem, src, dst, conversion, affine, num_threads);
}

// Permutes the C-contiguous array src of `shape`, converting every number as convert<TD>() does.
template <typename TS, typename TD>
[[nodiscard]] Status permute_convert(const TS* src, TD* dst, int ndim, const int64_t* shape,
                                     const int64_t* perm, int num_threads = 0,
                                     const Affine& affine = {}) noexcept {
  return permute_convert_strided(src, dst, conversion<TS, TD>, ndim, shape, perm, nullptr, nullptr,
                                 num_threads, affine);
}

}  // namespace hptp
