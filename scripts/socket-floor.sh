#!/usr/bin/env bash
# What the socket calls of a refresh cost alone, in processor time: a program in C that reads datagrams of 420 bytes and
# answers each with 450, and nothing else, at the pace of scripts/mid-registrar.py. No server that waits for datagrams
# costs less on this machine.
#
# usage: scripts/socket-floor.sh [REQUESTS A SECOND] [REQUESTS]
#
# Prints three ways: blocked in recvfrom; blocked in epoll_wait, then recvmmsg; and as the second, but a second thread
# answers. It needs cc and python3.
set -euo pipefail
rate=${1:-200}
count=${2:-6000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/floor.c" <<'C'
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
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

int main(int count, char **arguments) {
    if (count != 3) return 2;
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
