/* Which kernels and checks these are: whatever decides how long they take changes it. */
#ifndef RDT_PLAN_IDENTITY_H
#define RDT_PLAN_IDENTITY_H

const char *rdt_build_identity(void); /* 16 hexadecimal digits; made by cmake/identity.cmake at each build */

#endif
