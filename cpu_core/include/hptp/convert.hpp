// Permute and convert in one pass over memory.
//
// The array is cut into slabs that fit the second cache (slabs.hpp). Each is permuted as an
// ordinary problem and converted in runs, with a buffer between the two steps: narrow numbers are
// permuted first and widened on their way out, wide ones are narrowed on their way in. So any
// permutation meets any pair of types, at the speed of both, and memory is read once and written
// once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "convert_kernels.hpp"
#include "execute.hpp"
#include "plan.hpp"
#include "pool.hpp"
#include "problem.hpp"
#include "slabs.hpp"
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
constexpr int64_t kChunkElems = 4;
constexpr int64_t kPrefetchedElems = 2;
#else
constexpr int64_t kChunkElems = 1 << 10;      // between two steps, in the first cache
constexpr int64_t kPrefetchedElems = 1 << 8;  // or of numbers that come from memory
#endif
constexpr int64_t kLongRunElems = 64;  // worth a coefficient of its own
constexpr int64_t kMaxNumberBytes = 8;

// The buffers of one thread.
struct ConvertBuffers {
  alignas(64) char slab[kSlabBytes];
  alignas(64) char gathered[kChunkElems * kMaxNumberBytes];  // of a source with gaps
  alignas(64) float chunk[kChunkElems];                      // between scale and shift
  alignas(64) char line[kChunkElems * kMaxNumberBytes];      // converted, to be written elsewhere
  float scales[kMaxSlabElems];
  float shifts[kMaxSlabElems];
};

template <typename Bits>
void move_spaced(const char* src, int64_t src_step_bytes, char* dst, int64_t dst_step_bytes,
                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    store(dst + i * dst_step_bytes, load<Bits>(src + i * src_step_bytes));
  }
}

// Numbers from one spacing to another.
inline void move_spaced(int64_t elem_bytes, const char* src, int64_t src_step_bytes, char* dst,
                        int64_t dst_step_bytes, int64_t count) {
  const auto move = elem_bytes == 1   ? move_spaced<uint8_t>
                    : elem_bytes == 2 ? move_spaced<uint16_t>
                    : elem_bytes == 4 ? move_spaced<uint32_t>
                                      : move_spaced<uint64_t>;
  move(src, src_step_bytes, dst, dst_step_bytes, count);
}

// Moves elements one by one: what a plan would do, without needing memory for one.
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

// A box of numbers to be converted: axes outermost first, strides on both sides.
struct ConvertBox {
  int ndim;
  ConvertAxis axes[kMaxDims];
  int64_t begin[kMaxDims];  // of the box within its axis
};

// Converts boxes for one thread, run by run.
class BoxConverter {
 public:
  BoxConverter(const Conversion& conversion, const Affine& affine, CopyKernel stream,
               ConvertBuffers* buffers)
      : conversion_(conversion),
        widens_(conversion.widens()),
        loops_(conversion.loops(active_isa())),
        affine_(affine),
        stream_(stream),
        buffers_(*buffers) {}

  void run(const ConvertBox& box, const char* src, char* dst) {
    box_ = &box;
    choose_run();
    convert_axes(0, src, dst);
  }

 private:
  // The innermost axes that form one evenly spaced run. Coefficients that change within it are laid
  // out to match; where they change rarely, the run ends before and each has its own.
  void choose_run() {
    run_level_ = box_->ndim;
    run_elems_ = 1;
    src_step_bytes_ = conversion_.from_bytes;
    dst_step_bytes_ = conversion_.to_bytes;
    ahead_bytes_ = 0;
    pattern_elems_ = 0;
    while (run_level_ > 0) {
      const ConvertAxis& axis = box_->axes[run_level_ - 1];
      if (run_elems_ == 1) {
        src_step_bytes_ = axis.src_stride_bytes;
        dst_step_bytes_ = axis.dst_stride_bytes;
      }
      const bool continues = axis.src_stride_bytes == src_step_bytes_ * run_elems_ &&
                             axis.dst_stride_bytes == dst_step_bytes_ * run_elems_;
      if (axis.size > 1 && !continues) break;
      if (axis.has_coefficients && run_elems_ >= kLongRunElems) break;
      --run_level_;
      if (axis.has_coefficients) lay_out_coefficients(axis.size, box_->begin[run_level_]);
      run_elems_ *= axis.size;
    }
  }

