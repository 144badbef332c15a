// A libcuda.so.1 without a single function. Loading it leaves a mark that outlives its unloading.
#include <stdlib.h>

__attribute__((constructor)) static void trip() { setenv("CSAJIT_TRIPWIRE_TRIPPED", "1", 1); }
