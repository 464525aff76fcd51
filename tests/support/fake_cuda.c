/* A CUDA driver that has no GPU: memory is the host's, copies and fills are done at once, kernels are not run, and every
 * call is written to a log, from which tests/recorder.py tells what comes before what. Capture follows CUDA's rules as far
 * as numbacc meets them. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
enum { OK = 0, INVALID = 1, MEMORY = 2, UNINITIALIZED = 3, CONTEXT = 201, HANDLE = 400, NOT_READY = 600, UNSUPPORTED = 900, INVALIDATED = 901, ISOLATION = 905, IMPLICIT = 906 };
enum { DEVICES = 2, DEPTH = 16 };

typedef struct user { void (*destroy)(void *); void *data; int count; } user;
typedef struct context context;
typedef struct graph { word id; int users; user *user[64]; int open; int broken; context *context; } graph;
typedef struct stream stream;
/* blocking: the legacy default stream waits for it, and it for that one. freed: bytes freed on it that the GPU may
 * still be at, so that no other stream can have them. */
struct stream { context *context; graph *capture; stream *next; int blocking, priority; word freed; };
/* Of the device's pool: the bytes in use, the most of them at once, those it holds, and those it goes on holding when
 * the host waits. */
struct context { int device; stream legacy; word used, high, reserved, threshold; };
typedef struct event { context *context; graph *capture; int done; } event;
typedef struct block { word address, bytes; int device, freed; struct block *next; } block;

