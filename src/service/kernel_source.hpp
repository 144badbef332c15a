// Where a compiled kernel comes from: this process, the cache folders, NVRTC, in that order. Knows no device
// and no driver; loads nothing.
#pragma once

#include <csajit/csajit.h>

#include <memory>
#include <optional>
#include <string>

#include "base/kernel_image.hpp"
#include "base/result.hpp"
#include "cache/disk_cache.hpp"
#include "cache/key.hpp"
#include "compile/architecture.hpp"
#include "compressor/schedule.hpp"
#include "service/settings.hpp"
#include "service/statistics.hpp"

namespace csajit {

// The identity of a kernel: contents only, so it is the same in every folder and on every host.
Key key_of(const KernelRecipe& recipe, const Architecture& arch);

// Errors that come of one service's settings and say nothing about another's attempt at the same kernel.
bool is_own_affair(csajit_status status);

struct KernelRequest {
  const KernelRecipe* recipe = nullptr;
  const Architecture* arch = nullptr;
  std::string warmup_command;          // what would have filled the cache, for messages
  LockPatience* patience = nullptr;    // of the whole call that this is part of; never null
  std::optional<int> max_nvrtc_major;  // the driver's, where a driver is held
};

struct SourcedKernel {
  std::shared_ptr<const KernelImage> image;
  csajit_kernel_origin origin = CSAJIT_ORIGIN_FAILED;
  bool published = false;            // in a cache folder of this service
  std::optional<RecordPlace> place;  // where this call read it from
};

class KernelSource {
 public:
  KernelSource(const Settings& settings, DiskCache& disk, Statistics& statistics)
      : settings_(settings), disk_(disk), statistics_(statistics) {}

  // For a load: memory, disk, NVRTC. Single flight over the whole process.
  Result<SourcedKernel> get(const KernelRequest& request, const Key& key);
  // For a warm-up: the same, but the image also ends in this service's cache folder; `rebuild` compiles anew.
  Result<SourcedKernel> build(const KernelRequest& request, const Key& key, bool rebuild);

  // The driver cannot use `kernel`: forgets it and looks for the key in the layers after it. None is left: nullopt.
  std::optional<SourcedKernel> next_cached(const Key& key, const SourcedKernel& kernel, const std::string& reason);
  // Compiles in place of what the driver refused; nothing on disk changes before accept(), once the driver took it.
  Result<std::shared_ptr<const KernelImage>> recompile(const KernelRequest& request, const std::string& reason);
  void accept(const Key& key, const std::shared_ptr<const KernelImage>& image);
  // The driver refused the rebuilt one too: this process publishes that kernel no more.
  void give_up(const Key& key);

 private:
  struct Flight;
  Result<SourcedKernel> fly(const KernelRequest& request, const Key& key, bool rebuild);
  Result<std::shared_ptr<const KernelImage>> make(const KernelRequest& request, const Key& key, Flight& flight);
  Result<std::shared_ptr<const KernelImage>> compile_locked(const KernelRequest& request, const Key& key,
                                                            Flight& flight);
  Result<std::shared_ptr<const NvrtcApi>> open_compiler(const KernelRequest& request);
  Result<std::shared_ptr<const KernelImage>> compile_by(const NvrtcApi& nvrtc, const KernelRequest& request);
  std::shared_ptr<const KernelImage> take_from_disk(const Key& key, Flight& flight);
  std::optional<SourcedKernel> read_disk(const Key& key, std::size_t first_layer = 0);
  void remember(const Key& key, const std::shared_ptr<const KernelImage>& image);
  bool publish(const Key& key, const KernelImage& image);

  const Settings& settings_;
  DiskCache& disk_;
  Statistics& statistics_;
};

}  // namespace csajit
