/* Eight threads fetch all values of an archive side by side, each in a context of its own; each prints what it read, in
   one piece. usage: fetch ARCHIVE METRIC... */
#include <pcp/pmapi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, METRICS_MAX = 64 };

static char **words;
static int metric_count;

static void must(int status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, pmErrStr(status));
  exit(1);
}

static void print_value(FILE *out, const pmValueSet *set, int at, int type) {
  pmAtomValue atom;
  must(pmExtractValue(set->valfmt, &set->vlist[at], type, &atom, type), "pmExtractValue");
  char text[1024];
  fprintf(out, " %d=%s", set->vlist[at].inst, pmAtomStr_r(&atom, type, text, sizeof text));
  if (type == PM_TYPE_STRING) free(atom.cp);
  if (type == PM_TYPE_AGGREGATE) free(atom.vbp);
}

static void *fetch(void *text) {
  char *out_text;
  size_t len;
  FILE *out = open_memstream(&out_text, &len);
  pmID ids[METRICS_MAX];
  pmDesc descs[METRICS_MAX];
  pmResult *result;
  must(pmNewContext(PM_CONTEXT_ARCHIVE, words[0]), words[0]);
  must(pmLookupName(metric_count, (const char **)words + 1, ids), "pmLookupName");
  for (int i = 0; i < metric_count; i++) must(pmLookupDesc(ids[i], &descs[i]), "pmLookupDesc");
  while (pmFetch(metric_count, ids, &result) >= 0) {
    fprintf(out, "%ld.%06ld", (long)result->timestamp.tv_sec, (long)result->timestamp.tv_usec);
    for (int i = 0; i < metric_count; i++)
      for (int at = 0; at < result->vset[i]->numval; at++)
        if (descs[i].type <= PM_TYPE_DOUBLE || descs[i].type == PM_TYPE_STRING) print_value(out, result->vset[i], at, descs[i].type);
    fputc('\n', out);
    pmFreeResult(result);
  }
  fclose(out);
  *(char **)text = out_text;
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t threads[THREADS];
  char *texts[THREADS];
  words = arguments + 1;
  metric_count = count - 2;
  if (metric_count < 1 || metric_count > METRICS_MAX) return 2;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, fetch, &texts[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    printf("thread %d\n%s", i, texts[i]);
    free(texts[i]);
  }
  return 0;
}
