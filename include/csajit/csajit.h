/* csajit: JIT-compiled CSA/HCA Compressor gated pooling. C ABI, version 1.
 *
 * Read top to bottom: a host needs csajit_service_create, csajit_prepare, csajit_forward,
 * csajit_backward and csajit_last_error; the rest is for tools and for tuning.
 *
 * Conventions
 *   Status     every function that can fail returns csajit_status. On anything but CSAJIT_OK nothing
 *              was launched and no output was written; csajit_last_error tells why, on the same thread.
 *   Structs    every struct of options, arguments or results starts with struct_size = sizeof(struct);
 *              zero in any other field means its default. Fields are only ever appended. A struct smaller
 *              than version 1's, or larger than this library knows with a non-zero byte in the part it
 *              does not know, is CSAJIT_E_STRUCT_SIZE. (csajit_tensor never changes.)
 *   Threads    every function may be called from any thread at any time unless it says otherwise.
 *   Blocking   launches of a prepared spec never compile, load a module, allocate or synchronise.
 *   Streams    struct CUstream_st* is both CUstream and cudaStream_t. NULL is the legacy stream of the
 *              current context. csajit never creates, retains or makes current a context.
 *   Output     nothing is printed except by the default log sink (stderr, warnings and errors).
 */
#ifndef CSAJIT_CSAJIT_H
#define CSAJIT_CSAJIT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CSAJIT_API __attribute__((visibility("default")))
#else
#define CSAJIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CSAJIT_VERSION_MAJOR 0
#define CSAJIT_VERSION_MINOR 1
#define CSAJIT_VERSION_PATCH 0

struct CUstream_st;
struct CUctx_st;

/* ---- Status --------------------------------------------------------------------------------------- */

/* Values are pinned and gapped: a new one never renumbers another. */
typedef enum csajit_status {
  CSAJIT_OK = 0,
  CSAJIT_E_INVALID_ARGUMENT = 100,        /* an argument is out of its stated bounds; the message names it */
  CSAJIT_E_STRUCT_SIZE = 110,             /* struct_size is not one this library can read */
  CSAJIT_E_UNSUPPORTED = 120,             /* a legal request that this build or this GPU cannot serve */
  CSAJIT_E_REENTRANT = 130,               /* called from inside a log callback */
  CSAJIT_E_DISABLED = 200,                /* CSAJIT_DISABLE=1: the host is meant to take its own path */
  CSAJIT_E_JIT_DISABLED = 210,            /* CSAJIT_NO_JIT=1 and the cache lacks the kernel */
  CSAJIT_E_NOT_PREPARED = 220,            /* the service requires csajit_prepare first */
  CSAJIT_E_NOT_PREPARED_IN_CAPTURE = 230, /* would have to compile or load inside a stream capture */
  CSAJIT_E_NVRTC_NOT_FOUND = 300,         /* a compile is needed and no NVRTC could be opened */
  CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC = 310,   /* that NVRTC cannot make code for this GPU */
  CSAJIT_E_COMPILE = 320,                 /* NVRTC refused the source; the message holds its log */
  CSAJIT_E_DRIVER_NOT_FOUND = 400,        /* libcuda.so.1 could not be opened or lacks a function */
  CSAJIT_E_DRIVER = 410,                  /* a CUDA driver call failed; the message names call and error */
  CSAJIT_E_DRIVER_TOO_OLD = 420,          /* the driver refuses code that was just rebuilt for it */
  CSAJIT_E_NO_CONTEXT = 430,              /* no CUDA context belongs to the stream and none is current */
  CSAJIT_E_OUT_OF_MEMORY = 500,           /* host or device memory ran out */
  CSAJIT_E_FORKED = 510,                  /* the driver was in use before fork(); this is the child */
  CSAJIT_E_INTERNAL = 900                 /* a defect of csajit; please report the message */
} csajit_status;

/* Returns the name of `status` ("CSAJIT_E_COMPILE"), or "CSAJIT_E_?" for an unknown value. Never NULL; the
 * string lives as long as the library. */
CSAJIT_API const char* csajit_status_string(csajit_status status);

/* Copies the calling thread's last error message into buffer, cut to buffer_bytes and always terminated
 * when buffer_bytes > 0. Returns the bytes that the whole message needs, terminator included (1 when there
 * is none). buffer may be NULL when buffer_bytes is 0. The message stays until the next failing call on the
 * same thread. Legal inside a log callback. */