  // Writes the coefficients of a run with run_elems_ elements per index of an axis; repeated as
  // often as fits, so that long stretches of the run can be processed at a time.
  void lay_out_coefficients(int64_t size, int64_t begin) {
    const int64_t repeats = std::max<int64_t>(kChunkElems / (run_elems_ * size), 1);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      for (int64_t i = begin; i < begin + size; ++i) {
        for (int64_t j = 0; j < run_elems_; ++j, ++pattern_elems_) {
          if (affine_.scale != nullptr) buffers_.scales[pattern_elems_] = affine_.scale[i];
          if (affine_.shift != nullptr) buffers_.shifts[pattern_elems_] = affine_.shift[i];
        }
      }
    }
  }

  void convert_axes(int level, const char* src, char* dst) {
    if (level == run_level_) {
      convert_one_run(src, dst);
      return;
    }
    const ConvertAxis& axis = box_->axes[level];
    for (int64_t i = 0; i < axis.size; ++i) {
      if (level == run_level_ - 1) ahead_bytes_ = i + 1 < axis.size ? axis.src_stride_bytes : 0;
      if (axis.has_coefficients) coefficient_ = box_->begin[level] + i;
      convert_axes(level + 1, src + i * axis.src_stride_bytes, dst + i * axis.dst_stride_bytes);
    }
  }

  // In chunks, none of which crosses the end of a pattern of coefficients.
  void convert_one_run(const char* src, char* dst) {
    const int64_t pattern = pattern_elems_ != 0 ? pattern_elems_ : run_elems_;
    const int64_t chunk = widens_ ? kChunkElems : kPrefetchedElems;
    for (int64_t start = 0; start < run_elems_; start += pattern) {
      const int64_t end = std::min(start + pattern, run_elems_);
      for (int64_t i = start; i < end; i += chunk) {
        const int64_t count = std::min(chunk, end - i);
        if (!widens_) prefetch_chunk(src + i * src_step_bytes_ + ahead_bytes_, count);
        convert_chunk(src + i * src_step_bytes_, dst + i * dst_step_bytes_, count, i - start);
      }
    }
  }

  // Of the next run, which lies far away, where what the hardware fetches ahead has ended; the
  // last run is fetched itself, all at once. (Widening reads slabs, which are in the cache.)
  void prefetch_chunk(const char* src, int64_t count) const {
    const int64_t bytes = count * src_step_bytes_;
    for (int64_t at = 0; at < bytes; at += std::max(src_step_bytes_, kLineBytes)) {
      scalar::prefetch<false>(reinterpret_cast<const uint8_t*>(src + at));
    }
  }

  // Through buffers where the numbers are not adjacent or are to go past the cache.
  void convert_chunk(const char* src, char* dst, int64_t count, int64_t pattern_offset) {
    const bool dst_adjacent = dst_step_bytes_ == conversion_.to_bytes;
    const bool streams =
        stream_ != nullptr && dst_adjacent && run_elems_ * conversion_.to_bytes >= kBurstBytes;
    char* const to = dst_adjacent && !streams ? dst : buffers_.line;
    if (src_step_bytes_ != conversion_.from_bytes) {
      move_spaced(conversion_.from_bytes, src, src_step_bytes_, buffers_.gathered,
                  conversion_.from_bytes, count);
      src = buffers_.gathered;
    }
    if (affine_.is_identity()) {
      loops_.convert(src, to, count);
    } else {
      convert_affine(src, to, count, pattern_offset);
    }
    if (streams) {
      stream_(reinterpret_cast<uint8_t*>(dst), reinterpret_cast<const uint8_t*>(to),
              count * conversion_.to_bytes);
    } else if (!dst_adjacent) {
      move_spaced(conversion_.to_bytes, to, conversion_.to_bytes, dst, dst_step_bytes_, count);
    }
  }

  void convert_affine(const char* src, char* dst, int64_t count, int64_t pattern_offset) {
    const bool one = pattern_elems_ == 0;
    char* const values = reinterpret_cast<char*>(buffers_.chunk);
    if (affine_.scale == nullptr) {
      loops_.to_float(src, values, count);
    } else {
      loops_.scale(src, one ? affine_.scale + coefficient_ : buffers_.scales + pattern_offset, one,
                   buffers_.chunk, count);
    }
    if (affine_.shift == nullptr) {
      loops_.round(values, dst, count);
    } else {
      loops_.shift(buffers_.chunk,
                   one ? affine_.shift + coefficient_ : buffers_.shifts + pattern_offset, one, dst,
                   count);
    }
  }

  const Conversion& conversion_;
  const bool widens_;
  const ConvertLoops loops_;
  const Affine& affine_;
  const CopyKernel stream_;  // null: results are to stay in the cache
  ConvertBuffers& buffers_;

  const ConvertBox* box_ = nullptr;
  int run_level_ = 0;  // this axis and those inside it are one run
  int64_t run_elems_ = 0;
  int64_t src_step_bytes_ = 0;
  int64_t dst_step_bytes_ = 0;
  int64_t ahead_bytes_ = 0;    // from a run to the next
  int64_t pattern_elems_ = 0;  // 0: one coefficient serves a whole run
  int64_t coefficient_ = 0;
};

// One thread's work: its slabs, each permuted and converted.
class SlabConverter {
 public:
  SlabConverter(const ConvertProblem& problem, const Slabs& slabs, const Conversion& conversion,
                const Affine& affine, bool stream, ConvertBuffers* buffers)
      : problem_(problem),
        slabs_(slabs),
        widens_(conversion.widens()),
        moved_bytes_(std::min(conversion.from_bytes, conversion.to_bytes)),
        stream_(stream),
        buffer_(buffers->slab),
        converter_(conversion, affine,
                   stream && widens_ ? kernel_set(active_isa()).stream : nullptr, buffers) {}

