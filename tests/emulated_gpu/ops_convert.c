// cvt and mov as they are loaded, and mov to and from vectors.
#include "lanes.h"

// ---- mov ----

static em_turn pack_halves(em_warp *w, const em_instruction *in, uint32_t lanes) {
  const em_operand *from = in->operand[1].items;
  uint32_t *to = EM_ROW(uint32_t, w, &in->operand[0]);
  const uint16_t *low = EM_ROW(uint16_t, w, &from[0]), *high = EM_ROW(uint16_t, w, &from[1]);
  for (int lane = 0; lane < EM_LANES; lane++) {
    const uint32_t value = low[lane] | (uint32_t)high[lane] << 16;
    to[lane] = lanes >> lane & 1 ? value : to[lane];
  }
  return EM_NEXT;
}

static em_turn pack_words(em_warp *w, const em_instruction *in, uint32_t lanes) {
  const em_operand *from = in->operand[1].items;
  uint64_t *to = EM_ROW(uint64_t, w, &in->operand[0]);
  const uint32_t *low = EM_ROW(uint32_t, w, &from[0]), *high = EM_ROW(uint32_t, w, &from[1]);
  for (int lane = 0; lane < EM_LANES; lane++) {
    const uint64_t value = low[lane] | (uint64_t)high[lane] << 32;
    to[lane] = lanes >> lane & 1 ? value : to[lane];
  }
  return EM_NEXT;
}

// in->form: an item's bits.
static em_turn pack(em_warp *w, const em_instruction *in, uint32_t lanes) {
  const em_operand *from = &in->operand[1];
  const uint64_t mask = (UINT64_C(1) << in->form) - 1;
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    uint64_t value = 0;
    for (int i = 0; i < from->count; i++) {
      value |= (em_get(w, &from->items[i], lane) & mask) << i * in->form;
    }
    em_set(w, &in->operand[0], lane, value);
  }
  return EM_NEXT;
}

static em_turn unpack(em_warp *w, const em_instruction *in, uint32_t lanes) {
  const em_operand *to = &in->operand[0];
  const uint64_t mask = (UINT64_C(1) << in->form) - 1;
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    const uint64_t value = em_get(w, &in->operand[1], lane);
    for (int i = 0; i < to->count; i++) {
      if (to->items[i].kind != EM_SINK) {
        em_set(w, &to->items[i], lane, value >> i * in->form & mask);
      }
    }
  }
  return EM_NEXT;
}

static const char *bind_vector(em_instruction *in, bool packs) {
  const em_operand *whole = &in->operand[packs ? 0 : 1], *parts = &in->operand[packs ? 1 : 0];
  if (in->operands != 2 || whole->kind != EM_REGISTER || parts->count < 2 || whole->bytes % parts->count) {
    return "no vector of registers that a register is made of";
  }
  const int bytes = whole->bytes / parts->count;
  for (int i = 0; i < parts->count; i++) {
    const em_operand *part = &parts->items[i];
    if (part->kind == EM_SINK ? packs : part->kind != EM_REGISTER || part->bytes != (bytes == 1 ? 2 : bytes)) {
      return "a register of the vector is of another width";
    }
  }
  in->form = (int16_t)(8 * bytes);
  in->run = !packs ? unpack : parts->count > 2 || bytes == 1 ? pack : bytes == 2 ? pack_halves : pack_words;
  return NULL;
}

const char *em_bind_mov(em_instruction *in) {
  uint64_t words;
  if (!em_words(in, &words) || words) {
    return "a modifier is not known";
  }
  if (in->operand[0].kind == EM_VECTOR || in->operand[1].kind == EM_VECTOR) {
    return bind_vector(in, in->operand[1].kind == EM_VECTOR);
  }
  return em_choose(in, EM_OP_mov, 0, 0);
}

// ---- cvt ----

static bool is_integer(int type) {
  return type >= EM_U8 && type <= EM_S64;
}
static int bytes_of(int type) {
  return 1 << (type - EM_U8) % 4;
}
static bool is_signed(int type) {
  return type >= EM_S8;
}

// From integer to integer: the low bits of the narrower type, and above them its zeros or its sign.
static const char *bind_extend(em_instruction *in) {
  const bool widens = bytes_of(in->type) > bytes_of(in->from);
  if (in->operand[0].bytes < bytes_of(in->type) || in->operand[1].bytes < bytes_of(in->from)) {
    return "a register is narrower than its type";
  }
  if (widens && is_signed(in->from) && !is_signed(in->type) && in->operand[0].bytes > bytes_of(in->type)) {
    return "a negative number in an unsigned type that is narrower than its register";
  }
  return em_choose(in, EM_OP_extend, 0, widens ? in->from : in->type);
}

const char *em_bind_cvt(em_instruction *in) {
  uint64_t words;
  if (!em_words(in, &words)) {
    return "a modifier is not known";
  }
  return !words && is_integer(in->type) && is_integer(in->from) ? bind_extend(in) : em_choose(in, EM_OP_cvt, words, 0);
}