CSAJIT_API size_t csajit_last_error(char* buffer, size_t buffer_bytes);

/* Returns major * 10000 + minor * 100 + patch of the library at run time. */
CSAJIT_API uint32_t csajit_version(void);

/* ---- Log ------------------------------------------------------------------------------------------ */

typedef enum csajit_log_level {
  CSAJIT_LOG_TRACE = 1,
  CSAJIT_LOG_DEBUG = 2,
  CSAJIT_LOG_INFO = 3,
  CSAJIT_LOG_WARN = 4,
  CSAJIT_LOG_ERROR = 5,
  CSAJIT_LOG_OFF = 6
} csajit_log_level;

/* Receives one message (no newline, terminated, valid during the call). Runs on the thread that logs, with
 * no lock held. It must not call csajit: such a call returns CSAJIT_E_REENTRANT. It must not throw. */
typedef void (*csajit_log_callback)(csajit_log_level level, const char* message, void* user);

/* Replaces the default sink (stderr) of this process by callback; NULL restores it. `user` is handed back
 * on each call and must stay valid until the callback was replaced and no csajit call is running. */
CSAJIT_API csajit_status csajit_set_log_callback(csajit_log_callback callback, void* user);

/* ---- Service -------------------------------------------------------------------------------------- */

/* Owns the settings of one user of csajit: cache folders, NVRTC, switches, statistics. Compiled and loaded
 * kernels are shared by all services of a process. */
typedef struct csajit_service csajit_service;

/* csajit_service_options.flags */
enum {
  CSAJIT_SERVICE_REQUIRE_PREPARED = 1u << 0, /* an unprepared launch is CSAJIT_E_NOT_PREPARED */
  CSAJIT_SERVICE_DISABLE_LOCK = 1u << 1,     /* no cross-process lock: cold processes may compile twice */
  CSAJIT_SERVICE_NO_JIT = 1u << 2,           /* as CSAJIT_NO_JIT=1 */
  CSAJIT_SERVICE_NO_FAST_LAUNCH = 1u << 3,   /* as CSAJIT_FAST_LAUNCH=0 */
  CSAJIT_SERVICE_VALIDATE = 1u << 4,         /* as CSAJIT_VALIDATE=1 */
  CSAJIT_SERVICE_MEMORY_ONLY = 1u << 5,      /* read and write no cache folder at all */
  CSAJIT_SERVICE_WRITE_LAYER = 1u << 6       /* write cache_dir as a read-only layer for others: folders 0755, records
                                                0644, no size bound; cache_ro_dirs are not asked, so it is complete */
};

/* who may own what the cache loads; root always may */
typedef enum csajit_cache_trust {
  CSAJIT_CACHE_TRUST_DEFAULT = 0, /* CSAJIT_CACHE_TRUST, else OWNER */
  CSAJIT_CACHE_TRUST_OWNER = 1,
  CSAJIT_CACHE_TRUST_GROUP = 2,
  CSAJIT_CACHE_TRUST_ANY = 3
} csajit_cache_trust;

/* The environment beats flags (CSAJIT_DISABLE, CSAJIT_NO_JIT, CSAJIT_FAST_LAUNCH); paths and numbers given
 * here beat the environment. Strings are copied by csajit_service_create. */
typedef struct csajit_service_options {
  uint32_t struct_size;
  uint32_t flags;            /* CSAJIT_SERVICE_* */
  const char* cache_dir;     /* writable cache folder; NULL: CSAJIT_CACHE_DIR, XDG_CACHE_HOME, HOME */
  const char* cache_ro_dirs; /* colon list of read-only layers, read first; NULL: CSAJIT_CACHE_RO_DIRS */
  const char* nvrtc_path;    /* a libnvrtc file to use; NULL: CSAJIT_NVRTC_PATH, then the search */
  const char* arch;          /* "sm_86": compile for this one instead of the GPU's; NULL: CSAJIT_ARCH */
  uint64_t cache_max_bytes;  /* bound of the writable folder; 0: CSAJIT_CACHE_MAX_BYTES, else 512 MiB */
  uint32_t cache_trust;      /* csajit_cache_trust */
  uint32_t lock_wait_ms;     /* longest wait of a call for others' compiles; 0: 20000 */
} csajit_service_options;

