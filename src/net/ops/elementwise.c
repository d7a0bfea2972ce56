/* Elementwise operators with broadcasting, BatchNormalization. */
#include <math.h>
#include <string.h>

#include "net/ops/ops.h"
#include "net/tensor_proto.h"

/* Before opset 7, B is aligned with A at an axis, and only if the attribute broadcast says so. */
static rdt_status aligned_operand(const rdt_op_args *a, rdt_tensor *b, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t broadcast, axis;
  if (a->g->opset >= 7) return RDT_OK;
  if (x->rank < 0 || b->rank < 0) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the rank of an operand is not known yet");
  RDT_TRY(rdt_op_int(a, "broadcast", 0, &broadcast, why));
  RDT_TRY(rdt_op_int(a, "axis", (int64_t)x->rank - b->rank, &axis, why));
  if (!broadcast) {
    if (rdt_tensor_same_shape(x, b)) return RDT_OK;
    return rdt_op_fail(a, why, RDT_ERR_SHAPE,
                       "the operands' shapes differ, and opset %lld broadcasts only with broadcast=1",
                       (long long)a->g->opset);
  }
  if (axis < 0 && axis >= -x->rank) axis += x->rank;
  if (axis < 0 || b->rank > x->rank - axis)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "B of rank %d does not fit into A of rank %d at axis %lld", b->rank,
                       x->rank, (long long)axis);
  for (int d = b->rank; d < x->rank - axis; d++) {
    b->shape[d] = 1;
    b->stride[d] = 0;
  }
  b->rank = x->rank - (int)axis;
  return RDT_OK;
}

/* What a node computes: the function, its parameters, its operands before they are broadcast. */
typedef struct mapping {
  rdt_fn fn; /* NONE: nothing but a copy */
  int n;
  rdt_tensor in[3];
  double param[RDT_PARAMS];
} mapping;

static rdt_status read_params(const rdt_op_args *a, rdt_fn fn, double *param, rdt_reason *why) {
  static const struct {
    rdt_fn fn;
    const char *name[2];
    double def[2];
  } attributes[] = {
      {RDT_FN_CELU, {"alpha"}, {1.0}},
      {RDT_FN_ELU, {"alpha"}, {1.0}},
      {RDT_FN_HARDSIGMOID, {"alpha", "beta"}, {0.2, 0.5}},
      {RDT_FN_LEAKYRELU, {"alpha"}, {0.01}},
      {RDT_FN_SELU, {"alpha", "gamma"}, {1.67326319217681884765625, 1.05070102214813232421875}},
      {RDT_FN_SHRINK, {"lambd", "bias"}, {0.5, 0.0}},
      {RDT_FN_THRESHOLDEDRELU, {"alpha"}, {1.0}},
  };
  int64_t flag[2] = {0, 0};
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
    for (int k = 0; k < 2 && attributes[i].fn == fn && attributes[i].name[k]; k++)
      RDT_TRY(rdt_op_float(a, attributes[i].name[k], attributes[i].def[k], &param[k], why));
  if (fn == RDT_FN_ISINF) {
    RDT_TRY(rdt_op_int(a, "detect_negative", 1, &flag[0], why));
    RDT_TRY(rdt_op_int(a, "detect_positive", 1, &flag[1], why));
    param[0] = flag[0] != 0;
    param[1] = flag[1] != 0;
  } else if (fn == RDT_FN_MOD) {
    RDT_TRY(rdt_op_int(a, "fmod", 0, &flag[0], why));
    param[0] = flag[0] != 0;
  } else if (fn == RDT_FN_HARDSWISH) {
    param[0] = 1.0 / 6.0;
    param[1] = 0.5;
  }
  return RDT_OK;
}

/* One of two words of a string attribute; the first is the default, NULL where there is none. */
static rdt_status read_word(const rdt_op_args *a, const char *name, const char *const words[2], bool *second,
                            rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, name);
  const char *is = t && t->type == RDT_ATTR_STRING ? t->s : "";
  *second = strcmp(is, words[1]) == 0;
  if (*second || (!t && words[0][0] != '\0') || strcmp(is, words[0]) == 0) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be %s or %s", name, words[0], words[1]);
}

/* A bound that is a constant, and that a double holds. */
static bool fixed_bound(const rdt_op_args *a, int i, double *bound) {
  const rdt_tensor *t = rdt_op_in(a, i);
  if (!a->g->values[a->n->in[i]].data) return false;
  *bound = rdt_load(t->data, t->dtype, 0);
  return fabs(*bound) <= 0x1p53 || isinf(*bound) || rdt_dtype_is_float(t->dtype);
}

