/*
 * Data-parallel training on handwritten digits: every rank computes the gradient of its share of each batch,
 * a ring allreduce adds the shares up, and all ranks take the same step. Every fifth sample is held out to
 * test.
 *
 *     hcommrun -n 4 train_digits [FILE [EPOCHS]]
 *
 * The model is softmax regression. Whatever the number of ranks, each step sees the same batch; only the
 * order in which doubles are summed differs. SPDX-License-Identifier: BSD-3-Clause
 */
#include "digits.h"
#include "ring_allreduce.h"

#include <hcomm.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEATURES = DIGITS_PIXELS + 1, /* the pixels, and a constant one for the bias */
    WEIGHTS = DIGITS_CLASSES * FEATURES,
    BATCH = 96, /* samples per step, over all ranks together */
    EPOCHS_DEFAULT = 60,
    EPOCHS_MAX = 100000,
    REPORT_EVERY = 10, /* epochs */
    SAMPLES_MIN = 5,   /* one to test and four to train */
};

static const double LEARNING_RATE = 0.5;

enum tag { TAG_COUNT = 1, TAG_SAMPLES, TAG_HASH };

/* What the ranks add up in each step, in one vector. */
struct gradient {
    double weights[WEIGHTS];
    double loss;
};
enum { GRADIENT_COUNT = sizeof(struct gradient) / sizeof(double) };

struct trainer {
    hcomm_comm_t world;
    int rank, size;
    struct digits digits;
    size_t *order; /* of the training samples in this epoch */
    size_t train_count;
    double weights[WEIGHTS];
    struct gradient gradient;
    double *scratch;
    uint64_t random;
};

/* The one answer of this program to a failed call: say so, and end the job. */
static void check(const struct trainer *trainer, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "train_digits: rank %d: %s\n", trainer->rank, hcomm_error_detail());
    hcomm_abort(hcomm_comm_context(trainer->world), 1);
}

static void *allocate(const struct trainer *trainer, size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "train_digits: rank %d: no memory for %zu bytes\n", trainer->rank, count * size);
        hcomm_abort(hcomm_comm_context(trainer->world), 1);
    }
    return memory;
}

/* Rank 0 gives its bytes to every other rank. */
static void spread(struct trainer *trainer, void *data, size_t size, int tag)
{
    if (trainer->rank != 0)
        check(trainer, hcomm_recv(data, size, 0, tag, trainer->world, NULL));
    else
        for (int rank = 1; rank < trainer->size; rank++)
            check(trainer, hcomm_send(data, size, rank, tag, trainer->world));
}

/* On rank 0 only: find the file, read it, and complain when it is not what it should be. */
static bool load(struct digits *digits, const char *path)
{
    char place[4160], error[4400];
    if (!path) {
        if (!digits_find(place, sizeof(place))) {
            fprintf(stderr, "train_digits: %s: not found: give the data file as an argument\n", place);
            return false;
        }
        path = place;
    }
    if (!digits_load(path, digits, error, sizeof(error))) {
        fprintf(stderr, "train_digits: %s\n", error);
        return false;
    }
    if (digits->count < SAMPLES_MIN) {
        fprintf(stderr, "train_digits: %s:%zu:1: only %zu samples, at least %d are needed\n", path,
                digits->count + 1, digits->count, SAMPLES_MIN);
        return false;
    }
    return true;
}

/* Rank 0 reads the file and shares the samples, or the news (a count of zero) that there are none. */
static bool share_digits(struct trainer *trainer, const char *path)
{
    struct digits *digits = &trainer->digits;
    uint64_t count = 0;
    if (trainer->rank == 0 && load(digits, path))
        count = digits->count;
    spread(trainer, &count, sizeof(count), TAG_COUNT);
    if (count == 0)
        return false;
    if (trainer->rank != 0)
        *digits = (struct digits){allocate(trainer, count, sizeof(struct digit)), count};
    spread(trainer, digits->samples, count * sizeof(struct digit), TAG_SAMPLES);
    return true;
}

static bool held_out(size_t sample)
{
    return sample % 5 == 4;
}

