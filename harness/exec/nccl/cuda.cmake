# The program with CUDA, sluice-cuda, and its tests. It is `sluice` and the files cuda_*.cpp besides, whose functions take
# the place of those that refuse (harness/exec/torch/rank_device.cpp). A program of its own, because loading CUDA's
# libraries takes seconds and needs all of them: everything else stays as it is, and `sluice` hands runs for a GPU over.
#
# What it needs: CUDA's headers from the toolkit; the CUDA runtime and NCCL, header
# and library, from the wheels beside torch's. The toolkit may be of another minor version than the one torch was built
# with (CUDA keeps both ways compatible within a major version); NCCL does not, so its wheel comes first everywhere.
get_filename_component(site_packages "${torch_dir}" DIRECTORY)
if(NOT EXISTS "${torch_dir}/lib/libtorch_cuda.so")
  message(FATAL_ERROR "SLUICE_CUDA=ON needs a torch wheel built for CUDA (no libtorch_cuda.so in '${torch_dir}/lib')")
endif()
find_path(SLUICE_CUDA_INCLUDE cuda_runtime_api.h PATHS $ENV{CUDA_HOME}/include /usr/local/cuda/include NO_DEFAULT_PATH
          DOC "The CUDA toolkit's headers")
if(NOT SLUICE_CUDA_INCLUDE)
  message(FATAL_ERROR "SLUICE_CUDA=ON needs the CUDA toolkit: no cuda_runtime_api.h under $CUDA_HOME or /usr/local/cuda; "
                      "set CUDA_HOME, or build without: -DSLUICE_CUDA=OFF")
endif()
file(STRINGS ${SLUICE_CUDA_INCLUDE}/cuda_runtime_api.h toolkit_version REGEX "define CUDART_VERSION +[0-9]+")
string(REGEX MATCH "[0-9]+$" toolkit_version "${toolkit_version}")
math(EXPR toolkit_major "${toolkit_version} / 1000")
file(STRINGS ${torch_dir}/version.py torch_cuda REGEX "^cuda: ")
if(NOT torch_cuda MATCHES "'${toolkit_major}[.]")
  message(FATAL_ERROR "The CUDA toolkit is of version ${toolkit_major}, but torch says ${torch_cuda}; "
                      "set CUDA_HOME to a toolkit of that major version")
endif()

set(nccl_folder "${site_packages}/nvidia/nccl")
file(GLOB cudart ${site_packages}/nvidia/cu${toolkit_major}/lib/libcudart.so.${toolkit_major}
     ${site_packages}/nvidia/cuda_runtime/lib/libcudart.so.${toolkit_major})
foreach(needed "${nccl_folder}/include/nccl.h" "${nccl_folder}/lib/libnccl.so.2" "${cudart}")
  if(NOT EXISTS "${needed}")
    message(FATAL_ERROR "SLUICE_CUDA=ON needs torch's own CUDA libraries ('${needed}' is missing). "
                        "SLUICE_CUDA=1 ./quickstart installs them; by hand: pip install torch without --no-deps")
  endif()
endforeach()
get_filename_component(cudart_folder ${cudart} DIRECTORY)

add_library(cuda_wheels INTERFACE)
# -isystem in this order: toolkits bring an nccl.h too.
target_include_directories(cuda_wheels SYSTEM INTERFACE ${nccl_folder}/include ${SLUICE_CUDA_INCLUDE})
target_link_libraries(cuda_wheels INTERFACE ${nccl_folder}/lib/libnccl.so.2 ${cudart})
target_link_options(cuda_wheels INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${nccl_folder}/lib -Wl,-rpath,${cudart_folder})
file(STRINGS ${nccl_folder}/include/nccl.h nccl_version REGEX "define NCCL_VERSION_CODE")
message(STATUS "CUDA: toolkit ${toolkit_version}, torch's ${torch_cuda}, ${nccl_version}")

file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/exec/*/cuda_*.cpp)
file(GLOB cuda_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/*/cuda_*_test.cpp ${CMAKE_SOURCE_DIR}/harness/exec/*/cuda_*_test.cpp)
file(GLOB cuda_benchmarks CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/exec/*/cuda_*_bench.cpp)
list(FILTER cuda_sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
add_library(sluice_with_cuda OBJECT ${cuda_sources})
target_link_libraries(sluice_with_cuda PUBLIC sluice_run sluice_nccl cuda_wheels torch_wheel -Wl,--no-as-needed
                      ${torch_dir}/lib/libtorch_cuda.so ${torch_dir}/lib/libc10_cuda.so)
function(sluice_cuda_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE sluice_with_cuda)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
sluice_cuda_program(sluice-cuda)
target_link_libraries(sluice-cuda PRIVATE sluice_cli)
if(SLUICE_TESTS)
  sluice_cuda_program(cuda_test ${cuda_tests})
  target_link_libraries(cuda_test PRIVATE rapidcheck GTest::gtest_main)
  target_compile_options(cuda_test PRIVATE -O0)
endif()
if(SLUICE_BENCHMARKS AND cuda_benchmarks)
  sluice_cuda_program(cuda_bench ${cuda_benchmarks})
  target_link_libraries(cuda_bench PRIVATE benchmark::benchmark_main)
endif()
