// Stands in for the kernels' own: each 16-bit unit of global memory counts how often it is written, in its place. What
// the kernels compute is lost; where they write is not.
#pragma once

namespace csajit {

template <class T>
__device__ __forceinline__ void store_global(unsigned long long address, T) {
  if constexpr (sizeof(T) == 2) {
    atomicAdd(reinterpret_cast<unsigned int*>(address & ~3ull), (address & 2) != 0 ? 0x10000u : 1u);
  } else {
    for (unsigned int i = 0; i < sizeof(T) / 4; ++i) atomicAdd(reinterpret_cast<unsigned int*>(address) + i, 0x10001u);
  }
}

}  // namespace csajit
