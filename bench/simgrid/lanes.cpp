// Jobs in lanes on cores, for SimGrid: what `cargo xtask bench simgrid` runs for comparison with the simulator of evenkeel.
//
//   lanes CORES LANES actors|activities < nanoseconds of CPU time of each job, a line each
//
// Job n belongs to lane n % (CORES * LANES), and lane l to core l % CORES. Each lane does its jobs one
// after the other, and the lanes of a core share it evenly. Prints the CPU seconds that it took, then when each
// job ended, in seconds, a line each.

#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

static double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  if (argc != 4) {
    std::cerr << "write CORES LANES actors|activities\n";
    return 2;
  }
  const size_t n_cores = std::stoul(argv[1]), n_lanes = n_cores * std::stoul(argv[2]);
  const bool by_actors = std::string(argv[3]) == "actors";
  std::vector<double> length_ns;
  for (double ns; std::cin >> ns;) length_ns.push_back(ns);
  const size_t n_jobs = length_ns.size();
  std::vector<double> end_s(n_jobs, -1.0);

  const double begin = cpu_seconds();
  auto* zone = sg4::create_full_zone("machine");
  std::vector<sg4::Host*> cores;
  for (size_t core = 0; core < n_cores; core++)
    cores.push_back(zone->create_host("core" + std::to_string(core), 1e9)->seal());
  zone->seal();

  if (by_actors) {
    for (size_t lane = 0; lane < n_lanes && lane < n_jobs; lane++)
      sg4::Actor::create("lane", cores[lane % n_cores], [&, lane] {
        for (size_t job = lane; job < n_jobs; job += n_lanes) {
          sg4::this_actor::execute(length_ns[job]);
          end_s[job] = sg4::Engine::get_clock();
        }
      });
    engine.run();
  } else {
    std::vector<sg4::ExecPtr> jobs;
    jobs.reserve(n_jobs);
    for (size_t job = 0; job < n_jobs; job++) {
      auto exec = sg4::Exec::init()->set_flops_amount(length_ns[job])->set_host(cores[job % n_lanes % n_cores]);
      if (n_lanes <= job) jobs[job - n_lanes]->add_successor(exec);
      jobs.push_back(exec);
    }
    for (auto& exec : jobs) exec->vetoable_start();
    engine.run();
    for (size_t job = 0; job < n_jobs; job++) end_s[job] = jobs[job]->get_finish_time();
  }
  std::cout.precision(17);
  std::cout << cpu_seconds() - begin << '\n';
  for (double end : end_s) std::cout << end << '\n';
  return 0;
}
