# Installs Graft, moves what was installed, and builds and runs the consumer against it there.
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
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${work}/build" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${work}/moved-there;${TORCH}" -DCMAKE_BUILD_TYPE=Release "${launcher}"
  COMMAND_ERROR_IS_FATAL ANY)
run("${CMAKE_COMMAND}" --build "${work}/build")
run("${work}/build/consumer")
