# What Graft's shared libraries export: the names marked GRAFT_API in include/graft, and nothing else.
#
# The sources are compiled with visible symbols and the linker hides them. So the same objects make a
# second libgraft.so that exports everything, for tests and benchmarks of what lies inside.

# graft_export(TARGET [HEADERS FILE...] [PATTERNS PATTERN...] [C NAME...])
# Exports what the headers mark, C++ names that match a pattern of ld's, and C names.
function(graft_export target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;PATTERNS;C")
  set(patterns ${arg_PATTERNS})
  foreach(header IN LISTS arg_HEADERS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
    set(scope)
    file(STRINGS "${header}" lines REGEX "^namespace |[^_]GRAFT_API |^GRAFT_API ")
    foreach(line IN LISTS lines)
      if(line MATCHES "^namespace ([A-Za-z_:]+)")
        set(scope "${CMAKE_MATCH_1}")
      elseif(line MATCHES "(class|struct) GRAFT_API ([A-Za-z]+)")
        set(name "${scope}::${CMAKE_MATCH_2}")
        list(APPEND patterns "${name}::*" "typeinfo?for?${name}" "typeinfo?name?for?${name}" "vtable?for?${name}")
      elseif(line MATCHES "operator<<")
        list(APPEND patterns "${scope}::operator*")
      elseif(line MATCHES "^ *(friend )?GRAFT_API .*[ &*]([a-z_]+)[(]")
        list(APPEND patterns "${scope}::${CMAKE_MATCH_2}?*")
      endif()
    endforeach()
  endforeach()

  set(map "{\n  global:\n")
  foreach(name IN LISTS arg_C)
    string(APPEND map "    ${name};\n")
  endforeach()
  if(patterns)
    list(JOIN patterns ";\n      " patterns)
    string(APPEND map "    extern \"C++\" {\n      ${patterns};\n    };\n")
  endif()
  string(APPEND map "  local: *;\n};\n")
  set(file "${PROJECT_BINARY_DIR}/exports/${target}.map")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${map}" @ONLY)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${file}")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${file}")
endfunction()

# graft_internals: libgraft.so from the same objects with everything exported. It takes the place of
# the real one by its name: of two libraries with one name, a program has the first.
function(graft_add_internals)
  add_library(graft_internals SHARED EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:graft> $<TARGET_OBJECTS:graft_middle>)
  get_target_property(soversion graft SOVERSION)
  set_target_properties(graft_internals PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME graft VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/internals")
  target_link_libraries(graft_internals
    PUBLIC GraftTorch::torch PRIVATE GraftTorch::openmp ${CMAKE_DL_LIBS})
  if(TARGET graft_llvm)  # is looked for beside it
    add_custom_command(TARGET graft_internals POST_BUILD COMMAND "${CMAKE_COMMAND}" -E create_symlink
      "../$<TARGET_FILE_NAME:graft_llvm>" "${PROJECT_BINARY_DIR}/internals/$<TARGET_FILE_NAME:graft_llvm>")
  endif()
endfunction()

function(graft_use_internals target)
  target_link_libraries(${target} PRIVATE graft_internals)
  # CMake itself finds no order of folders where two hold a library of one name.
  set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
  target_link_options(${target} PRIVATE
    "LINKER:-rpath,${PROJECT_BINARY_DIR}/internals:${PROJECT_BINARY_DIR}:${GraftTorch_ROOT}/lib")
endfunction()
