/*
 * Plain TCP over the loopback interface, polled without sleeping, at most 256 KiB per call (larger pieces
 * halve the speed of large messages): a ping-pong, and the bandwidth of windows of up to 64 messages (16 MiB)
 * with an acknowledgement of 4 bytes. SPDX-License-Identifier: BSD-3-Clause
 */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIECE_MAX = 256 << 10,
    SIZE_LARGEST = 4 << 20,
    WINDOW_MAX = 64,
    WINDOW_BYTES = 16 << 20,
    ACK_SIZE = 4
};

struct shared {
    struct raw_agreement agreement;
    struct raw_turn listening;
    uint16_t port; /* network byte order; written before `listening` is released */
};

struct context {
    struct shared *shared;
    int socket;
    char *data;
    size_t size;
};

static void move(struct raw *raw, struct context *context, size_t size, bool sends)
{
    for (size_t done = 0; done < size;) {
        size_t piece = size - done < PIECE_MAX ? size - done : PIECE_MAX;
        ssize_t moved = sends
                            ? send(context->socket, context->data + done, piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(context->socket, context->data + done, piece, MSG_DONTWAIT);
        if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
            raw_die(raw, sends ? "send" : "recv");
        done += moved > 0 ? (size_t)moved : 0;
    }
}

static void ping_pong(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    for (uint64_t i = 0; i < iterations; i++) {
        move(raw, context, context->size, raw->side == 0);
        move(raw, context, context->size, raw->side == 1);
    }
}

static size_t window_of(const struct context *context)
{
    size_t fit = WINDOW_BYTES / context->size;
    return fit < WINDOW_MAX ? fit : WINDOW_MAX;
}

static void stream(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    size_t window = window_of(context);
    for (uint64_t i = 0; i < iterations; i++) {
        for (size_t k = 0; k < window; k++)
            move(raw, context, context->size, raw->side == 0);
        move(raw, context, ACK_SIZE, raw->side == 1);
    }
}

static int listen_or_die(struct raw *raw, struct shared *shared)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        raw_die(raw, "listen");
    shared->port = address.sin_port;
    raw_turn_give(&shared->listening, 1);
    return listener;
}

static int accept_one(struct raw *raw, struct shared *shared)
{
    int listener = listen_or_die(raw, shared), peer = accept(listener, NULL, NULL);
    if (peer < 0)
        raw_die(raw, "accept");
    (void)close(listener);
    return peer;
}

static int connect_one(struct raw *raw, struct shared *shared)
{
    raw_turn_wait(&shared->listening, 1);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = shared->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (peer < 0 || connect(peer, (struct sockaddr *)&address, sizeof(address)) != 0)
        raw_die(raw, "connect");
    return peer;
}

int main(int argc, char **argv)
{
    struct raw raw;
    uint64_t iterations;
    int on = 1;
    raw_start(&raw, argc, argv, sizeof(struct shared));
    struct shared *shared = (struct shared *)raw.shared;
    struct context context = {.shared = shared, .data = raw_memory(&raw, SIZE_LARGEST)};
    context.socket = raw.side == 0 ? accept_one(&raw, shared) : connect_one(&raw, shared);
    if (setsockopt(context.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        raw_die(&raw, "TCP_NODELAY");
    for (context.size = 1; context.size <= SIZE_LARGEST; context.size *= 2) {
        double elapsed = raw_time(&raw, &shared->agreement, ping_pong, &context, &iterations);
        raw_row(&raw, "latency", "tcp", context.size, "average", "us",
                elapsed / (2.0 * (double)iterations) * 1e6);
        elapsed = raw_time(&raw, &shared->agreement, stream, &context, &iterations);
        double rate = (double)iterations * (double)window_of(&context) / elapsed;
        raw_row(&raw, "bw", "tcp", context.size, "bandwidth", "MB/s", rate * (double)context.size * 1e-6);
        raw_row(&raw, "bw", "tcp", context.size, "rate", "msg/s", rate);
    }
    return raw_end(&raw);
}
