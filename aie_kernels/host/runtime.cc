// What the loader (hptp.sim.kernels) calls around every call of a kernel.

#include <aie_api/aie.hpp>

extern "C" {

// Announces a call: the tile's size and the buffers the kernel may touch.
void aie_host_begin(unsigned dim_m, unsigned dim_n, unsigned num_regions,
                    const aie::host::Region* regions) {
  aie::host::State& state = aie::host::state;
  state = {};
  state.dim_m = dim_m;
  state.dim_n = dim_n;
  for (unsigned i = 0; i < num_regions && i < state.regions.size(); ++i) {
    state.regions[state.num_regions++] = regions[i];
  }
}

// The first thing the kernel did wrong, "" if nothing; counts: bytes loaded, bytes stored,
// VSHUFFLEs.
const char* aie_host_end(uint64_t counts[3]) {
  const aie::host::State& state = aie::host::state;
  counts[0] = state.bytes_loaded;
  counts[1] = state.bytes_stored;
  counts[2] = state.vshuffles;
  return state.error;
}
}
