# Installs the library, its LLVM module, the headers, the command, and a relocatable package.

include(CMakePackageConfigHelpers)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Graft")

if(TARGET graft)
  install(TARGETS graft EXPORT GraftTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(DIRECTORY include/graft DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")
  install(EXPORT GraftTargets NAMESPACE Graft:: DESTINATION "${_package_dir}")

  configure_package_config_file(cmake/GraftConfig.cmake.in "${PROJECT_BINARY_DIR}/GraftConfig.cmake"
    INSTALL_DESTINATION "${_package_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/GraftConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES
    "${PROJECT_BINARY_DIR}/GraftConfig.cmake" "${PROJECT_BINARY_DIR}/GraftConfigVersion.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/FindGraftTorch.cmake"
    DESTINATION "${_package_dir}")
endif()
if(TARGET graft_llvm)
  install(TARGETS graft_llvm LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET graft_systems)
  install(TARGETS graft_systems EXPORT GraftTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET graft_cli)
  install(TARGETS graft_command EXPORT GraftTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS graft_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