/* Bounds are attributes before opset 11, then inputs: parameters where they are constants, operands otherwise. */
static rdt_status read_clip(const rdt_op_args *a, mapping *m, rdt_reason *why) {
  static const rdt_fn by_operands[4] = {RDT_FN_NONE, RDT_FN_MAX, RDT_FN_MIN, RDT_FN_CLAMP};
  bool fixed = true;
  int given = 0;
  m->param[0] = -INFINITY;
  m->param[1] = INFINITY;
  m->n = 1;
  if (a->g->opset < 11) {
    RDT_TRY(rdt_op_float(a, "min", -INFINITY, &m->param[0], why));
    return rdt_op_float(a, "max", INFINITY, &m->param[1], why);
  }
  for (int i = 1; i < 3; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    if (!t) continue;
    if (rdt_tensor_count(t) != 1 || t->rank > 1)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d must be one number", i);
    given |= i;
    if (!fixed_bound(a, i, &m->param[i - 1])) fixed = false;
    m->in[m->n] = *t;
    m->in[m->n++].rank = 0;
  }
  if (fixed)
    m->n = 1;
  else
    m->fn = by_operands[given];
  return RDT_OK;
}

static rdt_status read_node(const rdt_op_args *a, mapping *m, rdt_reason *why) {
  static const char *const gelu[2] = {"none", "tanh"}, *const shift[2] = {"RIGHT", "LEFT"};
  bool second;
  *m = (mapping){.fn = a->n->op->fn};
  for (int i = 0; i < a->n->n_in && i < 3; i++)
    if (rdt_op_in(a, i)) m->in[m->n++] = *rdt_op_in(a, i);
  if (a->n->act.fn != RDT_FN_NONE) { /* a recognised pattern */
    m->fn = a->n->act.fn;
    memcpy(m->param, a->n->act.param, sizeof m->param);
    return RDT_OK;
  }
  RDT_TRY(read_params(a, m->fn, m->param, why));
  switch (m->fn) {
    case RDT_FN_CLIP:
      return read_clip(a, m, why);
    case RDT_FN_GELU:
      RDT_TRY(read_word(a, "approximate", gelu, &second, why));
      if (second) m->fn = RDT_FN_GELU_TANH;
      return RDT_OK;
    case RDT_FN_SHIFT:
      RDT_TRY(read_word(a, "direction", shift, &second, why));
      m->param[0] = second;
      return RDT_OK;
    case RDT_FN_CAST:
      m->n = 1; /* the other input of CastLike gives its datatype only */
      return RDT_OK;
    case RDT_FN_PRELU: /* before opset 7 a slope a channel */
      if (a->g->opset < 7 && m->in[1].rank == 1 && m->in[1].shape[0] != 1) {
        for (m->in[1].rank = 1; m->in[1].rank < m->in[0].rank - 1; m->in[1].rank++) {
          m->in[1].shape[m->in[1].rank] = 1;
          m->in[1].stride[m->in[1].rank] = 0;
        }
      }
      return RDT_OK;
    default:
      if (m->n > 1) RDT_TRY(aligned_operand(a, &m->in[1], why));
      return RDT_OK;
  }
}

bool rdt_op_act(const rdt_op_args *a, rdt_act *act) {
  mapping m;
  rdt_reason why;
  if (a->n->op->lower != rdt_op_map || read_node(a, &m, &why) != RDT_OK || m.n != 1) return false;
  const rdt_fn_class class = rdt_fn_info(m.fn)->class;
  act->fn = m.fn;
  memcpy(act->param, m.param, sizeof act->param);
  if (m.fn == RDT_FN_CLIP && !(m.param[0] <= m.param[1])) return false; /* all become max: by itself */
  return m.fn != RDT_FN_NONE && (class == RDT_CLASS_FLOAT || class == RDT_CLASS_NUMBER);
}

static rdt_status saturates(const rdt_op_args *a, rdt_dtype to, int64_t saturate, rdt_reason *why) {
  if (saturate || !rdt_dtype_is_f8(to)) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED,
                     "to %s with saturate=0 is not available: what is too large becomes the largest",
                     rdt_dtype_name(to));
}

