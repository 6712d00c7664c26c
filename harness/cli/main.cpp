#include "harness/cli/sluice_main.h"

int main(int argc, char** argv) { return sluice::sluice_main(argc, argv); }
