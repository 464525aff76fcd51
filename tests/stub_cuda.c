/* A libcuda that does nothing: cuDNN makes plans with it, of engines that it compiles at run time too. */

static int some;

#define LOADS(name) int name(void **made) { *made = &some; return 0; }
#define WORKS(name) int name(void) { return 0; }
#define FAILS(name) int name(void) { return 100; } /* there is no device */

int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuKernelGetAttribute(int *value) { *value = 0; return 0; }
LOADS(cuLibraryLoadData)
LOADS(cuLibraryLoadFromFile)
LOADS(cuLibraryGetKernel)
LOADS(cuKernelGetFunction)
LOADS(cuModuleLoadData)
LOADS(cuModuleGetFunction)
WORKS(cuKernelSetAttribute)
WORKS(cuLibraryUnload)
WORKS(cuModuleUnload)
WORKS(cuLinkDestroy)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetLimit)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetCount)
FAILS(cuGetErrorName)
FAILS(cuGetErrorString)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLinkAddData)
FAILS(cuLinkComplete)
FAILS(cuLinkCreate)
FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuStreamGetCtx)
FAILS(cuTensorMapEncodeIm2col)
FAILS(cuTensorMapEncodeTiled)
