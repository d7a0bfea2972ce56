// Which loop over lanes (lanes_*.def) an instruction of arithmetic, logic, comparison or selection is, found as it is
// loaded.
#include <fenv.h>
#include <string.h>

#include "lanes.h"
#include "lanes_numbers.h"

#define UNARY_WIDTHS(D, A, ...) \
  { sizeof(D), sizeof(A) }
#define FLUSHED_WIDTHS UNARY_WIDTHS
#define BINARY_WIDTHS(D, A, B, ...) \
  { sizeof(D), sizeof(A), sizeof(B) }
#define TERNARY_WIDTHS(D, A, B, C, ...) \
  { sizeof(D), sizeof(A), sizeof(B), sizeof(C) }
#define QUATERNARY_WIDTHS(D, A, B, C, E, ...) \
  { sizeof(D), sizeof(A), sizeof(B), sizeof(C), sizeof(E) }
#define CARRY2_WIDTHS BINARY_WIDTHS
#define CARRY2_OUT_WIDTHS BINARY_WIDTHS
#define CARRY3_WIDTHS TERNARY_WIDTHS
#define CARRY3_OUT_WIDTHS TERNARY_WIDTHS
#define HALVES_COMPARISON_WIDTHS BINARY_WIDTHS
#define SELECT_WIDTHS(D, A, B, ...) \
  { sizeof(D), sizeof(A), sizeof(B), 1 }
#define LOGIC1_WIDTHS(...) \
  { 1, 1 }
#define LOGIC2_WIDTHS(...) \
  { 1, 1, 1 }
#define COMPARISON_WIDTHS(P, A, B, ...) \
  { 1, sizeof(A), sizeof(B) }
#define TEST_WIDTHS(P, A, ...) \
  { 1, sizeof(A) }
#define ROW(op, id, types, from, words, KIND, registers, ...) {EM_OP_##op, KIND##_WIDTHS registers, types, from, words},
static const em_row rows[] = {
#include "lanes_rows_all.def"
};
#undef ROW
enum { ROWS = sizeof rows / sizeof *rows };

static em_run *const *loops(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return em_lanes_avx2;
  }
#endif
  return em_lanes_generic;
}

// ---- Modifiers ----

static bool is_type(const char *word) {
  static const char *const more[] = {"f16x2", "bf16", "bf16x2", "pred", "e4m3x2", "e5m2x2", "tf32"};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    if (!strcmp(word, more[i])) {
      return true;
    }
  }
  return strchr("usbf", word[0]) && word[1] >= '1' && word[1] <= '8' && strlen(word) <= 3;
}

bool em_words(const em_instruction *in, uint64_t *words) {
#define WORD(name, text) text,
  static const char *const names[] = {
#include "lanes_words.def"
  };
#undef WORD
  *words = 0;
  for (int i = 0; in->modifier[i]; i++) {
    int word = 0;
    while (word < EM_WORD_COUNT && strcmp(in->modifier[i], names[word])) {
      word++;
    }
    if (word == EM_WORD_COUNT && !is_type(in->modifier[i])) {
      return false;
    }
    *words |= word < EM_WORD_COUNT ? UINT64_C(1) << word : 0;
  }
  return true;
}

// ---- Choice ----

static bool fits(const em_row *row, const em_instruction *in, uint32_t type, uint64_t words, uint64_t unrounded) {
  if (!(row->types & type) || (row->from && !(row->from & 1u << in->from)) ||
      (row->words & EM_ROUNDS ? unrounded != (row->words & ~EM_ROUNDS) : words != row->words)) {
    return false;
  }
  int operands = 0;
  for (; operands < 5 && row->width[operands]; operands++) {
    const em_operand *o = &in->operand[operands];
    if (row->width[operands] == 1 ? o->kind != EM_PREDICATE
                                  : o->kind != EM_REGISTER || o->bytes != row->width[operands]) {
      return false;
    }
  }
  return in->operands == operands + (in->form != 0);
}

