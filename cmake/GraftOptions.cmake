# How everything of Graft is compiled: one set of flags, so that precompiled headers can be shared.

option(GRAFT_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(GRAFT_PCH "Use precompiled headers" ON)
option(GRAFT_UNITY "Compile a dozen sources as one unit: far less work in all, more after a change" OFF)
option(GRAFT_WERROR "Treat warnings as errors" OFF)
set(GRAFT_SANITIZE "" CACHE STRING "Sanitizers to build with: 'address,undefined', 'thread' or none")

set(CMAKE_UNITY_BUILD ${GRAFT_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

get_property(_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT _multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

# The wheel is a release build: its record_function.h asserts on internals without NDEBUG. Graft's
# own checks do not use assert(), so nothing of them is lost.
add_compile_definitions(NDEBUG)

# -fPIC for programs too, where CMake would say -fPIE: a precompiled header serves one of the two.
add_compile_options(-Wall -Wextra -Werror=switch -fPIC)
if(GRAFT_WERROR)
  add_compile_options(-Werror)
endif()

if(GRAFT_SANITIZE)
  # torch's classes have no type information that UBSan's vptr check could use.
  add_compile_options(-fsanitize=${GRAFT_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRAFT_SANITIZE})
  # GCC 12 calls std::regex uninitialised under sanitizers (GCC bug 105562).
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# at::parallel_for is a template: a unit compiled without -fopenmp runs it serially. So it must be
# under the thread sanitizer, which cannot see by what libgomp's threads wait for one another.
if(NOT GRAFT_SANITIZE MATCHES "thread")
  add_compile_options(-fopenmp)
endif()

find_program(GRAFT_MOLD mold)
if(GRAFT_MOLD AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  add_link_options(-fuse-ld=mold)
endif()

find_program(GRAFT_CCACHE ccache)
if(GRAFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache needs to cache units that use a precompiled header; the base
  # folder lets checkouts in different places share results.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    "${GRAFT_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  endif()
endif()
