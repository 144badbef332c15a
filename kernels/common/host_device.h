// Marks a constexpr function that both sides call.
#pragma once

#ifdef __CUDACC__
#define CSAJIT_HOST_DEVICE __host__ __device__
#else
#define CSAJIT_HOST_DEVICE
#endif
