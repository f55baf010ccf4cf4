# Finds libtorch's CPU part, as GraftTorch::torch, and the OpenMP run-time that it uses, as
# GraftTorch::openmp.
#
# find_package(Torch) of a CUDA wheel asks for the CUDA toolkit and links libtorch_cuda; Graft needs
# libtorch_cpu and libc10 alone. Looked for under, in this order: Torch_ROOT, Torch_DIR, the install
# prefix that an earlier find_package(Torch) left, CMAKE_PREFIX_PATH, GRAFT_TORCH_HINT, the system.
#
# Sets GraftTorch_FOUND, GraftTorch_VERSION, GraftTorch_ROOT.

set(_graft_torch_prefixes ${Torch_ROOT} $ENV{Torch_ROOT})
foreach(_dir IN ITEMS "${Torch_DIR}" "$ENV{Torch_DIR}")
  if(_dir)
    get_filename_component(_dir "${_dir}/../../.." ABSOLUTE)
    list(APPEND _graft_torch_prefixes "${_dir}")
  endif()
endforeach()
list(APPEND _graft_torch_prefixes ${TORCH_INSTALL_PREFIX})

# A libtorch among the system's libraries, which may be an old one, comes last.
find_path(GraftTorch_INCLUDE_DIR ATen/record_function.h
  HINTS ${_graft_torch_prefixes} PATHS ${GRAFT_TORCH_HINT} PATH_SUFFIXES include
  NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH)
find_path(GraftTorch_INCLUDE_DIR ATen/record_function.h)

if(GraftTorch_INCLUDE_DIR)
  # Libraries belong to the headers that were found, never to another libtorch of the machine.
  get_filename_component(GraftTorch_ROOT "${GraftTorch_INCLUDE_DIR}/.." ABSOLUTE)
  find_library(GraftTorch_CPU_LIBRARY torch_cpu PATHS "${GraftTorch_ROOT}/lib" NO_DEFAULT_PATH)
  find_library(GraftTorch_C10_LIBRARY c10 PATHS "${GraftTorch_ROOT}/lib" NO_DEFAULT_PATH)
  set(GraftTorch_VERSION "")
  foreach(_header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT GraftTorch_VERSION AND EXISTS "${GraftTorch_INCLUDE_DIR}/${_header}")
      file(STRINGS "${GraftTorch_INCLUDE_DIR}/${_header}" _lines
        REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      list(TRANSFORM _lines REPLACE "[^0-9]" "")
      list(JOIN _lines . GraftTorch_VERSION)
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GraftTorch
  REQUIRED_VARS GraftTorch_CPU_LIBRARY GraftTorch_C10_LIBRARY GraftTorch_INCLUDE_DIR
  VERSION_VAR GraftTorch_VERSION
  REASON_FAILURE_MESSAGE
    "Name a libtorch with -DCMAKE_PREFIX_PATH=<libtorch>. In a checkout of Graft, 'make setup' fetches one.")
mark_as_advanced(GraftTorch_INCLUDE_DIR GraftTorch_CPU_LIBRARY GraftTorch_C10_LIBRARY)

if(GraftTorch_FOUND AND NOT TARGET GraftTorch::torch)
  find_package(Threads REQUIRED)
  add_library(GraftTorch::c10 SHARED IMPORTED)
  set_target_properties(GraftTorch::c10 PROPERTIES IMPORTED_LOCATION "${GraftTorch_C10_LIBRARY}")
  add_library(GraftTorch::torch SHARED IMPORTED)
  set_target_properties(GraftTorch::torch PROPERTIES
    IMPORTED_LOCATION "${GraftTorch_CPU_LIBRARY}"
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "GraftTorch::c10;Threads::Threads"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
      "${GraftTorch_INCLUDE_DIR};${GraftTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_INCLUDE_DIRECTORIES
      "${GraftTorch_INCLUDE_DIR};${GraftTorch_INCLUDE_DIR}/torch/csrc/api/include")

  # Torch's own libgomp where it brings one, or a program would have two pools of threads.
  add_library(GraftTorch::openmp INTERFACE IMPORTED)
  file(GLOB _graft_gomp "${GraftTorch_ROOT}/lib/libgomp*.so*")
  if(_graft_gomp)
    list(GET _graft_gomp 0 _graft_gomp)
    set_target_properties(GraftTorch::openmp PROPERTIES INTERFACE_LINK_LIBRARIES "${_graft_gomp}")
  else()
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set_target_properties(GraftTorch::openmp PROPERTIES INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
  endif()
endif()
