# The few forms that Graft's targets have. A folder that has no sources yet makes no target.

# Builds what a program of Graft's needs at run time beside what it links.
add_custom_target(graft_runtime)

# graft_sources(VAR PATTERN...): the files that match now, looked up again at each build.
function(graft_sources variable)
  file(GLOB files CONFIGURE_DEPENDS LIST_DIRECTORIES false ${ARGN})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# graft_pch(NAME HEADER [FEW] [LINK LIBRARY...]): a precompiled header, made once and shared by all
# targets that name it. It compiles nothing until one of them is built. FEW: under GRAFT_UNITY so few
# units are left to use it that making it costs more than it saves.
function(graft_pch name header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "FEW" "" "LINK")
  if(NOT GRAFT_PCH OR (arg_FEW AND GRAFT_UNITY) OR NOT EXISTS "${PROJECT_SOURCE_DIR}/${header}")
    return()
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/pch/${name}.cpp" CONTENT "// Carries ${header}.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/pch/${name}.cpp")
  target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/${header}")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${name} PRIVATE GraftTorch::torch ${arg_LINK})
endfunction()

function(graft_use_pch target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# What only calls libtorch and Graft: less optimised, and with a precompiled header for that.
function(graft_is_caller target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  graft_use_pch(${target} graft_torch_pch)
endfunction()

# graft_add_library(NAME SHARED|STATIC|MODULE|OBJECT [PCH NAME | CALLER] SOURCES FILE...)
# Shared ones lie at the top of the build folder, where the graft program finds them by $ORIGIN.
function(graft_add_library name kind)
  cmake_parse_arguments(PARSE_ARGV 2 arg "CALLER" "PCH" "SOURCES")
  add_library(${name} ${kind} ${arg_SOURCES})
  # GRAFT_API needs no macro of CMake's, which would bar the shared precompiled header.
  set_target_properties(${name} PROPERTIES
    DEFINE_SYMBOL "" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  target_link_libraries(${name} PRIVATE GraftTorch::openmp)
  if(arg_CALLER)
    graft_is_caller(${name})
  endif()
  graft_use_pch(${name} "${arg_PCH}")
endfunction()

# graft_add_executable(NAME FOLDER [INTERNALS] [PCH NAME | CALLER] SOURCES FILE...): a program in FOLDER of the build
# folder; INTERNALS: one that uses what libgraft.so does not export.
function(graft_add_executable name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "INTERNALS;CALLER" "PCH" "SOURCES")
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}"
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  if(arg_INTERNALS)
    graft_use_internals(${name})
  endif()
  target_link_libraries(${name} PRIVATE graft GraftTorch::openmp)
  add_dependencies(${name} graft_runtime)
  if(arg_CALLER)
    graft_is_caller(${name})
  endif()
  graft_use_pch(${name} "${arg_PCH}")
endfunction()

# graft_link_if_there(TARGET LIBRARY...): links those that have sources so far.
function(graft_link_if_there target)
  foreach(library IN LISTS ARGN)
    if(TARGET ${library})
      target_link_libraries(${target} PRIVATE ${library})
    endif()
  endforeach()
endfunction()

graft_pch(graft_pch src/pch.h)
graft_pch(graft_middle_pch src/ir/pch.h)
if(TARGET LLVM)
  graft_pch(graft_llvm_pch src/codegen/llvm/pch.h FEW)
  if(TARGET graft_llvm_pch)
    target_include_directories(graft_llvm_pch SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(graft_llvm_pch PRIVATE ${graft_llvm_definitions})
  endif()
endif()
graft_pch(graft_torch_pch workloads/pch.h)
if(TARGET graft_torch_pch)
  target_compile_options(graft_torch_pch PRIVATE $<$<CONFIG:Release>:-O1>)
endif()