static void trainer_prepare(struct trainer *trainer)
{
    trainer->order = allocate(trainer, trainer->digits.count, sizeof(size_t));
    trainer->scratch = allocate(trainer, ring_scratch_count(GRADIENT_COUNT, trainer->world), sizeof(double));
    trainer->random = 20240229; /* the same on all ranks, so that all shuffle alike */
    for (size_t i = 0; i < trainer->digits.count; i++)
        if (!held_out(i))
            trainer->order[trainer->train_count++] = i;
}

static void trainer_release(struct trainer *trainer)
{
    digits_free(&trainer->digits);
    free(trainer->order);
    free(trainer->scratch);
}

/* xorshift64* (S. Vigna, 2016) */
static uint64_t next_random(struct trainer *trainer)
{
    uint64_t x = trainer->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    trainer->random = x;
    return x * UINT64_C(2685821657736338717);
}

static void shuffle(struct trainer *trainer)
{
    for (size_t i = trainer->train_count - 1; i > 0; i--) {
        size_t j = (size_t)(next_random(trainer) % (i + 1)), saved = trainer->order[i];
        trainer->order[i] = trainer->order[j];
        trainer->order[j] = saved;
    }
}

/* Features in 0 … 1, the last one constant. */
static void features_of(const struct digit *digit, double *features)
{
    for (int i = 0; i < DIGITS_PIXELS; i++)
        features[i] = digit->pixels[i] / (double)DIGITS_PIXEL_MAX;
    features[DIGITS_PIXELS] = 1;
}

static void scores_of(const struct trainer *trainer, const double *features, double *scores)
{
    for (int c = 0; c < DIGITS_CLASSES; c++) {
        scores[c] = 0;
        for (int i = 0; i < FEATURES; i++)
            scores[c] += trainer->weights[c * FEATURES + i] * features[i];
    }
}

static int largest(const double *scores)
{
    int best = 0;
    for (int c = 1; c < DIGITS_CLASSES; c++)
        if (scores[c] > scores[best])
            best = c;
    return best;
}

/* Turn scores into probabilities; the largest score is taken off first so that exp() cannot overflow. */
static void softmax(double *scores)
{
    double top = scores[largest(scores)], sum = 0;
    for (int c = 0; c < DIGITS_CLASSES; c++)
        sum += scores[c] = exp(scores[c] - top);
    for (int c = 0; c < DIGITS_CLASSES; c++)
        scores[c] /= sum;
}

/* Add one sample's cross-entropy and its derivative. */
static void accumulate(struct trainer *trainer, const struct digit *digit)
{
    double features[FEATURES], scores[DIGITS_CLASSES];
    features_of(digit, features);
    scores_of(trainer, features, scores);
    softmax(scores);
    trainer->gradient.loss -= log(fmax(scores[digit->label], DBL_MIN));
    for (int c = 0; c < DIGITS_CLASSES; c++) {
        double error = scores[c] - (c == digit->label);
        for (int i = 0; i < FEATURES; i++)
            trainer->gradient.weights[c * FEATURES + i] += error * features[i];
    }
}

/* One step on the samples order[start … end-1], of which this rank takes every size-th. Returns their loss.
 */
static double step(struct trainer *trainer, size_t start, size_t end)
{
    trainer->gradient = (struct gradient){0};
    for (size_t i = start + (size_t)trainer->rank; i < end; i += (size_t)trainer->size)
        accumulate(trainer, &trainer->digits.samples[trainer->order[i]]);
    check(trainer,
          ring_allreduce_sum((double *)&trainer->gradient, GRADIENT_COUNT, trainer->scratch, trainer->world));
    for (int i = 0; i < WEIGHTS; i++)
        trainer->weights[i] -= LEARNING_RATE / (double)(end - start) * trainer->gradient.weights[i];
    return trainer->gradient.loss;
}

static double epoch(struct trainer *trainer)
{
    double loss = 0;
    shuffle(trainer);
    for (size_t start = 0; start < trainer->train_count; start += BATCH) {
        size_t left = trainer->train_count - start;
        loss += step(trainer, start, start + (left < BATCH ? left : BATCH));
    }
    return loss / (double)trainer->train_count;
}

