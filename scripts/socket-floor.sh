#!/usr/bin/env bash
# What the socket calls of a refresh cost alone, in processor time: a program in C that reads datagrams of 420 bytes and
# answers each with 450, and nothing else, at the pace of scripts/mid-registrar.py. No server that waits for datagrams
# costs less on this machine.
#
# usage: scripts/socket-floor.sh [REQUESTS A SECOND] [REQUESTS]
#        scripts/socket-floor.sh --flood [DATAGRAMS]
#
# Prints three ways: blocked in recvfrom; blocked in epoll_wait, then recvmmsg; and as the second, but a second thread
# answers. It needs cc and python3.
#
# With --flood: what a datagram costs that nobody serves, of a million unless told, that come 64 at a time: it is read in a batch and
# dropped, answered in a batch, dropped by the kernel for lack of room, or by a filter of the socket. Prints the
# processor time of the program that receives, and that of the one that sends, in which the kernel of this machine drops.
set -euo pipefail
flood=
[ "${1:-}" != --flood ] || { flood=${2:-1000000}; shift $#; }
rate=${1:-200}
count=${2:-6000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/floor.c" <<'C'
#define _GNU_SOURCE
#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 64 };
static int sock;
static long wanted, answered;
static char answer[450];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct sockaddr_in waiting[4 * BATCH];
static int waiting_len;

static void reply(struct sockaddr_in *to) {
    sendto(sock, answer, sizeof answer, 0, (void *)to, sizeof *to);
    answered++;
}

/* Nanoseconds on a processor, by the scheduler's own count. */
static long used(const char *of) {
    char text[200];
    FILE *file = fopen(of, "r");
    if (!file || !fgets(text, sizeof text, file)) exit(1);
    fclose(file);
    return atol(text);
}

static void *answerer(void *used_ns) {
    while (answered < wanted) {
        struct sockaddr_in batch[4 * BATCH];
        pthread_mutex_lock(&lock);
        while (!waiting_len) pthread_cond_wait(&filled, &lock);
        int len = waiting_len;
        memcpy(batch, waiting, sizeof batch);
        waiting_len = 0;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < len; i++) reply(&batch[i]);
    }
    *(long *)used_ns = used("/proc/thread-self/schedstat");
    return NULL;
}

static void blocked(void) {
    char text[2048];
    while (answered < wanted) {
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        if (recvfrom(sock, text, sizeof text, 0, (void *)&from, &len) > 0) reply(&from);
    }
}

static void polled(int is_handed_over) {
    static char texts[BATCH][2048];
    struct sockaddr_in from[BATCH];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    struct epoll_event event = {.events = EPOLLIN};
    int poll = epoll_create1(0);
    epoll_ctl(poll, EPOLL_CTL_ADD, sock, &event);
    for (long read = 0; read < wanted;) {
        epoll_wait(poll, &event, 1, -1);
        memset(messages, 0, sizeof messages);
        for (int i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){texts[i], sizeof texts[i]};
            messages[i].msg_hdr.msg_iov = &parts[i];
            messages[i].msg_hdr.msg_iovlen = 1;
            messages[i].msg_hdr.msg_name = &from[i];
            messages[i].msg_hdr.msg_namelen = sizeof from[i];
        }
        int len = recvmmsg(sock, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < len; i++, read++) {
            if (!is_handed_over) {
                reply(&from[i]);
                continue;
            }
            pthread_mutex_lock(&lock);
            if (waiting_len < 4 * BATCH) waiting[waiting_len++] = from[i];
            pthread_cond_signal(&filled);
            pthread_mutex_unlock(&lock);
        }
    }
}

static struct mmsghdr *batch(char (*texts)[2048], struct sockaddr_in *from, int len) {
    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){texts[i], len};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1, .msg_name = &from[i], .msg_namelen = sizeof from[i]};
    }
    return messages;
}

