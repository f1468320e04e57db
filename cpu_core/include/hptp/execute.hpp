// Moves the data of a plan: its tiles, in the order of its loops, split evenly over the threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "plan.hpp"
#include "pool.hpp"
#include "quad_engine.hpp"
#include "run_engine.hpp"
#include "status.hpp"
#include "tile_engine.hpp"
#include "window_engine.hpp"

namespace hptp {
namespace detail {

constexpr int64_t kCopyBytes = 4096;  // contiguous blocks are shared out in pages

inline CopyKernel copy_kernel(const Plan& plan) {
  return plan.stream ? plan.set->stream : copy_cached;
}

inline void copy_share(const Plan& plan, int64_t first, int64_t last, const uint8_t* src,
                       uint8_t* dst) {
  const int64_t begin = first * kCopyBytes;
  const int64_t end = std::min(last * kCopyBytes, plan.elem_bytes);
  copy_kernel(plan)(dst + begin, src + begin, end - begin);
}

inline void prefetch_lines(const uint8_t* src, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kLineBytes) scalar::prefetch<false>(src + at);
}

// Where tiles of several rows read one block of the source after the other, each block out of
// order, the hardware sees no stream to follow: the next block is prefetched in the order of its
// memory while this one is moved. On a Zen 5 guest 256-byte rows went from 56 to over 90 % of a
// copy's speed; prefetching the rows in the order of their use left them at 70-79 %.
inline void copy_rows(const Plan& plan, int64_t first, int64_t last, const uint8_t* src,
                      uint8_t* dst) {
  const CopyKernel copy = copy_kernel(plan);
  TileWalk walk(plan, first, src, dst);
  const uint8_t* ahead = walk.src() + plan.block_ahead_bytes;
  if (plan.block_ahead_bytes > 0) {
    ahead += walk.innermost_index() * (plan.rows.elems - 1) * plan.elem_bytes;
  }
  for (int64_t i = first; i < last; ++i, walk.advance()) {
    const Tile tile = walk.tile();
    for (int64_t row = 0; row < tile.rows; ++row, ahead += plan.elem_bytes) {
      if (plan.block_ahead_bytes > 0) prefetch_lines(ahead, plan.elem_bytes);
      copy(tile.dst + row * plan.elem_bytes, tile.src + plan.src_offsets[static_cast<size_t>(row)],
           plan.elem_bytes);
    }
  }
}

// kElemBytes 0 takes any size.
template <int kElemBytes>
void move_elements(const Plan& plan, int64_t first, int64_t last, const uint8_t* src,
                   uint8_t* dst) {
  const int64_t* src_offsets = plan.src_offsets.data();
  const int64_t* dst_offsets = plan.dst_offsets.data();
  TileWalk walk(plan, first, src, dst);
  for (int64_t i = first; i < last; ++i, walk.advance()) {
    const Tile tile = walk.tile();
    for (int64_t k = 0; k < tile.rows; ++k) {
      std::memcpy(tile.dst + dst_offsets[k], tile.src + src_offsets[k],
                  kElemBytes != 0 ? kElemBytes : static_cast<size_t>(plan.elem_bytes));
    }
  }
}

// What a thread needs to transpose tiles: at most 1 MiB.
inline int64_t buffer_bytes(const Plan& plan) {
  switch (plan.way) {
    case Way::buffers:
      break;
    case Way::quads:
      return QuadEngine::buffer_bytes(plan);
    case Way::windows:
      return WindowEngine::buffer_bytes(plan);
    case Way::runs:
      return RunEngine::buffer_bytes(plan);
  }
  return TileEngine::buffer_bytes(plan);
}

inline void transpose_tiles(const Plan& plan, int64_t first, int64_t last, const uint8_t* src,
                            uint8_t* dst) {
  const TileWalk walk(plan, first, src, dst);
  const int64_t align = plan.direct_dst_align;
  if (align > 0 && reinterpret_cast<intptr_t>(dst) % align == 0) {
    put_tiles(plan, walk, last - first);
    return;
  }
  uint8_t* buffers = thread_buffers(buffer_bytes(plan));
  if (buffers == nullptr) {
    move_tiles(plan, walk, last - first);
    return;
  }
  switch (plan.way) {
    case Way::buffers:
      TileEngine(plan, dst, buffers).run(walk, last - first);
      break;
    case Way::quads:
      QuadEngine(plan, dst, buffers).run(walk, last - first);
      break;
    case Way::windows:
      WindowEngine(plan, buffers).run(walk, last - first);
      break;
    case Way::runs:
      RunEngine(plan, buffers).run(walk, last - first);
      break;
  }
}

// Moves the tiles [first, last) of a plan (pages, of one that copies).
using MoveShare = void (*)(const Plan&, int64_t first, int64_t last, const uint8_t* src,
                           uint8_t* dst);

inline MoveShare share_mover(const Plan& plan) {
  switch (plan.method) {
    case Method::nothing:
    case Method::copy:
      return copy_share;
    case Method::rows:
      return copy_rows;
    case Method::tiles:
      return transpose_tiles;
    case Method::elements:
      break;
  }
  constexpr MoveShare kMovers[] = {move_elements<1>, move_elements<2>, move_elements<4>,
                                   move_elements<8>, move_elements<16>};
  const int size = size_class(plan.elem_bytes);
  return size < 0 ? move_elements<0> : kMovers[size];
}

}  // namespace detail

// src and dst point at element 0 and do not overlap.
inline Status execute(const Plan& plan, const void* src, void* dst) {
  if (plan.method == Method::nothing) return Status::ok;
  if (plan.unaligned != nullptr && !detail::QuadEngine::serves(plan, static_cast<uint8_t*>(dst))) {
    return execute(*plan.unaligned, src, dst);
  }
  const int64_t shares = plan.method == Method::copy
                             ? detail::ceil_div(plan.elem_bytes, detail::kCopyBytes)
                             : plan.num_tiles;
  const detail::MoveShare move = detail::share_mover(plan);
  parallel_for(shares, plan.num_threads, [&](int64_t first, int64_t last) {
    move(plan, first, last, static_cast<const uint8_t*>(src), static_cast<uint8_t*>(dst));
    if (plan.stream) fence_streams();
  });
  return Status::ok;
}

}  // namespace hptp
