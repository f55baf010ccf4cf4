# Installs Graft, moves what was installed, and builds and runs the consumer and the example against
# it there.
#
#   cmake -D SOURCE=<this folder> -D BUILD=<Graft's build folder> -D TORCH=<libtorch>
#         -D GENERATOR=<generator> -D LAUNCHER=<compiler launcher or empty> -P check.cmake

set(work "${BUILD}/consumer")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/installed-here")
file(RENAME "${work}/installed-here" "${work}/moved-there")

set(launcher)
if(LAUNCHER)
  set(launcher "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
endif()
function(build source folder)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${folder}" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${work}/moved-there;${TORCH}" -DCMAKE_BUILD_TYPE=Release "${launcher}"
    COMMAND_ERROR_IS_FATAL ANY)
  run("${CMAKE_COMMAND}" --build "${folder}")
endfunction()

build("${SOURCE}" "${work}/build")
run("${work}/build/consumer")

# The example, as its page tells: a program with a workload of its own is the whole command.
build("${SOURCE}/../../examples/my_workload" "${work}/example")
foreach(isolate IN ITEMS "" --isolate)
  run("${work}/example/my_workload" bench --small --quiet --min-time 0.01 --filter ^gated$
    --axis rows=3,5 ${isolate} --json "${work}/run${isolate}.json")
  file(READ "${work}/run${isolate}.json" run)
  foreach(row RANGE 5)
    string(JSON status GET "${run}" results ${row} status)
    if(NOT status STREQUAL "ok")
      message(FATAL_ERROR "row ${row} of my_workload: ${status}")
    endif()
  endforeach()
endforeach()
