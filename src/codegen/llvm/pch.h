// Precompiled for the code generator's units; no unit may rely on it for an include.
// Not on top of src/pch.h: with ATen's dispatcher in it, it takes twice as long to make.
#pragma once

#include <c10/core/Scalar.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>
