#!/usr/bin/env bash
# What batching would save: the socket calls of a refresh and the journal's writes by io_uring and without it, and many datagrams
# to one address in one call, in programs in C that do nothing else. docs/checks.md says what this gave and what Busyhour does.
#
# usage: scripts/batching.sh [all|sockets|journal|datagrams] [FOLDER]
#
# sockets: datagrams of 420 bytes that are answered with 450, at 200 and 2,000 a second and with 64 under way, by
#   "mmsg": epoll_wait, recvmmsg, sendmmsg; "ring": multishot receive into a ring of buffers, sends by the ring.
# journal: groups of 4 KiB and 32 KiB in a file of 16 MiB in FOLDER (the current one), 200 a second and one after another, by
#   "fdatasync": pwrite, fdatasync; "dsync": pwritev2 with RWF_DSYNC; "direct": the same, past the page cache;
#   "ring": a write and a linked fsync by the ring; "ring-direct": a write with RWF_DSYNC past the page cache by the ring.
# datagrams: 32 of 700 bytes to one address, by "sendto": a call each; "mmsg": one sendmmsg; "segments": one sendmsg with
#   UDP_SEGMENT, which cuts one buffer into datagrams of one size.
# Prints processor time by request, group or datagram, the kernel's workers for the process included, and for the journal how
# long a group takes. ROUNDS of each (3 unless set). Needs cc and liburing-dev.
set -euo pipefail
kind=${1:-all}
case "$kind" in all|sockets|journal|datagrams) ;; *) sed -n '2,17s/^# \?//p' "$0"; exit 2 ;; esac
[ -e /usr/include/liburing.h ] || { echo "liburing.h is missing: install Debian's liburing-dev" >&2; exit 1; }
target=${2:-.}
rounds=${ROUNDS:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/sockets.c" <<'C'
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, BUFFERS = 256, BUFFER = 2048, SPARE = 64 };
static int sock;
static struct sockaddr_in here;
static long wanted, rate;
static char answer[450];

static double seconds(clockid_t of) {
    struct timespec now;
    clock_gettime(of, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Sends `rate` datagrams a second, or keeps 64 under way if that is 0. */
static void load(void) {
    close(sock);
    int client = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval lost = {.tv_usec = 100000};
    char text[2048] = {0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &lost, sizeof lost);
    connect(client, (void *)&here, sizeof here);
    double begin = seconds(CLOCK_MONOTONIC);
    for (long i = 0; i < BATCH && !rate; i++) send(client, text, 420, 0);
    for (long i = 0;; i++) {
        if (rate) {
            double left = begin + (double)i / rate - seconds(CLOCK_MONOTONIC);
            if (left > 0) usleep(left * 1e6);
            while (recv(client, text, sizeof text, MSG_DONTWAIT) > 0) {}
            if (errno == ECONNREFUSED) break;
        } else if (recv(client, text, sizeof text, 0) < 0 && errno == ECONNREFUSED) {
            break;
        }
        if (send(client, text, 420, 0) < 0 && errno == ECONNREFUSED) break;
    }
    _exit(0);
}

static void mmsg(void) {
    static char texts[BATCH][BUFFER];
    struct sockaddr_in from[BATCH];
    struct iovec parts[BATCH], parts_out[BATCH];
    struct mmsghdr in[BATCH] = {0}, out[BATCH] = {0};
    struct epoll_event event = {.events = EPOLLIN};
    int poll = epoll_create1(0);
    epoll_ctl(poll, EPOLL_CTL_ADD, sock, &event);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){texts[i], BUFFER};
        parts_out[i] = (struct iovec){answer, sizeof answer};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1, .msg_name = &from[i]};
        out[i].msg_hdr = (struct msghdr){.msg_iov = &parts_out[i], .msg_iovlen = 1, .msg_name = &from[i], .msg_namelen = sizeof from[i]};
    }
    for (long done = 0; done < wanted;) {
        epoll_wait(poll, &event, 1, -1);
        for (int i = 0; i < BATCH; i++) in[i].msg_hdr.msg_namelen = sizeof from[i];
        int count = recvmmsg(sock, in, BATCH, MSG_DONTWAIT, NULL);
        if (count > 0) done += sendmmsg(sock, out, count, 0);
    }
}

