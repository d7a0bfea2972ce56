# Writes OUTPUT, a C file that names what is timed: a sum of SOURCE's kernels and checks, and of COMPILER (with its flags). Leaves it
# alone where it says so already.
file(GLOB_RECURSE files ${SOURCE}/src/core/*.[ch] ${SOURCE}/src/check/*.[ch] ${SOURCE}/src/cpu/* ${SOURCE}/src/schemes/*
     ${SOURCE}/src/plan/run*.[ch])
list(SORT files)
set(all "${COMPILER}")
foreach(file ${files})
  file(SHA256 ${file} sum)
  string(APPEND all "${sum}")
endforeach()
string(SHA256 sum "${all}")
string(SUBSTRING ${sum} 0 16 sum)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
     "#include \"plan/identity.h\"\n\nconst char *rdt_build_identity(void) {\n  return \"${sum}\";\n}\n")
