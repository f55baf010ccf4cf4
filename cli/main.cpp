#include <graft/workload.h>

int main(int argc, char** argv) {
  return graft::run_command(argc, argv);
}
