// The program that draws charts: the Python of ./quickstart's private environment, or any with vl-convert-python.
#pragma once

#include "plots/renderer.h"

namespace sluice {

Renderer find_renderer();  // $SLUICE_PYTHON, .venv of the checkout, python3

}  // namespace sluice