static void train(struct trainer *trainer, int epochs)
{
    for (int done = 1; done <= epochs; done++) {
        double loss = epoch(trainer);
        if (trainer->rank == 0 && (done == 1 || done == epochs || done % REPORT_EVERY == 0)) {
            printf("epoch %4d  loss %.6f\n", done, loss);
            fflush(stdout);
        }
    }
}

/* The ranks test every fifth sample together. */
static void report_accuracy(struct trainer *trainer)
{
    double tally[2] = {0}, scratch[2]; /* right, tested */
    for (size_t i = 0; i < trainer->digits.count; i++) {
        if (!held_out(i) || (i / 5) % (size_t)trainer->size != (size_t)trainer->rank)
            continue;
        double features[FEATURES], scores[DIGITS_CLASSES];
        features_of(&trainer->digits.samples[i], features);
        scores_of(trainer, features, scores);
        tally[0] += largest(scores) == trainer->digits.samples[i].label;
        tally[1]++;
    }
    check(trainer, ring_allreduce_sum(tally, 2, scratch, trainer->world));
    if (trainer->rank == 0)
        printf("test accuracy %.2f %% (%.0f of %.0f)\n", 100 * tally[0] / tally[1], tally[0], tally[1]);
}

/* FNV-1a, 64 bits */
static uint64_t hash_of(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Every rank compares its weights with rank 0's; all learn whether all agree. */
static bool weights_agree(struct trainer *trainer)
{
    uint64_t own = hash_of(trainer->weights, sizeof(trainer->weights)), reference = own;
    spread(trainer, &reference, sizeof(reference), TAG_HASH);
    double different = own != reference, scratch[1];
    if (different != 0)
        fprintf(stderr, "train_digits: rank %d: weights %016llx differ from rank 0's %016llx\n",
                trainer->rank, (unsigned long long)own, (unsigned long long)reference);
    check(trainer, ring_allreduce_sum(&different, 1, scratch, trainer->world));
    if (trainer->rank == 0 && different == 0)
        printf("weights %016llx, the same on all ranks\n", (unsigned long long)own);
    return different == 0;
}

static bool run(struct trainer *trainer, const char *path, int epochs)
{
    if (!share_digits(trainer, path))
        return false;
    trainer_prepare(trainer);
    if (trainer->rank == 0)
        printf("%zu samples to train, %zu to test, ranks: %d\n", trainer->train_count,
               trainer->digits.count - trainer->train_count, trainer->size);
    train(trainer, epochs);
    report_accuracy(trainer);
    return weights_agree(trainer);
}

/* The number of epochs, or 0 when the text is not one. */
static int parse_epochs(const char *text)
{
    char *end;
    long epochs = strtol(text, &end, 10);
    return *text && !*end && epochs >= 1 && epochs <= EPOCHS_MAX ? (int)epochs : 0;
}

static void print_usage(FILE *out)
{
    fprintf(out, "usage: train_digits [FILE [EPOCHS]], EPOCHS from 1 to %d\n", EPOCHS_MAX);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    int epochs = argc > 2 ? parse_epochs(argv[2]) : EPOCHS_DEFAULT;
    if (argc > 3 || epochs == 0) {
        print_usage(stderr);
        return 2;
    }
    hcomm_handle_t hcomm;
    if (hcomm_init(&hcomm, NULL) != HCOMM_OK) {
        fprintf(stderr, "train_digits: %s\n", hcomm_error_detail());
        return 1;
    }
    struct trainer trainer = {
        .world = hcomm_comm_world(hcomm), .rank = hcomm_rank(hcomm), .size = hcomm_size(hcomm)};
    bool good = run(&trainer, argc > 1 ? argv[1] : NULL, epochs);
    trainer_release(&trainer);
    if (hcomm_finalize(hcomm) != HCOMM_OK) {
        fprintf(stderr, "train_digits: rank %d: %s\n", trainer.rank, hcomm_error_detail());
        good = false;
    }
    if (fflush(stdout) != 0) {
        perror("train_digits: standard output");
        good = false;
    }
    return good ? 0 : 1;
}