/* Creates a service. `options` may be NULL (all defaults). Reads the CSAJIT_* environment, once. Loads
 * neither libcuda nor NVRTC and touches no folder.
 * Errors: STRUCT_SIZE, INVALID_ARGUMENT (an option, or an environment variable that cannot be read; the
 * message names it), OUT_OF_MEMORY. *service is NULL on error. Free it by csajit_service_destroy. */
CSAJIT_API csajit_status csajit_service_create(const csajit_service_options* options, csajit_service** service);

/* Destroys a service; NULL is legal. No call on it may be running. Kernels stay loaded, so captured graphs
 * stay valid. */
CSAJIT_API void csajit_service_destroy(csajit_service* service);

/* ---- What a kernel is specialised for --------------------------------------------------------------- */

typedef enum csajit_dtype {
  CSAJIT_DTYPE_DEFAULT = 0, /* kv, score: BF16; out: kv's */
  CSAJIT_DTYPE_BF16 = 1,
  CSAJIT_DTYPE_FP16 = 2,
  CSAJIT_DTYPE_FP32 = 3
} csajit_dtype;

typedef enum csajit_ape {
  CSAJIT_APE_PRESENT = 0, /* ape is a (ratio, W) fp32 tensor */
  CSAJIT_APE_ABSENT = 1   /* ape and grad_ape must be NULL; the backward needs no workspace */
} csajit_ape;

/* The operator, in the words of the README: every `ratio` tokens pool into one row of head_dim columns by a
 * softmax over the window, column by column. W = coff * head_dim columns a token; the window has
 * coff * ratio entries. */
typedef struct csajit_spec {
  uint32_t struct_size;
  uint32_t ratio;       /* 1..256 */
  uint32_t head_dim;    /* 1..65536 */
  uint32_t coff;        /* 1: own window; 2: overlapping window */
  uint32_t kv_dtype;    /* csajit_dtype of kv and grad_kv */
  uint32_t score_dtype; /* csajit_dtype of score and grad_score */
  uint32_t out_dtype;   /* csajit_dtype of out and grad_out */
  uint32_t ape;         /* csajit_ape */
} csajit_spec;

/* Says whether a spec can be served. arch: "sm_90", or NULL for the device of the current context (this
 * loads libcuda; a named one never does). arch_out, if not NULL, receives the architecture that kernels
 * would be compiled for, terminated, cut to arch_out_bytes.
 * Errors: STRUCT_SIZE, INVALID_ARGUMENT, UNSUPPORTED (the message says why), DISABLED, and with arch NULL
 * DRIVER_NOT_FOUND, DRIVER, NO_CONTEXT. */
CSAJIT_API csajit_status csajit_check_spec(csajit_service* service, const csajit_spec* spec, const char* arch,
                                           char* arch_out, size_t arch_out_bytes);

/* ---- Build and prepare ------------------------------------------------------------------------------ */

typedef enum csajit_kernel_origin {
  CSAJIT_ORIGIN_COMPILED = 1, /* NVRTC ran in this call */
  CSAJIT_ORIGIN_DISK = 2,     /* read from a cache folder */
  CSAJIT_ORIGIN_MEMORY = 3,   /* this process had it already */
  CSAJIT_ORIGIN_FAILED = 4    /* there is none; see status */
} csajit_kernel_origin;

typedef struct csajit_kernel_info {
  uint32_t struct_size;
  uint32_t origin;      /* csajit_kernel_origin */
  const char* name;     /* readable kernel name with its parameters; valid during the callback */
  const char* key;      /* 32 hex digits, the record's name in the cache */
  const char* arch;     /* "sm_90" */
  const char* nvrtc;    /* "13.0": the version that compiled it */
  const char* error;    /* message when FAILED, else "" */
  uint32_t status;      /* csajit_status */
  uint32_t registers;   /* a thread */
  uint32_t spill_bytes; /* stores and loads together, a thread */
  uint32_t stack_bytes; /* a thread */
  uint32_t static_smem_bytes;
  uint32_t dynamic_smem_bytes; /* as launched */
  uint64_t cubin_bytes;
  double compile_ms;     /* when it was compiled, whenever that was */
  uint32_t published;    /* 1: the record is in the writable cache folder (or was read from a cache) */
  uint32_t record_bytes; /* of its file in a cache folder, stored or not */
} csajit_kernel_info;

/* Called once for each kernel of a build, from the thread that built it, one at a time. The same rules as
 * for a log callback hold. */
