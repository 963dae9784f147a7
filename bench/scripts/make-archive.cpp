// Writes archives of the `digest` scenario through PCP's own import library, the same bytes of data each time.
// usage: make-archive BASE           1,688 metric-instances (72 metrics with one value, 101 with sixteen instances),
//                                    one record each 12 s for 6 h
//        make-archive FOLDER COUNT   COUNT archives, each of 100 metric-instances, one record each 60 s for 6 h
#include "kit.hpp"

#include <pcp/pmapi.h>

#include <pcp/import.h>

namespace {

constexpr int start_s = 1'425'308'400; // 2015-03-02 15:00 UTC, the time of the seed's archive
constexpr int seconds = 6 * 3'600;
constexpr int instance_count = 16, domain = 245;

/// The size of an archive, and the seed of its numbers.
struct Shape {
    int metric_count, step_s;
    uint64_t seed;
};

void need(int status) {
    if (status < 0)
        kit::refuse(std::string("libpcp_import: ") + pmiErrStr(status));
}

/// Three of five metrics have instances, 101 in all.
bool has_instances(int number) { return number % 5 < 3 && number < 167; }

/// The kind of a metric, by its number, so that each kind occurs among a few hundred.
struct Kind {
    int type, semantics;
};

constexpr Kind kinds[] = {
    {PM_TYPE_U32, PM_SEM_COUNTER},  {PM_TYPE_U64, PM_SEM_COUNTER}, {PM_TYPE_U64, PM_SEM_INSTANT},
    {PM_TYPE_DOUBLE, PM_SEM_INSTANT}, {PM_TYPE_64, PM_SEM_INSTANT},  {PM_TYPE_U64, PM_SEM_COUNTER},
    {PM_TYPE_U32, PM_SEM_DISCRETE}, {PM_TYPE_32, PM_SEM_INSTANT},
};

/// One metric-instance: its handle, and how its value changes.
class Series {
public:
    Series(int handle, Kind kind, uint64_t seed) : handle(handle), kind(kind), random(seed) {
        value = kind.semantics == PM_SEM_COUNTER ? random.next() % 1'000'000 : 500'000;
    }

    void put() {
        char text[32];
        if (kind.type == PM_TYPE_DOUBLE)
            std::snprintf(text, sizeof text, "%.3f", double(value) / 1e3);
        else
            std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
        need(pmiPutValueHandle(handle, text));
        advance();
    }

private:
    void advance() {
        const uint64_t draw = random.next();
        if (kind.semantics == PM_SEM_COUNTER)
            value += draw % 20'000;
        else if (kind.semantics == PM_SEM_INSTANT)
            value = std::min<uint64_t>(1'000'000, std::max<uint64_t>(2'001, value) + draw % 4'001 - 2'000);
        else if (draw % 240 == 0)
            value = draw >> 48;
    }

    int handle;
    Kind kind;
    kit::Random random;
    uint64_t value;
};

std::string add_metric(int number) {
    char name[32];
    std::snprintf(name, sizeof name, "busyhour.m%04d", number);
    const Kind kind = kinds[number % std::size(kinds)];
    const pmInDom indom = has_instances(number) ? pmiInDom(domain, number + 1) : PM_INDOM_NULL;
    need(pmiAddMetric(name, pmiID(domain, number / 1'000, number % 1'000), kind.type, indom, kind.semantics,
                      pmiUnits(0, 0, 1, 0, 0, PM_COUNT_ONE)));
    if (has_instances(number))
        for (int instance = 0; instance < instance_count; instance++)
            need(pmiAddInstance(indom, ("unit-" + std::to_string(instance)).c_str(), instance));
    return name;
}

std::vector<Series> all_series(const Shape &shape) {
    std::vector<Series> series;
    const auto add = [&](int number, const std::string &name, const char *instance) {
        const int handle = pmiGetHandle(name.c_str(), instance);
        need(handle);
        series.emplace_back(handle, kinds[number % std::size(kinds)], shape.seed + series.size());
    };
    for (int number = 0; number < shape.metric_count; number++) {
        const std::string name = add_metric(number);
        if (!has_instances(number))
            add(number, name, "");
        else
            for (int instance = 0; instance < instance_count; instance++)
                add(number, name, ("unit-" + std::to_string(instance)).c_str());
    }
    return series;
}

size_t write(const std::string &base, const Shape &shape) {
    need(pmiStart(base.c_str(), 0));
    need(pmiSetHostname("busyhour"));
    need(pmiSetTimezone("UTC"));
    std::vector<Series> series = all_series(shape);
    for (int second = 0; second <= seconds; second += shape.step_s) {
        for (Series &one : series)
            one.put();
        need(pmiWrite(start_s + second, 0));
    }
    need(pmiEnd());
    return series.size();
}

void write_folder(const std::string &folder, int count) {
    for (int number = 0; number < count; number++) {
        char name[16];
        std::snprintf(name, sizeof name, "/%04d", number);
        write(folder + name, {10, 60, uint64_t(number) << 32});
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 3)
        write_folder(argv[1], std::atoi(argv[2]));
    else if (argc == 2)
        std::printf("%zu metric-instances\n", write(argv[1], {173, 12, 0}));
    else
        kit::refuse("usage: make-archive BASE, or make-archive FOLDER COUNT");
}
