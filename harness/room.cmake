# sluice_room(NAME [COLD] [UNSANITIZED] [LIBRARIES lib...] [TEST_LIBRARIES lib...] [SUBFOLDERS folder...]
#             [COMMON_HEADERS header...] [TEST_COMMON_HEADERS header...]): the folder of the calling
# CMakeLists.txt as one static library, sluice_NAME, with its tests in one program, NAME_test, and its benchmarks in
# another, NAME_bench. Tests are in the folder of what they test, so the end of a file's name says what it is:
#   _test.cpp _bench.cpp          of this process
#   _mpi_test.cpp _mpi_bench.cpp  started as the processes of an MPI job, with 2 and with 4 of them
#   _oracle_test.cpp              needs Boost's headers, for an answer to compare with
#   ..._training_test.cpp, ...    trains for real: needs LibTorch, and is in a program of its own, NAME_training_test
#   cuda_*.cpp                    needs CUDA: harness/exec/torch/cuda
#   main.cpp                      is a program's own
# COLD: nothing in it is slow, so that a fast compilation (-O1) is worth more than fast code.
# UNSANITIZED: the tests of this process are built without sanitizers only.
# COMMON_HEADERS, TEST_COMMON_HEADERS: to precompile for the room's library or tests instead of those of all rooms.
function(sluice_room name)
  cmake_parse_arguments(room "COLD;UNSANITIZED" ""
                        "LIBRARIES;TEST_LIBRARIES;SUBFOLDERS;COMMON_HEADERS;TEST_COMMON_HEADERS" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(folder ${room_SUBFOLDERS})
    get_filename_component(folder ${folder} ABSOLUTE)
    list(APPEND patterns ${folder}/*.cpp)
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  list(FILTER files EXCLUDE REGEX "/(cuda_[a-z_]*|main)\\.cpp$")
  if(NOT SLUICE_TORCH)
    list(FILTER files EXCLUDE REGEX "_training_[a-z_]*\\.cpp$")
  endif()
  foreach(kind oracle_test mpi_test mpi_bench training_test training_bench test bench)
    set(${kind} ${files})
    list(FILTER ${kind} INCLUDE REGEX "_${kind}\\.cpp$")
    list(FILTER files EXCLUDE REGEX "_${kind}\\.cpp$")
  endforeach()
  if(SLUICE_BOOST_DIR)
    list(APPEND test ${oracle_test})
  endif()
  if(room_UNSANITIZED AND SLUICE_SANITIZE OR NOT room_UNSANITIZED AND NOT SLUICE_TORCH_FREE_TESTS)
    set(test)
  endif()
  set(library)
  if(files)
    set(library sluice_${name})
    add_library(${library} STATIC ${files})
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${library} PUBLIC sluice_flags ${room_LIBRARIES})
    if(room_COLD)
      target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    sluice_common_headers(${library} product ${room_COMMON_HEADERS})
    sluice_together(${library})
  endif()
  set(libraries ${library} ${room_TEST_LIBRARIES} sluice_flags)
  set(training_libraries ${libraries})
  if(SLUICE_TORCH)
    list(APPEND training_libraries sluice_training_object)
  endif()
  foreach(kind test training_test)
    if(SLUICE_TESTS AND ${kind})
      set(program ${name}_${kind})
      add_executable(${program} ${${kind}})
      string(REPLACE test libraries own_libraries ${kind})
      target_link_libraries(${program} PRIVATE ${${own_libraries}})
      sluice_together(${program})
      sluice_test_program(${program} ${room_TEST_COMMON_HEADERS})
      sluice_add_test_shards(${program})
    endif()
  endforeach()
  foreach(kind bench training_bench)
    if(SLUICE_BENCHMARKS AND ${kind})
      add_executable(${name}_${kind} ${${kind}})
      string(REPLACE bench libraries own_libraries ${kind})
      target_link_libraries(${name}_${kind} PRIVATE ${${own_libraries}} benchmark::benchmark_main)
      sluice_common_headers(${name}_${kind} product)
    endif()
  endforeach()
  if(MPI_CXX_FOUND AND SLUICE_TESTS AND NOT SLUICE_SANITIZE AND mpi_test)
    add_executable(${name}_mpi_test ${mpi_test})
    target_link_libraries(${name}_mpi_test PRIVATE ${training_libraries} rapidcheck GTest::gtest)
    target_compile_options(${name}_mpi_test PRIVATE -O0)
    sluice_mpi_test(${name} 2 0)
    sluice_mpi_test(${name} 4 0)
    sluice_mpi_test(${name} 4 1)
  endif()
  if(MPI_CXX_FOUND AND SLUICE_BENCHMARKS AND mpi_bench)  # which has a main of its own
    add_executable(${name}_mpi_bench ${mpi_bench})
    target_link_libraries(${name}_mpi_bench PRIVATE ${libraries} benchmark::benchmark)
    sluice_common_headers(${name}_mpi_bench product)
  endif()
endfunction()

# sluice_embed(TARGET FOLDER TABLE): the files of a folder are built into the target, which finds them in TABLE
# (base/embedded_files.h).
function(sluice_embed target folder table)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(embedded ${CMAKE_BINARY_DIR}/generated/${folder}_files.cpp)
  set(script ${CMAKE_SOURCE_DIR}/harness/embed_files.cmake)
  add_custom_command(OUTPUT ${embedded} DEPENDS ${files} ${script}
                     COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}/${folder} -DTABLE=${table}
                             -DOUTPUT=${embedded} -P ${script})
  target_sources(${target} PRIVATE ${embedded})
  set_source_files_properties(${embedded} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# sluice_require_name(FILE NAME PATTERN WHAT): a file that a table is made from has a name that a variable can have, and
# holds what the table names: one message here instead of the linker's.
function(sluice_require_name file name pattern what)
  file(RELATIVE_PATH shown ${CMAKE_SOURCE_DIR} ${file})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${shown}: '${name}' is not a name: use lower-case letters, digits and _, a letter first")
  endif()
  file(READ ${file} content)
  if(NOT content MATCHES "${pattern}")
    message(FATAL_ERROR "${shown}: must define '${what}': the variable is named as its file")
  endif()
endfunction()

# Headers that most files read and that cost seconds each are parsed once for the products and once for the tests.
# kind: product or test, which are compiled with other options; further arguments: headers for this target alone.
function(sluice_common_headers target kind)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    return()
  endif()
  if(NOT TARGET sluice_${kind}_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${kind}_headers.cpp CONTENT "")
    add_library(sluice_${kind}_headers STATIC ${CMAKE_BINARY_DIR}/generated/${kind}_headers.cpp)
    target_link_libraries(sluice_${kind}_headers PRIVATE sluice_flags fmt::fmt)
    set(headers <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <set> <string>
                <vector>)
    if("${kind}" STREQUAL "test")
      target_link_libraries(sluice_test_headers PRIVATE rapidcheck GTest::gtest)
      target_compile_options(sluice_test_headers PRIVATE -O0)
      list(APPEND headers <gtest/gtest.h> <rapidcheck/gtest.h>)
    endif()
    target_precompile_headers(sluice_${kind}_headers PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM sluice_${kind}_headers)
endfunction()

# Six files of a room go through the compiler as one, which takes about half the time: what their headers instantiate is
# compiled once for all six. So names in anonymous namespaces differ within a room. -DSLUICE_TOGETHER=OFF: each alone.
function(sluice_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SLUICE_TOGETHER} UNITY_BUILD_BATCH_SIZE 6)
endfunction()

# Tests are compiled without optimisation: compiling them takes longer than running them.
function(sluice_test_program target)  # further arguments: as of sluice_common_headers
  target_link_libraries(${target} PRIVATE rapidcheck GTest::gtest_main)
  target_compile_options(${target} PRIVATE -O0)
  sluice_common_headers(${target} test ${ARGN})
endfunction()

# PROGRAM.1_of_8, ...: a process for every eighth test of a program, since one for every test would start 3,000.
# RC_PARAMS: properties draw the same inputs everywhere; a program that is started by hand draws others each time.
function(sluice_add_test_shards program)
  foreach(index RANGE 7)
    math(EXPR number "${index} + 1")
    add_test(NAME ${program}.${number}_of_8 COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${program}.${number}_of_8 PROPERTIES TIMEOUT 1800 ENVIRONMENT
                         "RC_PARAMS=seed=2026;GTEST_TOTAL_SHARDS=8;GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

function(sluice_mpi_test name processes helper)
  set(test mpi.${name}_with_${processes}_processes)
  if(helper)
    string(APPEND test _and_helpers)
  endif()
  if(MPIEXEC_EXECUTABLE)
    add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${processes}
                                  $<TARGET_FILE:${name}_mpi_test>)
  else()
    add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "no mpirun on this machine")
  endif()
  set(environment OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
                  SLUICE_MPI_HELPER=${helper})
  set_tests_properties(${test} PROPERTIES TIMEOUT 1800 PROCESSORS ${processes} ENVIRONMENT "${environment}")
  # A machine without any network, not even to itself: no program of MPI starts there.
  set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "no mpirun;PMIx server's listener thread failed")
endfunction()