  void run(int64_t index, const char* src, char* dst) {
    const Slab slab = slab_at(problem_, slabs_, index);
    for (int i = 0; i < problem_.ndim; ++i) {
      src += slab.begin[i] * problem_.axes[i].src_stride_bytes;
      dst += slab.begin[i] * problem_.axes[i].dst_stride_bytes;
    }
    // The buffer holds the slab packed, in the order of the side that is converted.
    const int* order = widens_ ? slabs_.dst_order : slabs_.src_order;
    ConvertBox box;
    Problem move;
    box.ndim = move.ndim = problem_.ndim;
    move.elem_bytes = moved_bytes_;
    int64_t packed_bytes = moved_bytes_;
    for (int level = problem_.ndim - 1; level >= 0; --level) {
      const int i = order[level];
      const ConvertAxis& axis = problem_.axes[i];
      move.axes[i] = {slab.size[i], axis.src_stride_bytes, axis.dst_stride_bytes};
      box.axes[level] = {move.axes[i], axis.has_coefficients};
      box.begin[level] = slab.begin[i];
      (widens_ ? move.axes[i].dst_stride_bytes : move.axes[i].src_stride_bytes) = packed_bytes;
      (widens_ ? box.axes[level].src_stride_bytes : box.axes[level].dst_stride_bytes) =
          packed_bytes;
      packed_bytes *= slab.size[i];
    }
    if (widens_) {
      permute_slab(&move, src, buffer_);
      converter_.run(box, buffer_, dst);
    } else {
      converter_.run(box, src, buffer_);
      permute_slab(&move, buffer_, dst);
    }
  }

 private:
  void permute_slab(Problem* problem, const char* src, char* dst) {
    canonicalize(problem);
    const Plan* plan = plan_for(*problem);
    if (plan == nullptr || execute(*plan, src, dst) != Status::ok) {
      move_elements(*problem, 0, src, dst);
    }
  }

  // Slabs are of few shapes: a whole one, and what is left at the end of an axis. Null when there
  // is no memory for a plan.
  const Plan* plan_for(const Problem& problem) {
    for (const Plan& plan : plans_) {
      if (plan.problem == problem) return &plan;
    }
    Plan& oldest = plans_[oldest_];
    oldest_ = (oldest_ + 1) % kNumPlans;
    try {
      // The array's size decides, not the slab's.
      oldest = make_plan(problem, 1, active_isa(), stream_ && !widens_);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    return &oldest;
  }

  static constexpr int kNumPlans = 4;

  const ConvertProblem& problem_;
  const Slabs& slabs_;
  const bool widens_;
  const int64_t moved_bytes_;  // the smaller of the two types is the one that is permuted
  const bool stream_;          // results go past the cache
  char* const buffer_;
  BoxConverter converter_;
  Plan plans_[kNumPlans] = {};
  int oldest_ = 0;
};

inline Status convert_slabs(const ConvertProblem& problem, const void* src, void* dst,
                            const Conversion& conversion, const Affine& affine, int num_threads) {
  const Slabs slabs =
      cut_slabs(problem, slab_elems(std::min(conversion.from_bytes, conversion.to_bytes)),
                conversion.widens());
  int64_t bytes = problem.elem_bytes;
  for (int i = 0; i < problem.ndim; ++i) bytes *= problem.axes[i].size;
  const int threads = static_cast<int>(
      std::min<int64_t>(resolve_threads(num_threads, static_cast<uint64_t>(bytes)), slabs.count));
  const std::unique_ptr<ConvertBuffers[]> buffers(new (std::nothrow)
                                                      ConvertBuffers[static_cast<size_t>(threads)]);
  if (buffers == nullptr) return Status::out_of_memory;
  std::atomic<int> next_buffer{0};
  parallel_for(slabs.count, threads, [&](int64_t first, int64_t last) {
    SlabConverter converter(problem, slabs, conversion, affine, bytes >= min_stream_bytes(),
                            &buffers[static_cast<size_t>(next_buffer++)]);
    for (int64_t i = first; i < last; ++i) {
      converter.run(i, static_cast<const char*>(src), static_cast<char*>(dst));
    }
    fence_streams();
  });
  return Status::ok;
}

}  // namespace detail

// Permutes and converts strided arrays; shape, perm and strides as for permute_strided(), the types
// as conversion<From, To>. Returns unsupported when a source of 64-bit numbers is to be scaled.
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

// Permutes the C-contiguous array src of `shape`, converting every number as convert<To>() does.
template <typename From, typename To>
[[nodiscard]] Status permute_convert(const From* src, To* dst, int ndim, const int64_t* shape,
                                     const int64_t* perm, int num_threads = 0,
                                     const Affine& affine = {}) noexcept {
  return permute_convert_strided(src, dst, conversion<From, To>, ndim, shape, perm, nullptr,
                                 nullptr, num_threads, affine);
}

}  // namespace hptp
