/* A folder of a test program's own, with all that is in it, for as long as its tests run. */
#ifndef TEST_UTIL_FOLDER_H
#define TEST_UTIL_FOLDER_H

extern char util_folder[64];

char *util_folder_new(char folder[64], const char *name); /* makes it, returns its path: NULL where it cannot be made */

/* Set up and tear down of a group of tests. */
int util_folder_make(void **state);
int util_folder_make_cache(void **state); /* the caches of plans and measurements lie there too */
int util_folder_remove(void **state);

#endif
