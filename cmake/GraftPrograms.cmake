# Benchmarks of Graft's own parts, one program per file.

find_package(benchmark QUIET)
graft_sources(bench_sources bench/*.cpp)
# GCC 12 calls its own AVX-512 intrinsics uninitialised (GCC bug 105593).
set_source_files_properties(${bench_sources} PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized)
if(TARGET graft AND TARGET benchmark::benchmark)
  foreach(_file IN LISTS bench_sources)
    get_filename_component(_name "${_file}" NAME_WE)
    graft_add_executable(bench_${_name} bench INTERNALS PCH graft_pch SOURCES "${_file}")
    set_target_properties(bench_${_name} PROPERTIES OUTPUT_NAME ${_name})
    target_include_directories(bench_${_name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
    graft_link_if_there(bench_${_name} graft_workloads graft_lab)
    target_link_libraries(bench_${_name} PRIVATE benchmark::benchmark)
  endforeach()
endif()
