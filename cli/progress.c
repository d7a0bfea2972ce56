#include "progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/context.h"
#include "core/text.h"

static const double FIRST = 0.5, AGAIN = 0.1; /* seconds: until it shows, until it changes */
enum { BAR = 30, LINE = 256 };

static struct {
  const char *what; /* NULL: no bar */
  double begun, due;
  int drawn; /* columns on the screen */
} bar;

bool rdt_progress_begin(const rdt_settings *s, const char *what) {
  if (s->quiet || s->no_progress || s->format == RDT_FORMAT_JSON || !isatty(STDERR_FILENO)) return false;
  bar.what = what;
  bar.begun = rdt_clock();
  bar.due = bar.begun + FIRST;
  bar.drawn = 0;
  return true;
}

static int columns(void) {
  struct winsize size;
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const int wide = known ? size.ws_col : 80;
  return (wide < LINE ? wide : LINE) - 1; /* the last column may wrap */
}

/* "1:02:03 left" */
static void put_left(char *buf, size_t size, double seconds) {
  const int64_t s = seconds < 360000.0 ? (int64_t)seconds : 359999;
  if (s >= 3600)
    snprintf(buf, size, "%" PRId64 ":%02" PRId64 ":%02" PRId64 " left", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(buf, size, "%" PRId64 ":%02" PRId64 " left", s / 60, s % 60);
}

void rdt_progress(double part, const char *format, ...) {
  static const char full[BAR + 1] = "##############################";
  char line[2 * LINE], note[LINE], left[32] = "";
  const double now = bar.what ? rdt_clock() : 0.0;
  if (!bar.what || now < bar.due) return;
  bar.due = now + AGAIN;
  va_list args;
  va_start(args, format);
  vsnprintf(note, sizeof note, format, args);
  va_end(args);
  rdt_text_tame(note, '?'); /* names from files must not reach the terminal as control characters */
  part = part < 0.0 ? 0.0 : part < 1.0 ? part : 1.0;
  if (part > 0.0) put_left(left, sizeof left, (now - bar.begun) * (1.0 - part) / part);
  const int filled = (int)(BAR * part), most = columns();
  snprintf(line, sizeof line, "%s [%.*s%*s] %3.0f %%  %s  %s", bar.what, filled, full, BAR - filled, "", 100.0 * part,
           left, note);
  int n = (int)strlen(line) < most ? (int)strlen(line) : most;
  while (n > 0 && ((unsigned char)line[n] & 0xc0) == 0x80) n--; /* no half of a character */
  fprintf(stderr, "\r%.*s%*s", n, line, bar.drawn > n ? bar.drawn - n : 0, "");
  bar.drawn = n;
}

void rdt_progress_end(void) {
  if (bar.what && bar.drawn > 0) fprintf(stderr, "\r%*s\r", bar.drawn, "");
  bar.what = NULL;
}
