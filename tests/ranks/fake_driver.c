// A CUDA driver that says what the environment tells it to: how the program meets drivers that no test machine has.
//
// FAKE_CUDA_INIT: what cuInit returns; FAKE_CUDA_VERSION: the driver's version; FAKE_CUDA_COUNT: the number of GPUs.
#include <stdlib.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
    (void)flags;
    return number("FAKE_CUDA_INIT", 0);
}

int cuDriverGetVersion(int *version) {
    *version = number("FAKE_CUDA_VERSION", 13000);
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = number("FAKE_CUDA_COUNT", 1);
    return 0;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == 100 ? "no CUDA-capable device is detected" : "unknown error";
    return 0;
}