typedef void (*csajit_kernel_callback)(const csajit_kernel_info* info, void* user);

/* csajit_build_options.flags */
enum {
  CSAJIT_BUILD_REBUILD = 1u << 0 /* compile even what the cache has, and replace it */
};

typedef struct csajit_build_options {
  uint32_t struct_size;
  uint32_t flags;                  /* CSAJIT_BUILD_* */
  const char* arch;                /* "sm_90"; required */
  csajit_kernel_callback callback; /* may be NULL */
  void* user;
  uint32_t jobs; /* kernels compiled at once, 0 and 1: one; at most 256 */
  uint32_t reserved;
} csajit_build_options;

/* Compiles every kernel of a spec for a named architecture into the cache. Never loads libcuda; needs no
 * GPU; needs NVRTC only for what the cache lacks. Works under CSAJIT_DISABLE=1. Blocks until done.
 * Errors: the first kernel's, after all were tried: NVRTC_NOT_FOUND, ARCH_UNKNOWN_TO_NVRTC, COMPILE,
 * JIT_DISABLED; STRUCT_SIZE, INVALID_ARGUMENT. That a record could not be written to disk is no error: the
 * callback's `published` says so. */
CSAJIT_API csajit_status csajit_build(csajit_service* service, const csajit_spec* spec,
                                      const csajit_build_options* options);

/* Compiles or loads every kernel of a spec, all schedules, into the context of `stream`, so that no later
 * launch of that spec in that context compiles or loads, whatever its shape. Blocks for the compile (tens to
 * hundreds of ms a kernel when the cache is cold). Legal at any time, on a capturing thread too: the capture
 * stays valid. Idempotent and cheap when repeated.
 * Errors: as csajit_build, and DISABLED, DRIVER_NOT_FOUND, DRIVER, DRIVER_TOO_OLD, NO_CONTEXT, UNSUPPORTED,
 * OUT_OF_MEMORY. */
CSAJIT_API csajit_status csajit_prepare(csajit_service* service, const csajit_spec* spec, struct CUstream_st* stream);

/* Unloads every module that csajit loaded into `context` (NULL: the current one). Precondition: no csajit
 * work is running or captured in a graph that will run again there, and no other thread is launching into
 * it through csajit. Not needed before the context is destroyed. Errors: DRIVER, NO_CONTEXT,
 * DRIVER_NOT_FOUND. */
CSAJIT_API csajit_status csajit_unload_context(struct CUctx_st* context);

/* ---- Launch ----------------------------------------------------------------------------------------- */

/* A tensor in device memory. For (tokens, columns) tensors, token t of segment s begins at element
 * s * segment_stride + t * row_stride, and columns are adjacent. The dtype comes from the spec. */
typedef struct csajit_tensor {
  void* data;             /* aligned to its dtype; NULL where the tensor is empty, absent or not wanted */
  int64_t row_stride;     /* elements, >= the columns; 0: the columns (contiguous) */
  int64_t segment_stride; /* elements; 0: packed (THD), t counts through the whole pack; otherwise batched
                             (SBHD): num_tokens = num_segments * S, t counts in [0, S) of its segment */
} csajit_tensor;

/* csajit_backward_args.flags */
enum {
  CSAJIT_ACCUMULATE_GRAD_APE = 1u << 0 /* add to what grad_ape holds instead of overwriting it */
};

/* Forward: out[i, :] for each of total_comp rows.
 *
 *   cu_seqlens       (num_segments + 1) int32 on the device: token offsets of the segments
 *   cu_seqlens_comp  (num_segments + 1) int32 on the device: row offsets,
 *                    comp[s+1] - comp[s] == (cu[s+1] - cu[s]) / ratio
 *
 * Both are read by the kernel and not trusted: whatever they hold, no access leaves the tensors. A row whose
 * window would is filled with NaN. Rows outside [comp[0], comp[B]) ("capacity rows", total_comp may exceed
 * the true count) are computed as a first block at token 0; they need num_tokens >= ratio. */
typedef struct csajit_forward_args {
  uint32_t struct_size;
  uint32_t flags;                 /* none yet */
  int64_t num_tokens;             /* T >= 0 */
  int64_t num_segments;           /* B, 0..2^31-2 */
  int64_t total_comp;             /* R >= 0 rows of out */
  const int32_t* cu_seqlens;      /* may be NULL when total_comp is 0 */
  const int32_t* cu_seqlens_comp; /* likewise */
  csajit_tensor kv;               /* (T, W) */
  csajit_tensor score;            /* (T, W) */
  csajit_tensor ape;              /* (ratio, W) fp32, only row_stride applies */
  csajit_tensor out;              /* (R, head_dim), only row_stride applies */
} csajit_forward_args;

