#include "net/maps.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

static rdt_status add(rdt_maps *m, const rdt_map *map, rdt_reason *why) {
  rdt_map *list = rdt_grow(m->list, (size_t)m->n, (size_t)m->n + 1, sizeof *list);
  if (!list) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory", map->path);
  m->list = list;
  m->list[m->n++] = *map;
  return RDT_OK;
}

rdt_status rdt_maps_init(rdt_maps *m, const char *path, rdt_reason *why) {
  rdt_map model;
  char folder[PATH_MAX], real[PATH_MAX];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : slash ? (int)(slash - path) : 1, slash ? path : ".");
  RDT_TRY(rdt_map_open(path, &model, why));
  m->folder = rdt_strdup(realpath(folder, real) ? real : folder);
  const rdt_status status = m->folder ? add(m, &model, why) : rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory", path);
  if (status != RDT_OK) rdt_map_close(&model);
  return status;
}

void rdt_maps_clear(rdt_maps *m) {
  for (int i = 0; i < m->n; i++) rdt_map_close(&m->list[i]);
  rdt_free(m->list);
  rdt_free(m->folder);
  *m = (rdt_maps){0};
}

/* Absolute, or with ".." on its way. */
static bool leads_out(const char *location) {
  if (*location == '/') return true;
  for (const char *part = location; part;) {
    const char *slash = strchr(part, '/');
    if (strncmp(part, "..", 2) == 0 && (part[2] == '\0' || part[2] == '/')) return true;
    part = slash ? slash + 1 : NULL;
  }
  return false;
}

static bool inside(const char *folder, const char *path) {
  const size_t n = strlen(folder);
  return strcmp(folder, "/") == 0 || (strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

rdt_status rdt_maps_find(rdt_maps *m, const char *location, const char *what, int *number, rdt_reason *why) {
  char path[PATH_MAX], real[PATH_MAX], text[128];
  rdt_map map;
  rdt_reason reason;
  if (leads_out(location))
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%s: its data is said to be in '%.120s', outside of the model's folder: refused", what, location);
  const int length = snprintf(path, sizeof path, "%s/%s", m->folder, location);
  if (length < 0 || length >= (int)sizeof path)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: the path of its data is too long", what);
  if (!realpath(path, real))
    return rdt_fail(why, RDT_ERR_IO, "%s: its data is said to be in '%.120s', beside the model: %s", what, location,
                    strerror_r(errno, text, sizeof text));
  if (!inside(m->folder, real))
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%s: its data is said to be in '%.120s', a link to outside of the model's folder: refused; put the "
                    "file itself there",
                    what, location);
  for (int i = 0; i < m->n; i++)
    if (strcmp(m->list[i].path, real) == 0) {
      *number = i;
      return RDT_OK;
    }
  const rdt_status status = rdt_map_open(real, &map, &reason);
  if (status != RDT_OK) return rdt_fail(why, status, "%s: its data: %.300s", what, reason.text);
  for (int i = 0; i < m->n; i++) /* under another name */
    if (m->list[i].device == map.device && m->list[i].inode == map.inode) {
      rdt_map_close(&map);
      *number = i;
      return RDT_OK;
    }
  *number = m->n;
  const rdt_status added = add(m, &map, why);
  if (added != RDT_OK) rdt_map_close(&map);
  return added;
}
