# Writes OUTPUT, a C file that says which commit of SOURCE is built ("+" where the tree has changes; "" where it is no
# repository), and leaves it alone where it says so already.
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
if(changes)
  string(APPEND commit "+")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
     "#include \"ops.h\"\n\nconst char *rdt_bench_commit(void) {\n  return \"${commit}\";\n}\n")
