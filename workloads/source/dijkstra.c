/*
 * Shortest paths in a graph of 100 nodes, given as an adjacency matrix, with a linked list as queue. A new
 * implementation of the task of the cBench program dijkstra.
 *
 *	dijkstra [PATHS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 100, FAR = 9999 };

struct stop {
	int place, length, from;
	struct stop *next;
};

static int matrix[PLACES][PLACES];
static struct { int length, from; } best[PLACES];
static struct stop *first;

static void
push(int place, int length, int from)
{
	struct stop **last = &first, *stop = malloc(sizeof(*stop));

	if (!stop)
		exit(1);
	*stop = (struct stop){ place, length, from, NULL };
	while (*last)
		last = &(*last)->next;
	*last = stop;
}

static int
shortest(int from, int to)
{
	for (int place = 0; place < PLACES; place++)
		best[place].length = FAR;
	best[from].length = 0;
	push(from, 0, -1);
	while (first) {
		struct stop stop = *first;

		free(first);
		first = stop.next;
		for (int place = 0; place < PLACES; place++) {
			int step = matrix[stop.place][place];

			if (stop.length + step < best[place].length) {
				best[place].length = stop.length + step;
				best[place].from = stop.place;
				push(place, best[place].length, stop.place);
			}
		}
	}
	return best[to].length;
}

int
main(int argc, char **argv)
{
	long ways = argc > 1 ? atol(argv[1]) : 1000, sum = 0;
	uint32_t state = 1;

	for (int from = 0; from < PLACES; from++)
		for (int to = 0; to < PLACES; to++) {
			state = state * 1664525u + 1013904223u;
			matrix[from][to] = state >> 25;
		}
	for (long way = 0; way < ways; way++)
		sum += shortest(way % PLACES, (way + PLACES / 2) % PLACES);
	printf("%ld\n", sum);
	return 0;
}