/* Datagrams that come 64 at a time, and what becomes of them. */
static int flood(char way) {
    static char texts[BATCH][2048];
    struct sockaddr_in from[BATCH], here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    struct sock_filter none[] = {{BPF_RET | BPF_K, 0, 0, 0}};
    struct sock_fprog filter = {1, none};
    /* So that each burst finds room, but where it shall not. */
    int room = way == 'k' ? 4096 : 4 << 20;
    int pipes[2];
    char one = 0;
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (way == 'f' && setsockopt(sock, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter)) return 1;
    if (bind(sock, (void *)&here, len) || getsockname(sock, (void *)&here, &len) || pipe(pipes)) return 1;
    pid_t sender = fork();
    if (!sender) {
        int other = socket(AF_INET, SOCK_DGRAM, 0);
        if (connect(other, (void *)&here, sizeof here)) _exit(1);
        for (int i = 0; i < BATCH; i++) from[i] = here;
        for (long sent = 0; sent < wanted; sent += BATCH) {
            sendmmsg(other, batch(texts, from, 420), BATCH, 0);
            if (way == 'r' || way == 'a') read(pipes[0], &one, 1);
        }
        printf("%.2f to send", used("/proc/thread-self/schedstat") / 1e3 / wanted);
        fflush(stdout);
        _exit(0);
    }
    long before = used("/proc/thread-self/schedstat"), in_pipe = 0;
    for (long got = 0; got < wanted && (way == 'r' || way == 'a');) {
        /* All of a burst, in one call. */
        while (recv(sock, texts[0], 1, MSG_PEEK) < 0) {}
        int count = recvmmsg(sock, batch(texts, from, sizeof texts[0]), BATCH, MSG_WAITALL, NULL);
        if (way == 'a') sendmmsg(sock, batch(texts, from, 450), count, 0);
        for (got += count; in_pipe < got / BATCH; in_pipe++) write(pipes[1], &one, 1);
    }
    long after = used("/proc/thread-self/schedstat");
    waitpid(sender, NULL, 0);
    printf(", %.2f to receive\n", (after - before) / 1e3 / wanted);
    return 0;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    if (arguments[1][0] == '-') {
        wanted = atol(arguments[2]) / BATCH * BATCH;
        return flood(arguments[1][1]);
    }
    wanted = atol(arguments[2]);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    if (bind(sock, (void *)&here, len) || getsockname(sock, (void *)&here, &len)) return 1;
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    pthread_t thread;
    long of_answerer = 0;
    char way = arguments[1][0];
    if (way == 't') pthread_create(&thread, NULL, answerer, &of_answerer);
    if (way == 'b') blocked(); else polled(way == 't');
    if (way == 't') pthread_join(thread, NULL);
    printf("%.1f\n", (used("/proc/thread-self/schedstat") + of_answerer) / 1e3 / wanted);
    return 0;
}
C
cc -O2 -pthread -o "$folder/floor" "$folder/floor.c"
if [ -n "$flood" ]; then
  while IFS=: read -r way said; do
    printf '%s, us of processor time a datagram: ' "$said"
    "$folder/floor" "-$way" "$flood"
  done <<'END'
r:read 64 at a time and dropped
a:read 64 at a time and answered so
k:dropped by the kernel for lack of room
f:dropped by a filter
END
  exit
fi
python3 - "$folder/floor" "$rate" "$count" <<'PYTHON'
import socket, subprocess, sys, time

program, rate, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# A datagram that is lost is made up for.
spare = 200
for way, said in [("blocked", "blocked in recvfrom"), ("polled", "epoll_wait, recvmmsg"), ("thread", "a second thread answers")]:
    with subprocess.Popen([program, way, str(count - spare)], stdout=subprocess.PIPE, text=True) as floor:
        port = int(floor.stdout.readline())
        telephones = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
        for telephone in telephones:
            telephone.connect(("127.0.0.1", port))
            telephone.setblocking(False)
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0, begun + number / rate - time.monotonic()))
            telephone = telephones[number % len(telephones)]
            try:
                telephone.recv(2048)
                telephone.send(b"x" * 420)
            except BlockingIOError:
                telephone.send(b"x" * 420)
            except ConnectionRefusedError:
                break
        print(f"{said}: {floor.stdout.readline().strip()} us of processor time a request", flush=True)
        floor.kill()
PYTHON
