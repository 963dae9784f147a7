// `digest`: archives rendered with pmFetch in interpolation mode: metric by metric, as the seed's program did, or with
// one fetch of all metrics for each step.
#include "scenarios.hpp"

#include <pcp/pmapi.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace {

constexpr const char *archive = "../../data/digest";
constexpr int no_instance = int(PM_IN_NULL);
constexpr int step_s = 60, step_count = 361;

void need(int status, const char *what) {
    if (status < 0)
        kit::refuse(std::string(what) + ": " + pmErrStr(status));
}

/// One metric-instance and its values by step; a missing value is NaN.
struct Series {
    std::string name;
    int instance;
    pmID id = 0;
    pmDesc desc{};
    std::vector<double> values = std::vector<double>(step_count, NAN);
};

std::vector<std::string> metric_names() {
    std::vector<std::string> names;
    const auto note = [](const char *name, void *names) {
        static_cast<std::vector<std::string> *>(names)->emplace_back(name);
    };
    need(pmTraversePMNS_r("busyhour", note, &names), "pmTraversePMNS_r");
    std::sort(names.begin(), names.end());
    return names;
}

/// The first `count` metric-instances, by name, then by instance.
std::vector<Series> choose(size_t count) {
    std::vector<Series> all;
    for (const auto &name : metric_names()) {
        Series series{name, no_instance};
        const char *text = name.c_str();
        need(pmLookupName(1, &text, &series.id), text);
        need(pmLookupDesc(series.id, &series.desc), text);
        std::vector<int> instances{no_instance};
        if (series.desc.indom != PM_INDOM_NULL) {
            int *ids;
            char **labels;
            const int found = pmGetInDomArchive(series.desc.indom, &ids, &labels);
            need(found, text);
            instances.assign(ids, ids + found);
            std::sort(instances.begin(), instances.end());
            std::free(ids);
            std::free(labels);
        }
        for (int instance : instances) {
            series.instance = instance;
            if (all.size() < count)
                all.push_back(series);
        }
    }
    return all;
}

struct timeval open_at_start(const char *path = archive) {
    const int context = pmNewContext(PM_CONTEXT_ARCHIVE, path);
    need(context, path);
    pmLogLabel label;
    need(pmGetArchiveLabel(&label), "pmGetArchiveLabel");
    return label.ll_start;
}

void rewind_to(const struct timeval &start) {
    need(pmSetMode(PM_MODE_INTERP, &start, step_s * 1'000), "pmSetMode");
}

double number(const Series &series, const pmValueSet &set, const pmValue &value) {
    pmAtomValue atom;
    need(pmExtractValue(set.valfmt, &value, series.desc.type, &atom, PM_TYPE_DOUBLE), "pmExtractValue");
    return atom.d;
}

/// A fetch loop over one series; only its instance is in the profile.
void fetch_one(Series &series, const struct timeval &start) {
    if (series.instance != no_instance) {
        need(pmDelProfile(series.desc.indom, 0, nullptr), "pmDelProfile");
        need(pmAddProfile(series.desc.indom, 1, &series.instance), "pmAddProfile");
    }
    rewind_to(start);
    for (int step = 0; step < step_count; step++) {
        pmResult *result;
        need(pmFetch(1, &series.id, &result), "pmFetch");
        if (result->timestamp.tv_sec != start.tv_sec + step * step_s)
            kit::refuse("a result of another time than asked for");
        const pmValueSet &set = *result->vset[0];
        if (set.numval > 0)
            series.values[step] = number(series, set, set.vlist[0]);
        pmFreeResult(result);
    }
}

void loop(std::vector<Series *> share) {
    const auto start = open_at_start();
    for (auto *series : share)
        fetch_one(*series, start);
}

/// One fetch for each step of all series of the thread, in the thread's context.
void fetch_together(const std::vector<Series *> &share, const struct timeval &start) {
    std::vector<pmID> ids;
    for (const auto *series : share)
        if (ids.empty() || ids.back() != series->id)
            ids.push_back(series->id);
    rewind_to(start);
    for (int step = 0; step < step_count; step++) {
        pmResult *result;
        need(pmFetch(int(ids.size()), ids.data(), &result), "pmFetch");
        size_t at = 0;
        for (int place = 0; place < result->numpmid; place++) {
            const pmValueSet &set = *result->vset[place];
            // A thread may have only some of a metric's instances, and the order of the values is not specified.
            for (; at < share.size() && share[at]->id == set.pmid; at++)
                for (int i = 0; i < set.numval; i++)
                    if (share[at]->instance == no_instance || set.vlist[i].inst == share[at]->instance)
                        share[at]->values[step] = number(*share[at], set, set.vlist[i]);
        }
        pmFreeResult(result);
    }
}

void together(std::vector<Series *> share) {
    const auto start = open_at_start();
    fetch_together(share, start);
}

/// Renders all series of one archive of the folder, in a context that is closed afterwards.
std::vector<Series> render(size_t number) {
    char path[64];
    std::snprintf(path, sizeof path, "../../data/archives/%04zu", number);
    const auto start = open_at_start(path);
    std::vector<Series> all = choose(SIZE_MAX);
    std::vector<Series *> share;
    for (auto &series : all)
        share.push_back(&series);
    fetch_together(share, start);
    need(pmDestroyContext(pmWhichContext()), "pmDestroyContext");
    return all;
}

void note(kit::DigestSum &sum, size_t &place, const std::vector<Series> &all) {
    for (const auto &series : all) {
        for (int step = 0; step < step_count; step++)
            sum.add(place, step, series.values[step]);
        place++;
    }
}

void report(double ms, const char *what, size_t count, const kit::DigestSum &sum) {
    kit::Output output;
    output.figure("digest_ms", ms);
    output.check(what, count);
    output.check("values", sum.count);
    output.check_real("sum", sum.sum);
    output.finish();
}

} // namespace

void run_digest(const kit::Args &args, bool is_together) {
    open_at_start();
    std::vector<Series> all = choose(args.number("metrics"));
    const size_t threads = args.number("threads");
    const auto begin = kit::Clock::now();
    std::vector<std::thread> workers;
    for (size_t worker = 0; worker < threads; worker++) {
        std::vector<Series *> share;
        // Neighbours stay together, so that instances of one metric are fetched by one thread.
        for (size_t i = all.size() * worker / threads; i < all.size() * (worker + 1) / threads; i++)
            share.push_back(&all[i]);
        workers.emplace_back(is_together ? together : loop, share);
    }
    for (auto &worker : workers)
        worker.join();
    const double ms = kit::seconds_since(begin) * 1e3;
    kit::DigestSum sum;
    size_t place = 0;
    note(sum, place, all);
    report(ms, "metrics", place, sum);
}

/// Each thread takes the next archive of the folder.
void run_digest_folder(const kit::Args &args) {
    const size_t count = args.number("archives"), threads = args.number("threads");
    std::vector<std::vector<Series>> archives(count);
    std::atomic<size_t> next{0};
    const auto begin = kit::Clock::now();
    std::vector<std::thread> workers;
    for (size_t worker = 0; worker < threads; worker++)
        workers.emplace_back([&] {
            for (size_t number; (number = next++) < count;)
                archives[number] = render(number);
        });
    for (auto &worker : workers)
        worker.join();
    const double ms = kit::seconds_since(begin) * 1e3;
    kit::DigestSum sum;
    size_t place = 0;
    for (const auto &all : archives)
        note(sum, place, all);
    report(ms, "archives", count, sum);
}