/* Backward: every element of grad_kv and grad_score is written exactly once (slots that no row consumes get
 * +0), so they may be uninitialised. grad_ape is summed in a fixed order: run to run the bits are equal.
 * grad_out is read for true rows only. Any of grad_kv, grad_score, grad_ape may have data NULL: not wanted.
 * No output may share an element with another output or an input. */
typedef struct csajit_backward_args {
  uint32_t struct_size;
  uint32_t flags; /* CSAJIT_ACCUMULATE_GRAD_APE */
  int64_t num_tokens;
  int64_t num_segments;
  int64_t total_comp;
  const int32_t* cu_seqlens;
  const int32_t* cu_seqlens_comp;
  csajit_tensor kv;
  csajit_tensor score;
  csajit_tensor ape;
  csajit_tensor grad_out;   /* (R, head_dim) */
  csajit_tensor grad_kv;    /* (T, W) */
  csajit_tensor grad_score; /* (T, W) */
  csajit_tensor grad_ape;   /* (ratio, W) fp32 */
  void* workspace;          /* device memory, 16-byte aligned, may hold anything; carries no state */
  uint64_t workspace_bytes; /* >= csajit_workspace_size; 0 and NULL when that is 0 or grad_ape is not wanted */
} csajit_backward_args;

/* Bytes of workspace that a backward of this spec with total_comp rows needs. Depends on nothing else; never
 * shrinks as total_comp grows, and stops growing at a bound (<= 32 MiB or one (ratio, W) fp32 tensor,
 * whichever is more). 0 when the APE is absent or total_comp is 0. Loads nothing.
 * Errors: STRUCT_SIZE, INVALID_ARGUMENT. */
CSAJIT_API csajit_status csajit_workspace_size(const csajit_spec* spec, int64_t total_comp, uint64_t* bytes);

/* Enqueue the operator on `stream`, in the stream's context, and return without waiting. Prepared specs:
 * no compile, no load, no allocation after a thread's first launch of the spec. Unprepared ones are prepared
 * first (see csajit_prepare), except while the stream captures: then CSAJIT_E_NOT_PREPARED_IN_CAPTURE, and
 * the capture stays valid. All tensors must stay valid until the work has run.
 * Errors: STRUCT_SIZE, INVALID_ARGUMENT (the message names the argument), DISABLED, NOT_PREPARED,
 * NOT_PREPARED_IN_CAPTURE, NO_CONTEXT, DRIVER, and what csajit_prepare returns. */
CSAJIT_API csajit_status csajit_forward(csajit_service* service, const csajit_spec* spec,
                                        const csajit_forward_args* args, struct CUstream_st* stream);
CSAJIT_API csajit_status csajit_backward(csajit_service* service, const csajit_spec* spec,
                                         const csajit_backward_args* args, struct CUstream_st* stream);

/* ---- Statistics ------------------------------------------------------------------------------------- */

typedef struct csajit_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t memory_hits;      /* kernels that this process had already */
  uint64_t disk_hits;        /* kernels read from a cache folder */
  uint64_t compiles;         /* NVRTC runs that succeeded */
  uint64_t compile_failures; /* NVRTC runs that failed */
  uint64_t rejected_entries; /* cache records that failed a check */
  uint64_t publish_failures; /* kernels that could not be written to the cache folder */
  uint64_t module_loads;
  uint64_t fast_launches;    /* kernels launched from a snapshot */
  uint64_t regular_launches; /* kernels launched by the regular path */
  uint64_t compile_ns;       /* time spent in NVRTC */
  uint64_t disk_ns;          /* time spent reading and writing the cache */
  uint64_t load_ns;          /* time spent loading modules */
} csajit_statistics;

/* Copies the counters of a service since its creation. Set struct_size before the call; only that many bytes
 * are written. Cheap, never blocks, loads nothing. Errors: STRUCT_SIZE, INVALID_ARGUMENT. */
CSAJIT_API csajit_status csajit_get_statistics(csajit_service* service, csajit_statistics* statistics);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CSAJIT_CSAJIT_H */