static void ring_way(void) {
    static char buffers[BUFFERS][BUFFER];
    static struct sockaddr_in to[BUFFERS];
    static struct iovec part;
    static struct msghdr out[BUFFERS], in = {.msg_namelen = sizeof(struct sockaddr_in)};
    struct io_uring ring;
    struct io_uring_params how = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 1024};
    int failed = io_uring_queue_init_params(256, &ring, &how);
    if (failed) { fprintf(stderr, "io_uring is refused: %s\n", strerror(-failed)); exit(1); }
    struct io_uring_buf_ring *given;
    if (posix_memalign((void **)&given, 4096, BUFFERS * sizeof(struct io_uring_buf))) exit(1);
    struct io_uring_buf_reg registered = {.ring_addr = (unsigned long)given, .ring_entries = BUFFERS, .bgid = 0};
    if (io_uring_register_buf_ring(&ring, &registered, 0)) exit(1);
    io_uring_buf_ring_init(given);
    for (int i = 0; i < BUFFERS; i++) io_uring_buf_ring_add(given, buffers[i], BUFFER, i, BUFFERS - 1, i);
    io_uring_buf_ring_advance(given, BUFFERS);
    part = (struct iovec){answer, sizeof answer};
    int is_armed = 0;
    for (long done = 0; done < wanted;) {
        if (!is_armed) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            io_uring_prep_recvmsg(sqe, sock, &in, 0);
            sqe->ioprio |= IORING_RECV_MULTISHOT;
            sqe->flags |= IOSQE_BUFFER_SELECT;
            sqe->buf_group = 0;
            sqe->user_data = BUFFERS;
            is_armed = 1;
        }
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            seen++;
            if (cqe->user_data < BUFFERS) { /* a send is over: its buffer is free */
                io_uring_buf_ring_add(given, buffers[cqe->user_data], BUFFER, cqe->user_data, BUFFERS - 1, 0);
                io_uring_buf_ring_advance(given, 1);
                done++;
                continue;
            }
            if (!(cqe->flags & IORING_CQE_F_MORE)) is_armed = 0;
            if (!(cqe->flags & IORING_CQE_F_BUFFER)) continue;
            int slot = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
            memcpy(&to[slot], buffers[slot] + sizeof(struct io_uring_recvmsg_out), sizeof to[slot]);
            out[slot] = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_name = &to[slot], .msg_namelen = sizeof to[slot]};
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            if (!sqe) { io_uring_submit(&ring); sqe = io_uring_get_sqe(&ring); }
            io_uring_prep_sendmsg(sqe, sock, &out[slot], 0);
            sqe->user_data = slot;
        }
        io_uring_cq_advance(&ring, seen);
    }
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    rate = atol(arguments[2]);
    wanted = atol(arguments[3]);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    here = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    if (bind(sock, (void *)&here, len) || getsockname(sock, (void *)&here, &len)) return 1;
    if (!fork()) load();
    double begin = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (arguments[1][0] == 'm') mmsg(); else ring_way();
    double took = seconds(CLOCK_MONOTONIC) - begin;
    printf("%.2f %.0f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) * 1e6 / wanted, wanted / took);
    return 0;
}
C
cat > "$folder/journal.c" <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FILE_SIZE = 16 << 20 };

