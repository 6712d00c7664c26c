# cmake --install BUILD --prefix P: P/bin/sluice, which runs from any place, with the files that it reads in
# P/share/sluice and the part that trains in P/lib/sluice; and for C++ projects of one's own
# find_package(sluice) -> sluice::core, with headers in P/include/sluice (harness/install/README.md).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sluice DESTINATION bin)
if(SLUICE_TORCH)
  install(TARGETS sluice_training LIBRARY DESTINATION lib/sluice)
endif()
# What the program reads. The commit stands in a file, as there is no repository to ask (harness/run/environment.cpp).
install(DIRECTORY workloads harness/sweeps plots results DESTINATION share/sluice
        FILES_MATCHING REGEX "\\.(json|jsonl|csv|txt|ya?ml|py|html|css|js|md|mplstyle)$" REGEX "/(fetch|LICENSE[^/]*)$"
        REGEX "/(testdata|runs|out|__pycache__)$" EXCLUDE)
install(DIRECTORY harness/sweeps DESTINATION share/sluice/harness)
install(CODE "
  execute_process(COMMAND git -C \"${CMAKE_SOURCE_DIR}\" describe --always --dirty
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT commit)
    set(commit unknown)
  endif()
  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/sluice/commit\" \"\${commit}\\n\")
")

# The rooms up to the virtual clock, the planners' tools and all systems.
set(rooms base model pipeline program sim plan systems)
add_library(sluice_core INTERFACE)
set_target_properties(sluice_core PROPERTIES EXPORT_NAME core)
set(targets sluice_flags sluice_core)
foreach(room ${rooms})
  target_link_libraries(sluice_core INTERFACE sluice_${room})
  list(APPEND targets sluice_${room})
  if(NOT room STREQUAL systems)
    install(DIRECTORY harness/${room} DESTINATION include/sluice/harness
            FILES_MATCHING PATTERN "*.h" PATTERN "testdata" EXCLUDE)
  endif()
endforeach()
install(TARGETS ${targets} EXPORT sluice DESTINATION lib)
install(EXPORT sluice NAMESPACE sluice:: DESTINATION lib/cmake/sluice FILE sluice_targets.cmake)
configure_package_config_file(harness/install/sluice-config.cmake.in generated/sluice-config.cmake
                              INSTALL_DESTINATION lib/cmake/sluice)
write_basic_package_version_file(generated/sluice-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/sluice-config.cmake
              ${CMAKE_BINARY_DIR}/generated/sluice-config-version.cmake DESTINATION lib/cmake/sluice)

if(SLUICE_TESTS AND Python3_FOUND AND NOT SLUICE_SANITIZE)
  set(here ${CMAKE_CURRENT_LIST_DIR})
  add_test(NAME install.a_moved_installation_runs_and_is_found_by_other_projects
           COMMAND ${Python3_EXECUTABLE} ${here}/install_test.py ${CMAKE_BINARY_DIR} $<TARGET_FILE:sluice>
                   ${CMAKE_CXX_COMPILER})
  add_test(NAME install.systems_of_other_folders_are_in_the_table
           COMMAND ${Python3_EXECUTABLE} ${here}/extra_systems_test.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:sluice>
                   ${CMAKE_CXX_COMPILER})
endif()
