/* Computes on every GPU that it is given, through the driver's own library: `cudacheck [fault]`.
 *
 * Out: a line `gpu <UUID> <name>` for each GPU whose memory holds what was written, `error <call> <code>` for what fails, then `ready`; it
 * keeps the first GPU open until SIGTERM. `fault` writes to an address that is no memory, as a broken program does. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;
typedef int device;
typedef void *handle;
typedef unsigned long long pointer;

enum { WORDS = 1 << 24, PATTERN = 0x5eed };

/* Stores to the address 8, which nobody has. */
static const char FAULT[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fault() {\n"
                            ".reg .b64 a; .reg .b32 v; mov.u64 a, 8; mov.u32 v, 1; st.global.u32 [a], v; ret; }\n";

static void *library;

/* Call a function of the library; a failure is printed and ends the program. */
#define CALL(name, types, ...)                                          \
    do {                                                                \
        result(*called) types = (result(*) types)dlsym(library, #name); \
        result code = called ? called(__VA_ARGS__) : -1;                \
        if (code) fail(#name, code);                                    \
    } while (0)

static void finish(int code) {
    puts("ready");
    fflush(stdout);
    exit(code);
}

static void fail(const char *name, int code) {
    printf("error %s %d\n", name, code);
    finish(1);
}

static void say(device gpu) {
    unsigned char id[16];
    char name[128];
    CALL(cuDeviceGetUuid_v2, (void *, device), id, gpu);
    CALL(cuDeviceGetName, (char *, int, device), name, sizeof name, gpu);
    printf("gpu GPU-");
    for (int i = 0; i < 16; i++) printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
    printf(" %s\n", name);
}

static void compute(device gpu) {
    handle context;
    pointer memory;
    unsigned *back = malloc(sizeof *back * WORDS);
    CALL(cuCtxCreate_v2, (handle *, unsigned, device), &context, 0, gpu);
    CALL(cuMemAlloc_v2, (pointer *, size_t), &memory, sizeof *back * WORDS);
    CALL(cuMemsetD32_v2, (pointer, unsigned, size_t), memory, PATTERN, WORDS);
    CALL(cuMemcpyDtoH_v2, (void *, pointer, size_t), back, memory, sizeof *back * WORDS);
    for (int i = 0; i < WORDS; i++)
        if (back[i] != PATTERN) fail("memory", i);
    free(back);
}

static void fault(void) {
    handle module, kernel;
    CALL(cuModuleLoadData, (handle *, const void *), &module, FAULT);
    CALL(cuModuleGetFunction, (handle *, handle, const char *), &kernel, module, "fault");
    CALL(cuLaunchKernel,
         (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **),
         kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    CALL(cuCtxSynchronize, (void), );
}

int main(int count, char **words) {
    int gpus = 0;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) fail("libcuda.so.1", 0);
    CALL(cuInit, (unsigned), 0);
    CALL(cuDeviceGetCount, (int *), &gpus);
    for (device gpu = gpus - 1; gpu >= 0; gpu--) {
        compute(gpu);
        say(gpu);
    }
    if (count > 1 && strcmp(words[1], "fault") == 0) fault();
    puts("ready");
    fflush(stdout);
    int number;
    sigwait(&ends, &number);
    return 0;
}
