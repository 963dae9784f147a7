// Go's scheduler, channels and timers.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type random uint64

func (r *random) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

const windowNs = 60_000_000_000

var params = map[string]uint64{}

func figure(metric string, value float64) {
	fmt.Printf("{\"metric\":%q,\"value\":%.4f}\n", metric, value)
}

func checks(pairs ...any) {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, fmt.Sprintf("%q:%d", pairs[i], pairs[i+1]))
	}
	fmt.Printf("{\"checks\":{%s}}\n", strings.Join(parts, ","))
}

// load is the counter that all tasks share, and the number of chains that have ended.
type load struct {
	counter atomic.Uint64
	_       [120]byte
	stop    atomic.Bool
	_       [127]byte
	tasks   atomic.Uint64
	overlap atomic.Uint64
	ended   sync.WaitGroup
}

func (l *load) step() bool {
	l.counter.Add(1)
	return !l.stop.Load()
}

func (l *load) letRun() float64 {
	begin, before := time.Now(), l.counter.Load()
	time.Sleep(time.Duration(params["ms"]) * time.Millisecond)
	count, spent := l.counter.Load()-before, time.Since(begin)
	l.stop.Store(true)
	return float64(count) / spent.Seconds()
}

func (l *load) report(rate float64) {
	figure("tasks_per_s", rate)
	checks("counter", l.counter.Load(), "tasks", l.tasks.Load(), "overlaps", l.overlap.Load())
}

func again(l *load, own uint64) {
	if l.step() {
		go again(l, own+1)
		return
	}
	l.tasks.Add(own)
	l.ended.Done()
}

func requeue() {
	l := &load{}
	l.ended.Add(200)
	for i := 0; i < 200; i++ {
		go again(l, 1)
	}
	rate := l.letRun()
	l.ended.Wait()
	l.report(rate)
}

func external() {
	n := params["n"]
	queue := make(chan func(), 1024)
	l := &load{}
	for i := uint64(0); i < params["workers"]; i++ {
		go func() {
			for task := range queue {
				task()
			}
		}()
	}
	begin := time.Now()
	for i := uint64(0); i < n; i++ {
		queue <- func() { l.counter.Add(1) }
	}
	for l.counter.Load() < n {
		runtime.Gosched()
	}
	figure("tasks_per_s", float64(n)/time.Since(begin).Seconds())
	checks("counter", l.counter.Load())
}

// actor is a serializer: a goroutine that reads a channel.
type actor struct {
	tasks chan func()
	busy  atomic.Bool
	count atomic.Uint64
}

func (a *actor) enter(l *load) bool {
	if a.busy.Load() {
		l.overlap.Add(1)
	}
	a.busy.Store(true)
	a.count.Store(a.count.Load() + 1)
	again := l.step()
	a.busy.Store(false)
	return again
}

func bounce(here, there *actor, l *load) {
	if here.enter(l) {
		there.tasks <- func() { bounce(there, here, l) }
		return
	}
	l.ended.Done()
}

func pingpong() {
	l := &load{}
	actors := make([]*actor, 400)
	for i := range actors {
		a := &actor{tasks: make(chan func(), 4)}
		actors[i] = a
		go func() {
			for task := range a.tasks {
				task()
			}
		}()
	}
	l.ended.Add(200)
	for i := 0; i < 400; i += 2 {
		here, there := actors[i], actors[i+1]
		here.tasks <- func() { bounce(here, there, l) }
	}
	rate := l.letRun()
	l.ended.Wait()
	for _, a := range actors {
		l.tasks.Add(a.count.Load())
	}
	l.report(rate)
}

func runQueue() {
	runtime.GOMAXPROCS(1)
	rq := params["rq"]
	counts := make([]uint64, rq)
	var stop bool
	var ended sync.WaitGroup
	ended.Add(int(rq))
	begin := time.Now()
	for i := range counts {
		go func(i int) {
			for !stop {
				counts[i]++
				if i == 0 && counts[i]%64 == 0 && time.Since(begin) >= time.Duration(params["ms"])*time.Millisecond {
					stop = true
				}
				runtime.Gosched()
			}
			ended.Done()
		}(i)
	}
	ended.Wait()
	spent := time.Since(begin)
	var total, zero uint64
	for _, count := range counts {
		total += count
		if count == 0 {
			zero++
		}
	}
	figure("switch_ns", float64(spent.Nanoseconds())/float64(total))
	checks("switches", total, "zero_work", zero)
}

func timersShared() {
	n, threads := int(params["n"]), int(params["threads"])
	exchange := make([][]*time.Timer, threads)
	var added, done sync.WaitGroup
	var cancelled atomic.Uint64
	added.Add(threads)
	done.Add(threads)
	begin := time.Now()
	for me := 0; me < threads; me++ {
		go func(me int) {
			r := random(params["seed"] + uint64(me))
			for i := 0; i < n; i++ {
				after := time.Minute + time.Duration(r.next()%windowNs)
				exchange[me] = append(exchange[me], time.AfterFunc(after, func() {}))
			}
			added.Done()
			added.Wait()
			for _, timer := range exchange[(me+1)%threads] {
				if timer.Stop() {
					cancelled.Add(1)
				}
			}
			done.Done()
		}(me)
	}
	done.Wait()
	total := uint64(n * threads)
	figure("mtimers_per_s", float64(total)/time.Since(begin).Seconds()/1e6)
	checks("added", total, "cancelled", cancelled.Load(), "remaining", total-cancelled.Load())
}

func main() {
	scenario := ""
	for _, word := range os.Args[1:] {
		key, value, isParam := strings.Cut(word, "=")
		if number, err := strconv.ParseUint(value, 10, 64); isParam && err == nil {
			params[key] = number
		} else {
			scenario = word
		}
	}
	if workers := params["workers"]; workers > 0 {
		runtime.GOMAXPROCS(int(workers))
	}
	run := map[string]func(){
		"pool-requeue": requeue, "pool-external": external, "serializer-pingpong": pingpong,
		"run-queue": runQueue, "timers-shared": timersShared,
	}[scenario]
	if run == nil {
		fmt.Fprintln(os.Stderr, "no scenario", scenario)
		os.Exit(3)
	}
	run()
}