// The rows of an opcode: its first one, and behind each the next.
static const int16_t *rows_of(int op, const int16_t **next) {
  static int16_t first[EM_OP_COUNT], behind[ROWS];
  static bool known;
  if (!known) {
    memset(first, -1, sizeof first);
    for (int i = ROWS - 1; i >= 0; i--) {
      behind[i] = first[rows[i].op];
      first[rows[i].op] = (int16_t)i;
    }
    known = true;
  }
  *next = behind;
  return &first[op];
}

// The rest of the machine rounds to nearest, always.
static em_turn rounded(em_warp *w, const em_instruction *in, uint32_t lanes) {
  em_run *run = (em_run *)(intptr_t)in->wide;
  fesetround(in->more);
  const em_turn turn = run(w, in, lanes);
  fesetround(FE_TONEAREST);
  return turn;
}

const char *em_choose(em_instruction *in, int op, uint64_t words, uint32_t type) {
  const uint64_t directed = words & (EM_RZ | EM_RM | EM_RP), unrounded = words & ~(EM_RN | directed);
  const int16_t *next, *first = rows_of(op, &next);
  for (int i = *first; i >= 0; i = next[i]) {
    if (fits(&rows[i], in, 1u << (type ? type : in->type), words, unrounded)) {
      in->run = loops()[i];
      if (directed && (rows[i].words & EM_ROUNDS)) {
        in->wide = (int64_t)(intptr_t)in->run;
        in->more = directed == EM_RZ ? FE_TOWARDZERO : directed == EM_RM ? FE_DOWNWARD : FE_UPWARD;
        in->run = rounded;
      }
      return NULL;
    }
  }
  return "there is no such instruction: its types, its modifiers, or its registers' widths are not known together";
}

static const char *bind(em_instruction *in, int op) {
  uint64_t words;
  return em_words(in, &words) ? em_choose(in, op, words, 0) : "a modifier is not known";
}

// lo, ls, hi and hs are comparisons without sign; and, or, xor join a predicate, the last operand, to the outcome.
static const char *bind_setp(em_instruction *in) {
  static const int renamed[][2] = {
      {EM_PLACE_LO, EM_PLACE_LT}, {EM_PLACE_LS, EM_PLACE_LE}, {EM_PLACE_HI, EM_PLACE_GT}, {EM_PLACE_HS, EM_PLACE_GE}};
  static const int joined[] = {EM_PLACE_AND, EM_PLACE_OR, EM_PLACE_XOR};
  uint64_t words;
  if (!em_words(in, &words)) {
    return "a modifier is not known";
  }
  for (int i = 0; i < 4; i++) {
    if (words >> renamed[i][0] & 1) {
      if (in->type < EM_U8 || in->type > EM_U64) {
        return "lo, ls, hi and hs compare unsigned integers";
      }
      words = (words & ~(UINT64_C(1) << renamed[i][0])) | UINT64_C(1) << renamed[i][1];
    }
  }
  for (int i = 0; i < 3; i++) {
    if (words >> joined[i] & 1) {
      if (in->operands != 4 || in->operand[3].kind != EM_PREDICATE) {
        return "the predicate to be joined is missing";
      }
      words &= ~(UINT64_C(1) << joined[i]);
      in->form = (int16_t)joined[i];
    }
  }
  return em_choose(in, EM_OP_setp, words, 0);
}

#define OWN(name)
#define OP(name)                                       \
  static const char *bind_##name(em_instruction *in) { \
    return bind(in, EM_OP_##name);                     \
  }
#include "lanes_opcodes.def"
#undef OP
#define OP(name) {#name, NULL, bind_##name},
const em_op em_ops_arithmetic[] = {
#include "lanes_opcodes.def"
    {"setp", NULL, bind_setp}, {"mov", NULL, em_bind_mov}, {"cvt", NULL, em_bind_cvt}, {NULL, NULL, NULL}};
#undef OP
#undef OWN
