// How tests steer the stand-in for NVRTC. Each setting is an environment variable, read at every call, so that a
// child process can be steered too; fake_nvrtc_set overrides it inside this process.
//
//   CSAJIT_FAKE_NVRTC_VERSION     "13.0"; options are accepted and refused as that version does
//   CSAJIT_FAKE_NVRTC_ARCHS       "80,86,87,89,90,100,103,110,120,121"
//   CSAJIT_FAKE_NVRTC_FAIL        name of a call that fails: version, archs, create, name, compile, lowered, cubin
//   CSAJIT_FAKE_NVRTC_FAIL_CODE   the nvrtcResult it fails with; 6 (NVRTC_ERROR_COMPILATION)
//   CSAJIT_FAKE_NVRTC_LOG         the whole log; unset: what ptxas says of a kernel of 24 registers
//   CSAJIT_FAKE_NVRTC_COUNT_FILE  a file that gets one byte for each compile, from whatever process
//
// As the real one does: before 12.3 a compile sets the process's LC_NUMERIC to "C"; from 12.9 on a compile without
// --no-cache opens libcuda.so.1. The cubin is text: "fake cubin\n<architecture option>\n<lowered name>\n".
#pragma once

extern "C" {
// nullptr: back to the environment.
using FakeNvrtcSet = void(const char* name, const char* value);
// Calls of "create", "compile", "destroy" or any other function named above, since the last reset.
using FakeNvrtcCount = int(const char* call);
// Forgets settings and counts; releases.
using FakeNvrtcReset = void();
// From now on each compile waits inside NVRTC until released.
using FakeNvrtcHold = void();
using FakeNvrtcRelease = void();
// Blocks until `count` compiles are inside at once.
using FakeNvrtcAwait = void(int count);

FakeNvrtcSet fake_nvrtc_set;
FakeNvrtcCount fake_nvrtc_count;
FakeNvrtcReset fake_nvrtc_reset;
FakeNvrtcHold fake_nvrtc_hold;
FakeNvrtcRelease fake_nvrtc_release;
FakeNvrtcAwait fake_nvrtc_await;
}
