// The version of Graft. The build and the package read it from here.
#pragma once

#define GRAFT_VERSION_MAJOR 0
#define GRAFT_VERSION_MINOR 1
#define GRAFT_VERSION_PATCH 0
/// "0.1.0"
#define GRAFT_VERSION "0.1.0"