static context contexts[DEVICES];
static __thread context *stack[DEPTH];
static __thread int depth, capture_mode;
static __thread stream per_thread[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static stream *streams;
static word used_bytes, limit_bytes = 1ull << 30, graphs;
static int forked; /* in a child of the process that loaded the driver, which cannot use it */
static int pending = 1; /* 1: events are not done until they are waited for on the host */

/* ---------------------------------------------------------------- the log */

typedef struct entry { const char *name; word arguments[6]; } entry;
static entry *entries;
static word logged, room;

static void note(const char *name, word a, word b, word c, word d, word e) {
    pthread_mutex_lock(&lock);
    if (logged == room) entries = realloc(entries, (room = 2 * room + 64) * sizeof(entry));
    entries[logged++] = (entry){name, {a, b, c, d, e, 0}};
    pthread_mutex_unlock(&lock);
}
word fake_count(void) { return logged; }
const char *fake_name(word k) { return entries[k].name; }
word fake_argument(word k, int n) { return entries[k].arguments[n]; }
void fake_clear(void) { logged = 0; }
void fake_limit(word bytes) { limit_bytes = bytes; }
void fake_pending(int value) { pending = value; }
word fake_used(void) { return used_bytes; }

/* ---------------------------------------------------------------- devices and contexts */

static void after_fork(void) { forked = 1; depth = 0; }
__attribute__((constructor)) static void load(void) { pthread_atfork(NULL, NULL, after_fork); }

int cuInit(unsigned flags) { return forked ? UNINITIALIZED : OK; }
int cuDriverGetVersion(int *version) { *version = 12090; return OK; }
int cuGetErrorName(int status, const char **text) { *text = "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int status, const char **text) { *text = "the fake driver says so"; return OK; }
int cuDeviceGetCount(int *count) { *count = DEVICES; return OK; }
int cuDeviceGet(int *device, int number) { *device = number; return OK; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake GPU"); return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 38 ? 1 << 20 : attribute == 97 ? 232448 : 1;
    return OK;
}
int cuDevicePrimaryCtxRetain(context **result, int device) {
    *result = &contexts[device];
    contexts[device].device = device;
    contexts[device].legacy.context = *result;
    note("retain", device, 0, 0, 0, 0);
    return OK;
}
int cuCtxGetCurrent(context **result) { if (forked) return UNINITIALIZED; *result = depth ? stack[depth - 1] : NULL; return OK; }
int cuCtxGetDevice(int *device) { if (!depth) return CONTEXT; *device = stack[depth - 1]->device; return OK; }
int cuCtxSetCurrent(context *c) { if (forked) return UNINITIALIZED; if (!depth) depth = 1; stack[depth - 1] = c; return OK; }
int cuCtxPushCurrent_v2(context *c) { if (forked) return UNINITIALIZED; stack[depth++] = c; return OK; }
int cuCtxPopCurrent_v2(context **c) { *c = stack[--depth]; return OK; }
int cuThreadExchangeStreamCaptureMode(int *mode) { int old = capture_mode; capture_mode = *mode; *mode = old; return OK; }

/* ---------------------------------------------------------------- streams and events */

/* The handles 0 and 1 are the current context's legacy default stream, 2 is the thread's own one. */
static stream *find(stream *s) {
    context *c = depth ? stack[depth - 1] : NULL;
    if ((word)s < 2) s = c ? &c->legacy : NULL;
    else if ((word)s == 2 && (s = c ? &per_thread[c->device] : NULL)) s->context = c;
    if (s && s->capture && !s->capture->open) s->capture = NULL; /* it took part in a capture that has ended */
    return s;
}
/* The capture of a stream that the legacy default stream would wait for, if `s` is that one: it is not to be drawn in. */
static graph *implied(stream *s) {
    for (stream *other = streams; s == &s->context->legacy && other; other = other->next)
        if (other->blocking && other->context == s->context && other->capture && other->capture->open) return other->capture;
    return NULL;
}
/* Why nothing can be queued on a stream now, or 0. An attempt breaks the capture that is in its way. */
static int refused(stream *s) {
    if (!s || !depth) return CONTEXT;
    graph *other = implied(s);
    if (other) other->broken = 1;
    return other ? IMPLICIT : s->capture && s->capture->broken ? INVALIDATED : OK;
}
/* Queue what CUDA takes on streams of every GPU, such as copies to the host: 0, or why not. */
static int queue_anywhere(stream *given, const char *name, word a, word b, word c) {
    stream *s = find(given);
    int status = refused(s);
    if (!status) note(name, (word)s, a, b, c, s->capture ? s->capture->id : 0);
    return status;
}
/* Queue what the stream's context has to be the current one for. */
static int queue(stream *given, const char *name, word a, word b, word c) {
    stream *s = find(given);
    if (s && depth && s->context != stack[depth - 1]) return HANDLE;
    return queue_anywhere(given, name, a, b, c);
}

int cuStreamCreate(stream **result, unsigned flags) {
    if (!depth) return CONTEXT;
    *result = calloc(1, sizeof(stream));
    (*result)->context = stack[depth - 1];
    (*result)->blocking = !(flags & 1);
    pthread_mutex_lock(&lock);
    (*result)->next = streams;
    streams = *result;
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuStreamCreateWithPriority(stream **result, unsigned flags, int priority) {
    int status = cuStreamCreate(result, flags);
    if (!status) (*result)->priority = priority;
    return status;
}
int cuStreamGetPriority(stream *s, int *priority) { s = find(s); if (!s) return CONTEXT; *priority = s->priority; return OK; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { if (!depth) return CONTEXT; *least = 0; *greatest = -5; return OK; }
int cuStreamGetCtx(stream *s, context **result) { s = find(s); if (!s) return CONTEXT; *result = s->context; return OK; }
int cuEventCreate(event **result, unsigned flags) {
    if (!depth) return CONTEXT;
    *result = calloc(1, sizeof(event));
    (*result)->context = stack[depth - 1];
    return OK;
}
int cuEventDestroy_v2(event *e) { free(e); return OK; }
int cuEventRecord(event *e, stream *s) {
    s = find(s);
    int status = refused(s);
    if (status) return status;
    if (s->context != e->context) return HANDLE;
    e->capture = s->capture;
    e->done = 0;
    note("record", (word)s, (word)e, 0, 0, s->capture ? s->capture->id : 0);
    return OK;
}
int cuStreamWaitEvent(stream *s, event *e, unsigned flags) {
    s = find(s);
    int status = refused(s);
    if (status) return status;
    if (s->capture && e->capture != s->capture) { s->capture->broken = 1; return ISOLATION; }
    if (!s->capture && e->capture && e->capture->open) s->capture = e->capture;
    note("wait", (word)s, (word)e, 0, 0, s->capture ? s->capture->id : 0);
    return OK;
}
int cuEventQuery(event *e) { return pending && !e->done ? NOT_READY : OK; }
int cuEventSynchronize(event *e) { e->done = 1; note("host waits", (word)e, 0, 0, 0, 0); return OK; }
int cuEventElapsedTime(float *ms, event *a, event *b) { *ms = 1; return OK; }

/* ---------------------------------------------------------------- memory */

/* Bytes freed on a context's streams, but for one of them, that the GPU may still be at. */
static word stranded(context *c, stream *but) {
    word found = but == &c->legacy ? 0 : c->legacy.freed;
    for (stream *s = streams; s; s = s->next)
        if (s->context == c && s != but) found += s->freed;
    return found;
}
/* Give what nobody has back to the GPU, down to so many bytes. */
static void shrink(context *pool, word keep) {
    word held = pool->used + stranded(pool, NULL);
    if (keep < held) keep = held;
    if (pool->reserved > keep) pool->reserved = keep;
}
int cuStreamSynchronize(stream *s) {
    s = find(s);
    if (s && s->capture) return UNSUPPORTED;
    int status = queue_anywhere(s, "synchronize", 0, 0, 0);
    if (status) return status;
    pthread_mutex_lock(&lock);
    s->freed = 0;
    shrink(s->context, s->context->threshold);
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuCtxSynchronize(void) {
    if (!depth) return CONTEXT;
    context *c = stack[depth - 1];
    note("synchronize all", 0, 0, 0, 0, 0);
    pthread_mutex_lock(&lock);
    c->legacy.freed = 0;
    for (stream *s = streams; s; s = s->next)
        if (s->context == c) s->freed = 0;
    shrink(c, c->threshold);
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuMemPoolCreate(context **pool, int *properties) { *pool = &contexts[properties[3]]; return OK; }
int cuMemPoolSetAttribute(context *pool, int attribute, word *value) {
    if (attribute == 8) { pool->high = pool->used; return *value ? INVALID : OK; } /* the most bytes: only 0 is taken */
    if (attribute != 4) return INVALID; /* the release threshold, which is 0 at first */
    pool->threshold = *value;
    return OK;
}
int cuMemPoolGetAttribute(context *pool, int attribute, word *value) {
    if (attribute != 5 && attribute != 7 && attribute != 8) return INVALID;
    *value = attribute == 5 ? pool->reserved : attribute == 7 ? pool->used : pool->high;
    return OK;
}
int cuMemPoolTrimTo(context *pool, size_t bytes) {
    note("trim", 0, 0, 0, 0, 0);
    pthread_mutex_lock(&lock);
    shrink(pool, bytes);
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuPointerGetAttribute(void *value, int attribute, word address) {
    if (!depth) return CONTEXT;
    block *b = blocks;
    while (b && (b->freed || address < b->address || address >= b->address + b->bytes)) b = b->next;
    if (!b || (attribute != 2 && attribute != 9)) return INVALID; /* where it is: device memory, and which device */
    *(int *)value = attribute == 2 ? 2 : b->device;
    return OK;
}
int cuMemGetInfo_v2(size_t *available, size_t *total) { *available = limit_bytes - used_bytes; *total = limit_bytes; return OK; }
int cuMemAllocFromPoolAsync(word *result, size_t bytes, context *pool, stream *s) {
    stream *found = find(s);
    if (!found) return CONTEXT;
    void *memory;
    if (posix_memalign(&memory, 512, bytes + 512)) return MEMORY;
    memset(memory, 0xff, bytes);
    block *made = malloc(sizeof(block));
    pthread_mutex_lock(&lock);
    if (used_bytes + stranded(pool, found) + bytes > limit_bytes) {
        pthread_mutex_unlock(&lock);
        free(made), free(memory);
        return MEMORY;
    }
    /* First of what was freed on the same stream. */
    found->freed -= found->freed < bytes ? found->freed : bytes;
    pool->used += bytes;
    if (pool->high < pool->used) pool->high = pool->used;
    word held = pool->used + stranded(pool, NULL);
    if (pool->reserved < held) pool->reserved = held;
    *made = (block){(word)memory, bytes, pool->device, 0, blocks};
    blocks = made;
    used_bytes += bytes;
    pthread_mutex_unlock(&lock);
    *result = (word)memory;
    return queue_anywhere(s, "allocate", (word)memory, bytes, 0);
}
int cuMemFreeAsync(word address, stream *s) {
    word bytes = 0;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (block *b = blocks; b && !found; b = b->next)
        if (b->address == address && !b->freed) {
            b->freed = found = 1;
            used_bytes -= bytes = b->bytes;
            contexts[b->device].used -= bytes;
            if (find(s)) find(s)->freed += bytes;
            /* Never reused: whoever reads it later shows. */
            memset((void *)address, 0xdd, b->bytes);
        }
    pthread_mutex_unlock(&lock);
    if (found) return queue_anywhere(s, "free", address, bytes, 0);
    note("free of what is not allocated", address, 0, 0, 0, 0);
    return INVALID;
}
static int move(void *target, const void *source, size_t bytes, stream *s, const char *name) {
    stream *found = find(s);
    int status = (strcmp(name, "copy") ? queue_anywhere : queue)(s, name, (word)target, (word)source, bytes);
    if (!status && !found->capture) memmove(target, source, bytes);
    return status;
}
int cuMemcpyHtoDAsync_v2(word t, word s, size_t n, stream *q) { return move((void *)t, (void *)s, n, q, "copy in"); }
int cuMemcpyDtoHAsync_v2(word t, word s, size_t n, stream *q) { return move((void *)t, (void *)s, n, q, "copy out"); }
int cuMemcpyDtoDAsync_v2(word t, word s, size_t n, stream *q) { return move((void *)t, (void *)s, n, q, "copy"); }
int cuMemsetD8Async(word t, unsigned char v, size_t n, stream *q) {
    int status = queue(q, "fill", t, v, n);
    if (!status && !find(q)->capture) memset((void *)t, v, n);
    return status;
}
int cuMemsetD16Async(word t, unsigned short v, size_t n, stream *q) {
    int status = queue(q, "fill", t, v, 2 * n);
    for (size_t k = 0; !status && !find(q)->capture && k < n; k++) ((unsigned short *)t)[k] = v;
    return status;
}
int cuMemsetD32Async(word t, unsigned v, size_t n, stream *q) {
    int status = queue(q, "fill", t, v, 4 * n);
    for (size_t k = 0; !status && !find(q)->capture && k < n; k++) ((unsigned *)t)[k] = v;
    return status;
}
int cuMemsetD2D32Async(word t, size_t pitch, unsigned v, size_t width, size_t height, stream *q) {
    int status = queue(q, "fill", t, v, pitch * height);
    for (size_t k = 0; !status && !find(q)->capture && k < height; k++) *(unsigned *)(t + k * pitch) = v;
    return status;
}

/* ---------------------------------------------------------------- kernels */

int cuModuleLoadData(void **module, void *image) { *module = &contexts; return OK; }
int cuModuleGetFunction(void **function, void *module, char *name) { *function = &contexts; return OK; }
int cuFuncGetAttribute(int *value, int attribute, void *function) { *value = 0; return OK; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return OK; }
typedef struct config { unsigned grid[3], block[3], shared; stream *stream; } config;
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned rows, unsigned layers,
                   unsigned shared, stream *q, void *parameters, word *extra) {
    /* The first argument, which is an array's address, and the last two: what a call brings, if it does. */
    word *packed = (word *)extra[1], count = *(word *)extra[3] / 8;
    return queue(q, "launch", packed[0], packed[count - 2], packed[count - 1]);
}
int cuLaunchKernelEx(config *c, void *function, void *parameters, word *extra) {
    return cuLaunchKernel(function, 0, 0, 0, 0, 0, 0, 0, c->stream, parameters, extra);
}

/* ---------------------------------------------------------------- graphs */

int cuStreamBeginCapture_v2(stream *s, int mode) {
    if (!s || s->capture) return UNSUPPORTED;
    s->capture = calloc(1, sizeof(graph));
    s->capture->id = ++graphs;
    s->capture->context = s->context;
    s->capture->open = 1;
    note("begin", (word)s, graphs, 0, 0, 0);
    return OK;
}
int cuStreamEndCapture(stream *s, graph **result) {
    *result = s->capture;
    s->capture->open = 0;
    for (stream *other = streams; other; other = other->next)
        if (other->capture == *result) other->capture = NULL;
    note("end", (word)s, (*result)->id, 0, 0, 0);
    return (*result)->broken ? INVALIDATED : OK;
}
int cuStreamUpdateCaptureDependencies(stream *s, void *nodes, size_t count, unsigned flags) { return OK; }
int cuGraphAddChildGraphNode(void **node, graph *g, void *nodes, size_t count, graph *child) {
    *node = child;
    note("launch graph", 0, child->id, 0, 0, g->id);
    return OK;
}
int cuStreamIsCapturing(stream *s, int *status) {
    s = find(s);
    if (!s) return CONTEXT;
    if (implied(s)) return IMPLICIT; /* and tells nothing */
    *status = s->capture && s->capture->open ? s->capture->broken ? 2 : 1 : 0;
    return OK;
}
int cuStreamGetCaptureInfo_v2(stream *s, int *status, word *id, graph **g, void *a, void *b) {
    int failed = cuStreamIsCapturing(s, status);
    s = find(s);
    if (failed || !s->capture) return failed;
    *id = s->capture->id;
    *g = s->capture;
    if (a) *(void **)a = NULL;
    if (b) *(size_t *)b = 0;
    return OK;
}
static void retain(graph *g) { for (int k = 0; k < g->users; k++) g->user[k]->count++; }
static void release(graph *g) {
    for (int k = 0; k < g->users; k++)
        if (!--g->user[k]->count) g->user[k]->destroy(g->user[k]->data);
}
int cuGraphInstantiateWithFlags(graph **result, graph *g, word flags) {
    *result = malloc(sizeof(graph));
    **result = *g;
    retain(g);
    return OK;
}
int cuGraphGetNodes(graph *g, void **nodes, size_t *count) { *count = 1; return OK; }
int cuGraphLaunch(graph *g, stream *s) {
    if (find(s) && find(s)->context != g->context) return INVALID;
    return queue(s, "launch graph", g->id, 0, 0);
}
int cuGraphExecDestroy(graph *g) { note("destroy graph", g->id, 0, 0, 0, 0); release(g); return OK; }
int cuGraphDestroy(graph *g) { release(g); return OK; }
int cuUserObjectCreate(user **result, void *data, void (*destroy)(void *), unsigned count, unsigned flags) {
    *result = malloc(sizeof(user));
    **result = (user){destroy, data, (int)count};
    return OK;
}
int cuGraphRetainUserObject(graph *g, user *u, unsigned count, unsigned flags) { g->user[g->users++] = u; return OK; }
