/* Redoubt: products, convolutions and networks whose wrong results are noticed, located and repaired. */
#ifndef REDOUBT_H
#define REDOUBT_H
#include <redoubt/context.h>
#include <redoubt/model.h>
#include <redoubt/plan.h>
#include <redoubt/report.h>
#include <redoubt/status.h>
#include <redoubt/tensor.h>
#endif
