# Installs Graft, moves what was installed, and builds and runs the example projects against it there,
# as a user would.
#
#   cmake -D SOURCE=<Graft's examples folder> -D BUILD=<Graft's build folder> -D TORCH=<libtorch>
#         -D GENERATOR=<generator> -D LAUNCHER=<compiler launcher or empty> -P check.cmake

set(work "${BUILD}/consumer")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/installed-here")
file(RENAME "${work}/installed-here" "${work}/moved-there")

# What the libraries export is the interface, the two halves' own business, and nothing of the rest.
file(GLOB libraries "${work}/moved-there/lib*/libgraft*.so.0.1" "${work}/moved-there/lib*/*/libgraft*.so.0.1")
list(LENGTH libraries count)
if(NOT count EQUAL 3)
  message(FATAL_ERROR "libgraft.so.0.1, libgraft_command.so.0.1 and libgraft_systems.so.0.1 were expected, came: '${libraries}'")
endif()
find_program(nm nm REQUIRED)
foreach(library IN LISTS libraries)
  execute_process(COMMAND "${nm}" -DC --defined-only "${library}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [A-Za-z] graft::(record|ops|passes|runtime|lab|cli|codegen::SourcePrinter|ir::StatementBuilder|ir::parse)(::|[(])[^\n]*" inner "${symbols}")
  if(inner OR NOT symbols MATCHES "graft::")
    message(FATAL_ERROR "${library} exports '${inner}'")
  endif()
endforeach()

set(launcher)
if(LAUNCHER)
  set(launcher "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
endif()
function(build source folder)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${folder}" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${work}/moved-there;${TORCH}" -DCMAKE_BUILD_TYPE=Release "${launcher}"
      "-DCMAKE_CXX_FLAGS=-fvisibility=hidden -include ${CMAKE_CURRENT_LIST_DIR}/user.h"
    COMMAND_ERROR_IS_FATAL ANY)
  run("${CMAKE_COMMAND}" --build "${folder}")
endfunction()

# A program that calls graft::compile.
build("${SOURCE}/compile_a_function" "${work}/compile_a_function")
run("${work}/compile_a_function/compile_a_function")

# One that trains in several processes.
build("${SOURCE}/several_processes" "${work}/several_processes")
run("${work}/several_processes/several_processes")
run("${work}/moved-there/bin/graft" launch -n 2 "${work}/several_processes/several_processes")

# A program with a workload of its own: it is the whole graft command.
build("${SOURCE}/my_workload" "${work}/my_workload")
foreach(isolate IN ITEMS "" --isolate)
  run("${work}/my_workload/my_workload" bench --small --quiet --min-time 0.01 --filter ^gated$
    --axis rows=3,5 ${isolate} --json "${work}/run${isolate}.json")
  file(READ "${work}/run${isolate}.json" run)
  foreach(row RANGE 5)
    string(JSON status GET "${run}" results ${row} status)
    if(NOT status STREQUAL "ok")
      message(FATAL_ERROR "row ${row} of my_workload: ${status}")
    endif()
  endforeach()
endforeach()