/* The datatype of the result; operands that must be alike are. */
static rdt_status result_dtype(const rdt_op_args *a, const mapping *m, rdt_dtype *y, rdt_reason *why) {
  const rdt_fn_class class = rdt_fn_info(m->fn)->class;
  const int first = class == RDT_CLASS_SELECT ? 1 : 0, last = class == RDT_CLASS_POWER ? 1 : m->n;
  *y = class == RDT_CLASS_COMPARE || class == RDT_CLASS_TEST ? RDT_BOOL : m->in[first].dtype;
  for (int i = first + 1; i < last; i++)
    if (m->in[i].dtype != m->in[first].dtype)
      return rdt_op_fail(a, why, RDT_ERR_DTYPE, "takes operands of one datatype, got %s and %s",
                         rdt_dtype_name(m->in[first].dtype), rdt_dtype_name(m->in[i].dtype));
  if (m->fn != RDT_FN_CAST) return RDT_OK;
  int64_t saturate;
  RDT_TRY(rdt_op_int(a, "saturate", 1, &saturate, why));
  if (a->n->n_in > 1) { /* CastLike */
    *y = rdt_op_in(a, 1)->dtype;
    return saturates(a, *y, saturate, why);
  }
  const rdt_attr *to = rdt_node_attr(a->n, "to");
  if (!to || to->type != RDT_ATTR_INT) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute to must be an integer");
  *y = rdt_dtype_of_onnx(to->i);
  if (*y == RDT_DTYPE_COUNT)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to %s is not available", rdt_onnx_type_name(to->i));
  return saturates(a, *y, saturate, why);
}

static rdt_status result_shape(const rdt_op_args *a, const mapping *m, rdt_tensor *y, rdt_reason *why) {
  char sx[96], sb[96];
  y->rank = m->in[0].rank;
  memcpy(y->shape, m->in[0].shape, sizeof y->shape);
  for (int i = 1; i < m->n; i++) {
    const rdt_tensor before = *y;
    if (!rdt_shape_broadcast(&before, &m->in[i], &y->rank, y->shape))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s and %s do not broadcast together",
                         rdt_tensor_text(&m->in[0], sx, sizeof sx), rdt_tensor_text(&m->in[i], sb, sizeof sb));
  }
  return RDT_OK;
}

rdt_status rdt_op_map(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  mapping m;
  rdt_tensor y = {.rank = 0};
  RDT_TRY(read_node(a, &m, why));
  RDT_TRY(result_dtype(a, &m, &y.dtype, why));
  RDT_TRY(result_shape(a, &m, &y, why));
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  const bool moves = m.fn == RDT_FN_NONE || (m.fn == RDT_FN_CAST && y.dtype == m.in[0].dtype);
  RDT_TRY(rdt_problem_init(p, moves ? RDT_KOP_COPY : RDT_KOP_MAP, m.n));
  for (int i = 0; i < m.n; i++) RDT_TRY(rdt_tensor_broadcast(&m.in[i], out->rank, out->shape, &p->in[i], why));
  p->fn = moves ? RDT_FN_NONE : m.fn;
  memcpy(p->param, m.param, sizeof p->param);
  p->acc = rdt_op_accumulator(m.in[0].dtype);
  p->out = *out;
  return RDT_OK;
}

rdt_status rdt_op_batchnorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const char *const names[] = {"X", "scale", "B", "mean", "var"};
  const rdt_tensor *x = rdt_op_in(a, 0);
  double epsilon;
  int64_t training, spatial;
  RDT_TRY(rdt_op_float_inputs(a, 0, 5, why));
  RDT_TRY(rdt_op_float(a, "epsilon", 1e-5, &epsilon, why));
  RDT_TRY(rdt_op_int(a, "training_mode", 0, &training, why));
  RDT_TRY(rdt_op_int(a, "spatial", 1, &spatial, why));
  if (training)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "training_mode=1 is not available; export the model for inference");
  if (!spatial) return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "spatial=0 is not available");
  if (x->rank < 2) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "X of rank %d has no channels", x->rank);
  for (int i = 1; i < 5; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    char s[96];
    if (t->rank != 1 || t->shape[0] != x->shape[1])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s is %s, must be of length %lld, one element a channel", names[i],
                         rdt_tensor_text(t, s, sizeof s), (long long)x->shape[1]);
  }
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_BATCHNORM, 5));
  p->acc = rdt_op_accumulator(x->dtype);
  for (int i = 0; i < 5; i++) p->in[i] = *rdt_op_in(a, i);
  p->out = *out;
  p->epsilon = epsilon;
  return RDT_OK;
}
