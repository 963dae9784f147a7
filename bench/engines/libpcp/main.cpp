// libpcp of the Performance Co-Pilot.
#include "scenarios.hpp"

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    const std::string variant = args.plain(0), scenario = args.plain(1);
    if (scenario == "buffers")
        run_buffers(args);
    else if (scenario == "digest")
        run_digest(args, variant == "together");
    else if (scenario == "digest-folder")
        run_digest_folder(args);
    else
        kit::refuse("no scenario " + scenario);
}