static double seconds(clockid_t of) {
    struct timespec now;
    clock_gettime(of, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int by_size(const void *one, const void *other) {
    double a = *(double *)one, b = *(double *)other;
    return (a > b) - (a < b);
}

static void check(int is_right, const char *what) {
    if (!is_right) { perror(what); exit(1); }
}

static struct io_uring ring;

static void by_ring(int file, char *text, size_t size, off_t at, int is_direct) {
    struct io_uring_sqe *write = io_uring_get_sqe(&ring);
    io_uring_prep_write(write, file, text, size, at);
    int expected = 1;
    if (is_direct) {
        write->rw_flags = RWF_DSYNC;
    } else {
        write->flags |= IOSQE_IO_LINK;
        io_uring_prep_fsync(io_uring_get_sqe(&ring), file, IORING_FSYNC_DATASYNC);
        expected = 2;
    }
    io_uring_submit_and_wait(&ring, expected);
    for (int i = 0; i < expected; i++) {
        struct io_uring_cqe *cqe;
        check(!io_uring_wait_cqe(&ring, &cqe) && cqe->res >= 0, "ring");
        io_uring_cqe_seen(&ring, cqe);
    }
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    const char *way = arguments[1];
    size_t size = atol(arguments[2]);
    long rate = atol(arguments[3]), groups = atol(arguments[4]);
    int is_direct = strstr(way, "direct") != NULL, is_ring = !strncmp(way, "ring", 4);
    int file = open(arguments[5], O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *text;
    check(file >= 0 && !posix_memalign((void **)&text, 4096, 1 << 20), arguments[5]);
    memset(text, 7, 1 << 20);
    for (int i = 0; i < FILE_SIZE >> 20; i++) check(write(file, text, 1 << 20) == 1 << 20, "write");
    check(!fsync(file), "fsync");
    if (is_direct) { close(file); file = open(arguments[5], O_RDWR | O_DIRECT); check(file >= 0, "O_DIRECT"); }
    if (is_ring) check(!io_uring_queue_init(8, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN), "io_uring");
    double *took = malloc(groups * sizeof *took), begin = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < groups; i++) {
        double left = rate ? begin + (double)i / rate - seconds(CLOCK_MONOTONIC) : 0;
        if (left > 0) usleep(left * 1e6);
        double from = seconds(CLOCK_MONOTONIC);
        off_t at = (off_t)i * size % FILE_SIZE;
        text[i % size]++;
        if (is_ring) {
            by_ring(file, text, size, at, is_direct);
        } else if (!strcmp(way, "fdatasync")) {
            check(pwrite(file, text, size, at) == (ssize_t)size && !fdatasync(file), "pwrite");
        } else {
            struct iovec part = {text, size};
            check(pwritev2(file, &part, 1, at, RWF_DSYNC) == (ssize_t)size, "pwritev2");
        }
        took[i] = seconds(CLOCK_MONOTONIC) - from;
    }
    used = (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) * 1e6 / groups;
    qsort(took, groups, sizeof *took, by_size);
    printf("%.1f %.0f %.0f %.0f\n", used, took[groups / 2] * 1e6, took[groups * 99 / 100] * 1e6, took[groups * 999 / 1000] * 1e6);
    return 0;
}
C
cat > "$folder/datagrams.c" <<'C'
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 32, SIZE = 700 };

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    long batches = atol(arguments[2]), received = 0;
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 22;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    if (bind(in, (void *)&here, len) || getsockname(in, (void *)&here, &len)) return 1;
    setsockopt(in, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    static char text[COUNT * SIZE], heard[2048];
    struct iovec parts[COUNT], whole = {text, sizeof text};
    struct mmsghdr messages[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        parts[i] = (struct iovec){text + i * SIZE, SIZE};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1, .msg_name = &here, .msg_namelen = sizeof here};
    }
    union { char bytes[CMSG_SPACE(sizeof(unsigned short))]; struct cmsghdr align; } control = {0};
    struct msghdr cut = {.msg_iov = &whole, .msg_iovlen = 1, .msg_name = &here, .msg_namelen = sizeof here, .msg_control = &control,
                         .msg_controllen = sizeof control.bytes};
    control.align.cmsg_level = SOL_UDP;
    control.align.cmsg_type = UDP_SEGMENT;
    control.align.cmsg_len = CMSG_LEN(sizeof(unsigned short));
    unsigned short size = SIZE;
    memcpy(CMSG_DATA(&control.align), &size, sizeof size);
    double sent = 0;
    for (long i = 0; i < batches; i++) {
        double before = used();
        if (!strcmp(arguments[1], "mmsg")) {
            if (sendmmsg(out, messages, COUNT, 0) != COUNT) return 1;
        } else if (!strcmp(arguments[1], "segments")) {
            if (sendmsg(out, &cut, 0) != sizeof text) { perror("UDP_SEGMENT"); return 1; }
        } else {
            for (int j = 0; j < COUNT; j++) sendto(out, text + j * SIZE, SIZE, 0, (void *)&here, sizeof here);
        }
        sent += used() - before;
        while (recv(in, heard, sizeof heard, MSG_DONTWAIT) == SIZE) received++;
    }
    if (received != batches * COUNT) { fprintf(stderr, "%ld datagrams are lost\n", batches * COUNT - received); return 1; }
    printf("%.2f\n", sent * 1e6 / batches / COUNT);
    return 0;
}
C
cc -O2 -o "$folder/sockets" "$folder/sockets.c" -luring
cc -O2 -o "$folder/journal" "$folder/journal.c" -luring
cc -O2 -o "$folder/datagrams" "$folder/datagrams.c"
if [ "$kind" = all ] || [ "$kind" = sockets ]; then
  for load in "200 800" "2000 8000" "0 200000"; do
    for _ in $(seq "$rounds"); do
      for way in mmsg ring; do
        read -r used each <<<"$("$folder/sockets" $way $load)"
        printf 'sockets, %s, %-4s  %6s us of processor time a request, %s a second\n' "$(sed 's/^0 .*/64 under way/; s/ .*/ a second/' <<<"$load")" $way "$used" "$each"
      done
    done
  done
fi
if [ "$kind" = all ] || [ "$kind" = journal ]; then
  for load in "4096 200 400" "4096 0 2000" "32768 0 2000"; do
    for _ in $(seq "$rounds"); do
      for way in fdatasync dsync direct ring ring-direct; do
        read -r used p50 p99 p999 <<<"$("$folder/journal" $way $load "$target/batching.$$")"
        printf 'journal, %s bytes, %s a second, %-11s  %6s us of processor time, p50 %s, p99 %s, p99.9 %s us\n' $(cut -d' ' -f1,2 <<<"$load" | sed 's/ 0$/ all/') $way "$used" "$p50" "$p99" "$p999"
        rm -f "$target/batching.$$"
      done
    done
  done
fi
if [ "$kind" = all ] || [ "$kind" = datagrams ]; then
  for _ in $(seq "$rounds"); do
    for way in sendto mmsg segments; do
      printf 'datagrams, %-8s  %6s us of processor time a datagram\n' $way "$("$folder/datagrams" $way 5000)"
    done
  done
fi
