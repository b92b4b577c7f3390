/* A stand-in for libnvidia-ml.so.1: the C symbols that the real Python binding calls, on a machine without a GPU.
 *
 * What its GPUs do stands in the file that FAKE_NVML names, and is read at each call, so that a test can change it:
 *
 *   gpus N                   how many there are
 *   utilization INDEX PERCENT
 *   power INDEX MILLIWATT    energy is that times the seconds since 1970
 *   mig INDEX COUNT          the GPU is cut into so many devices
 *   process INDEX PID BYTES
 *   xid INDEX NUMBER         an error event, delivered once for each such line
 *   fail FUNCTION CODE [INDEX]   the function returns that error, of all GPUs or of one; * is every function
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { int index; int part; } device;
typedef unsigned long long u64;

static device devices[64][8];
static int delivered = 0;

typedef int (*visit)(const char *line, void *found);

static void each_line(visit look, void *found) {
  char line[256];
  const char *path = getenv("FAKE_NVML");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return;
  while (fgets(line, sizeof line, file) && !look(line, found)) {}
  fclose(file);
}

struct number { const char *name; int index; u64 value; int found; };

static int see_number(const char *line, void *data) {
  struct number *one = data;
  char name[64];
  int index;
  u64 value;
  if (one->index < 0 ? sscanf(line, "%63s %llu", name, &value) == 2 : sscanf(line, "%63s %d %llu", name, &index, &value) == 3)
    if (!strcmp(name, one->name) && (one->index < 0 || index == one->index)) one->value = value, one->found = 1;
  return 0;
}

static u64 number(const char *name, int index, u64 otherwise) {
  struct number one = {name, index, otherwise, 0};
  each_line(see_number, &one);
  return one.value;
}

struct failure { const char *name; int index; int code; };

static int see_failure(const char *line, void *data) {
  struct failure *one = data;
  char name[64];
  int code, index = -1;
  int parts = sscanf(line, "fail %63s %d %d", name, &code, &index);
  if (parts >= 2 && (!strcmp(name, "*") || !strcmp(name, one->name)) && (parts == 2 || index == one->index)) one->code = code;
  return 0;
}

static int failing(const char *name, int index) {
  struct failure one = {name, index, 0};
  each_line(see_failure, &one);
  return one.code;
}

#define TRY(index) do { int code = failing(__func__, index); if (code) return code; } while (0)
#define ON(handle) device *d = handle; TRY(d->index)

int nvmlInitWithFlags(unsigned flags) { TRY(-1); return getenv("FAKE_NVML") ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "an error of the stand-in"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { TRY(-1); snprintf(text, size, "0.0-stand-in"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { TRY(-1); *count = number("gpus", -1, 0); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  TRY((int)index);
  devices[index][0] = (device){index, 0};
  *handle = &devices[index][0];
  return 0;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  ON(handle);
  if (d->part) snprintf(text, size, "MIG-stand-in-%d-%d", d->index, d->part - 1);
  else snprintf(text, size, "GPU-stand-in-%d", d->index);
  return 0;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned size) { ON(handle); snprintf(text, size, "Stand-in"); return 0; }

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
  ON(handle);
  if (d->part) return 3;
  rates[0] = number("utilization", d->index, 50), rates[1] = 10;
  return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, u64 *info) {
  ON(handle);
  u64 total = d->part ? 10ull << 30 : 80ull << 30, used = (u64)(d->index + 1) << 30;
  info[0] = total, info[1] = total - used, info[2] = used;
  return 0;
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  return at.tv_sec + at.tv_nsec / 1e9;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatt) { ON(handle); *milliwatt = number("power", d->index, 300000); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *handle, u64 *millijoule) {
  ON(handle);
  *millijoule = (u64)(number("power", d->index, 300000) * now());
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatt) { ON(handle); *milliwatt = 700000; return 0; }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) { ON(handle); *celsius = 60 + d->index; return 0; }
int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *megahertz) { ON(handle); *megahertz = kind == 1 ? 1980 : 2619; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *reasons) { ON(handle); *reasons = number("reasons", d->index, 4); return 0; }
int nvmlDeviceGetViolationStatus(void *handle, int kind, u64 *times) { ON(handle); times[0] = 1, times[1] = (u64)(kind + 1) * 1000000000; return 0; }
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, u64 *count) { ON(handle); *count = kind ? 0 : 7; return 0; }

struct field { unsigned id, scope; long long time, latency; unsigned type, result; u64 value; };

int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields) {
  ON(handle);
  for (int i = 0; i < count; i++) fields[i].result = fields[i].id == 139 ? 3 : 0, fields[i].value = fields[i].id * 1000;
  return 0;
}

struct process { unsigned pid; u64 used; unsigned instance, compute; };
struct processes { int index; unsigned count, room; struct process *found; };

static int see_process(const char *line, void *data) {
  struct processes *all = data;
  int index;
  unsigned pid;
  u64 used;
  if (sscanf(line, "process %d %u %llu", &index, &pid, &used) == 3 && index == all->index) {
    if (all->found && all->count < all->room) all->found[all->count] = (struct process){pid, used, 0, 0};
    all->count++;
  }
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *found) {
  ON(handle);
  struct processes all = {d->index, 0, *count, found};
  if (d->part) { *count = 0; return 0; }
  each_line(see_process, &all);
  *count = all.count;
  return all.count && !found ? 7 : 0;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
  ON(handle);
  *current = *pending = number("mig", d->index, 0) > 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { ON(handle); *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **part) {
  ON(handle);
  if (index >= number("mig", d->index, 0)) return 6;
  devices[d->index][index + 1] = (device){d->index, index + 1};
  *part = &devices[d->index][index + 1];
  return 0;
}

int nvmlEventSetCreate(void **set) { TRY(-1); *set = &delivered; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *handle, u64 kinds, void *set) { ON(handle); return 0; }

struct event { void *device; u64 kind, data; unsigned instance, compute; };
struct events { int seen; struct event *next; int found; };

static int see_event(const char *line, void *data) {
  struct events *all = data;
  int index, xid;
  if (sscanf(line, "xid %d %d", &index, &xid) == 2 && all->seen++ == delivered) {
    *all->next = (struct event){&devices[index][0], 8, xid, 0, 0};
    return all->found = 1;
  }
  return 0;
}

int nvmlEventSetWait_v2(void *set, struct event *next, unsigned milliseconds) {
  TRY(-1);
  struct events all = {0, next, 0};
  each_line(see_event, &all);
  delivered += all.found;
  return all.found ? 0 : 10;
}
