import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.atomic.AtomicLong;

/** ForkJoinPool in its first-in-first-out mode, which its documentation advises for tasks that are never joined. */
public final class Main {
    private static final int INITIAL_TASKS = 200;

    /** Fields of a superclass, of the class, and of a subclass are laid out in this order: the counter has its own lines. */
    private static class Before {
        long p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15;
    }

    private static class Counted extends Before {
        volatile long counter;
        private static final java.util.concurrent.atomic.AtomicLongFieldUpdater<Counted> COUNTER =
                java.util.concurrent.atomic.AtomicLongFieldUpdater.newUpdater(Counted.class, "counter");

        void add() {
            COUNTER.incrementAndGet(this);
        }
    }

    private static final class Load extends Counted {
        long q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15;
        volatile boolean stop;
        final AtomicLong tasks = new AtomicLong();
        final AtomicLong ended = new AtomicLong();
    }

    private static final class Again implements Runnable {
        private final ForkJoinPool pool;
        private final Load load;
        private final long ownCount;

        Again(ForkJoinPool pool, Load load, long ownCount) {
            this.pool = pool;
            this.load = load;
            this.ownCount = ownCount;
        }

        @Override
        public void run() {
            load.add();
            if (load.stop) {
                load.tasks.addAndGet(ownCount);
                load.ended.incrementAndGet();
            } else {
                pool.execute(new Again(pool, load, ownCount + 1));
            }
        }
    }

    public static void main(String[] args) throws InterruptedException {
        int workers = (int) number(args, "workers");
        ForkJoinPool pool =
                new ForkJoinPool(workers, ForkJoinPool.defaultForkJoinWorkerThreadFactory, null, true);
        switch (args[0]) {
            case "pool-requeue" -> requeue(pool, number(args, "ms"));
            case "pool-external" -> external(pool, number(args, "n"));
            default -> refuse("no scenario " + args[0]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void requeue(ForkJoinPool pool, long ms) throws InterruptedException {
        // A first run, which is not measured, lets the compiler optimise.
        run(pool, Math.max(ms / 2, 20));
        Load load = new Load();
        double rate = run(pool, ms, load);
        figure("tasks_per_s", rate);
        System.out.printf("{\"checks\":{\"counter\":%d,\"tasks\":%d,\"overlaps\":0}}%n", load.counter, load.tasks.get());
    }

    private static double run(ForkJoinPool pool, long ms) throws InterruptedException {
        return run(pool, ms, new Load());
    }

    private static double run(ForkJoinPool pool, long ms, Load load) throws InterruptedException {
        for (int i = 0; i < INITIAL_TASKS; i++) {
            pool.execute(new Again(pool, load, 1));
        }
        long begin = System.nanoTime();
        long before = load.counter;
        Thread.sleep(ms);
        double rate = (load.counter - before) * 1e9 / (System.nanoTime() - begin);
        load.stop = true;
        while (load.ended.get() < INITIAL_TASKS) {
            Thread.sleep(1);
        }
        return rate;
    }

    private static void external(ForkJoinPool pool, long n) {
        Load warm = new Load();
        push(pool, Math.min(n, 200_000), warm);
        Load load = new Load();
        long begin = System.nanoTime();
        push(pool, n, load);
        figure("tasks_per_s", n * 1e9 / (System.nanoTime() - begin));
        System.out.printf("{\"checks\":{\"counter\":%d}}%n", load.counter);
    }

    private static void push(ForkJoinPool pool, long n, Load load) {
        for (long i = 0; i < n; i++) {
            pool.execute(load::add);
        }
        while (load.counter < n) {
            Thread.yield();
        }
    }

    private static void figure(String metric, double value) {
        System.out.printf(java.util.Locale.ROOT, "{\"metric\":\"%s\",\"value\":%.4f}%n", metric, value);
    }

    private static long number(String[] args, String key) {
        for (String word : args) {
            if (word.startsWith(key + "=")) {
                return Long.parseLong(word.substring(key.length() + 1));
            }
        }
        refuse("parameter " + key + "=NUMBER is missing");
        return 0;
    }

    private static void refuse(String why) {
        System.err.println(why);
        System.exit(3);
    }
}
