# What Graft is built from. tools/setup.sh alone knows which versions, and where they lie.

execute_process(
  COMMAND bash "${PROJECT_SOURCE_DIR}/tools/setup.sh" --print-deps
  OUTPUT_VARIABLE _deps OUTPUT_STRIP_TRAILING_WHITESPACE)
foreach(_name IN ITEMS TORCH MINILM)
  if(_deps MATCHES "(^|\n)${_name}=([^\n]*)")
    set(_graft_${_name} "${CMAKE_MATCH_2}")
  endif()
endforeach()

# Other versions there: what CMake remembers of the last ones is void.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/setup.sh")
if(DEFINED GRAFT_LAST_TORCH AND NOT GRAFT_LAST_TORCH STREQUAL _graft_TORCH)
  unset(GraftTorch_INCLUDE_DIR CACHE)
  unset(GraftTorch_CPU_LIBRARY CACHE)
  unset(GraftTorch_C10_LIBRARY CACHE)
endif()
set(GRAFT_LAST_TORCH "${_graft_TORCH}" CACHE INTERNAL "")

set(GRAFT_TORCH_HINT "${_graft_TORCH}")
find_package(GraftTorch 2.11 REQUIRED)
message(STATUS "libtorch ${GraftTorch_VERSION}: ${GraftTorch_ROOT}")

# Where the real MiniLM weights lie, with config and vocabulary; programs may be given others.
if(NOT DEFINED GRAFT_MINILM_DIR)
  set(GRAFT_MINILM_DIR "${_graft_MINILM}")
endif()

# Debian's version file wants the minor version.
find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19)
if(TARGET LLVM)
  message(STATUS "LLVM ${LLVM_PACKAGE_VERSION}: ${LLVM_DIR}")
  separate_arguments(graft_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  list(TRANSFORM graft_llvm_definitions REPLACE "^-D" "")
  if(NOT LLVM_ENABLE_RTTI)
    message(FATAL_ERROR "This LLVM was built without RTTI, which Graft's code generator needs; "
                        "install llvm-19-dev, or name another LLVM with -DLLVM_DIR")
  endif()
else()
  message(WARNING "LLVM 19.1 was not found: Graft will record and run eagerly, and compile nothing. "
                  "'make setup' installs it.")
endif()

find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

# Neither has a package file for CMake in Debian.
function(graft_find_library name header library)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${name}_LIBRARY ${library} REQUIRED)
  if(NOT TARGET graft_${name})
    add_library(graft_${name} INTERFACE)
    target_include_directories(graft_${name} SYSTEM INTERFACE "${${name}_INCLUDE_DIR}")
    target_link_libraries(graft_${name} INTERFACE "${${name}_LIBRARY}")
  endif()
endfunction()
graft_find_library(pcre2 pcre2.h pcre2-8)
graft_find_library(utf8proc utf8proc.h utf8proc)
# Headers alone: libtorch has the code.
find_path(gloo_INCLUDE_DIR gloo/transport/device.h REQUIRED)
